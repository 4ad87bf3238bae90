"""When it is worth looking at an election again.

For now by asking who has the seat, a few times a second: the one place to be told instead.
"""

import asyncio
import random
from typing import Final, Protocol

from incumbent import clock
from incumbent.results import LeaderInfo
from incumbent.stores.base import Budget, Store

LONGEST_PAUSE: Final = 0.3
"""Seconds between two looks at the seat, at most."""

AFTER_THE_END: Final = 0.005
"""Seconds after a lease's end at which the seat is looked at: not so early as to find it taken."""


class Lookout(Protocol):
    """Who watches the seat of one election."""

    async def change(self, leader: LeaderInfo | None, until: float) -> None:
        """Return when `leader` may have the seat no more, or at `until` by `incumbent.clock`.

        With None, when a free seat may have been taken. Too early is no harm.
        """
        ...


class Asking:
    """Asks the store, which is one small request each time, however many stand."""

    def __init__(
        self, store: Store, election: str, *, request_timeout: float, within: float
    ) -> None:
        """A change is to be noticed `within` so many seconds, or sooner."""
        self._store = store
        self._election = election
        self._budget = Budget.of_two(request_timeout)
        self._longest = min(LONGEST_PAUSE, within)

    async def change(self, leader: LeaderInfo | None, until: float) -> None:
        """See `Lookout`; raises what the store raises."""
        while True:
            # Chance spreads the looks of different nodes.
            pause = self._longest * random.uniform(0.5, 1)
            if leader is not None:
                pause = min(pause, leader.remaining + AFTER_THE_END)
            left = until - clock.now()
            await asyncio.sleep(max(0.0, min(pause, left)))
            if leader is None or left <= pause:
                return
            now_leading = (await self._store.state(self._election, 1, self._budget)).leaders
            if not now_leading or now_leading[0].fence != leader.fence:
                return
            leader = now_leading[0]
