"""What the records of all contenders must prove: one holder at a time, growing fences, no idling.

Pure: records in, a report out. The rules:

1. A term counts from its "elected" to the earliest of: the action's end, the last `valid_until`
   that was written down, the kill of its process.
2. Terms of one seat never overlap, be it by a microsecond: all processes read one clock.
3. Fences of one seat grow from term to term; no fence is given twice in an election.
4. Work is done inside a term of one's own.
5. A seat does not stay free while somebody could take it: a candidate that was standing, not
   paused, not cut off and not in the `settle` seconds after that.

A term that was over before its first record (the process was frozen meanwhile) has no length.
It overlaps with nothing and its place among the others is unknown; its fence still counts.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kit.finding import Finding
from kit.records import Record

_ENDS = frozenset({"stopped", "lost"})
_HINDERS = frozenset({"paused", "cut"})
_RECOVERS = frozenset({"resumed", "restored"})
_LEAVES = frozenset({"elected", "away", "killed", "stopped", "lost"})
_DONE_TO = _HINDERS | _RECOVERS | {"killed"}

LATE = 5.0
"""By how many seconds a machine that is busy with other things may be late with a take-over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One process in one seat, from `start` to `end`."""

    process: str
    election: str
    seat: int
    fence: int
    start: float
    end: float
    how: str = field(default="", compare=False)  # "stopped", "lost", or "" when it wrote no end

    @property
    def stillborn(self) -> bool:
        """Over before it began."""
        return self.end <= self.start

    def __str__(self) -> str:
        return f"{self.process} fence={self.fence} [{self.start:.6f}, {self.end:.6f}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found. The four lists are sentences, empty when all is well."""

    terms: tuple[Term, ...]
    overlaps: tuple[str, ...]
    fence_violations: tuple[str, ...]
    stray_work: tuple[str, ...]
    take_overs: tuple[float, ...]  # seconds from the end of each term to the next of its seat
    longest_idle: float  # seconds that a seat was free while one candidate could take it
    idle_detail: str = field(default="", compare=False)

    @property
    def violations(self) -> tuple[str, ...]:
        """All that must not be, idling aside."""
        return self.overlaps + self.fence_violations + self.stray_work

    def assert_sound(self, *, max_idle: float | None = None, min_terms: int = 1) -> None:
        """AssertionError with all the findings, or when there was too little to look at."""
        found = list(self.violations)
        if max_idle is not None and self.longest_idle > max_idle:
            found.append(f"idle for {self.longest_idle:.3f} s > {max_idle:g} s: {self.idle_detail}")
        if len(self.terms) < min_terms:
            found.append(f"only {len(self.terms)} terms, at least {min_terms} were expected")
        assert not found, "\n".join(found)

    def take_over(self, share: float) -> float:
        """The take-over time that this share of all did not exceed; 0 when there was none."""
        ordered = sorted(self.take_overs)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def check(records: Iterable[Record], *, until: float | None = None, settle: float = 0.0) -> Report:
    """Look at all records of one run, which ended at `until` (default: with the last record).

    `records` is gone through twice, and of the work, which is most of them, nothing is kept.
    """
    if iter(records) is records:
        raise TypeError("records can be gone through only once, and it takes two times")
    history, valid = _gather(records)
    last = max((record.at for record in history), default=0.0)
    terms = _terms(history, valid)
    seats = by_seat(terms)
    idle, detail = _longest_idle(seats, history, until if until is not None else last, settle)
    return Report(
        terms=tuple(terms),
        overlaps=tuple(each for seat in seats.values() for each in _overlaps(seat)),
        fence_violations=tuple(_fence_violations(terms, seats)),
        stray_work=tuple(_stray_work(terms, records)),
        take_overs=tuple(gap for seat in seats.values() for gap in _take_overs(seat)),
        longest_idle=idle,
        idle_detail=detail,
    )


# -- terms -----------------------------------------------------------------------------------

_Name = tuple[str, str, int, int]


def _name(record: Record | Term) -> _Name:
    return record.process, record.election, record.seat, record.fence


def _gather(records: Iterable[Record]) -> tuple[list[Record], dict[_Name, float]]:
    """All but the work, by time; and how long each term was ever written to be valid."""
    history: list[Record] = []
    valid: dict[_Name, float] = defaultdict(float)
    for record in records:
        if record.kind != "work":
            history.append(record)
        if record.fence and record.valid_until:
            name = _name(record)
            valid[name] = max(valid[name], record.valid_until)
    return sorted(history, key=lambda record: record.at), valid


def _terms(history: Sequence[Record], valid: Mapping[_Name, float]) -> list[Term]:
    killed = {record.process: record.at for record in history if record.kind == "killed"}
    elected: dict[_Name, Record] = {}
    ended: dict[_Name, Record] = {}
    for record in history:
        if record.kind == "elected":
            elected.setdefault(_name(record), record)
        elif record.kind in _ENDS:
            ended.setdefault(_name(record), record)
    terms = [
        _term(record, ended.get(name), valid.get(name, record.at), killed)
        for name, record in elected.items()
    ]
    return sorted(terms, key=lambda term: term.start)


def _term(elected: Record, ended: Record | None, valid: float, killed: Mapping[str, float]) -> Term:
    last = ended.at if ended else math.inf
    return Term(
        process=elected.process,
        election=elected.election,
        seat=elected.seat,
        fence=elected.fence,
        start=elected.at,
        end=min(valid, last, killed.get(elected.process, math.inf)),
        how=ended.kind if ended else "",
    )


def by_seat(terms: Sequence[Term]) -> dict[tuple[str, int], list[Term]]:
    """The terms of each election's seats, in order, without those over before they began."""
    seats: dict[tuple[str, int], list[Term]] = defaultdict(list)
    for term in terms:
        if not term.stillborn:
            seats[term.election, term.seat].append(term)
    return seats


# -- rules -----------------------------------------------------------------------------------


def _overlaps(seat: Sequence[Term]) -> Iterable[str]:
    longest: Term | None = None
    for term in seat:
        if longest is not None and term.start < longest.end:
            by = (min(term.end, longest.end) - term.start) * 1000
            seat_name = f"{term.election!r} seat {term.seat}"
            found = f"two holders of {seat_name} for {by:.3f} ms: {longest}, {term}"
            yield Finding(found, term.start)
        if longest is None or term.end > longest.end:
            longest = term


def _fence_violations(
    terms: Sequence[Term], seats: dict[tuple[str, int], list[Term]]
) -> Iterable[str]:
    seen: dict[tuple[str, int], Term] = {}
    for term in terms:
        first = seen.setdefault((term.election, term.fence), term)
        if first is not term:
            found = f"a fence of {term.election!r} was given twice: {first}, {term}"
            yield Finding(found, term.start)
    for seat in seats.values():
        for before, after in pairwise(seat):
            if after.fence < before.fence:
                found = f"a fence of {after.election!r} did not grow: {before}, {after}"
                yield Finding(found, after.start)


def _stray_work(terms: Sequence[Term], records: Iterable[Record]) -> Iterable[str]:
    of = {_name(term): term for term in terms}
    for record in records:
        if record.kind != "work":
            continue
        term = of.get(_name(record))
        if term is None or not term.start <= record.at <= term.end:
            yield f"{record.process} worked at {record.at:.6f} outside its term: {term}"


def _take_overs(seat: Sequence[Term]) -> Iterable[float]:
    return (max(0.0, after.start - before.end) for before, after in pairwise(seat))


# -- idling ----------------------------------------------------------------------------------

Span = tuple[float, float]


def _longest_idle(
    seats: dict[tuple[str, int], list[Term]],
    history: Sequence[Record],
    until: float,
    settle: float,
) -> tuple[float, str]:
    able: dict[str, list[tuple[str, Span]]] = defaultdict(list)
    for process, election, span in able_spans(history, until, settle):
        able[election].append((process, span))
    worst, detail = 0.0, ""
    # Of an election that nobody ever won, one seat at least was always free.
    for election, seat in seats.keys() | {(name, 0) for name in able}:
        gaps = list(_gaps(seats.get((election, seat), []), until))
        for process, (start, end) in _meetings(gaps, able[election]):
            if end - start > worst:
                worst = end - start
                detail = f"{election!r} seat {seat}: {process} from {start:.6f} to {end:.6f}"
    return worst, detail


def _meetings(gaps: Sequence[Span], able: Iterable[tuple[str, Span]]) -> Iterable[tuple[str, Span]]:
    """When a seat was free and a process could take it. Gaps are in order and do not touch."""
    ends = [end for _, end in gaps]
    for process, (since, until) in able:
        for which in range(bisect_right(ends, since), len(gaps)):
            start, end = gaps[which]
            if start >= until:
                break
            yield process, (max(start, since), min(end, until))


def _gaps(seat: Sequence[Term], until: float) -> Iterable[Span]:
    free_since = -math.inf
    for term in seat:
        if term.start > free_since:
            yield free_since, term.start
        free_since = max(free_since, term.end)
    if until > free_since:
        yield free_since, until


def able_spans(
    history: Iterable[Record], until: float, settle: float
) -> Iterable[tuple[str, str, Span]]:
    """When each process stood in each election, not hindered: when it could have taken a seat.

    What was done to a process counts in all its elections, whichever the record names.
    """
    lives: dict[str, list[Record]] = defaultdict(list)
    for record in history:
        lives[record.process].append(record)
    for process, life in lives.items():
        for election in {record.election for record in life if record.kind == "standing"}:
            mine = (each for each in life if each.kind in _DONE_TO or each.election == election)
            for span in _able(mine, until, settle):
                yield process, election, span


def hindered_spans(history: Iterable[Record], until: float) -> dict[str, list[Span]]:
    """When each process was paused, cut off or dead."""
    spans: dict[str, list[Span]] = defaultdict(list)
    depth: dict[str, int] = defaultdict(int)
    since: dict[str, float] = {}
    for record in history:
        process = record.process
        if record.kind in _HINDERS or record.kind == "killed":
            depth[process] += 1
            since.setdefault(process, record.at)
        elif record.kind in _RECOVERS and process in since:
            depth[process] -= 1
            if depth[process] <= 0:
                spans[process].append((since.pop(process), record.at))
    for process, start in since.items():
        spans[process].append((start, until))
    return spans


def _able(life: Iterable[Record], until: float, settle: float) -> Iterable[Span]:
    standing, hindered, since = False, 0, math.nan  # faults may overlap: they are counted
    for record in life:
        was_able = standing and not hindered
        if record.kind == "standing":
            standing = True
        elif record.kind in _LEAVES:
            standing = False
        elif record.kind in _HINDERS:
            hindered += 1
        elif record.kind in _RECOVERS:
            hindered -= 1
        able = standing and not hindered
        if able and not was_able:
            since = record.at + (settle if record.kind in _RECOVERS else 0.0)
        elif was_able and not able and record.at > since:
            yield since, record.at
    if standing and not hindered and until > since:
        yield since, until
