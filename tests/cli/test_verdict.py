"""cli.demo.verdict, summary: made-up histories, right and wrong."""

import pytest

from incumbent.cli.demo import summary
from incumbent.cli.demo.history import History
from incumbent.cli.demo.reports import Report, parse
from incumbent.cli.demo.verdict import Fault, Term, judge, overlap, successor

FENCE = 1_795_977_641_270_049
LIMIT = 2.5


def term(node: str, fence: int, *spans: tuple[float, float]) -> Term:
    return Term(node=node, fence=FENCE + fence, spans=spans)


def kill(node: str, at: float) -> Fault:
    return Fault(what="SIGKILL", node=node, fence=FENCE + 1, at=at)


FIRST = term("node-1", 1, (10.0, 12.0), (10.6, 12.6), (11.2, 13.2))
SECOND = term("node-2", 2, (13.3, 15.3))


def test_all_right() -> None:
    """Terms one after the other, growing fences, a quick take-over: no failures."""
    verdict = judge([SECOND, FIRST], [kill("node-1", 11.5)], limit=LIMIT)
    assert verdict.failures == ()
    assert verdict.overlap == 0
    first, second = verdict.take_overs
    assert (first.fault, first.seconds, first.term) == (None, None, FIRST)
    assert second.seconds == verdict.slowest == pytest.approx(1.8)
    assert second.fault is not None
    assert second.overlap == 0


def test_an_overlap_is_a_failure() -> None:
    """The first still relied on its lease, for a moment, when the second led."""
    second = term("node-2", 2, (13.199, 15.0))
    verdict = judge([FIRST, second], [kill("node-1", 11.5)], limit=LIMIT)
    assert verdict.overlap == pytest.approx(0.001)
    assert verdict.failures == ("node-1 and node-2 both led for 0.001000 s",)
    assert verdict.take_overs[1].overlap == pytest.approx(0.001)


def test_a_late_belief_is_an_overlap() -> None:
    """One that led, slept, and believed once more that it leads, overlaps with its successor."""
    sleeper = term("node-1", 1, (10.0, 12.0), (14.0, 14.5))
    assert overlap(sleeper, SECOND) == overlap(SECOND, sleeper) == pytest.approx(0.5)


@pytest.mark.parametrize("fence", [1, 0])
def test_a_fence_that_does_not_grow_is_a_failure(fence: int) -> None:
    """Neither the same fence again, nor a smaller one."""
    second = term("node-2", fence, (13.3, 15.3))
    verdict = judge([FIRST, second], [kill("node-1", 11.5)], limit=LIMIT)
    (failure,) = verdict.failures
    assert failure == f"fence {FENCE + fence} of node-2 came after {FENCE + 1}"


def test_a_slow_take_over_is_a_failure() -> None:
    """Later than the limit, by however little."""
    verdict = judge([FIRST, SECOND], [kill("node-1", 10.7)], limit=LIMIT)
    assert verdict.failures == (
        "node-2 took over 2.60 s after SIGKILL of node-1, 2.50 s are allowed",
    )


def test_a_lead_lost_for_nothing_is_a_failure() -> None:
    """Nothing was done to the first leader, so it should lead still."""
    third = term("node-3", 3, (15.4, 17.4))
    verdict = judge([FIRST, SECOND, third], [kill("node-1", 11.5)], limit=LIMIT)
    assert verdict.failures == ("node-3 took over from node-2, unprovoked",)
    assert verdict.take_overs[2].fault is None
    assert list(summary.lines(verdict))[4].startswith("unprovoked  ")


def test_nobody_takes_over() -> None:
    """The victim's own return is no take-over."""
    back = term("node-1", 2, (13.3, 15.3))
    verdict = judge([FIRST, back], [kill("node-1", 11.5)], limit=LIMIT)
    assert verdict.failures == ("nobody took over after SIGKILL of node-1",)
    assert successor(kill("node-1", 11.5), [FIRST, back]) is None


def test_nobody_at_all() -> None:
    """An empty history is no success; what went wrong before is told first."""
    verdict = judge([], [], limit=LIMIT, troubles=["node-1 died"])
    assert verdict.failures == ("node-1 died", "nobody was ever elected")
    assert verdict.slowest == 0


def test_the_table() -> None:
    """One row per term and the verdict, in ASCII, within 80 columns, no blanks at the ends."""
    lines = list(summary.lines(judge([FIRST, SECOND], [kill("node-1", 11.5)], limit=LIMIT)))
    assert lines[2].split() == ["first", "election", "node-1", str(FENCE + 1), "0", "s"]
    assert lines[3].split() == [
        *("SIGKILL", "of", "node-1", "node-2", str(FENCE + 2), "1.80", "s", "0", "s")
    ]
    assert lines[-1] == (
        "OK: fences grow strictly, overlap 0 s, slowest take-over 1.80 s (limit 2.50 s)"
    )
    assert all(len(line) <= 80 and line.isascii() and line == line.rstrip() for line in lines)


def test_the_table_of_a_failure() -> None:
    """It shows what overlapped, and every failure has a line."""
    second = term("node-2", 0, (13.1, 15.3))
    lines = list(summary.lines(judge([FIRST, second], [kill("node-1", 11.5)], limit=LIMIT)))
    assert lines[3].endswith("0.100000 s")
    assert [line for line in lines if line.startswith("FAILED: ")] == lines[-2:]
    assert not any(line.startswith("OK") for line in lines)


# -- from reports to terms -------------------------------------------------------------------


def leading(at: float, until: float, fence: int = 1) -> Report:
    return Report(kind="leading", at=at, until=until, fence=fence)


def test_reports_survive_the_pipe() -> None:
    """What is sent is what is heard; what is no report is told apart."""
    report = Report(kind="stopped", at=1.5, fence=FENCE, reason="stalled")
    assert parse(report.line()) == report
    for noise in ("", "Traceback", "{", "17", "[1]", '{"kind": "leading"}', '{"x": 1}'):
        assert parse(noise) is None


def test_a_history_becomes_terms() -> None:
    """By process and fence, with all spans and how it ended."""
    history = History()
    history.add("node-1", 7, Report(kind="standing", at=0.5))
    history.add("node-1", 7, leading(1.0, 3.0))
    history.add("node-1", 7, leading(1.5, 3.5))
    history.add("node-2", 8, leading(4.0, 6.0, fence=2))
    history.add("node-1", 7, Report(kind="stopped", at=4.5, fence=1, reason="stalled"))
    first, second = history.terms
    assert first == Term(
        node="node-1", fence=1, spans=((1.0, 3.0), (1.5, 3.5)), stopped_at=4.5, reason="stalled"
    )
    assert (second.node, second.fence, second.stopped_at) == ("node-2", 2, None)


def test_who_stops_early_relied_on_its_lease_until_then() -> None:
    """A release ends a span, and cannot end one that began after it."""
    history = History()
    history.add("node-1", 7, leading(1.0, 3.0))
    history.add("node-1", 7, Report(kind="stopped", at=2.0, fence=1))
    history.add("node-1", 7, leading(2.5, 4.5))
    history.add("node-3", 9, Report(kind="stopped", at=2.0, fence=5))
    (term,) = history.terms
    assert term.spans == ((1.0, 2.0), (2.5, 4.5))


def test_the_same_fence_twice_is_two_terms() -> None:
    """Else the worst of all failures would hide itself."""
    history = History()
    history.add("node-1", 7, leading(1.0, 3.0))
    history.add("node-2", 8, leading(4.0, 6.0))
    failures = judge(history.terms, [], limit=LIMIT).failures
    assert "fence 1 of node-2 came after 1" in failures
