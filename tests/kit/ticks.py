"""What the records of a schedule must prove: no period run twice, none left out.

Pure. A run's fence is the server's time at its election in microseconds, so it tells in which
period the server gave it, however late the process began.

- *doubled*: two runs of one period.
- *lost*: a period without a run although somebody stood and was well from its beginning to its end
  and the server was there, and had been for `settle` seconds. It is excused when the server gave
  it to a process that was hindered before it wrote that it ran: such a run counts as run (at most
  once, never twice). So it is when who was given an earlier one, and did not run it, was
  hindered: the seat may have been there for the rest of the lease.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.checker import Span, able_spans
from kit.finding import Finding
from kit.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """What was found, as sentences where something must not be."""

    runs: int = 0
    periods: int = 0
    doubled: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    excused: int = 0  # periods that nobody ran, for a reason

    def assert_sound(self, *, min_runs: int = 1) -> None:
        """AssertionError with the findings, or when there was too little to look at."""
        found = [*self.doubled, *self.lost]
        assert not found, "\n".join(found[:20])
        assert self.runs >= min_runs, f"only {self.runs} runs"


def check_ticks(
    history: Sequence[Record],
    election: str,
    *,
    every: float,
    ahead: float,
    until: float,
    settle: float = 0.0,
    lease_time: float = 0.0,
) -> TickReport:
    """Look at a run's records.

    Args:
        history: all records, by time.
        election: of the schedule.
        every: seconds of a period.
        ahead: wall clock minus clock of the records, in seconds.
        until: when the run ended, by the clock of the records.
        settle: seconds that all may need to find the server again.
        lease_time: seconds for which who is hindered may keep the seat.
    """
    runs, claims = (
        _by_period(history, election, every, "ran"),
        _by_period(history, election, every, "claimed"),
    )
    if not runs:
        return TickReport()
    able: dict[str, list[Span]] = defaultdict(list)
    for process, name, span in able_spans(history, until, settle=0.0):
        if name == election:
            able[process].append(span)
    troubles = _troubles(history)
    lost, excused = [], 0
    for period in range(min(runs) + 1, max(runs)):
        if runs.get(period):
            continue
        start, end = period * every - ahead, (period + 1) * every - ahead
        well = any(
            _covers(spans, start, end) and not _meets(troubles.get(process, ()), start, end)
            for process, spans in able.items()
        )
        why = claims.get(period, ())
        before = range(period - math.ceil(lease_time / every), period)
        unused = [each for each in before if not runs.get(each)]
        holders = [process for each in unused for process in claims.get(each, ())]
        if (
            well
            and not _meets(troubles.get("", ()), start - settle, end)
            and not any(_meets(troubles.get(process, ()), start, end) for process in why)
            and not any(
                _meets(troubles.get(process, ()), start - lease_time, end) for process in holders
            )
        ):
            lost.append(f"period {period} of {election!r} [{start:.3f}, {end:.3f}] by {why}")
        else:
            excused += 1
    return TickReport(
        runs=sum(len(each) for each in runs.values()),
        periods=max(runs) - min(runs) + 1,
        doubled=tuple(
            Finding(
                f"period {period} of {election!r} was run by {processes}",
                (period + 1) * every - ahead,  # by then it has been run twice
            )
            for period, processes in runs.items()
            if len(processes) > 1
        ),
        lost=tuple(lost),
        excused=excused,
    )


def _by_period(
    history: Iterable[Record], election: str, every: float, kind: str
) -> Mapping[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for fence, process in {
        (record.fence, record.process)
        for record in history
        if record.kind == kind and record.election == election
    }:
        found[int(fence / 1e6 // every)].append(process)
    return found


def _troubles(history: Iterable[Record]) -> Mapping[str, list[Span]]:
    """From when to when something was done to each process, and to the server (as "")."""
    open_: dict[tuple[str, str], float] = {}
    found: dict[str, list[Span]] = defaultdict(list)
    for record in history:
        key = record.process, record.detail
        if record.kind == "fault":
            open_[key] = record.at
        elif record.kind == "over" and key in open_:
            found[record.process].append((open_.pop(key), record.at))
    return found


def _covers(spans: Iterable[Span], start: float, end: float) -> bool:
    return any(span[0] <= start and span[1] >= end for span in spans)


def _meets(spans: Iterable[Span], start: float, end: float) -> bool:
    return any(span[0] <= end and span[1] >= start for span in spans)
