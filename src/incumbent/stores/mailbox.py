"""What lies between who tells the states of an election and the one who reads them.

Knows nothing of elections but that the newest states matter most. Belongs to one event loop.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from incumbent.results import LeaderState, Outage
from incumbent.stores.bell import Bell

MOST_UNREAD: Final = 1000
"""States that are kept for a slow reader; of more, the oldest are dropped."""


class Teller(Protocol):
    """Who fills a mailbox."""

    @property
    def outage(self) -> Outage | None:
        """Since when the server has not been heard, and why."""
        ...

    def present(self, mailbox: "Mailbox") -> LeaderState | None:
        """What is known now, in terms of this mailbox."""
        ...

    def leave(self, mailbox: "Mailbox") -> None:
        """It has ended."""
        ...


class Mailbox:
    """States in order, until somebody ends it."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of who fills it; None as long as nobody does."""
        self.ended: bool = False
        self.teller: Teller | None = None
        """Who fills it, as long as somebody does."""
        self._unread: deque[LeaderState] = deque(maxlen=MOST_UNREAD)
        self._error: Exception | None = None
        self._bell = Bell()
        self._taking = False

    def joined(self, teller: Teller) -> None:
        """It is filled from now on, in the running loop; `teller` is told when it ends."""
        self.loop = asyncio.get_running_loop()
        self.teller = teller

    def put(self, states: Iterable[LeaderState]) -> None:
        """Add `states`."""
        self._unread.extend(states)
        if self._unread:
            self._bell.ring()

    def end(self, error: Exception | None = None) -> None:
        """No more states: with an `error`, which is raised behind what is unread, or quietly."""
        if self.ended:
            return
        self.ended, self._error = True, error
        if error is None:
            self._unread.clear()
        teller, self.teller = self.teller, None
        if self.loop is None or self.loop.is_closed():
            return
        self._bell.ring()
        if teller is not None:
            teller.leave(self)

    async def take(self) -> LeaderState:
        """The next state; StopAsyncIteration when there are no more."""
        if self._taking:
            raise RuntimeError("this watch is being awaited already: make another with watch()")
        self._taking = True
        try:
            while not self._unread:
                if self.ended:
                    error, self._error = self._error, None
                    raise error or StopAsyncIteration
                self._bell.mute()
                await self._bell.wait(math.inf)
            return self._unread.popleft()
        finally:
            self._taking = False
