"""P7: each lease has a fencing token that grows strictly per election, whatever Redis forgets."""

import asyncio
from collections.abc import Callable

import pytest

from incumbent import Elected, LeaderElector
from incumbent.events import TermRenewed, TermStarted
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, fence_key, here, nothing, quick, seat_key


async def fence_of_a_term(elector: LeaderElector, election: str = "one") -> int:
    """Lead once, and return the lease's fence."""

    async def work() -> int:
        return here().fence

    outcome = await elector.using(wait_time=5).attempt(election, work)
    assert isinstance(outcome, Elected)
    assert outcome.fence == outcome.value
    return outcome.fence


async def test_p7_fences_grow_strictly(server: Server, make_client: MakeClient) -> None:
    """Thirty terms of two electors, as fast as they can: thirty fences, each above the last."""
    electors = [LeaderElector(make_client(server), quick()) for _ in range(2)]
    fences = [await fence_of_a_term(electors[turn % 2]) for turn in range(30)]
    assert fences == sorted(set(fences))
    for elector in electors:
        await elector.aclose()


async def test_p7_the_fence_is_one_for_the_whole_term(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Renewals and extensions keep it; seat, counter, state and events show the same number."""
    async with elector.lead("one") as lease:
        fence = lease.fence
        await journal.has(TermRenewed, 2)
        await lease.extend(2)
        assert lease.fence == fence
        assert valkey.cli("HGET", seat_key("one"), "fence") == str(fence)
        assert valkey.cli("GET", fence_key("one")) == str(fence)
        (leader,) = (await elector.state("one")).leaders
        assert leader.fence == fence
        assert {each.fence for each in journal.of(TermStarted) + journal.of(TermRenewed)} == {fence}
    assert fence < 2**53


def forget_counter(server: Server) -> None:
    """An eviction, or its TTL."""
    server.cli("DEL", fence_key("one"))


def forget_seat(server: Server) -> None:
    """The holder vanished and its lease ran out."""
    server.cli("DEL", seat_key("one"))


def forget_all(server: Server) -> None:
    """Somebody's FLUSHALL."""
    server.cli("FLUSHALL")


def restart(server: Server) -> None:
    """A restart without data."""
    server.restart()


@pytest.mark.parametrize("forget", [forget_counter, forget_seat, forget_all, restart])
async def test_p7_fences_grow_over_what_the_server_forgot(
    own_server: Server, make_client: MakeClient, forget: Callable[[Server], None]
) -> None:
    """The counter, the seat, everything is gone: the next fence is above all earlier ones."""
    async with LeaderElector(make_client(own_server), quick(on_loss="notify")) as elector:
        fences = [await fence_of_a_term(elector) for _ in range(3)]
        async with elector.lead("one") as lease:
            fences.append(lease.fence)
            forget(own_server)
        fences += [await fence_of_a_term(elector) for _ in range(2)]
    assert fences == sorted(set(fences))


async def test_p7_fences_grow_over_a_failover_that_forgot_the_last_writes(
    start_server: StartServer, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The promoted replica has not seen the last elections; their fences do not come again."""
    no_delay = ["--repl-diskless-sync-delay", "0"]
    primary, replica = start_server(args=no_delay), start_server()
    proxy = await make_proxy(primary)
    async with LeaderElector(make_client(proxy), quick()) as elector:
        fences = [await fence_of_a_term(elector)]
        replica.cli("REPLICAOF", primary.host, primary.port)
        await wait_until(lambda: replica.cli("GET", fence_key("one")) == str(fences[0]), within=10)
        replica.cli("REPLICAOF", "NO", "ONE")  # from here on it misses everything
        fences += [await fence_of_a_term(elector) for _ in range(5)]
        proxy.target = replica
        proxy.cut()
        fences += [await fence_of_a_term(elector) for _ in range(3)]
    assert fences == sorted(set(fences))
    assert primary.cli("GET", fence_key("one")) == str(fences[5])


async def test_p7_a_counter_ahead_of_the_clock_is_not_lost(
    elector: LeaderElector, valkey: Server
) -> None:
    """The server's clock was ahead once (or is behind now): the counter leads, not the clock."""
    ahead = 2**52
    valkey.cli("SET", fence_key("one"), ahead, "PX", 60_000)
    assert [await fence_of_a_term(elector) for _ in range(3)] == [ahead + 1, ahead + 2, ahead + 3]


async def test_p7_the_counter_lives_for_a_day_and_is_refreshed(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """A term, each renewal and each extension give it a day again, or twice a longer lease."""
    day = 86_400_000
    async with elector.lead("one") as lease:
        assert day - 5_000 < valkey.cli("PTTL", fence_key("one")) <= day
        valkey.cli("PEXPIRE", fence_key("one"), 5_000)
        await journal.has_another(TermRenewed)
        assert day - 5_000 < valkey.cli("PTTL", fence_key("one")) <= day
        assert await lease.extend(2 * 86_400)
        assert valkey.cli("PTTL", fence_key("one")) > 3.9 * day


async def test_p7_each_election_counts_for_itself(elector: LeaderElector, valkey: Server) -> None:
    """A counter that is far ahead in one election does not touch another."""
    valkey.cli("SET", fence_key("one"), 2**52, "PX", 60_000)
    assert await fence_of_a_term(elector, "one") > 2**52
    assert await fence_of_a_term(elector, "two") < 2**52


async def test_p7_a_fence_refuses_the_writes_of_an_earlier_holder(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """What it is for: a store that keeps the highest fence refuses who was leader before."""
    highest = 0

    def accept(fence: int) -> bool:
        nonlocal highest
        highest = max(highest, fence)
        return fence == highest

    async with elector.using(on_loss="notify").lead("one") as old:
        assert accept(old.fence)
        valkey.cli("DEL", seat_key("one"))
        async with LeaderElector(make_client(valkey), quick()) as other, other.lead("one") as new:
            assert accept(new.fence)
            assert not accept(old.fence)
            assert await elector.run_if_leader("one", nothing) is None
        await asyncio.wait_for(old.lost.wait(), 5)
