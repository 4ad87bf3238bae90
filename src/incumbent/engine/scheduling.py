"""The loop over `once_per`: once per period in the whole fleet, for as long as the program runs.

Goes by the clock that counts the periods, which is the server's: nothing drifts, and a process
whose own clock is wrong asks at the wrong moment and then knows better.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn, Protocol

from incumbent import events
from incumbent.engine.candidacy import Candidacy
from incumbent.engine.office import Office
from incumbent.engine.running import run
from incumbent.engine.term import Term
from incumbent.engine.waits import Waits
from incumbent.periods import OncePer, Period
from incumbent.stores.base import Store

A_LITTLE_LATER: Final = (0.002, 0.02)
"""Seconds after a tick at which it is answered, at random: replicas need not ask all at once."""

LONGEST_SLEEP: Final = 10.0
"""Seconds of sleep after which the clocks are compared again: they may have been set, or slept."""


class Stand(Protocol):
    """Makes a candidate for one tick."""

    def __call__(self, *, wait_time: float, after: int) -> Candidacy:
        """One that waits so long, for a period that begins later than `after`."""
        ...


async def schedule(
    office: Office[Term],
    stand: Stand,
    once_per: OncePer,
    action: Callable[[], Awaitable[object]],
    waits: Waits,
) -> NoReturn:
    """Answer every tick from the next one on; see `Elector.schedule`."""
    action = partial(_shielded_from_itself, action)
    store = office.store
    answered = once_per.period(store.wall_clock())
    while True:
        await waits.run(partial(sleep_until, answered.ends, store))
        period = once_per.period(store.wall_clock())
        if period.begins <= answered.begins:  # the clock was set back
            continue
        candidacy = stand(wait_time=_seconds_left(period, store), after=answered.begins)
        try:
            await run(candidacy, action)
        except Exception as error:
            if not store.passing(error):
                raise
            left = _seconds_left(period, store)
            office.tell(events.AttemptDelayed, candidacy, error=error, retry_in=left)
        # The server may have told that it is earlier than we thought: then the tick is yet to come.
        answered = min(period, once_per.period(store.wall_clock()))


def _seconds_left(period: Period, store: Store) -> float:
    return max(0, period.ends - store.wall_clock()) / 1000


async def sleep_until(instant: int, store: Store) -> None:
    """Sleep until the clock that counts periods says `instant`: milliseconds since the epoch.

    Suspends also when that is over, so that no loop around it keeps the event loop from turning.
    """
    await asyncio.sleep(0)
    late = random.uniform(*A_LITTLE_LATER)
    while (left := (instant - store.wall_clock()) / 1000 + late) > 0:  # noqa: ASYNC110 - for time
        await asyncio.sleep(min(left, LONGEST_SLEEP))


async def _shielded_from_itself(action: Callable[[], Awaitable[object]]) -> object:
    """An action that is cancelled by something of its own has failed; the schedule goes on."""
    task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    try:
        return await action()
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > cancelling:
            raise
        raise RuntimeError("the action was cancelled from within") from error
