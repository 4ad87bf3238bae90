"""When it is worth looking at an election again: when the store says that its seat has changed.

Knows nothing of who should lead. The subscription of the process is shared by all that watch.
"""

import asyncio
from typing import Protocol

from incumbent import clock
from incumbent.results import LeaderInfo
from incumbent.stores.base import Budget, Store
from incumbent.stores.mailbox import Mailbox


class Lookout(Protocol):
    """Who watches the seat of one election."""

    async def change(self, leader: LeaderInfo | None, until: float) -> None:
        """Return when `leader` has the seat no more, or at `until` by `incumbent.clock`.

        With None, when the free seat has been taken. What happened since the look that showed
        `leader` is not missed. Raises what the store raises.
        """
        ...

    def close(self) -> None:
        """Watch no more, until `change` is called again. Idempotent."""
        ...


class Told:
    """Is told by the store."""

    def __init__(self, store: Store, election: str, request_timeout: float) -> None:
        self._store = store
        self._election = election
        self._budget = Budget.of_two(request_timeout)
        self._mailbox: Mailbox | None = None

    async def change(self, leader: LeaderInfo | None, until: float) -> None:
        """See `Lookout`. The first that a mailbox is told is what is now, so nothing is missed."""
        known = _term(leader)
        try:
            async with asyncio.timeout(max(0.0, until - clock.now())):
                if self._mailbox is None or self._mailbox.ended:
                    self._mailbox = Mailbox()
                    await self._store.watch(self._election, 1, self._budget, self._mailbox)
                while True:
                    leaders = (await self._mailbox.take()).leaders
                    if _term(leaders[0] if leaders else None) != known:
                        return
        except TimeoutError:
            return
        except StopAsyncIteration:
            # The store was closed, and works all the same for who goes on.
            await asyncio.sleep(min(1.0, max(0.0, until - clock.now())))

    def close(self) -> None:
        """End the mailbox."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            mailbox.end()


def _term(leader: LeaderInfo | None) -> tuple[int, bool] | None:
    return None if leader is None else (leader.fence, leader.retained)
