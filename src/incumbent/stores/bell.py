"""What a waiter sleeps by: a bell that others ring, with an alarm of its own.

Knows nothing of elections. A future, not a task: hundreds of waiters that are called at once cost
hundreds of callbacks and nothing more.
"""

import asyncio
from typing import Final

from incumbent import clock

LONGEST_SLEEP: Final = 86_400.0
"""Seconds of waiting beyond which there is no alarm."""


class Bell:
    """Rings until it is muted; who comes late hears it all the same."""

    __slots__ = ("_rung", "_sleeper")

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake who waits, or who will."""
        self._rung = True
        _wake(self._sleeper)

    def mute(self) -> None:
        """Forget that it was rung."""
        self._rung = False

    async def wait(self, until: float) -> None:
        """Return when it is rung, or when `incumbent.clock` says `until`."""
        left = until - clock.now()
        if self._rung or left <= 0:
            return
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        alarm = loop.call_later(left, _wake, self._sleeper) if left < LONGEST_SLEEP else None
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if alarm is not None:
                alarm.cancel()


def _wake(sleeper: "asyncio.Future[None] | None") -> None:
    if sleeper is not None and not sleeper.done():
        sleeper.set_result(None)
