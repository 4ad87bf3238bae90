"""The electors for threads: one leader per election, or a fixed number of them."""

from collections.abc import Iterable

from incumbent import GroupElector as AsyncGroupElector
from incumbent import LeaderElector as AsyncLeaderElector
from incumbent import LeaderOptions
from incumbent.blocking.elector import Elector
from incumbent.blocking.root import Root
from incumbent.engine.office import hooks_of
from incumbent.events import Hook
from incumbent.kinds import real
from incumbent.stores.base import Store
from incumbent.stores.redis import Client
from incumbent.stores.redis.twin import SyncClient, twin_of


class LeaderElector(Elector):
    """Elects one leader per name among all processes that share the server.

    ::

        elector = LeaderElector("redis://localhost:6379", LeaderOptions(lease_time=30))
        report = elector.run_if_leader("daily-report", generate)
    """

    def __init__(
        self,
        redis: SyncClient | str | Store,
        options: LeaderOptions | None = None,
        *,
        prefix: str = "incumbent",
        leader_id: str | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        """Make an elector; nothing is sent, and no thread begins, before the first election.

        Args:
            redis: a `redis.Redis`, which stays yours (the elector takes over where it connects to,
                and has a connection of its own), a URL, or a `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            prefix: what every key of this elector begins with.
            leader_id: who this process is in `state()`; default ``host:pid:hex``.
            hooks: callables that are told what happens, in the loop's thread. They replace the
                default, a `LoggingHook`: ``[LoggingHook(), mine]`` keeps the log.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        told = None if hooks is None else hooks_of(hooks)

        def make(source: Client | Store) -> AsyncLeaderElector:
            return AsyncLeaderElector(
                source, options, prefix=prefix, leader_id=leader_id, hooks=told
            )

        super().__init__(lambda: Root.of(source_of(redis), make))


class GroupElector(Elector):
    """Elects up to `seats` leaders per name among all processes that share the server.

    ::

        elector = GroupElector("redis://localhost:6379", seats=4)
        with elector.lead("workers") as lease:
            serve(partition=lease.seat)
    """

    def __init__(
        self,
        redis: SyncClient | str | Store,
        options: LeaderOptions | None = None,
        *,
        seats: int,
        prefix: str = "incumbent",
        leader_id: str | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        """Make an elector; nothing is sent, and no thread begins, before the first election.

        Args:
            redis: a `redis.Redis`, which stays yours (the elector takes over where it connects to,
                and has a connection of its own), a URL, or a `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            seats: how many may lead at the same time, 1 to 1024.
            prefix: what every key of this elector begins with.
            leader_id: who this process is in `state()`; default ``host:pid:hex``.
            hooks: callables that are told what happens, in the loop's thread. They replace the
                default, a `LoggingHook`: ``[LoggingHook(), mine]`` keeps the log.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        told = None if hooks is None else hooks_of(hooks)
        self._seats = seats

        def make(source: Client | Store) -> AsyncGroupElector:
            return AsyncGroupElector(
                source, options, seats=seats, prefix=prefix, leader_id=leader_id, hooks=told
            )

        super().__init__(lambda: Root.of(source_of(redis), make))

    @property
    def seats(self) -> int:
        """How many may lead at the same time."""
        return self._seats


def source_of(redis: SyncClient | str | Store) -> Client | Store:
    """What the asyncio elector is made from."""
    real("redis", type(redis))
    if isinstance(redis, Store):
        return redis
    return twin_of(redis)
