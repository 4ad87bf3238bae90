"""What the ledgers of short elections must prove: the rules of `kit.checker`, over a stream.

Pure, and its memory does not grow with the number of elections: it keeps the last terms of each
seat and a table of how often a hand-over took how long. The rules:

1. A term counts from its ELECTED to the earliest of its end, its `valid_until`, its process's kill.
2. Terms of one seat never overlap.
3. Fences of a seat grow from term to term; the same fence is not given twice in an election.
4. Who asked while another held, and got the seat from that one, was handed it over. The seat must
   not lie free longer than `max_idle` meanwhile, and a grace more for each process that was
   hindered then (it may have been called first), unless the taker itself was.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kit.checker import Span
from kit.finding import Finding
from kit.ledger import ELECTED, Entry

GRACE = 1.0  # seconds that the library gives to who was called
REMEMBERED = 64  # fences of an election: one that is given twice is given twice soon
SHOWN = 20
_FINENESS = 50  # steps in each power of ten


class Times:
    """How often something took how long, within 5 %: a table that stays small."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self._counts[math.ceil(math.log10(max(seconds, 1e-6)) * _FINENESS)] += 1
        self.longest = max(self.longest, seconds)

    def __len__(self) -> int:
        return self._counts.total()

    def within(self, share: float) -> float:
        """The time that this share of all did not exceed; 0 when there was none."""
        left = math.ceil(share * len(self))
        for step in sorted(self._counts):
            left -= self._counts[step]
            if left <= 0:
                return float(min(10 ** (step / _FINENESS), self.longest))
        return self.longest


@dataclass(slots=True, eq=False)
class _Term:
    process: str
    fence: int
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.process} fence={self.fence} [{self.start:.6f}, {self.end:.6f}]"


@dataclass(slots=True, kw_only=True)
class LedgerReport:
    """What was found; `violations` are sentences, empty when all is well."""

    elections: int = 0
    handed_over: int = 0  # got by who asked while another held
    between_processes: int = 0  # of these, the other was in another process
    lost: int = 0
    late: int = 0  # over before they began: their process slept, and they counted for nothing
    hand_over: Times = field(default_factory=Times)
    overlaps: list[str] = field(default_factory=list)
    fence_violations: list[str] = field(default_factory=list)
    sleepers: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """All that must not be."""
        return self.overlaps + self.fence_violations + self.sleepers

    def assert_sound(self, *, min_elections: int = 1) -> None:
        """AssertionError with the findings, or when there was too little to look at."""
        assert not self.violations, "\n".join(self.violations[:SHOWN])
        assert self.elections >= min_elections, f"only {self.elections} elections"


class _Seat:
    """What is remembered of one seat."""

    __slots__ = ("last", "longest", "open")

    def __init__(self) -> None:
        self.open: dict[int, _Term] = {}  # by fence: the last few whose end was not written yet
        self.last: _Term | None = None
        self.longest: _Term | None = None


class LedgerCheck:
    """Feed it entries by time; `report` is right after the last one."""

    def __init__(
        self,
        *,
        killed: Mapping[str, float] | None = None,
        hindered: Mapping[str, Sequence[Span]] | None = None,
        max_idle: float = math.inf,
    ) -> None:
        self.report = LedgerReport()
        self._killed = killed or {}
        self._hindered = hindered or {}
        self._max_idle = max_idle
        self._seats: dict[tuple[int, int], _Seat] = defaultdict(_Seat)
        self._fences: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def feed(self, entry: Entry) -> None:
        """One more entry."""
        seat = self._seats[entry.election, entry.seat]
        if entry.kind == ELECTED:
            self._elected(seat, entry)
        else:
            self._ended(seat, entry)

    def _elected(self, seat: _Seat, entry: Entry) -> None:
        report = self.report
        report.elections += 1
        end = min(entry.valid_until, self._killed.get(entry.process, math.inf))
        term = _Term(entry.process, entry.fence, entry.at, end)
        fences = self._fences[entry.election]
        if entry.fence in fences:
            found = f"election {entry.election}: given twice: {term}"
            report.fence_violations.append(Finding(found, entry.at))
        fences.append(entry.fence)
        if end <= entry.at:
            report.late += 1
            return
        self._compare(seat, term, entry)
        seat.last = term
        if seat.longest is None or term.end > seat.longest.end:
            seat.longest = term
        if len(seat.open) >= REMEMBERED:  # of processes that were killed
            del seat.open[next(iter(seat.open))]
        seat.open[entry.fence] = term

    def _compare(self, seat: _Seat, term: _Term, entry: Entry) -> None:
        report, name = self.report, f"election {entry.election} seat {entry.seat}"
        before, longest = seat.last, seat.longest
        if before is None or longest is None:
            return
        if term.start < longest.end:
            by = (min(term.end, longest.end) - term.start) * 1000
            found = f"two holders of {name} for up to {by:.3f} ms: {longest}, {term}"
            report.overlaps.append(Finding(found, term.start))
        if term.fence <= before.fence:
            found = f"{name}: did not grow: {before}, {term}"
            report.fence_violations.append(Finding(found, term.start))
        if entry.asked < before.end:
            self._handed_over(before, term, name)

    def _handed_over(self, before: _Term, term: _Term, name: str) -> None:
        report, gap = self.report, max(0.0, term.start - before.end)
        report.handed_over += 1
        report.between_processes += before.process != term.process
        report.hand_over.add(gap)
        if gap <= self._max_idle:
            return
        hindered = self._hindered_between(before.end, term.start)
        if term.process not in hindered and gap > self._max_idle + GRACE * len(hindered):
            report.sleepers.append(f"{name} lay free for {gap:.3f} s: {before}, {term}")

    def _hindered_between(self, start: float, end: float) -> set[str]:
        return {
            process
            for process, spans in self._hindered.items()
            if any(span[0] < end and span[1] > start for span in spans)
        }

    def _ended(self, seat: _Seat, entry: Entry) -> None:
        self.report.lost += entry.kind != 2
        term = seat.open.pop(entry.fence, None)
        if term is None or entry.at >= term.end:
            return
        term.end = entry.at
        # Terms end in any order only where they overlap, which was told already.
        seat.longest = seat.last


def check_ledgers(
    entries: Iterable[Entry],
    *,
    killed: Mapping[str, float] | None = None,
    hindered: Mapping[str, Sequence[Span]] | None = None,
    max_idle: float = math.inf,
) -> LedgerReport:
    """Look at all entries of a run. `hindered`: when each process could not take what it was given.

    Args:
        entries: by time.
        killed: when each process that was killed was.
        hindered: spans by process.
        max_idle: seconds.
    """
    checking = LedgerCheck(killed=killed, hindered=hindered, max_idle=max_idle)
    for entry in entries:
        checking.feed(entry)
    return checking.report
