"""The loop over `once_per`: once per period in the whole fleet, for as long as the program runs.

Goes by the clock that counts the periods, which is the server's: nothing drifts, and a process
whose own clock is wrong asks at the wrong moment and then knows better.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol

from incumbent import actions
from incumbent.engine.candidacy import Candidacy
from incumbent.engine.running import run
from incumbent.periods import OncePer, Period
from incumbent.stores.base import Store

if TYPE_CHECKING:
    from incumbent.engine.recess import Recess


class Stand(Protocol):
    """Makes a candidate for one tick."""

    def __call__(self, *, wait_time: float, after: int) -> Candidacy:
        """One that waits so long, for a period that begins later than `after`."""
        ...


async def schedule(
    store: Store,
    stand: Stand,
    once_per: OncePer,
    action: Callable[[], Awaitable[object]],
    recess: "Recess",
) -> NoReturn:
    """Answer every tick from the next one on; see `Elector.schedule`.

    When another process has run the period, `recess` sleeps until the next one.
    """
    action = partial(_shielded_from_itself, action)
    answered = once_per.period(store.wall_clock())
    while True:
        await recess.sleep(answered)
        period = once_per.period(store.wall_clock())
        if period.begins <= answered.begins:
            answered = min(answered, period)  # the clock was set back
            continue
        candidacy = stand(wait_time=_seconds_left(period, store), after=answered.begins)
        try:
            await run(candidacy, action)
        except Exception as error:
            if not store.passing(error):
                raise
            candidacy.tell_delay(error, _seconds_left(period, store))
        if candidacy.ran_until is not None:
            # By the server's clock it may be earlier than the last tick that was answered.
            answered = min(answered, once_per.period(store.wall_clock()))
            await recess.over(candidacy.ran_until)
            continue
        # The server may have told that it is earlier than we thought: then the tick is yet to come.
        answered = min(period, once_per.period(store.wall_clock()))


def _seconds_left(period: Period, store: Store) -> float:
    return max(0, period.ends - store.wall_clock()) / 1000


async def _shielded_from_itself(action: Callable[[], Awaitable[object]]) -> object:
    """An action that is cancelled by something of its own has failed; the schedule goes on."""
    task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    try:
        return await actions.awaitable(action())
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > cancelling:
            raise
        raise RuntimeError("the action was cancelled from within") from error
