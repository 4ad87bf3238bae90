"""Clusters that the tests share, Sentinels that each test has for itself, and electors on them."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import RedisCluster

from kit.cluster import Cluster
from kit.fixtures import CHOSEN, ELSEWHERE
from kit.pool import missing
from kit.proxy import Proxy
from kit.sentinels import SERVICE, Watched
from kit.servers import Server
from topology.scene import MakeElector, MakeWatchedElector, StartWatched, elector_of, manager_of

KINDS = [kind for kind in ("valkey-9", "redis-6") if kind in CHOSEN] or CHOSEN[:1]
"""The first has sharded channels, the second has not."""


@pytest.fixture(scope="session")
def clusters() -> Iterator[Callable[[str], Cluster]]:
    """Starts a cluster of a kind, or gives the one that was started."""
    started: dict[str, Cluster] = {}

    def get(kind: str) -> Cluster:
        if reason := ELSEWHERE or missing(kind):
            pytest.skip(reason)
        if kind not in started:
            started[kind] = Cluster(kind, replicas=kind == KINDS[0])
            started[kind].start()
        started[kind].flush()
        return started[kind]

    yield get
    for each in started.values():
        each.close()


@pytest.fixture
def cluster(clusters: Callable[[str], Cluster]) -> Iterator[Cluster]:
    """Three primaries with replicas, without keys: for tests that move slots and kill nodes."""
    yield from _healed(clusters(KINDS[0]))


@pytest.fixture(params=KINDS)
def any_cluster(
    request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A cluster of each kind, for what every one of them must do."""
    yield from _healed(clusters(str(request.param)))


def _healed(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.heal()
    left = cluster.keys_without_ttl(["incumbent"])
    assert not left, f"keys without TTL: {left}"


@pytest.fixture
async def make_elector() -> AsyncIterator[MakeElector]:
    """Makes electors, each with a client of its own; both are closed after the test."""
    async with AsyncExitStack() as stack:

        def make(cluster: Cluster, *, client: RedisCluster | None = None, **options: Any) -> Any:
            its = client or RedisCluster.from_url(cluster.url)
            stack.push_async_callback(its.aclose)
            elector = elector_of(its, **options)
            stack.push_async_callback(elector.aclose)
            return elector

        yield make


@pytest.fixture
async def make_watched_elector() -> AsyncIterator[MakeWatchedElector]:
    """Makes electors, each with a client of its own by way of the Sentinels."""
    async with AsyncExitStack() as stack:

        def make(
            watched: Watched, *, sentinels: Sequence[Server | Proxy] = (), **options: Any
        ) -> Any:
            manager = manager_of(*(sentinels or (watched.sentinel,)))
            client = manager.master_for(SERVICE)
            for each in (client, *manager.sentinels):
                stack.push_async_callback(each.aclose)
            stack.callback(_has_all_back, client)
            elector = elector_of(client, **options)
            stack.push_async_callback(elector.aclose)
            return elector

        yield make


def _has_all_back(client: Any) -> None:
    assert not client.connection_pool._in_use_connections


@pytest.fixture
def start_watched() -> Iterator[StartWatched]:
    """Starts a primary and a replica under the eyes of a Sentinel."""
    if ELSEWHERE:
        pytest.skip(ELSEWHERE)
    started: list[Watched] = []

    def start() -> Watched:
        started.append(Watched(CHOSEN[0]))
        return started[-1].start()

    yield start
    for each in started:
        each.close()
