"""kit.take_overs: a take-over is laid to the fault that made it necessary, and to no other."""

import pytest

from kit.checker import Term
from kit.records import Kind, Record
from kit.take_overs import Fault, faults_of, pauses, share_of, take_overs


def term(process: str, start: float, end: float, how: str = "lost", seat: int = 0) -> Term:
    """A term of one election; fences do not matter here."""
    return Term(
        process=process, election="e", seat=seat, fence=int(start * 1000), start=start, end=end,
        how=how,
    )  # fmt: skip


def fault(kind: str, process: str, at: float) -> Fault:
    """One fault."""
    return Fault(kind=kind, process=process, at=at)


def test_from_the_fault_to_the_next_term() -> None:
    """What was left of the lease is part of it."""
    terms = [term("a", 1, 4, how=""), term("b", 5, 9)]
    assert take_overs(terms, [fault("kill", "a", 3)]) == {"kill": [2]}
    assert take_overs(terms, [fault("kill_server", "", 3)]) == {"kill_server": [2]}


def test_only_the_last_fault_of_that_term_counts() -> None:
    """Not one on another process, nor one before or after the term, nor the first of two."""
    terms = [term("a", 1, 4), term("b", 5, 9), term("c", 2, 4, seat=1)]
    others = [fault("kill", "b", 3), fault("cut", "a", 0.5), fault("cut", "a", 4.5)]
    assert take_overs(terms, others) == {}
    assert take_overs(terms, [fault("cut", "a", 2), fault("doze", "a", 3)]) == {"doze": [2]}


def test_a_term_that_ended_by_itself() -> None:
    """A fault that it survived ended nothing; a cancelled or restarted holder ends in order."""
    terms = [term("a", 1, 4, how="stopped"), term("b", 5, 9)]
    assert take_overs(terms, [fault("doze", "a", 3)]) == {}
    assert take_overs(terms, [fault("cancel", "a", 3)]) == {"cancel": [2]}


def test_what_is_read_from_the_records() -> None:
    """Faults with their kind and victim; pauses, of which the step of a clock is none."""

    def record(kind: Kind, at: float, detail: str = "") -> Record:
        return Record(process="a", kind=kind, at=at, detail=detail)

    history = [
        record("fault", 1, "freeze"), record("paused", 1), record("resumed", 3),
        record("over", 3, "freeze"), record("paused", 4), record("resumed", 4.001),
    ]  # fmt: skip
    assert faults_of(history) == [fault("freeze", "a", 1)]
    assert pauses(history) == [2]


@pytest.mark.parametrize(("share", "time"), [(0.5, 2), (0.99, 4), (1.0, 4), (0.01, 1)])
def test_shares(share: float, time: float) -> None:
    """The time that so many did not exceed; 0 when there was none."""
    assert share_of([1, 2, 3, 4], share) == time
    assert share_of([], share) == 0
