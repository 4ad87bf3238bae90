"""kit.ticks: a tick that was run twice or by nobody is found, and what excuses it."""

import pytest

from kit.records import Kind, Record
from kit.ticks import TickReport, check_ticks

EVERY, AHEAD = 10.0, 1_000_000.0


def at_period(period: int, into: float = 1.0) -> float:
    """A time of the records' clock, `into` seconds after the period began."""
    return period * EVERY - AHEAD + into


def event(kind: Kind, process: str, at: float, **more: object) -> Record:
    """Something of a schedule's process."""
    return Record(process=process, kind=kind, at=at, election="tick", **more)  # type: ignore[arg-type] # by name


def run(process: str, period: int, kind: Kind = "ran") -> Record:
    """`process` was elected in this period."""
    fence = int((period * EVERY + 1) * 1e6)
    return event(kind, process, at_period(period), fence=fence)


FIRST = 100_100
STANDS = event("standing", "c", at_period(FIRST, -5))
RUNS = [run("a", FIRST), run("b", FIRST + 1), run("a", FIRST + 2), run("a", FIRST + 3)]


def judge(*records: Record, settle: float = 0.0, lease_time: float = 0.0) -> TickReport:
    """Check these, by time."""
    history = sorted(records, key=lambda record: record.at)
    until = at_period(FIRST + 9)
    return check_ticks(
        history,
        "tick",
        every=EVERY,
        ahead=AHEAD,
        until=until,
        settle=settle,
        lease_time=lease_time,
    )


def test_one_run_per_period() -> None:
    """All is well, however late a process wrote that it ran."""
    late = Record(process="a", kind="ran", at=RUNS[0].at + 30, election="tick", fence=RUNS[0].fence)
    report = judge(STANDS, late, *RUNS[1:])
    report.assert_sound(min_runs=4)
    assert report.periods == 4


def test_nothing_is_no_proof() -> None:
    """No run proves nothing."""
    with pytest.raises(AssertionError, match="only 0 runs"):
        judge(STANDS).assert_sound()


def test_a_doubled_tick() -> None:
    """Two elections in one period are found, be it by the same process."""
    again = event("ran", "a", at_period(FIRST, 3), fence=RUNS[0].fence + 1)
    assert len(judge(*RUNS, again).doubled) == 1


def test_a_lost_tick() -> None:
    """Nobody ran although somebody was well from the beginning of the period to its end."""
    assert len(judge(STANDS, RUNS[0], *RUNS[2:]).lost) == 1
    came_late = event("standing", "c", at_period(FIRST + 1, 2))
    assert judge(came_late, RUNS[0], *RUNS[2:]).excused == 1


@pytest.mark.parametrize(
    ("hit", "claimed", "excused"),
    [("b", "b", True), ("", "b", True), ("", "", True), ("b", "", False), ("b", "c", False)],
)
def test_what_excuses_a_lost_tick(hit: str, claimed: str, excused: bool) -> None:
    """The server was the victim, or the process to which the server had given it."""
    begins = event("fault", hit, at_period(FIRST + 1, 1), detail="freeze")
    over = event("over", hit, at_period(FIRST + 1, 3), detail="freeze")
    claim = [run(claimed, FIRST + 1, "claimed")] if claimed else []
    report = judge(STANDS, RUNS[0], *RUNS[2:], begins, over, *claim)
    assert (report.excused, len(report.lost)) == ((1, 0) if excused else (0, 1))


def test_settling() -> None:
    """After the server was away, all have some seconds to find it again."""
    begins = event("fault", "", at_period(FIRST, 7), detail="kill_server")
    over = event("over", "", at_period(FIRST, 9), detail="kill_server")
    records = [STANDS, RUNS[0], *RUNS[2:], begins, over]
    assert judge(*records).lost
    assert judge(*records, settle=1.5).excused == 1


@pytest.mark.parametrize(("lease_time", "excused"), [(20.0, True), (9.0, True), (0.0, False)])
def test_a_frozen_holder_of_an_earlier_period(lease_time: float, excused: bool) -> None:
    """It has the seat for the rest of its lease, unless it was well before that, or did run."""
    claim = run("b", FIRST, "claimed")
    begins = event("fault", "b", at_period(FIRST, 2), detail="freeze")
    over = event("over", "b", at_period(FIRST + 2, 1), detail="freeze")
    first = run("a", FIRST - 1)
    report = judge(STANDS, first, claim, begins, over, *RUNS[2:], lease_time=lease_time)
    assert (not report.lost) == excused
    healed = event("over", "b", at_period(FIRST, 3), detail="freeze")
    assert judge(STANDS, first, claim, begins, healed, *RUNS[2:], lease_time=5.0).lost
    assert judge(STANDS, claim, begins, over, *RUNS[:1], *RUNS[2:], lease_time=20.0).lost
