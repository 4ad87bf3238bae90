"""One leader per election."""

from collections.abc import Iterable

from incumbent.electors.elector import Elector
from incumbent.events import Hook
from incumbent.options import LeaderOptions
from incumbent.stores.base import Store
from incumbent.stores.redis import Client


class LeaderElector(Elector):
    """Elects one leader per name among all processes that share the server.

    ::

        elector = LeaderElector(redis, LeaderOptions(lease_time=30))
        report = await elector.run_if_leader("daily-report", generate)
    """

    def __init__(
        self,
        redis: Client | Store,
        options: LeaderOptions | None = None,
        *,
        prefix: str = "incumbent",
        leader_id: str | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        """Make an elector; nothing is sent before the first election.

        Args:
            redis: a `redis.asyncio.Redis`, which stays yours and is never closed, or a
                `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            prefix: what every key of this elector begins with.
            leader_id: who this process is in `state()`; default ``host:pid:hex``.
            hooks: callables that are told what happens. They replace the default, a `LoggingHook`:
                ``[LoggingHook(), mine]`` keeps the log.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        super().__init__(redis, options, seats=1, prefix=prefix, leader_id=leader_id, hooks=hooks)
