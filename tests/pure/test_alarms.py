"""engine.alarms: one timer of the loop for everybody, and a clock that counts suspend."""

import asyncio
import contextvars
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from incumbent import clock
from incumbent.engine.alarms import PULSE, Alarms

where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


class Timer:
    """What `call_later` and `call_soon` give back."""

    def __init__(
        self, delay: float, callback: Callable[[], None], context: contextvars.Context
    ) -> None:
        self.delay = delay
        self.callback = callback
        self.context = context
        self.cancelled = False

    def cancel(self) -> None:
        """As a loop's timer."""
        self.cancelled = True


class Loop:
    """A loop whose time passes when it is told."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.soon: list[Timer] = []

    def call_later(self, delay: float, callback: Callable[[], None], *, context: Any) -> Timer:
        """As a loop's."""
        self.timers.append(Timer(delay, callback, context))
        return self.timers[-1]

    def call_soon(self, callback: Callable[..., None], *args: Any, context: Any) -> Timer:
        """As a loop's."""
        self.soon.append(Timer(0, partial(callback, *args), context))
        return self.soon[-1]

    @property
    def timer(self) -> Timer | None:
        """The one that is set."""
        left = [timer for timer in self.timers if not timer.cancelled]
        assert len(left) <= 1
        return left[0] if left else None

    def fire(self) -> list[BaseException]:
        """The timer goes off; what the callbacks raise."""
        timer = self.timer
        assert timer is not None
        self.timers.remove(timer)
        timer.callback()
        raised: list[BaseException] = []
        soon, self.soon = self.soon, []
        for call in soon:
            if call.cancelled:
                continue
            try:
                call.context.run(call.callback)
            except Exception as error:  # noqa: BLE001 - a loop goes on, whatever it is
                raised.append(error)
        return raised


class Sleeper:
    """Notes when it was rung."""

    def __init__(self, *, fails: bool = False) -> None:
        self.context = contextvars.copy_context()
        self.due = math.inf
        self.rung: list[str] = []
        self.fails = fails

    def ring(self) -> None:
        """It is time."""
        self.rung.append(where.get())
        if self.fails:
            raise ValueError("ring")


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock's time, to be set."""
    now = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    return now


@pytest.fixture
def loop() -> Loop:
    """A loop in hand."""
    return Loop()


@pytest.fixture
def alarms(loop: Loop, time: list[float]) -> Alarms:
    """The alarms of that loop."""
    return Alarms(loop)  # type: ignore[arg-type] # it needs no more of a loop


def test_all_share_one_timer_and_each_rings_at_its_time(
    alarms: Alarms, loop: Loop, time: list[float]
) -> None:
    """A hundred sleepers, one timer; who is not due yet does not ring, also in the same slot."""
    sleepers = [Sleeper() for _ in range(100)]
    for number, sleeper in enumerate(sleepers):
        alarms.set(sleeper, 1000.5 + number / 1000)
    assert loop.timer is not None
    assert loop.timer.delay == pytest.approx(0.5)
    time[0] = 1000.51
    loop.fire()
    assert [len(each.rung) for each in sleepers] == [1] * 11 + [0] * 89
    assert [each.due for each in sleepers[:11]] == [math.inf] * 11
    assert loop.timer.delay == pytest.approx(0.001)
    time[0] = 1001
    loop.fire()
    assert all(len(each.rung) == 1 for each in sleepers)
    assert loop.timer is None, "nobody waits, so nothing ticks"


def test_the_clock_is_looked_at_every_second(alarms: Alarms, loop: Loop, time: list[float]) -> None:
    """In suspend the loop's timers stand still: a far time must not be left to one of them."""
    sleeper = Sleeper()
    alarms.set(sleeper, 1010)
    assert loop.timer is not None
    assert loop.timer.delay == PULSE
    time[0] = 1001
    loop.fire()
    assert not sleeper.rung
    time[0] = 1060  # a minute of sleep, of which the loop knows nothing
    loop.fire()
    assert len(sleeper.rung) == 1


def test_an_alarm_is_set_anew_or_taken_back(alarms: Alarms, loop: Loop, time: list[float]) -> None:
    """The last time counts: earlier, later, or never."""
    earlier, later, never = Sleeper(), Sleeper(), Sleeper()
    for sleeper in (earlier, later, never):
        alarms.set(sleeper, 1000.5)
    alarms.set(earlier, 1000.2)
    alarms.set(later, 1000.7)
    alarms.set(never, math.inf)
    assert loop.timer is not None
    assert loop.timer.delay == pytest.approx(0.2)
    time[0] = 1000.6
    loop.fire()
    assert [len(each.rung) for each in (earlier, later, never)] == [1, 0, 0]
    time[0] = 1000.8
    loop.fire()
    assert [len(each.rung) for each in (earlier, later, never)] == [1, 1, 0]
    assert loop.timer is None


def test_an_alarm_is_set_anew_in_the_turn_in_which_it_is_due(
    alarms: Alarms, loop: Loop, time: list[float]
) -> None:
    """What comes before it in the same turn of the loop may take it back, or put it off."""

    class Hasty(Sleeper):
        def ring(self) -> None:
            alarms.set(never, math.inf)
            alarms.set(later, 1000.7)

    never, later = Sleeper(), Sleeper()
    for sleeper in (never, later):
        alarms.set(sleeper, 1000.2)
    time[0] = 1000.2
    loop.call_soon(Hasty().ring, context=contextvars.copy_context())
    loop.fire()
    assert (never.rung, later.rung) == ([], [])
    time[0] = 1000.7
    loop.fire()
    assert [len(each.rung) for each in (never, later)] == [0, 1]


def test_one_that_raises_disturbs_no_other(alarms: Alarms, loop: Loop, time: list[float]) -> None:
    """The others ring, and those that are due later will."""
    broken, well, late = Sleeper(fails=True), Sleeper(), Sleeper()
    alarms.set(broken, 1000.1)
    alarms.set(well, 1000.1)
    alarms.set(late, 1000.9)
    time[0] = 1000.1
    assert [str(error) for error in loop.fire()] == ["ring"]
    assert (len(well.rung), len(late.rung)) == (1, 0)
    time[0] = 1000.9
    loop.fire()
    assert len(late.rung) == 1


def test_each_rings_in_its_own_context(alarms: Alarms, loop: Loop, time: list[float]) -> None:
    """Hooks see the context variables of the task that leads, whoever has set the timer."""
    where.set("first")
    first = Sleeper()
    where.set("second")
    second = Sleeper()
    where.set("test")
    alarms.set(first, 1000.1)
    alarms.set(second, 1000.1)
    time[0] = 1000.2
    loop.fire()
    assert (first.rung, second.rung) == (["first"], ["second"])


async def test_it_rings_in_a_real_loop() -> None:
    """With the loop's own timers, and the library's own clock."""
    rung = asyncio.Event()

    class Awaited(Sleeper):
        def ring(self) -> None:
            rung.set()

    alarms, sleeper = Alarms(asyncio.get_running_loop()), Awaited()
    due = clock.now() + 0.02
    alarms.set(sleeper, due)
    await asyncio.wait_for(rung.wait(), 5)
    assert clock.now() >= due
