"""Campaigns and schedules sleep until the next period when the present one has been run.

They use the clock that counts the periods, which is the server's.
"""

import asyncio
import math
import random
from functools import partial
from typing import Final, Self

from incumbent.engine.waits import Waits
from incumbent.options import LeaderOptions
from incumbent.periods import Period
from incumbent.results import LeaderState
from incumbent.stores.base import Budget, Store
from incumbent.stores.mailbox import Mailbox

A_LITTLE_LATER: Final = (0.002, 0.02)
"""Seconds after a tick at which it is answered, at random: replicas need not ask all at once."""

LONGEST_SLEEP: Final = 10.0
"""Seconds of sleep after which the clocks are compared again: they may have been set, or slept."""

SET_BACK: Final = 1.0
"""Seconds that the clock may be before a period and still count as in it, as it is an estimate.
Before that it was set back, which ends a sleep."""

AFTER_THE_END: Final = 1.0
"""Seconds until a watch that was ended is begun anew."""


class Recess:
    """The sleeps of one campaign or schedule. A context manager, as it may watch the election."""

    def __init__(
        self, store: Store, waits: Waits, election: str, seats: int, options: LeaderOptions
    ) -> None:
        self._store = store
        self._waits = waits
        self._election = election
        self._seats = seats
        self._budget = Budget.of_two(options.request_timeout)
        self._once_per = options.once_per
        self._most_early = SET_BACK + (options.once_per.tolerance if options.once_per else 0)
        self._mailbox: Mailbox | None = None

    async def sleep(self, period: Period) -> None:
        """Sleep until `period` is over by the clock that counts periods, or that clock is set back.

        Lets the event loop go on at least once, also when `period` is over, so that a loop around
        this cannot block it. Closing the elector ends it, as it ends `over`.
        """
        await self._waits.run(partial(self._sleep, period))

    async def over(self, ends: int) -> None:
        """Return when the period that ends at `ends` is over, or may be open again.

        Also when the clock is set back, as `sleep` does.

        With `retry_failed` a failed run opens it, so this returns at each end of a term. Errors of
        the store are raised.
        """
        if self._once_per is None:
            raise RuntimeError("without periods there is no recess")
        period = self._once_per.period(ends - 1)
        await self._waits.run(
            partial(self._over if self._once_per.retry_failed else self._sleep, period)
        )

    async def _over(self, period: Period) -> None:
        await asyncio.sleep(0)  # many states may be unread, and to take one does not suspend
        while (left := self._left(period)) > 0:
            try:
                async with asyncio.timeout(min(left, LONGEST_SLEEP)):
                    await self._a_term_ends()
            except TimeoutError:
                continue
            return
        await self._sleep(period)

    async def _sleep(self, period: Period) -> None:
        await asyncio.sleep(0)
        late = random.uniform(*A_LITTLE_LATER)
        left = self._left(period) + late
        while left > 0:
            await asyncio.sleep(min(left, LONGEST_SLEEP))
            left = self._left(period) + late

    def _left(self, period: Period) -> float:
        """Seconds of `period` that are left; minus infinity if the clock was set back."""
        now = self._store.wall_clock()
        early = (period.begins - now) / 1000
        return (period.ends - now) / 1000 if early <= self._most_early else -math.inf

    async def _a_term_ends(self) -> None:
        """Return when a seat has no working holder: at once, if it has none at the beginning."""
        if self._mailbox is None or self._mailbox.ended:
            self._mailbox = Mailbox()
            await self._store.watch(self._election, self._seats, self._budget, self._mailbox)
        try:
            while _working(await self._mailbox.take()) == self._seats:
                pass
        except StopAsyncIteration:
            await asyncio.sleep(AFTER_THE_END)  # the store was closed, but still works if used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._mailbox is not None:
            self._mailbox.end()


def _working(state: LeaderState) -> int:
    return sum(not leader.retained for leader in state.leaders)
