"""When it is worth looking at an election again: when the store says that its seat has changed.

Knows nothing of who should lead. The subscription of the process, and its small looks at the seat,
are shared by all watchers, so a standby reads no candidates while the seat is taken.
"""

import asyncio
import math
from typing import Protocol

from incumbent import clock
from incumbent.stores.base import Budget, Store
from incumbent.stores.mailbox import Mailbox


class Lookout(Protocol):
    """Who watches the seat of one election."""

    async def change(self, *, taken: bool, until: float) -> bool:
        """Return True when the seat is taken, or, without `taken`, when it is free.

        False at `until` by `incumbent.clock`, or when only a look can tell. Changes since the last
        call are not missed. Raises what the store raises.
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

    async def change(self, *, taken: bool, until: float) -> bool:
        """See `Lookout`. The first that a mailbox is told is what is now, so nothing is missed."""
        left = None if until == math.inf else max(0.0, until - clock.now())
        try:
            async with asyncio.timeout(left):
                if self._mailbox is None or self._mailbox.ended:
                    self._mailbox = Mailbox()
                    await self._store.watch(self._election, 1, self._budget, self._mailbox)
                while True:
                    if bool((await self._mailbox.take()).leaders) is taken:
                        return True
        except TimeoutError:
            return False
        except StopAsyncIteration:
            # The store was closed, but it still works if it is used again.
            await asyncio.sleep(min(1.0, max(0.0, until - clock.now())))
            return False

    def close(self) -> None:
        """End the mailbox."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            mailbox.end()
