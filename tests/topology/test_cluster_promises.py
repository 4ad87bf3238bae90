"""What electors promise, on a cluster: as on one server, wherever an election's slot is."""

import asyncio
import gc
import warnings
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import RedisCluster

from incumbent import Elected, LeaderElector, Skipped
from kit.cluster import Cluster
from kit.leftovers import connections
from kit.waiting import wait_until
from promises.scene import cancel, nothing
from topology.scene import WITHIN, Line, MakeElector, led, seat_of, subscribers


async def test_p1_one_leads_and_the_others_follow_in_order(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """On every primary: one holder, and the next in line is woken where its election's slot is."""
    one, other = make_elector(any_cluster), make_elector(any_cluster)
    names = [any_cluster.name_on(node) for node in any_cluster.primaries]
    for name in names:
        line = Line(name)
        async with led(one, name) as lease:
            assert isinstance(await other.attempt(name, nothing), Skipped)
            for number, elector in enumerate([other, one, other]):
                await line.join(elector, str(number))
            state = await one.state(name)
            assert [leader.fence for leader in state.leaders] == [lease.fence]
            assert any_cluster.primary_of(name).cli("EXISTS", seat_of(name)) == 1
            assert [subscribers(node, name) for node in any_cluster.primaries] == [
                2 if node is any_cluster.primary_of(name) else 0 for node in any_cluster.primaries
            ]
        await line.over()
        assert line.led == ["0", "1", "2"]


async def test_a_group_has_its_seats(any_cluster: Cluster, make_elector: MakeElector) -> None:
    """Never more leaders than seats, each seat once, and as many as there are."""
    electors = [make_elector(any_cluster, seats=3, wait_time=None) for _ in range(2)]
    seats: set[int] = set()
    all_three = asyncio.Event()

    async def take(number: int) -> None:
        async with electors[number % 2].lead("workers") as lease:
            assert lease.seat not in seats
            seats.add(lease.seat)
            if len(seats) == 3:
                all_three.set()
            await all_three.wait()
            seats.discard(lease.seat)

    async with asyncio.timeout(WITHIN):
        await asyncio.gather(*(take(number) for number in range(9)))


async def test_a_period_is_run_once(any_cluster: Cluster, make_elector: MakeElector) -> None:
    """By the clock of the node that has the election."""
    one, other = (make_elector(any_cluster, once_per=3600) for _ in range(2))
    assert isinstance(await one.attempt("report", nothing), Elected)
    skipped = await other.attempt("report", nothing)
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "already_ran"


async def test_the_best_candidate_leads(any_cluster: Cluster, make_elector: MakeElector) -> None:
    """Candidates, results and the lease of a strategic election share a node."""
    a, b = (make_elector(any_cluster, node_id=name, wait_time=WITHIN) for name in "ab")
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        assert isinstance(await b.attempt("job", nothing), Elected)
        assert (await a.elect("job")).winner.node_id == "b"
        standing = {each.node_id: each.successes for each in await a.candidates("job")}
        assert standing == {"a": 0, "b": 1}


async def test_who_watches_is_told(any_cluster: Cluster, make_elector: MakeElector) -> None:
    """Each change, pushed, also to one who was the first to ask for anything."""
    elector, watcher = make_elector(any_cluster), make_elector(any_cluster)
    told: list[int] = []

    async def watch() -> None:
        async for state in watcher.watch("seen"):
            told.append(len(state.leaders))  # noqa: PERF401 - it never ends

    watching = asyncio.create_task(watch())
    await wait_until(lambda: told == [0], within=WITHIN)
    for count in (3, 5):
        await elector.run_if_leader("seen", nothing)
        await wait_until(lambda: len(told) >= count, within=WITHIN)  # noqa: B023 - at once
    assert told == [0, 1, 0, 1, 0]
    await cancel(watching)


async def test_operators_have_their_say(any_cluster: Cluster, make_elector: MakeElector) -> None:
    """A holder is asked to step down; a seat is taken from one that hangs."""
    elector = make_elector(any_cluster, lease_time=3, on_loss="notify")
    async with elector.lead("asked") as lease:
        assert await elector.request_step_down("asked") == 1
        await asyncio.wait_for(lease.lost.wait(), WITHIN)
        assert lease.loss_reason == "stepped_down"
    async with elector.lead("forced") as lease:
        assert (await elector.force_release("forced")).fence == lease.fence
        await asyncio.wait_for(lease.lost.wait(), WITHIN)
        assert lease.loss_reason == "taken"


@pytest.mark.parametrize("name", ["with blanks", "ünïcödé ✓", "a:b", "@", "%7B"])
async def test_p11_all_keys_of_an_election_share_a_slot(
    cluster: Cluster, make_elector: MakeElector, name: str
) -> None:
    """Whatever it is called, and for each tenant; case 64."""
    elector = make_elector(cluster, seats=9)
    if name != "@":
        assert isinstance(await elector.attempt(name, nothing), Elected)
    tenants = elector.for_tenant(name)
    assert isinstance(await tenants.attempt("job", nothing), Elected)


async def test_p4_cancelling_leaves_nothing(cluster: Cluster, make_elector: MakeElector) -> None:
    """No place in line, no seat, and no connection when all is closed."""
    one, other = make_elector(cluster), make_elector(cluster, wait_time=None)
    name = cluster.name_on(cluster.primaries[0])
    ours = one._office.store, other._office.store
    async with led(one, name):
        waiters = [asyncio.create_task(other.run_if_leader(name, nothing)) for _ in range(20)]
        await asyncio.sleep(0.01)  # some have been sent, some not
        for waiter in waiters[:10]:
            await cancel(waiter)

        async def ten_wait() -> bool:
            return bool((await one.state(name)).waiting == 10)

        await wait_until(ten_wait, within=WITHIN)
        for waiter in waiters[10:]:
            await cancel(waiter)
        assert (await one.state(name)).waiting == 0
    node = cluster.primary_of(name)
    assert not set(node.cli("KEYS", "*")) & {seat_of(name), f"incumbent:{{{name}}}:queue"}
    for store in ours:
        await store.aclose()
    kept = [each for each in connections(node) if each["cmd"].startswith("eval")]
    assert not kept


async def test_p8_a_standby_costs_a_connection_or_two_per_node(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """A hundred who wait in thirty elections: no request for each, and no connection either."""
    holder, waiter = make_elector(cluster), make_elector(cluster, wait_time=None)
    names = [f"quiet-{number}" for number in range(30)]
    async with AsyncExitStack() as leases:
        for name in names:
            await leases.enter_async_context(holder.lead(name))
        waiting = [asyncio.create_task(waiter.run_if_leader(name, nothing)) for name in names * 3]

        async def all_stand() -> bool:
            states = [await waiter.state(name) for name in names]
            return all(state.waiting == 3 for state in states)

        await wait_until(all_stand, within=WITHIN, every=0.1)
        await asyncio.sleep(1.5)  # each line's first touch is over
        asked = _scripts(cluster)
        await asyncio.sleep(2)
        # Leases of a minute are renewed after twenty seconds; a touch comes every ten.
        assert _scripts(cluster) - asked <= 2 * len(names)
        for node in cluster.primaries:
            # Beside what the clients found their nodes by: requests of both, and one inbox.
            last = [each["cmd"].partition("|")[0] for each in connections(node)]
            assert sum(each in {"evalsha", "eval", "ssubscribe", "subscribe"} for each in last) <= 3
    async with asyncio.timeout(WITHIN):
        assert await asyncio.gather(*waiting) == ["done"] * 90


def _scripts(cluster: Cluster) -> int:
    stats = [node.admin.info("commandstats") for node in cluster.primaries]
    return sum(each.get("cmdstat_evalsha", {"calls": 0})["calls"] for each in stats)


async def test_a_client_of_replicas_is_told_the_truth(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """One that reads from replicas may be given: electors ask primaries, and it stays as it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases have another name for it
        client = RedisCluster.from_url(cluster.url, read_from_replicas=True)
    name = cluster.name_on(cluster.primaries[0])
    elector = make_elector(cluster, client=client)
    assert await elector.run_if_leader(name, nothing) == "done"
    node = cluster.primary_of(name)
    readers = [each for each in connections(node) if "r" in each["flags"]]
    sent = [each for each in readers if each["cmd"].startswith("eval")]
    assert not sent
    await elector.aclose()
    await client.set("mine", "still", ex=60)
    assert await client.get("mine") == b"still"


async def test_p11_nobody_is_closed_and_nobody_complains(cluster: Cluster) -> None:
    """The client stays open for its owner; an elector that nobody closed makes no noise."""
    client: Any = RedisCluster.from_url(cluster.url)
    async with LeaderElector(client) as elector:
        assert await elector.run_if_leader("job", nothing) == "done"
    assert await client.ping()
    elector = LeaderElector(client)
    assert await elector.run_if_leader("job", nothing) == "done"
    await client.aclose()
    del elector, client
    gc.collect()
