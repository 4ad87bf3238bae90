"""How good a candidate is, in points from 0 to 100.

Pure. The rule for what a scorer gives (`points`): below 0 counts as 0, above 100 as 100, and what
is no number, or raises, as 0. Each of these is told as a problem, and never stops an election: one
node with strange metadata must not keep all others from being elected.
"""

import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from incumbent import actions
from incumbent.strategy.candidates import Candidate, Snapshot

MOST: Final = 100.0
LONGEST_PROBLEM: Final = 200
"""Characters that are kept of what a scorer raised."""


class Scorer(Protocol):
    """Anything that gives a candidate points; a function fits."""

    def __call__(self, candidate: Candidate, snapshot: Snapshot, /) -> float:
        """The points of `candidate`, 0 (worst) to 100 (best), among all of `snapshot`.

        Must depend on nothing else: no clock, no chance. All nodes have to come to the same.
        """
        ...


class Points(NamedTuple):
    """What a scorer gave, made fit."""

    value: float
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class IdleTime:
    """The longer without work, the better: in proportion to the most idle candidate."""

    def __call__(self, candidate: Candidate, snapshot: Snapshot, /) -> float:
        """100 for the most idle; all have it when nobody has been idle yet."""
        longest = snapshot.longest_idle
        return MOST * (candidate.idle(snapshot.now) / longest) if longest > 0 else MOST


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """The share of its results that were successes."""

    untried: float = 0.0
    """The points of a candidate without any result; above 0 gives newcomers a chance."""

    def __post_init__(self) -> None:
        if not 0 <= self.untried <= MOST:
            raise ValueError(f"untried must be from 0 to 100, not {self.untried}")
        object.__setattr__(self, "untried", float(self.untried))

    def __call__(self, candidate: Candidate, snapshot: Snapshot, /) -> float:
        """100 when nothing failed, 0 when everything did."""
        rate = candidate.success_rate
        return self.untried if rate is None else MOST * rate


@dataclass(frozen=True, slots=True)
class RecentSuccess:
    """The more recent its last success, the better, as long as nothing has failed since."""

    def __call__(self, candidate: Candidate, snapshot: Snapshot, /) -> float:
        """From 0 for the oldest to 100 for the newest; 0 without a success that still counts."""
        proven, span = candidate.proven_at, snapshot.proven_between
        if proven is None or span is None:
            return 0.0
        oldest, newest = span
        if newest == oldest:
            return MOST
        return MOST * ((proven - oldest) / (newest - oldest))


@dataclass(frozen=True, slots=True, init=False)
class Weighted:
    """Several scorers at once: the mean of their points, weighted.

    >>> Weighted([(readiness, 0.50), (SuccessRate(), 0.35), (IdleTime(), 0.15)])

    Raises:
        ValueError: there is no part, or a weight is not finite and above 0.
        TypeError: a part is no scorer.
    """

    parts: tuple[tuple[Scorer, float], ...]

    def __init__(self, parts: Iterable[tuple[Scorer, float]]) -> None:
        checked: list[tuple[Scorer, float]] = []
        for scorer, weight in parts:
            if not (math.isfinite(weight) and weight > 0):
                raise ValueError(f"a weight must be finite and above 0, not {weight}")
            check(scorer)
            checked.append((scorer, float(weight)))
        if not checked:
            raise ValueError("Weighted needs one scorer at least")
        object.__setattr__(self, "parts", tuple(checked))

    def __call__(self, candidate: Candidate, snapshot: Snapshot, /) -> float:
        """The weighted mean; each part goes by the rule for points."""
        return self.weigh(candidate, snapshot).value

    def weigh(self, candidate: Candidate, snapshot: Snapshot) -> Points:
        """The same, with the problems of all parts."""
        total = weights = 0.0
        problems: list[str] = []
        for scorer, weight in self.parts:
            value, problem = points(scorer, candidate, snapshot)
            total += weight * value
            weights += weight
            if problem:
                problems.append(problem)
        return Points(min(MOST, total / weights), "; ".join(problems) or None)


def points(scorer: Scorer, candidate: Candidate, snapshot: Snapshot) -> Points:
    """What `scorer` gives, made fit by the rule above."""
    if isinstance(scorer, Weighted):
        return scorer.weigh(candidate, snapshot)
    try:
        given: Any = scorer(candidate, snapshot)
    except Exception as error:  # noqa: BLE001 - a user's function may fail in any way
        return _nothing(scorer, f"raised {_shown(error)}")
    answer: object = given
    if inspect.iscoroutine(answer):
        answer.close()  # otherwise Python warns that it was never awaited
    try:
        value = float(given)
    except Exception:  # noqa: BLE001 - a user's object
        return _nothing(scorer, f"gave {_shown(given)}, which is no number")
    if math.isnan(value):
        return _nothing(scorer, "gave nan")
    if 0 <= value <= MOST:
        return Points(value)
    bound = 0.0 if value < 0 else MOST
    return Points(bound, f"{name_of(scorer)} gave {value:g}; it counts as {bound:g}")


def check(scorer: Any) -> None:
    """Whether `scorer` is one.

    Raises:
        TypeError: it cannot be called, or is a coroutine function.
    """
    if not callable(scorer):
        raise TypeError(f"a scorer must be callable with a candidate and a snapshot: {scorer!r}")
    actions.check_called(scorer, "a scorer")


def name_of(thing: object) -> str:
    """What a scorer or strategy is called in a message."""
    try:
        return str(getattr(thing, "__name__", type(thing).__name__))
    except Exception:  # noqa: BLE001 - a user's object
        return type(thing).__name__


def _shown(thing: object) -> str:
    """Its `repr`, or at least its kind."""
    try:
        return repr(thing)
    except Exception:  # noqa: BLE001 - a user's object
        return f"a {type(thing).__name__}"


def _nothing(scorer: Scorer, what: str) -> Points:
    if len(what) > LONGEST_PROBLEM:
        what = f"{what[:LONGEST_PROBLEM]}..."
    return Points(0.0, f"{name_of(scorer)} {what}; it counts as 0")
