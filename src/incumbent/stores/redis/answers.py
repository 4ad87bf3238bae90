"""Subscriptions that a server has yet to confirm, and when that takes too long.

A connection may have died silently before it is used to subscribe: nothing else would show that.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

WITHIN: Final = 2.0
"""Seconds in which the server must confirm a subscription."""

A_LITTLE_LONGER: Final = 0.1
"""Seconds more, for an answer that came while the event loop stood still."""


class Answers:
    """The confirmations that are expected; `overdue` is called when one does not come."""

    def __init__(self, overdue: Callable[[], None]) -> None:
        self._overdue = overdue
        self._expected: Counter[bytes] = Counter()
        """By channel: one that was left and asked for anew is confirmed twice."""
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, channels: Iterable[bytes]) -> None:
        """The server is about to be told to listen to these."""
        self._expected.update(channels)
        if self._timer is None:  # a running one is not put off: nothing was heard since it began
            self._restart()

    def came(self, channel: bytes) -> bool:
        """One has come. Returns whether it confirms the latest subscription to `channel`."""
        self._expected[channel] -= 1
        self._restart()
        if self._expected[channel] > 0:
            return False
        del self._expected[channel]
        return True

    def forget(self) -> None:
        """Expect nothing any more."""
        self._expected.clear()
        self._restart()

    def _restart(self) -> None:
        self._stop_timer()
        if any(count > 0 for count in self._expected.values()):
            self._set_timer(WITHIN, self._wait_a_little_longer)

    def _wait_a_little_longer(self) -> None:
        self._set_timer(A_LITTLE_LONGER, self._end)

    def _end(self) -> None:
        self._timer = None
        self._overdue()

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
