"""What the tests of clusters and Sentinels share: electors, and hands on the servers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from redis.asyncio import Redis, RedisCluster, Sentinel

from incumbent import GroupElector, LeaderElector, LeaderOptions, Lease, StrategicElector
from incumbent.strategy import Priority
from kit.cluster import Cluster
from kit.proxy import Proxy
from kit.sentinels import Watched
from kit.servers import Server
from kit.waiting import wait_until

LONG = 60.0
"""A lease that does not end while a test runs: whoever leads next was woken."""

WITHIN = 30.0
"""Seconds for what takes a moment, on however busy a machine; no touch comes to its help."""


class MakeElector(Protocol):
    """The type of the `make_elector` fixture."""

    def __call__(
        self, cluster: Cluster, *, client: RedisCluster | None = None, **options: Any
    ) -> Any:
        """An elector on `cluster`; the options of `elector_of`."""
        ...


class MakeWatchedElector(Protocol):
    """The type of the `make_watched_elector` fixture."""

    def __call__(
        self, watched: Watched, *, sentinels: Sequence[Server | Proxy] = (), **options: Any
    ) -> Any:
        """An elector on who the Sentinel says is the primary; the options of `elector_of`.

        With `sentinels` it is told of these, in this order.
        """
        ...


class StartWatched(Protocol):
    """The type of the `start_watched` fixture."""

    def __call__(self) -> Watched:
        """A primary, a replica and a Sentinel, all running."""
        ...


def elector_of(
    client: Redis | RedisCluster,
    *,
    seats: int = 0,
    node_id: str = "",
    hooks: Any = None,
    **options: Any,
) -> Any:
    """A group's elector if it has `seats`, a strategic one if it has a `node_id`."""
    wishes = LeaderOptions(**({"lease_time": LONG} | options))
    if seats:
        return GroupElector(client, wishes, seats=seats, hooks=hooks)
    if node_id:
        return StrategicElector(client, wishes, strategy=Priority(), node_id=node_id, hooks=hooks)
    return LeaderElector(client, wishes, hooks=hooks)


def manager_of(*sentinels: Server | Proxy) -> Any:
    """redis-py's view of these Sentinels; without a type, because it left the most without."""
    return Sentinel([(each.host, each.port) for each in sentinels])  # type: ignore[no-untyped-call] # redis-py's


def seat_of(name: str, seat: int = 0) -> str:
    """The key of a seat."""
    return f"incumbent:{{{name}}}:seat:{seat}"


class Line:
    """Those who wait for an election, one after the other, and the order in which they led."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.led: list[str] = []
        self._waiters: list[asyncio.Task[None]] = []

    async def join(self, elector: Any, who: str) -> None:
        """Let one more wait, and return when the server has it in line."""

        async def lead() -> None:
            async with elector.using(wait_time=None).lead(self.name):
                self.led.append(who)

        count = len(self._waiters) + 1
        self._waiters.append(asyncio.create_task(lead()))

        async def stands() -> bool:
            return bool((await elector.state(self.name)).waiting == count)

        await wait_until(stands, within=WITHIN, what=f"{who} stands in line")

    async def over(self) -> None:
        """Wait until all have led."""
        async with asyncio.timeout(WITHIN):
            await asyncio.gather(*self._waiters)


@asynccontextmanager
async def led(elector: Any, name: str) -> AsyncIterator[Lease]:
    """A block under a lease that is still the same, and held, when the block ends."""
    async with elector.lead(name) as lease:
        fence = lease.fence
        yield lease
        assert lease.held
        assert lease.fence == fence


def subscribers(server: Server, name: str) -> int:
    """How many inboxes of an election's waiters this server has, sharded or not."""
    pattern = f"incumbent:{{{name}}}:db0:inbox:*"
    found = server.cli("PUBSUB", "CHANNELS", pattern)
    if server.kind != "redis-6":
        found = [*found, *server.cli("PUBSUB", "SHARDCHANNELS", pattern)]
    return len(found)


def replicated(primary: Server) -> None:
    """Wait until the replica has all that the primary has."""
    assert primary.cli("WAIT", 1, 10_000) == 1
