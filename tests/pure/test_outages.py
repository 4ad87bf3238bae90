"""`Outage`: what of a row of failures is worth a line, by a clock that the test sets."""

from typing import Any

import pytest

from incumbent import clock
from incumbent.engine.office import Office
from incumbent.engine.outages import MOST_REASONS, REMIND_EVERY, Outage
from incumbent.events import AttemptDelayed, Event, OutageEnded
from incumbent.stores.memory import MemoryStore


class Row:
    """An outage, and what was told of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.told: list[Event] = []
        monkeypatch.setattr(clock, "now", lambda: self.now)
        office: Office[Any] = Office(MemoryStore(), [self.told.append], owns_store=False)
        self.outage = Outage(office, "one", "a")

    def fails(self, words: str, after: float = 1.0) -> bool:
        """Whether a failure after so many seconds is worth a line."""
        self.now += after
        self.outage.failed(AttemptDelayed, self.outage, RuntimeError(words), retry_in=1.0)
        event = self.told.pop()
        assert isinstance(event, AttemptDelayed)
        return not event.repeated


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Row:
    """A new one."""
    return Row(monkeypatch)


def test_the_first_failure_is_told_and_one_a_minute(row: Row) -> None:
    """For as long as it lasts."""
    told = [row.fails("refused: OOM full") for _ in range(int(3 * REMIND_EVERY))]
    assert [at for at, each in enumerate(told) if each] == [0, REMIND_EVERY, 2 * REMIND_EVERY]


def test_the_end_is_told_once(row: Row) -> None:
    """How long it lasted; the next failure is the first of another one."""
    row.outage.over()
    assert row.told == []
    row.fails("refused: OOM full")
    row.fails("refused: OOM full", after=5)
    row.now += 1.5
    row.outage.over()
    row.outage.over()
    assert row.told == [OutageEnded(election="one", leader_id="a", duration=6.5)]
    assert row.fails("refused: OOM full")


def test_each_reason_is_told(row: Row) -> None:
    """The words behind it do not matter."""
    told = [
        row.fails("refused: OOM full"),
        row.fails("refused: MISCONF no disk"),
        row.fails("refused: OOM still full"),
        row.fails("not reached: cut"),
        row.fails("not reached: no answer"),
        row.fails(""),
    ]
    assert told == [True, True, False, True, False, True]


def test_reasons_without_end_are_not(row: Row) -> None:
    """So many, and then one of any kind a minute."""
    told = [row.fails(f"refused: {number}", after=0.1) for number in range(100)]
    assert told == [True] * MOST_REASONS + [False] * (100 - MOST_REASONS)
    assert row.fails("refused: 101", after=REMIND_EVERY)
    assert not row.fails("refused: 102")
