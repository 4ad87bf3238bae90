"""Behind a host name there is another address than before: electors look it up again."""

import asyncio
import socket
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster

from incumbent import events
from kit.cluster import Cluster
from kit.fixtures import StartServer
from kit.sentinels import SERVICE
from kit.waiting import wait_until
from promises.scene import Journal
from topology.scene import (
    WITHIN,
    Line,
    MakeElector,
    StartWatched,
    elector_of,
    led,
    manager_of,
    seat_of,
)

NAME = "elections.test"


class Names:
    """What a resolver knows: behind `NAME` there is `place`, whatever port is asked for."""

    host = NAME
    port = 1

    def __init__(self) -> None:
        self.place: Any = None
        self._really = socket.getaddrinfo

    def look_up(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        """As `socket.getaddrinfo`."""
        if host == NAME:
            host, port = self.place.host, self.place.port
        return self._really(host, port, *args, **options)


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Stands for the resolver of this process."""
    if not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
        pytest.skip("uvloop does not ask Python for addresses")
    known = Names()
    monkeypatch.setattr(socket, "getaddrinfo", known.look_up)
    return known


async def test_a_server_is_replaced_by_its_replica(start_server: StartServer, names: Names) -> None:
    """Leaders and waiters go on there: the old one says that it is a replica."""
    old, new = start_server(), start_server()
    new.cli("REPLICAOF", old.host, old.port)
    await wait_until(lambda: new.cli("ROLE")[3] == "connected", within=WITHIN)
    names.place, journal, line = old, Journal(), Line("job")
    clients = [Redis(host=NAME, port=1) for _ in range(2)]
    one = elector_of(clients[0], lease_time=12, hooks=[journal])
    other = elector_of(clients[1], lease_time=12)
    async with led(one, "job"):
        await line.join(other, "first")
        assert old.cli("WAIT", 1, 10_000) == 1
        new.cli("REPLICAOF", "NO", "ONE")
        names.place = new
        old.cli("REPLICAOF", new.host, new.port)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        assert new.cli("EXISTS", seat_of("job")) == 1
    await line.over()
    assert journal.story() == ["TermStarted", "TermEnded"]
    for elector in (one, other):
        await elector.aclose()
    for client in clients:
        await client.aclose()


async def test_the_only_sentinel_that_was_named_is_another_one(
    start_watched: StartWatched, names: Names
) -> None:
    """There was no time to tell of it."""
    watched = start_watched()
    names.place = watched.sentinel
    place: Any = names
    manager = manager_of(place)
    client = manager.master_for(SERVICE)
    elector = elector_of(client)
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 1)) == 1
    new = await asyncio.to_thread(watched.add_sentinel)
    await asyncio.to_thread(watched.replace_sentinel, new)
    names.place, old = new, watched.primary
    old.kill()
    await asyncio.to_thread(watched.await_failover, old)
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 2)) == 2
    await elector.aclose()
    for each in (client, *manager.sentinels):
        await each.aclose()


async def test_a_cluster_is_found_by_the_name_of_its_nodes(
    cluster: Cluster, make_elector: MakeElector, names: Names
) -> None:
    """All of them were replaced, and nothing was sent meanwhile."""
    names.place = cluster.nodes[0]
    elector = make_elector(cluster, client=RedisCluster(host=NAME, port=1))
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 1)) == 1
    await asyncio.to_thread(cluster.replace_all)
    names.place = cluster.nodes[0]
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 2)) == 2
