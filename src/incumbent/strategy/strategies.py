"""Ways to order the candidates of an election, best first.

Pure and deterministic: the same snapshot gives the same result on every node. Ties go by
registration, then node id. Each of these ranks all candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from typing import Protocol

from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.result import ElectionResult
from incumbent.strategy.scorers import Scorer, check, points


class Strategy(Protocol):
    """Anything that makes a result of a snapshot; a function fits."""

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """Who should lead, and in which order the others may try when the winner does not.

        Must depend on nothing else: no clock, no chance. All nodes have to come to the same.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fifo:
    """Who has been registered longest leads. Scores are seconds."""

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By registration."""
        scores = {
            each.node_id: (snapshot.now - each.registered_at).total_seconds()
            for each in snapshot.candidates
        }
        return ElectionResult.by_scores(
            snapshot, scores, lambda each: f"registered {scores[each.node_id]:.6g} s ago"
        )


@dataclass(frozen=True, slots=True)
class Random:
    """Chance, the same on every node: drawn from the seed of the round. Scores are from 0 to 1.

    Who leads stays first, for no candidate is better than another.
    """

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By the draw of this round."""
        scores = {
            each.node_id: _draw("random", str(snapshot.seed), snapshot.election, each.node_id)
            for each in snapshot.candidates
        }
        leader = snapshot.incumbent
        if leader is not None:
            scores[leader.node_id] = 1.0

        def say(each: Candidate) -> str:
            return "leads" if each is leader else f"drew {scores[each.node_id]:.3f}"

        return ElectionResult.by_scores(snapshot, scores, say)


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Spreads many elections evenly over the nodes; when one goes, only its elections move.

    Scores are from 0 to 1, by the names of election and node alone: highest random weight.
    Source: https://en.wikipedia.org/wiki/Rendezvous_hashing
    """

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By the weight of each node in this election."""
        scores = {
            each.node_id: _draw("rendezvous", snapshot.election, each.node_id)
            for each in snapshot.candidates
        }
        return ElectionResult.by_scores(
            snapshot, scores, lambda each: f"has weight {scores[each.node_id]:.3f} here"
        )


@dataclass(frozen=True, slots=True)
class Scored:
    """Who has most points leads."""

    scorer: Scorer

    def __post_init__(self) -> None:
        check(self.scorer)

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By points, 0 to 100."""
        scores: dict[str, float] = {}
        problems: dict[str, str] = {}
        for each in snapshot.candidates:
            value, problem = points(self.scorer, each, snapshot)
            scores[each.node_id] = value
            if problem:
                problems[each.node_id] = problem

        def say(each: Candidate) -> str:
            problem = problems.get(each.node_id)
            told = f" ({problem})" if problem else ""
            return f"scores {scores[each.node_id]:.1f}{told}"

        return ElectionResult.by_scores(snapshot, scores, say, problems=problems)


@dataclass(frozen=True, slots=True)
class Priority:
    """Who has the highest number `key` in its metadata leads; who has none comes last."""

    key: str = "priority"

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By that number."""
        return _by_number(snapshot, self.key, lambda number: number)


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """Who has the lowest number `key` in its metadata leads; who has none comes last.

    Scores are the numbers with their sign changed. A load changes all the time: see `Sticky`.
    """

    key: str = "load"

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By that number."""
        return _by_number(snapshot, self.key, lambda number: -number)


def _by_number(snapshot: Snapshot, key: str, score: Callable[[float], float]) -> ElectionResult:
    numbers = {each.node_id: each.number(key) for each in snapshot.candidates}

    def say(each: Candidate) -> str:
        number = numbers[each.node_id]
        return f"has no number {key!r}" if number is None else f"has {key} {number:g}"

    return ElectionResult.by_scores(
        snapshot,
        {node: -inf if number is None else score(number) for node, number in numbers.items()},
        say,
        problems={node: f"has no number {key!r}" for node in numbers if numbers[node] is None},
    )


def _draw(*parts: str) -> float:
    """A number from 0 up to 1 that looks like chance; no name has a NUL in it."""
    digest = blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(digest.digest(), "big") / (1 << 56)
