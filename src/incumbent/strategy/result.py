"""What a strategy decided: the winner, the order of the others, and why, in words.

Pure. The winner may try to take the seat first; who leads is decided by the lease.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from incumbent.strategy.candidates import Candidate, Snapshot


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The winner, and everybody who may lead, best first. Who is not in `ranking` may not lead."""

    winner: Candidate | None
    """The first of `ranking`; None without candidates."""
    _: KW_ONLY
    ranking: tuple[Candidate, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """By node id, more is better, in the strategy's own unit; empty when it has none."""
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """By node id, for every loser: why it is not the winner."""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """By node id: what was wrong with its score, and what it counts as."""

    def __post_init__(self) -> None:
        first = self.ranking[0] if self.ranking else None
        if self.winner is not first:
            winner = None if self.winner is None else self.winner.node_id
            has = "and ranking is empty"
            if first is not None:
                has = f"the first of ranking is {first.node_id!r}"
            raise ValueError(
                f"the winner must be the first of ranking: the winner is {winner!r}, {has}."
                " ElectionResult.of([best, second, ...]) makes a result of an order"
            )

    @classmethod
    def of(
        cls,
        ranking: Iterable[Candidate],
        *,
        scores: Mapping[str, float] | None = None,
        reasons: Mapping[str, str] | None = None,
        problems: Mapping[str, str] | None = None,
    ) -> "ElectionResult":
        """The result of a strategy of your own, from its order of candidates, best first."""
        order = tuple(ranking)
        return cls(
            order[0] if order else None,
            ranking=order,
            scores=scores or {},
            reasons=reasons or {},
            problems=problems or {},
        )

    @classmethod
    def by_scores(
        cls,
        snapshot: Snapshot,
        scores: Mapping[str, float],
        say: Callable[[Candidate], str],
        *,
        problems: Mapping[str, str] | None = None,
    ) -> "ElectionResult":
        """All candidates by their score, more first; `say` tells what one has, as in "has load 3".

        Ties go by registration, then node id.
        """
        # Sorting is stable, also in reverse, and a snapshot has its candidates by registration.
        order = sorted(snapshot.candidates, key=lambda each: scores[each.node_id], reverse=True)
        reasons: dict[str, str] = {}
        if order:
            winner = order[0]
            best, its = scores[winner.node_id], f"{winner.node_id!r} {say(winner)}"
            for loser in order[1:]:
                if scores[loser.node_id] == best:
                    reasons[loser.node_id] = f"{its} as well, and {_earlier(winner, loser)}"
                else:
                    reasons[loser.node_id] = f"{say(loser)}, {its}"
        return cls.of(order, scores=scores, reasons=reasons, problems=problems)

    def rank_of(self, node_id: str) -> int | None:
        """Its place, 0 for the winner; None when it is not ranked."""
        for place, candidate in enumerate(self.ranking):
            if candidate.node_id == node_id:
                return place
        return None


def _earlier(winner: Candidate, loser: Candidate) -> str:
    ahead = (loser.registered_at - winner.registered_at).total_seconds()
    if ahead > 0:
        return f"registered {ahead:.6g} s earlier"
    return "registered at the same time, with an id that sorts first"
