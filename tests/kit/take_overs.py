"""How long an election was without a leader after each kind of fault.

Pure: records in, times out. A fault ended a term when it was the last that began in that term,
on its process or on the server, and the term did not end by itself (a cancelled or restarted
holder ends in order, so there any end counts). The time runs from the fault to the first record
of the next term of that seat: what is left of the lease is part of it.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kit.checker import Span, Term, by_seat
from kit.records import Record

_IN_ORDER = frozenset({"cancel", "restart"})
_SHORTEST = 0.01  # seconds: a pause that is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, as the crew wrote it down. `process` is empty when it hit the server."""

    kind: str
    process: str
    at: float


def faults_of(history: Iterable[Record]) -> list[Fault]:
    """All faults, by time."""
    found = (
        Fault(kind=record.detail, process=record.process, at=record.at)
        for record in history
        if record.kind == "fault"
    )
    return sorted(found, key=lambda fault: fault.at)


def take_overs(terms: Sequence[Term], faults: Sequence[Fault]) -> Mapping[str, list[float]]:
    """Seconds from each fault that ended a term to the next term of its seat, by kind, sorted."""
    on: dict[str, list[Fault]] = defaultdict(list)
    for each in faults:
        on[each.process].append(each)
    found: dict[str, list[float]] = defaultdict(list)
    for seat in by_seat(terms).values():
        for before, after in pairwise(seat):
            fault = _culprit(before, on)
            if fault is not None and after.start > fault.at:
                found[fault.kind].append(after.start - fault.at)
    return {kind: sorted(times) for kind, times in found.items()}


def _culprit(term: Term, on: Mapping[str, Sequence[Fault]]) -> Fault | None:
    within = [
        fault
        for process in (term.process, "")
        for fault in _between(on.get(process, ()), term.start, term.end)
        if term.how != "stopped" or fault.kind in _IN_ORDER
    ]
    return max(within, key=lambda fault: fault.at, default=None)


def _between(faults: Sequence[Fault], start: float, end: float) -> Sequence[Fault]:
    first = bisect_left(faults, start, key=lambda fault: fault.at)
    return faults[first : bisect_right(faults, end, key=lambda fault: fault.at)]


def share_of(ordered: Sequence[float], share: float) -> float:
    """The time that this share of all did not exceed; 0 when there was none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def pauses(history: Iterable[Record]) -> list[float]:
    """How long each process was paused, in seconds; a step of a clock is no pause."""
    since: dict[str, float] = {}
    found: list[Span] = []
    for record in history:
        if record.kind == "paused":
            since[record.process] = record.at
        elif record.kind == "resumed" and record.process in since:
            found.append((since.pop(record.process), record.at))
    return [end - start for start, end in found if end - start > _SHORTEST]
