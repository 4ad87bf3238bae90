"""Watching elections inside the process, for a store that has no server.

Nothing is missed here and nothing fails, so all that is left is to pass on what has changed. The
hubs belong to an event loop: in another one there are new ones.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from incumbent.stores.base import Budget
from incumbent.stores.board import Message, Snapshot
from incumbent.stores.hub import Hub, Hubs
from incumbent.stores.mailbox import Mailbox

Take: TypeAlias = Callable[[str, int], Awaitable[Snapshot]]
"""Gives a snapshot: election, seats."""


class LocalWatching:
    """Who watches the elections of one store in this process."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._hubs: Hubs | None = None

    def join(self, election: str, seats: int, budget: Budget, mailbox: Mailbox) -> None:
        """Tell `mailbox` what is now, and what changes."""
        if self._hubs is None or not self._hubs.at_home:
            if self._hubs is not None:
                self._hubs.leave_home()
            self._hubs = Hubs(self)
        self._hubs.join(election, seats, budget, mailbox)

    def heard(self, election: str, message: Message) -> None:
        """Something has changed."""
        if self._hubs is not None and self._hubs.at_home:
            self._hubs.heard(election, message)

    async def aclose(self) -> None:
        """End all who watch, quietly."""
        if self._hubs is not None and self._hubs.at_home:
            await self._hubs.aclose()

    # -- what a hub asks for -----------------------------------------------------------------

    def listen(self, hub: Hub) -> None:
        """It is told everything."""
        hub.listening()

    def dismiss(self, hub: Hub) -> None:
        """Nobody watches that election any more."""
        if self._hubs is not None:
            self._hubs.forget(hub)

    def distrust(self, hub: Hub) -> None:
        """There is nothing to doubt."""

    async def snapshot(self, election: str, seats: int, budget: Budget) -> Snapshot:
        """The election as it is now."""
        return await self._take(election, seats)

    def passing(self, error: Exception) -> bool:
        """There is nothing to wait for."""
        return False
