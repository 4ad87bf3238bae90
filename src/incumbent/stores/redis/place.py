"""A place in line: what a waiter keeps from its first request to its last.

Knows what it is called on the server and when it is to ask again; not how it gets to know that.
"""

from contextlib import suppress
from typing import Final, Protocol

from incumbent.stores.base import Budget
from incumbent.stores.bell import Bell

STALE_AFTER: Final = 3
"""Periods without a touch after which a process is taken to be gone."""


class Row(Protocol):
    """What a place needs of the line that it is in."""

    @property
    def period(self) -> float:
        """Seconds between two touches."""
        ...

    def expect(self, soonest: float) -> None:
        """A seat may be free in so many seconds."""
        ...

    def remove(self, place: "ServerPlace") -> None:
        """Forget the place."""
        ...

    async def leave(self, place: "ServerPlace", budget: Budget) -> None:
        """Take the place out of the line on the server."""
        ...

    def start_leave(self, place: "ServerPlace") -> None:
        """The same, without waiting for it."""
        ...


class ServerPlace:
    """A place in line, known to the server by its name and kept in order by its arrival."""

    __slots__ = ("_bell", "_line", "arrival", "name", "open", "seats", "standing")

    def __init__(self, line: Row, seats: int, name: bytes) -> None:
        self.name: bytes = name
        self.seats: int = seats
        self.arrival: int = 0
        """When it came, as the server said; 0 as long as it has not."""
        self.standing: bool = False
        """Whether the server may have it in line."""
        self.open: bool = True
        self._line = line
        self._bell = Bell()

    @property
    def stale_after(self) -> float:
        """Seconds without a word after which this process is taken to be gone."""
        return self._line.period * STALE_AFTER

    def asking(self) -> None:
        """A request is about to be sent: what happens from now on is news."""
        self.standing = True
        self._bell.mute()

    def refused(self, arrival: int, soonest: float) -> None:
        """It stands in line, and a seat may be free in `soonest` seconds."""
        self.arrival = arrival
        self._line.expect(soonest)

    def call(self) -> None:
        """Ask again."""
        self._bell.ring()

    async def called(self, until: float) -> None:
        await self._bell.wait(until)

    async def leave(self, budget: Budget) -> None:
        if self.open and self.standing:
            if budget.total > 0:
                with suppress(Exception):  # what cannot be told is dropped as stale
                    await self._line.leave(self, budget)
            else:
                self._line.start_leave(self)
        self.close()

    def close(self) -> None:
        if self.open:
            self.open = self.standing = False
            self._line.remove(self)
