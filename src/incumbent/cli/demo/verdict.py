"""Whether all was right: judges who led when, and what was done to them meanwhile.

Pure. The rules:

1. A process relied on its lease in the spans that it recorded itself. Spans of different terms
   never overlap, be it by a microsecond: all processes read one clock.
2. Fences grow strictly from term to term.
3. After each fault another process leads within the time allowed.
4. Nobody loses the lead to whom nothing was done.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TypeAlias

Span: TypeAlias = tuple[float, float]
"""From, until."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One process as leader: when it relied on its lease, by its own record."""

    node: str
    fence: int
    spans: tuple[Span, ...]
    stopped_at: float | None = None
    """When its action ended; None as long as it has not, and for ever when it was killed."""
    reason: str = ""
    """Why the lease was lost, if it was."""

    @property
    def began(self) -> float:
        """When it first led."""
        return min(start for start, _ in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was done at the instant `at` to the leader with this `fence`."""

    what: str
    node: str
    fence: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """How one term came after another, or how the first one began."""

    fault: Fault | None
    """What was done to the leader before; None if nothing was, or if there was none."""
    term: Term
    seconds: float | None
    """From the fault to the term's beginning."""
    overlap: float
    """Seconds for which an earlier leader relied on its lease during this term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is shown at the end. `failures` are sentences, none when all was right."""

    take_overs: tuple[TakeOver, ...]
    overlap: float
    failures: tuple[str, ...]
    limit: float

    @property
    def slowest(self) -> float:
        """The longest take-over in seconds, 0 if there was none."""
        return max((step.seconds for step in self.take_overs if step.seconds), default=0.0)


def judge(
    terms: Iterable[Term], faults: Sequence[Fault], *, limit: float, troubles: Iterable[str] = ()
) -> Verdict:
    """The verdict on what happened; `limit` is the longest allowed take-over in seconds.

    `troubles` are failures that were noticed before, as that a process could not be started.
    """
    ordered = sorted(terms, key=lambda term: term.began)
    steps = tuple(_step(ordered[:number], term, faults) for number, term in enumerate(ordered))
    failures = [
        *troubles,
        *_overlaps(ordered),
        *_fences(ordered),
        *_unprovoked(steps),
        *(text for fault in faults for text in _late(fault, ordered, limit)),
    ]
    return Verdict(
        take_overs=steps,
        overlap=sum(overlap(*both) for both in combinations(ordered, 2)),
        failures=tuple(failures if ordered else [*failures, "nobody was ever elected"]),
        limit=limit,
    )


def successor(fault: Fault, terms: Iterable[Term]) -> Term | None:
    """The first term after `fault` of any other process."""
    later = (term for term in terms if term.began > fault.at and term.node != fault.node)
    return min(later, key=lambda term: term.began, default=None)


def overlap(one: Term, other: Term) -> float:
    """Seconds for which both processes relied on their leases."""
    return sum(
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end in _merged(one.spans)
        for other_start, other_end in _merged(other.spans)
    )


def _step(earlier: Sequence[Term], term: Term, faults: Sequence[Fault]) -> TakeOver:
    before = earlier[-1] if earlier else None
    fault = None if before is None else _fault_of(before, term, faults)
    return TakeOver(
        fault=fault,
        term=term,
        seconds=None if fault is None else term.began - fault.at,
        overlap=sum(overlap(each, term) for each in earlier),
    )


def _fault_of(before: Term, after: Term, faults: Sequence[Fault]) -> Fault | None:
    """What was done to the leader of `before`, before the term `after` began."""
    for fault in faults:
        if (fault.node, fault.fence) == (before.node, before.fence) and fault.at < after.began:
            return fault
    return None


def _overlaps(ordered: Sequence[Term]) -> Iterator[str]:
    for before, after in combinations(ordered, 2):
        if (shared := overlap(before, after)) > 0:
            yield f"{before.node} and {after.node} both led for {shared:.6f} s"


def _fences(ordered: Sequence[Term]) -> Iterator[str]:
    for before, after in pairwise(ordered):
        if after.fence <= before.fence:
            yield f"fence {after.fence} of {after.node} came after {before.fence}"


def _unprovoked(steps: Sequence[TakeOver]) -> Iterator[str]:
    for before, after in pairwise(steps):
        if after.fault is None:
            yield f"{after.term.node} took over from {before.term.node}, unprovoked"


def _late(fault: Fault, terms: Sequence[Term], limit: float) -> Iterator[str]:
    next_term = successor(fault, terms)
    if next_term is None:
        yield f"nobody took over after {fault.what} of {fault.node}"
    elif (took := next_term.began - fault.at) > limit:
        late = f"{next_term.node} took over {took:.2f} s after {fault.what} of {fault.node}"
        yield f"{late}, {limit:.2f} s are allowed"


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that do not touch each other."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
