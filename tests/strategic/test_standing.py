"""candidate(): a node stands for a block, is kept alive, changes its metadata, and withdraws."""

import asyncio
from functools import partial
from typing import Any

import pytest
import redis.asyncio

from incumbent import Elected, ElectorClosedError, clock, events
from incumbent.stores.bell import Bell
from incumbent.strategy import Candidate
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import at_most, cancel
from strategic.scene import GRACE, Log, Town, running

KEY = "incumbent:{job}:candidates"


async def stands(town: Town, node: str) -> Candidate | None:
    """The record of a node, if there is one."""
    found = await town.electors[node].candidates("job")
    return next((each for each in found if each.node_id == node), None)


async def test_a_candidate_stands_for_the_block(town: Town) -> None:
    """It is there with its metadata from entry to exit, and no longer."""
    a = town.node("a")
    async with a.candidate("job", {"load": 0.5, "zone": "north"}) as me:
        assert me.node_id == a.node_id == "a"
        assert me.metadata == {"load": 0.5, "zone": "north"}
        found = await stands(town, "a")
        assert found is not None
        assert found.metadata == {"load": 0.5, "zone": "north"}
    assert await a.candidates("job") == ()


async def test_update_tells_everybody_at_once(town: Town) -> None:
    """Some keys change, the others and the registration stay."""
    a, b = town.node("a"), town.node("b")
    async with a.candidate("job", {"load": 0.5, "zone": "north"}) as me:
        (before,) = await b.candidates("job")
        await me.update(load=0.7)
        (after,) = await b.candidates("job")
        assert me.metadata == after.metadata == {"load": 0.7, "zone": "north"}
        assert after.registered_at == before.registered_at


async def test_updates_at_once_end_with_the_last(town: Town) -> None:
    """However many are under way, what was said last is what counts."""
    a = town.node("a")
    async with a.candidate("job") as me:
        await asyncio.gather(*(me.update(load=number) for number in range(50)))
        (found,) = await a.candidates("job")
        assert found.metadata == {"load": 49}


@pytest.mark.parametrize("bad", [{"x": None}, {"x": float("nan")}, {"x": "y" * 256}])
async def test_what_is_no_metadata_is_refused(town: Town, bad: dict[str, Any]) -> None:
    """At once, and nothing has changed."""
    a = town.node("a")
    with pytest.raises((TypeError, ValueError)):
        a.candidate("job", bad)
    async with a.candidate("job", {"load": 1}) as me:
        with pytest.raises((TypeError, ValueError)):
            await me.update(**bad)
        assert me.metadata == {"load": 1}


async def test_a_block_is_entered_once(town: Town) -> None:
    """And updated within only."""
    me = town.node("a").candidate("job")
    with pytest.raises(RuntimeError, match="within its block"):
        await me.update(load=1)
    async with me:
        with pytest.raises(RuntimeError, match="entered already"):
            await me.__aenter__()
    with pytest.raises(RuntimeError, match="within its block"):
        await me.update(load=1)
    with pytest.raises(RuntimeError, match="entered already"):
        await me.__aenter__()


@pytest.mark.parametrize(("name", "ttl"), [("", 30), ("job", 0.1), ("job", 0), ("{job}", 30)])
async def test_bad_arguments_are_refused_before_any_request(
    town: Town, name: str, ttl: float
) -> None:
    """A TTL has to be given time to be renewed; there is no candidate without one."""
    with pytest.raises(ValueError, match="must"):
        town.node("a").candidate(name, ttl=ttl)


async def test_heartbeats_keep_it_alive(town: Town) -> None:
    """Far beyond its TTL, with the registration of the beginning."""
    a = town.node("a")
    async with a.candidate("job", ttl=1.2):
        (before,) = await a.candidates("job")
        for _ in range(24):
            await asyncio.sleep(0.1)
            assert await a.candidates("job") == (before,)
    assert town.journals["a"].of(events.CandidateExpired) == []


async def test_a_heartbeat_leaves_every_third_of_the_ttl(town: Town) -> None:
    """Not only the first one, so that two may be lost."""
    pauses: list[float] = []

    class Hasty(Bell):
        async def wait(self, until: float) -> None:
            pauses.append(until - clock.now())
            if len(pauses) > 3:
                await super().wait(until)

    me = town.node("a").candidate("job", ttl=30)
    me._bell = Hasty()
    async with me:
        await wait_until(lambda: len(pauses) > 3, what="three heartbeats")
    assert max(pauses) <= 10


async def test_w32_who_is_dead_is_gone_after_its_ttl(town: Town) -> None:
    """W32: no record outlives its node for ever."""
    a = town.node("a")
    me = a.candidate("job", ttl=0.4)
    async with me:
        assert me._heart is not None
        me._heart.cancel()  # as if the process were gone
        await asyncio.wait([me._heart])

        async def gone() -> bool:
            return await a.candidates("job") == ()

        await wait_until(gone, within=30, every=0.02)


async def test_it_withdraws_when_cancelled(town: Town) -> None:
    """Whoever cancels the block, the record is gone when it has ended."""
    a = town.node("a")
    entered = asyncio.Event()

    async def stand() -> None:
        async with a.candidate("job"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(stand())
    await entered.wait()
    await cancel(task)
    assert task.cancelled()
    assert await a.candidates("job") == ()


async def test_cancelled_at_any_turn_it_leaves_nothing(city: Town, valkey: Server) -> None:
    """P4: after a cancellation at each turn of the loop there is no record and no task."""
    a = city.node("a")
    completed = 0
    for turns in range(40):

        async def stand() -> None:
            async with a.candidate("job") as me:
                await me.update(load=1)
            nonlocal completed
            completed += 1

        task = asyncio.create_task(stand())
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancel(task)
        assert valkey.cli("EXISTS", KEY) == 0, turns
    await asyncio.sleep(0.1)
    assert valkey.cli("EXISTS", KEY) == 0


async def test_cancelled_twice_it_still_withdraws(
    proxy: Proxy, make_client: MakeClient, city: Town, valkey: Server
) -> None:
    """The shield: a second cancellation while it withdraws slowly changes nothing."""
    a = city.node("a", store=make_client(proxy))
    entered = asyncio.Event()

    async def stand() -> None:
        async with a.candidate("job"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(stand())
    await entered.wait()
    proxy.delay(0.1)
    task.cancel()
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert valkey.cli("EXISTS", KEY) == 0


async def test_the_body_error_wins(own_server: Server, make_client: MakeClient, city: Town) -> None:
    """P6: a withdrawal that fails is told to the hooks, and replaces nothing."""
    a = city.node("a", store=make_client(own_server), request_timeout=0.8)
    mine = KeyError("mine")
    me = a.candidate("job")
    await me.__aenter__()
    own_server.pause()
    with at_most(1.5):
        await me.__aexit__(KeyError, mine, None)  # returns, so that what it was given goes on
    assert len(city.journals["a"].of(events.WithdrawalFailed)) == 1


async def test_a_new_beginning_whose_answer_was_lost_is_told(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, city: Town
) -> None:
    """The heartbeat that began anew has no answer; the next one finds out by the registration."""
    proxy = await make_proxy(valkey)
    a = city.node("a", store=make_client(proxy))
    async with a.candidate("job", {"load": 1}, ttl=0.5):
        valkey.cli("DEL", "incumbent:{job}:candidates")
        proxy.drop_replies(1, "EVALSHA", "EVAL")
        await city.journals["a"].has(events.HeartbeatDelayed)
        await city.journals["a"].has(events.CandidateExpired)
    assert len(city.journals["a"].of(events.CandidateExpired)) == 1


async def test_an_outage_is_survived_and_told(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, city: Town
) -> None:
    """Heartbeats go on; after an outage beyond the TTL the candidate begins anew, and says so."""
    proxy = await make_proxy(valkey)
    a, b = city.node("a", store=make_client(proxy)), city.node("b")
    async with a.candidate("job", {"load": 1}, ttl=0.5):
        assert await a.record_result("job", success=True)
        proxy.cut(refuse=True)

        async def gone() -> bool:
            return await b.candidates("job") == ()

        await wait_until(gone, within=30, every=0.02)
        await city.journals["a"].has(events.HeartbeatDelayed)
        await proxy.restore()
        await city.journals["a"].has(events.CandidateExpired)
        (found,) = await b.candidates("job")
        assert (found.metadata, found.successes) == ({"load": 1}, 0)


async def test_w39_entering_raises_what_the_store_raises(
    start_server: StartServer, make_client: MakeClient, city: Town
) -> None:
    """W39: no server, no silent candidate."""
    server = start_server()
    a = city.node("a", store=make_client(server), request_timeout=0.8)
    server.kill()
    with at_most(1.5), pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        async with a.candidate("job"):
            pass


async def test_two_processes_with_one_node_id_are_told(town: Town) -> None:
    """The later one stays; who leaves says that there is another."""
    a = town.node("a")
    journal = town.journals["a"]
    first, second = a.candidate("job", {"is": 1}), town.node("a").candidate("job", {"is": 2})
    await first.__aenter__()
    async with second:
        await first.__aexit__(None, None, None)
        (found,) = await a.candidates("job")
        assert found.metadata == {"is": 2}
        assert len(journal.of(events.NodeIdShared)) == 1
    assert await a.candidates("job") == ()


async def test_both_are_told_while_both_live(town: Town) -> None:
    """A fixed node id in two processes: within two heartbeats, and once each."""
    a, first = town.node("a"), town.journals["a"]
    b, second = town.node("a"), town.journals["a"]
    async with a.candidate("job", {"is": 1}, ttl=0.9), b.candidate("job", {"is": 2}, ttl=0.9):
        await first.has(events.NodeIdShared)
        await second.has(events.NodeIdShared)
        await asyncio.sleep(0.6)
    for journal in (first, second):
        assert len(journal.of(events.NodeIdShared)) == 1


async def test_a_node_that_starts_again_shares_nothing(town: Town) -> None:
    """What the process before it left behind is no other process."""
    a, journal = town.node("a"), town.journals["a"]
    dead = a.candidate("job", ttl=30)
    await dead.__aenter__()
    assert dead._heart is not None
    dead._heart.cancel()  # as if the process were gone
    await asyncio.wait([dead._heart])
    async with a.candidate("job", ttl=0.3):
        await asyncio.sleep(1)
        assert journal.of(events.NodeIdShared) == []


async def test_one_that_leaves_does_not_take_the_other_out(town: Town) -> None:
    """There is no moment in which the node does not stand, and the other one leads."""
    a, b, log = town.node("a"), town.node("a"), Log()
    async with b.candidate("job", {"is": 2}, ttl=2):
        me = a.candidate("job", {"is": 1}, ttl=2)
        async with me, running(b.campaign("job", log)):
            await town.journals["a"].has(events.NodeIdShared)
            (before,) = await a.candidates("job")
            await me.__aexit__(None, None, None)
            for _ in range(20):
                (found,) = await a.candidates("job")
                assert found.registered_at == before.registered_at
                await asyncio.sleep(0.05)
            await log.reaches("a")
        assert town.journals["a"].of(events.CandidateExpired) == []


async def test_heartbeats_of_many_elections_leave_as_one_command(
    city: Town, valkey: Server
) -> None:
    """Coalesced: 40 candidates of one process beat together, with one write to the socket."""
    a = city.node("a")
    stands_in = [a.candidate(f"job-{number}", ttl=1.5) for number in range(40)]
    for me in stands_in:
        await me.__aenter__()
    sent: list[int] = []
    wire: Any = a._office.store._caller._way._wire  # type: ignore[attr-defined]
    write = wire._write

    def counted(requests: Any, connection: Any) -> None:
        sent.append(len(requests))
        write(requests, connection)

    wire._write = counted
    await wait_until(lambda: sum(sent) >= 80, within=30)
    wire._write = write
    await asyncio.gather(*(me.__aexit__(None, None, None) for me in stands_in))
    assert len(sent) <= 20, sent


async def test_closing_the_elector_withdraws_its_candidate_and_ends_its_wait(town: Town) -> None:
    """The next in rank leads, with no grace for the one that is gone; the blocks may go on."""
    a, b, c = town.node("a"), town.node("b", wait_time=60), town.node("c", wait_time=60)
    log = Log()
    async with (
        a.candidate("job", {"priority": 3}),
        b.candidate("job", {"priority": 2}) as standing,
        c.candidate("job", {"priority": 1}),
        running(a.attempt("job", log)),
    ):
        await log.reaches("a")
        waiting = asyncio.create_task(b.attempt("job", log))
        async with running(c.attempt("job", log)):
            await asyncio.sleep(GRACE)
            await b.aclose()
            with pytest.raises(ElectorClosedError):
                await waiting
            assert [each.node_id for each in await a.candidates("job")] == ["a", "c"]
            with pytest.raises(ElectorClosedError):
                await standing.update(priority=9)
            assert await a.request_step_down("job") == 1
            await log.reaches("a", "c")


async def test_closing_ends_an_enrolment_that_waits_for_its_answer(
    own_server: Server, make_client: MakeClient, city: Town
) -> None:
    """As it ends whatever waits to be elected; what may have arrived is withdrawn."""
    a = city.node("a", store=make_client(own_server), request_timeout=8.0)
    await a.candidates("job")  # it has its connection
    own_server.pause()
    entering = asyncio.create_task(a.candidate("job", ttl=0.5).__aenter__())
    for _ in range(10):
        await asyncio.sleep(0)
    with at_most(0.5):
        await a.aclose()
        with pytest.raises(ElectorClosedError):
            await entering
    assert entering.cancelling() == 0
    own_server.resume()


async def test_a_candidate_that_leads_stands_until_its_term_is_over(town: Town) -> None:
    """Closed meanwhile: its result still counts, and it does not have to make way."""
    a, b = town.node("a"), town.node("b")
    log = Log()
    async with a.candidate("job"):
        async with running(a.attempt("job", partial(log, 0.5))) as (leading,):
            await log.reaches("a")
            await a.aclose()
            assert [each.node_id for each in await b.candidates("job")] == ["a"]
            assert isinstance(await leading, Elected)
        assert [each.successes for each in await b.candidates("job")] == [1]
    assert await b.candidates("job") == ()


async def test_a_block_that_is_entered_as_its_elector_closes_leaves_no_record(town: Town) -> None:
    """Before, or while the enrolment is on its way."""
    for turns in range(6):
        a = town.node("a")
        block = a.candidate("job")
        entering = asyncio.create_task(block.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        await a.aclose()
        await asyncio.wait([entering])
        if entering.exception() is None:
            await block.__aexit__(None, None, None)
        assert await town.node("b").candidates("job") == ()
