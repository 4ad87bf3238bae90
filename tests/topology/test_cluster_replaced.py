"""All nodes of a cluster are replaced, one by one and in good order, and are found."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from socket import SO_REUSEADDR, SOL_SOCKET, socket
from typing import Any

import pytest
import redis
from redis.asyncio import RedisCluster

from incumbent import LeaderOptions, blocking, events
from incumbent.stores.redis import directory
from kit.cluster import Cluster
from kit.fixtures import MakeProxy
from kit.leftovers import connections
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, cancel
from topology.scene import WITHIN, Line, MakeElector, led, replicated, seat_of

Command = asyncio.subprocess.Process


def url_of(*nodes: Any) -> str:
    """As threads and commands are given it."""
    return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in nodes)


async def command(*arguments: str) -> Command:
    """The command line, in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "incumbent.cli", *arguments, stderr=asyncio.subprocess.PIPE
    )


async def knows(elector: Any, cluster: Cluster) -> bool:
    """Whether an elector knows the nodes that there are, and no others."""
    way = await elector._office.store._caller.way()
    return bool(way._slots.nodes == {(node.host, node.port) for node in cluster.nodes})


async def test_all_nodes_are_replaced_and_then_a_primary_dies(
    cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One leads, one waits, one watches: all go on, by what the nodes said of each other."""
    monkeypatch.setattr(directory, "LOOK_EVERY", 0.5)
    journal, told = Journal(), list[int]()
    name = cluster.name_on(cluster.primaries[0])
    leads = make_elector(cluster, lease_time=12, hooks=[journal])
    waits, watcher = (make_elector(cluster, lease_time=6) for _ in range(2))
    line = Line(name)

    async def watch() -> None:
        async for state in watcher.watch(name):
            told.append(len(state.leaders))

    watching = asyncio.create_task(watch())
    async with led(leads, name):
        await line.join(waits, "first")
        await asyncio.to_thread(cluster.replace_all)
        for each in (leads, waits, watcher):
            await wait_until(lambda: knows(each, cluster), within=WITHIN)  # noqa: B023 - at once
        victim = cluster.primary_of(name)
        replicated(victim)
        victim.kill()
        await journal.has_another(events.TermRenewed, within=WITHIN)
        heir = cluster.primary_of(name)
        assert heir is not victim
        assert heir.cli("EXISTS", seat_of(name)) == 1
    await line.over()
    assert journal.story() == ["TermStarted", "TermEnded"]
    await wait_until(lambda: told[-1:] == [0], within=WITHIN)
    await cancel(watching)


async def test_threads_and_commands_that_wait_meanwhile_lead_in_the_end(
    cluster: Cluster, make_elector: MakeElector, make_proxy: MakeProxy
) -> None:
    """The node that they were given is a name or a load balancer, which leads to a living one."""
    endpoint = await make_proxy(cluster.nodes[0])
    elector = make_elector(cluster, client=RedisCluster(host=endpoint.host, port=endpoint.port))
    name = cluster.name_on(cluster.primaries[0])

    def lead_in_a_thread() -> str | None:
        options = LeaderOptions(wait_time=None, lease_time=6)
        with blocking.LeaderElector(url_of(endpoint), options) as its:
            return its.run_if_leader(name, lambda: "led")

    async def waiting(count: int) -> None:
        async def stand() -> bool:
            return bool((await elector.state(name)).waiting == count)

        await wait_until(stand, within=WITHIN)

    async with led(elector, name) as lease:
        thread = asyncio.create_task(asyncio.to_thread(lead_in_a_thread))
        await waiting(1)
        runs = await command(
            "run", name, "--wait", "forever", "--url", url_of(endpoint), "--", "true"
        )
        await waiting(2)
        await asyncio.to_thread(cluster.replace_all)
        victim = cluster.primary_of(name)
        endpoint.target = heir = cluster.replica_of(victim)
        replicated(victim)
        victim.kill()
        await wait_until(lambda: heir.cli("ROLE")[0] == "master", within=WITHIN)
        assert await lease.extend(60)
        assert (await elector.state(name)).waiting == 2
    assert await asyncio.wait_for(thread, WITHIN) == "led"
    said = (await asyncio.wait_for(runs.communicate(), WITHIN))[1]
    assert runs.returncode == 0, said


async def test_who_rested_meanwhile_asks_the_node_that_the_user_named(
    cluster: Cluster, make_elector: MakeElector, make_proxy: MakeProxy
) -> None:
    """A name or a load balancer that always leads to a living node; nothing was sent meanwhile."""
    endpoint = await make_proxy(cluster.nodes[0])
    client = RedisCluster(host=endpoint.host, port=endpoint.port)
    elector = make_elector(cluster, client=client)
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 1)) == 1
    await asyncio.to_thread(cluster.replace_all)
    endpoint.target = cluster.nodes[0]
    assert await elector.run_if_leader("job", lambda: asyncio.sleep(0, 2)) == 2


def test_so_do_threads(cluster: Cluster) -> None:
    """By a URL, and by a client of their own that does not forget the nodes that it was given."""
    with ProxyThread(cluster.nodes[0]) as endpoint, ExitStack() as stack:
        given: Any = redis.RedisCluster(
            host=endpoint.proxy.host, port=endpoint.proxy.port, dynamic_startup_nodes=False
        )
        stack.callback(given.close)
        electors = [
            stack.enter_context(blocking.LeaderElector(each))
            for each in (url_of(endpoint.proxy), given)
        ]
        assert [each.run_if_leader("job", lambda: 1) for each in electors] == [1, 1]
        cluster.replace_all()
        endpoint.proxy.target = cluster.nodes[0]
        assert [each.run_if_leader("job", lambda: 2) for each in electors] == [2, 2]


async def test_nodes_are_asked_now_and_then_who_there_is(
    cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while no node says MOVED: the shard of the election is not touched, the others are."""
    monkeypatch.setattr(directory, "LOOK_EVERY", 0.5)
    elector = make_elector(cluster)
    untouched = cluster.primaries[0]
    async with led(elector, cluster.name_on(untouched)) as lease:
        for each in tuple(cluster.nodes):
            if each is not untouched:
                await asyncio.to_thread(cluster.replace, each)

        async def finds_all() -> bool:
            assert await lease.extend(60)
            return await knows(elector, cluster)

        await wait_until(finds_all, within=WITHIN)


@contextmanager
def silent(*ports: int) -> Iterator[list[socket]]:
    """It stands for machines that are gone: connections are neither refused nor answered."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket()) for _ in ports]
        for listener, port in zip(listeners, ports, strict=True):
            listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            listener.setblocking(False)
        yield listeners


def was_tried(listener: socket) -> bool:
    """Whether anybody has connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def test_nodes_that_are_gone_are_not_asked_any_more(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """Nor does the caller's own client get to know them."""
    client = RedisCluster.from_url(cluster.url)
    elector = make_elector(cluster, client=client)
    primaries = cluster.primaries
    names = [cluster.name_on(node) for node in primaries]

    async def use_all() -> None:
        for name in names:
            await elector.state(name)

    await use_all()
    its_own = {node.port for node in client.get_nodes()}
    gone = set[int]()
    for _ in range(2):
        for each in tuple(cluster.nodes):
            await asyncio.to_thread(cluster.replace, each)
            gone |= {each.port} - its_own
            await use_all()
    assert len(gone) == len(cluster.nodes)
    with silent(*gone) as listeners:
        for name in names:
            victim = cluster.primary_of(name)
            heir = cluster.replica_of(victim)
            victim.kill()
            await wait_until(lambda: heir.cli("ROLE")[0] == "master", within=WITHIN)  # noqa: B023 - at once
            await use_all()
            await asyncio.to_thread(cluster.heal)
        assert not [each for each in listeners if was_tried(each)]
    assert {node.port for node in client.get_nodes()} & gone == set()


async def test_an_elector_has_one_connection_to_each_primary_that_it_uses(
    cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one more to listen by; other nodes are asked by connections for that question."""
    client = RedisCluster.from_url(cluster.url, client_name="probe")
    elector = make_elector(cluster, client=client)
    used, other, _ = cluster.primaries
    name = cluster.name_on(used)

    def counts() -> dict[int, int]:
        return {node.port: probes(node) for node in cluster.nodes}

    line = Line(name)
    async with led(elector, name):
        await line.join(elector, "first")
        await elector.state(cluster.name_on(other))
        way = await elector._office.store._caller.way()
        for each in cluster.nodes:  # as if each were asked once
            monkeypatch.setattr(way._directory, "order", partial(_only, each))
            await way.look(WITHIN)
        open_then = counts()
    await line.over()
    await elector.aclose()
    its_own = counts()  # the client's, with which it has found its nodes
    none = dict.fromkeys((node.port for node in cluster.nodes), 0)
    ours = {port: count - its_own[port] for port, count in open_then.items()}
    assert ours == none | {used.port: 2, other.port: 1}


def _only(node: Server, *_: object) -> list[tuple[str, int]]:
    return [(node.host, node.port)]


def probes(node: Server) -> int:
    """How many connections the client under test has to `node`."""
    return sum(each["name"] == "probe" for each in connections(node))
