"""A fixed number of leaders per election."""

from collections.abc import Iterable
from typing import Final

from incumbent.electors.elector import Elector
from incumbent.events import Hook
from incumbent.kinds import whole
from incumbent.options import LeaderOptions
from incumbent.stores.base import Store
from incumbent.stores.redis import Client

MOST_SEATS: Final = 1024


class GroupElector(Elector):
    """Elects up to `seats` leaders per name among all processes that share the server.

    Each has a seat of its own, numbered from 0, for the whole term; the lowest that is free goes
    first::

        elector = GroupElector(redis, LeaderOptions(wait_time=None), seats=4)
        async with elector.lead("workers") as lease:
            await serve(partition=lease.seat)

    Electors with different numbers of seats may share an election, as during a roll-out: each takes
    and shows only the seats that it knows of.
    """

    def __init__(
        self,
        redis: Client | Store,
        options: LeaderOptions | None = None,
        *,
        seats: int,
        prefix: str = "incumbent",
        leader_id: str | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        """Make an elector; nothing is sent before the first election.

        Args:
            redis: a `redis.asyncio.Redis`, which stays yours and is never closed, or a
                `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            seats: how many may lead at the same time, 1 to 1024.
            prefix: what every key of this elector begins with.
            leader_id: who this process is in `state()`; default ``host:pid:hex``.
            hooks: callables that are told what happens. They replace the default, a `LoggingHook`:
                ``[LoggingHook(), mine]`` keeps the log.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        whole("seats", seats, 1, MOST_SEATS)
        super().__init__(
            redis, options, seats=seats, prefix=prefix, leader_id=leader_id, hooks=hooks
        )

    @property
    def seats(self) -> int:
        """How many may lead at the same time."""
        return self._seats
