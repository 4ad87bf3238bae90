"""One timer of an event loop for all that wait for a time: thousands of terms, hardly any timers.

Knows times, not what they are for. The times are those of `incumbent.clock`, which also counts
suspend. The loop's own timers stand still meanwhile, so the one timer rings every second at least.
"""

import asyncio
import math
from contextvars import Context
from typing import Final, Protocol

from incumbent import clock

PULSE: Final = 1.0
"""Seconds between two looks at the clock, as long as somebody waits."""

SLOT: Final = 0.05
"""Seconds of times that are kept, and looked through, together."""


class Sleeper(Protocol):
    """Who can be rung."""

    context: Context
    """What is to be current when it rings, whoever has set the timer."""
    due: float
    """When it will ring; infinity for not at all. Kept here, by `Alarms`."""

    def ring(self) -> None:
        """The time has come."""
        ...


class Alarms:
    """The alarms of one event loop, one for each sleeper at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self._slots: dict[int, set[Sleeper]] = {}
        self._called: dict[Sleeper, asyncio.Handle] = {}
        """Who is rung in this turn of the loop, unless the alarm is set anew before."""
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    def set(self, sleeper: Sleeper, when: float) -> None:
        """Ring `sleeper` at `when`, and no more at the time set before; infinity is for never."""
        if sleeper.due < math.inf:
            self._take_out(sleeper)
        elif sleeper in self._called:
            self._called.pop(sleeper).cancel()
        sleeper.due = when
        if when < math.inf:
            self._slots.setdefault(_slot_of(when), set()).add(sleeper)
            if when < self._rings_at:
                self._arm(when)

    def _take_out(self, sleeper: Sleeper) -> None:
        number = _slot_of(sleeper.due)
        slot = self._slots[number]
        slot.discard(sleeper)
        if not slot:
            del self._slots[number]

    def _arm(self, when: float) -> None:
        now = clock.now()
        self._rings_at = min(when, now + PULSE)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(
            max(0.0, self._rings_at - now), self._ring, context=Context()
        )

    def _ring(self) -> None:
        self._timer, self._rings_at = None, math.inf
        now = clock.now()
        last = _slot_of(now)
        past = [slot for number, slot in self._slots.items() if number <= last]
        for sleeper in [sleeper for slot in past for sleeper in slot if sleeper.due <= now]:
            self._take_out(sleeper)
            sleeper.due = math.inf
            # Each for itself: what one raises does not keep the others from ringing.
            self._called[sleeper] = self.loop.call_soon(
                self._call, sleeper, context=sleeper.context
            )
        if self._slots:
            self._arm(min(sleeper.due for sleeper in self._slots[min(self._slots)]))

    def _call(self, sleeper: Sleeper) -> None:
        del self._called[sleeper]
        sleeper.ring()


def _slot_of(when: float) -> int:
    return int(when / SLOT)
