"""A cluster at work: slots move while one leads and others wait, primaries are replaced and die."""

import asyncio
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode

from incumbent import Elected, events
from kit.cluster import Cluster
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, cancel, nothing
from topology.scene import WITHIN, Line, MakeElector, led, replicated, seat_of, subscribers


async def is_listened_to(node: Server, name: str, count: int = 1) -> None:
    """Wait until those who wait for an election listen at `node`."""
    await wait_until(lambda: subscribers(node, name) == count, within=WITHIN, every=0.02)


async def test_a_slot_moves_while_one_leads_and_others_wait(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """The lease goes along, and is renewed there; the next is woken there, and those who watch."""
    journal = Journal()
    one = make_elector(any_cluster, hooks=[journal], lease_time=6)
    other, watcher = make_elector(any_cluster), make_elector(any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[0])
    line, told = Line(name), list[int]()

    async def watch() -> None:
        async for state in watcher.watch(name):
            told.append(len(state.leaders))

    watching = asyncio.create_task(watch())
    async with led(one, name):
        for who in "ab":
            await line.join(other, who)
        any_cluster.move(name)
        target = any_cluster.primary_of(name)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        assert target.cli("EXISTS", seat_of(name)) == 1
        await is_listened_to(target, name)
        await wait_until(lambda: told[-1:] == [1], within=WITHIN)
    await line.over()
    assert line.led == ["a", "b"]
    await wait_until(lambda: told[-5:] == [0, 1, 0, 1, 0], within=WITHIN)
    await cancel(watching)
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_a_lease_is_kept_in_the_midst_of_a_move(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """ASK: its keys are with the next node, which has not got the slot yet."""
    elector = make_elector(any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[1])
    async with led(elector, name) as lease:
        with any_cluster.moving(name) as move:
            assert await lease.extend(70)
            move.carry()
            assert await lease.extend(80)
            assert move.target.cli("CLUSTER", "COUNTKEYSINSLOT", move.slot) == 2
            assert lease.remaining > 60
        assert await lease.extend(90)
    assert not (await elector.state(name)).leaders


async def test_an_election_waits_for_the_end_of_a_move(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """TRYAGAIN: half of its keys are here and half are there. Then it goes on by itself."""
    elector = make_elector(any_cluster, wait_time=None)
    name = any_cluster.name_on(any_cluster.primaries[2])
    await elector.run_if_leader(name, nothing)
    with any_cluster.moving(name):
        waiting = asyncio.create_task(elector.attempt(name, nothing))
        done, _ = await asyncio.wait({waiting}, timeout=1)
        assert not done
    outcome = await asyncio.wait_for(waiting, WITHIN)
    assert isinstance(outcome, Elected)


async def test_a_primary_is_replaced_in_good_order(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """The lease and the line are with the new one, and the old one is not listened to any more."""
    one, other = make_elector(cluster), make_elector(cluster)
    old = cluster.primaries[0]
    name = cluster.name_on(old)
    line = Line(name)
    async with led(one, name) as lease:
        for who in "ab":
            await line.join(other, who)
        replicated(old)
        new = cluster.fail_over(old)
        assert await lease.extend(70)
        assert new.cli("PTTL", seat_of(name)) > 60_000
        await is_listened_to(new, name)
        await is_listened_to(old, name, 0)
    await line.over()
    assert line.led == ["a", "b"]


async def test_a_primary_is_killed(cluster: Cluster, make_elector: MakeElector) -> None:
    """While one leads, another waits, and a third releases: all go on with its replica."""
    patient: Any = {"request_timeout": 15.0, "lease_time": 120.0}
    journal = Journal()
    leads = make_elector(cluster, lease_time=6, hooks=[journal])
    other = make_elector(cluster, **patient)
    victim = cluster.primaries[0]
    held, waited, left = (cluster.name_on(victim, stem) for stem in ("held", "waited", "left"))
    lines = [Line(waited), Line(left)]
    released = asyncio.Event()

    async def release() -> None:
        async with other.lead(left):
            await released.wait()

    async with led(leads, held):
        releasing = asyncio.create_task(release())
        async with led(other, waited):
            for line in lines:
                await line.join(make_elector(cluster, **patient), "next")
            replicated(victim)
            victim.kill()
            released.set()
            await asyncio.wait_for(releasing, WITHIN)
            await journal.has_another(events.TermRenewed, within=WITHIN)
            new = cluster.primary_of(held)
            assert new is not victim
            await is_listened_to(new, waited)
        for line in lines:
            await line.over()
            assert line.led == ["next"]
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_a_primary_freezes(cluster: Cluster, make_elector: MakeElector) -> None:
    """It is silent, and its connections stay open: its replica is used within a renewal period.

    redis-py's client would look for its nodes for five seconds at the frozen one.
    """
    journal = Journal()
    victim = cluster.primaries[1]
    frozen_first = RedisCluster.from_url(victim.url)
    elector = make_elector(cluster, client=frozen_first, lease_time=9, hooks=[journal])
    name = cluster.name_on(victim)
    async with led(elector, name):
        replicated(victim)
        victim.pause()
        await wait_until(lambda: _is_replaced(cluster, victim), within=WITHIN, every=0.05)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        assert cluster.primary_of(name).cli("EXISTS", seat_of(name)) == 1
        # One who comes now, and knows of the frozen node first, is served as well.
        newcomer = make_elector(cluster, client=_knows(victim, cluster.primaries[0]))
        assert [each.fence for each in (await newcomer.state(name)).leaders]
    assert journal.story() == ["TermStarted", "TermEnded"]


def _is_replaced(cluster: Cluster, victim: Server) -> bool:
    return len(cluster.primaries) == 3 and victim not in cluster.primaries


def _knows(*nodes: Server) -> RedisCluster:
    places: list[Any] = [ClusterNode(node.host, node.port) for node in nodes]
    return RedisCluster(startup_nodes=places)
