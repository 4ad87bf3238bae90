"""The verdict on a run: what a fail-over excuses, and for how long."""

from collections import Counter
from typing import Any

from kit.checker import Report, Span
from kit.finding import Finding
from kit.ledger_check import LedgerReport
from kit.outcome import Outcome


def outcome(*lossy: Span, **findings: Any) -> Outcome:
    """A run that found this."""
    report = Report(
        terms=(),
        overlaps=(),
        fence_violations=(),
        stray_work=(),
        take_overs=(),
        longest_idle=0.0,
    )
    fixed: dict[str, Any] = {"seconds": 1, "seed": 1, "lease_time": 1, "registers": ()}
    return Outcome(**fixed, faults=Counter(), report=report, lossy=lossy, **findings)


def test_an_overlap_is_excused_while_a_forgotten_lease_may_last() -> None:
    """And not a moment longer, nor without a fail-over."""
    overlaps = [Finding(f"two at {at}", at) for at in (1.9, 2.0, 5.0, 5.1)]
    judged = outcome((2.0, 5.0), short=LedgerReport(overlaps=list[str](overlaps)))
    assert judged.excused == ["two at 2.0", "two at 5.0"]
    assert judged.findings == ["two at 1.9", "two at 5.1"]
    assert not outcome(short=LedgerReport(overlaps=list[str](overlaps))).excused


def test_what_is_no_matter_of_leases_is_never_excused() -> None:
    """A leak is one whenever it was found."""
    judged = outcome((1.0, 9.0), leaks=("a key",))
    assert judged.findings == ["a key"]
