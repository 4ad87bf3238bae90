"""Section E of the field cases: waiting, wake-ups and pools. The order is in `test_e_order.py`."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
import redis.asyncio

from incumbent import Elected, LeaderElector, LeaderOptions, MemoryStore, NotElectedError
from incumbent.events import AttemptDelayed
from incumbent.stores.redis import RedisStore, line, lines
from incumbent.stores.redis.line import Line
from kit.fixtures import MakeClient
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    SLACK,
    Journal,
    Work,
    alive_key,
    all_keys,
    cancel,
    fence_key,
    forever,
    in_line,
    nothing,
    queue_key,
    quick,
    seat_key,
    ttl_of,
)

SEED = int(os.environ.get("INCUMBENT_TEST_SEED", random.randrange(100_000)))
HAND_OVERS = int(os.environ.get("INCUMBENT_TEST_HAND_OVERS", "300"))


class Touches:
    """Counts what is done by time, and not because a message came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        start = lines.Lines.start_touch

        def counted(desk: lines.Lines, of: Line) -> None:
            self.count += 1
            start(desk, of)

        monkeypatch.setattr(lines.Lines, "start_touch", counted)


@pytest.fixture
def touches(monkeypatch: pytest.MonkeyPatch) -> Touches:
    """No touch comes within ten seconds, if nothing is wrong; those that come are counted."""
    monkeypatch.setattr(line, "FIRST_TOUCH", (60.0, 60.0))
    return Touches(monkeypatch)


@pytest.fixture
async def electors(valkey: Server, make_client: MakeClient) -> AsyncIterator[list[LeaderElector]]:
    """Three processes, as far as the server can tell, with long leases."""
    made = [LeaderElector(make_client(valkey), LeaderOptions(), hooks=()) for _ in range(3)]
    yield made
    for elector in made:
        await elector.aclose()


# -- 48: wake-ups ----------------------------------------------------------------------------


async def test_case_48_no_wake_up_is_lost_in_random_hand_overs(
    valkey: Server, electors: list[LeaderElector], touches: Touches
) -> None:
    """Cancelled at random moments, all the same each wait ends by its wake-up: no timer was due."""
    print(f"INCUMBENT_TEST_SEED={SEED}")
    dice = random.Random(SEED)
    led = 0

    async def work() -> None:
        nonlocal led
        led += 1
        await asyncio.sleep(dice.choice((0, 0, 0.001, 0.003)))

    async def contend(elector: LeaderElector) -> None:
        while led < HAND_OVERS:
            waiting = elector.using(wait_time=None)
            call = asyncio.create_task(waiting.run_if_leader("one", work))
            if dice.random() < 0.4:
                await asyncio.wait([call], timeout=dice.uniform(0, 0.02))
                call.cancel()
            with suppress(asyncio.CancelledError):
                await call

    async with asyncio.timeout(8 + HAND_OVERS / 20), asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(contend(electors[number % 3]))
    assert led >= HAND_OVERS
    assert touches.count == 0, "a wait was ended by time"
    assert all_keys(valkey) - {f"incumbent:{{one}}:{'gone'}"} == {fence_key("one")}


async def test_case_48_no_wake_up_is_lost_in_a_group(
    valkey: Server, make_client: MakeClient, touches: Touches
) -> None:
    """The same with three seats."""
    from incumbent import GroupElector

    dice = random.Random(SEED)
    groups = [GroupElector(make_client(valkey), seats=3, hooks=()) for _ in range(3)]
    led = running = 0

    async def work() -> None:
        nonlocal led, running
        led, running = led + 1, running + 1
        assert running <= 3
        try:
            await asyncio.sleep(dice.choice((0, 0.001, 0.003)))
        finally:
            running -= 1

    async def contend(elector: GroupElector) -> None:
        while led < HAND_OVERS:
            call = asyncio.create_task(elector.using(wait_time=None).run_if_leader("one", work))
            if dice.random() < 0.4:
                await asyncio.wait([call], timeout=dice.uniform(0, 0.02))
                call.cancel()
            with suppress(asyncio.CancelledError):
                await call

    async with asyncio.timeout(8 + HAND_OVERS / 20), asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(contend(groups[number % 3]))
    for each in groups:
        await each.aclose()
    assert touches.count == 0, "a wait was ended by time"
    assert in_line(valkey, "one") == []


async def test_case_48_a_release_between_the_first_try_and_the_subscription(
    valkey: Server,
    electors: list[LeaderElector],
    touches: Touches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody was in line when the seat was freed: who asks after the confirmation sees it."""
    holder, waiter, _ = electors
    stand = RedisStore.stand
    async with holder.lead("one") as lease:

        async def stand_late(store: RedisStore, *args: Any) -> Any:
            await lease.release()
            return await stand(store, *args)

        monkeypatch.setattr(RedisStore, "stand", stand_late)
        began = time.monotonic()
        assert await waiter.using(wait_time=20).run_if_leader("one", nothing) == "done"
        assert time.monotonic() - began < 10
    assert touches.count == 0


async def test_case_48_a_release_while_the_subscription_is_being_made(
    proxy: Proxy, make_client: MakeClient, electors: list[LeaderElector], touches: Touches
) -> None:
    """The seat is freed while the wish to listen is on its way."""
    holder = electors[0]
    async with LeaderElector(make_client(proxy), hooks=()) as waiter:
        assert await waiter.run_if_leader("warm", nothing) == "done"
        async with holder.lead("one"):
            proxy.hold_requests("SUBSCRIBE")
            waiting = asyncio.create_task(waiter.using(wait_time=20).attempt("one", nothing))
            await wait_until(lambda: proxy.held)
        proxy.release()
        assert isinstance(await asyncio.wait_for(waiting, 2), Elected)
    assert touches.count == 0


async def test_case_48_a_wake_up_that_is_cut_off_is_made_up_for(
    proxy: Proxy,
    valkey: Server,
    make_client: MakeClient,
    electors: list[LeaderElector],
    touches: Touches,
) -> None:
    """The inbox is cut when the seat is freed: it listens again, and everybody asks again."""
    holder = electors[0]
    async with LeaderElector(make_client(proxy), hooks=()) as waiter:
        async with holder.lead("one"):
            waiting = asyncio.create_task(waiter.using(wait_time=20).attempt("one", nothing))
            await wait_until(lambda: in_line(valkey, "one"))
            proxy.silence(requests=True)
        await proxy.restore()
        assert isinstance(await asyncio.wait_for(waiting, 4), Elected)


# -- 49 and 50: expiry and left-overs --------------------------------------------------------


@pytest.mark.parametrize("lease_time", [0.5, 30])
async def test_case_49_a_dead_holder_is_followed_when_its_lease_ends(
    valkey: Server, make_client: MakeClient, lease_time: float
) -> None:
    """Nobody releases: the waiter sleeps to the end of that lease, however long its own is."""
    valkey.cli("HSET", seat_key("one"), "token", "dead", "leader", "dead", "fence", 1, "since", 1)
    before = time.monotonic()
    valkey.cli("PEXPIRE", seat_key("one"), 700)
    began = time.monotonic()
    options = quick(lease_time=lease_time, wait_time=20)
    async with LeaderElector(make_client(valkey), options) as waiter:
        assert await waiter.run_if_leader("one", nothing) == "done"
    ended = time.monotonic()
    assert ended - before > 0.69
    assert ended - began < 0.7 + SLACK, "soon after the lease's end"


async def test_case_50_a_release_without_waiters_leaves_nothing_behind(
    own_server: Server, make_client: MakeClient
) -> None:
    """No signal is kept for later: two contenders after it ask twice at most for each hand-over."""
    async with LeaderElector(make_client(own_server), hooks=()) as elector:
        for _ in range(3):
            assert await elector.run_if_leader("one", nothing) == "done"
        assert not own_server.cli("EXISTS", queue_key("one"), alive_key("one"))
        scripts_before = calls(own_server)
        works = [Work(), Work()]
        waiting = elector.using(wait_time=10)
        tasks = [asyncio.create_task(waiting.run_if_leader("one", work)) for work in works]
        await works[0].began.wait()
        works[0].finish.set()
        await works[1].began.wait()
        works[1].finish.set()
        await asyncio.gather(*tasks)
        # Each: a try, one in line, one when called; and its release.
        assert calls(own_server) - scripts_before <= 2 * 4


def listeners(server: Server) -> set[str]:
    """The connections that have subscribed to something."""
    return {each["id"] for each in connections(server) if each["sub"] != "0"}


def calls(server: Server) -> int:
    """How many scripts were run so far."""
    stats = server.admin.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


# -- 51 to 54: many waiters, small pools, long waits -----------------------------------------


async def test_case_52_a_small_pool_is_not_exhausted_by_waiters(
    own_server: Server, make_client: MakeClient
) -> None:
    """300 campaigns on ten connections: all wait, the leader among them renews, all end cleanly."""
    client = make_client(own_server, max_connections=10)
    journal = Journal()
    async with LeaderElector(client, quick(lease_time=3), hooks=[journal]) as elector:
        leading, work = asyncio.Event(), Work()
        tasks = [asyncio.create_task(elector.campaign("one", work))]
        await work.began.wait()
        tasks += [asyncio.create_task(elector.campaign("one", forever)) for _ in range(300)]
        await wait_until(lambda: len(in_line(own_server, "one")) == 300, within=20)
        lease = work.lease
        await asyncio.sleep(2 * elector.options.lease_time)
        assert lease.held, "its renewals go through"
        assert len(connections(own_server)) <= 2, "one that asks, one that is told"
        assert await client.echo("x") == b"x"
        timed_out = elector.using(wait_time=0.2)
        with pytest.raises(NotElectedError):
            async with timed_out.lead("one"):
                pass
        for task in reversed(tasks):
            await cancel(task)
        assert not leading.is_set()
    assert not journal.of(AttemptDelayed)
    assert in_line(own_server, "one") == []


@pytest.mark.parametrize("size", [1, 2])
async def test_case_52_a_pool_that_has_no_connection_to_spare(
    own_server: Server, make_client: MakeClient, size: int
) -> None:
    """With one connection for all there is none for being told: it is asked, and goes on."""
    client = make_client(own_server, max_connections=size)
    async with LeaderElector(client, quick()) as elector:
        work = Work()
        leading = asyncio.create_task(elector.run_if_leader("one", work))
        await work.began.wait()
        waiting = [
            asyncio.create_task(elector.using(wait_time=20).run_if_leader("one", nothing))
            for _ in range(3)
        ]
        await wait_until(lambda: len(in_line(own_server, "one")) == 3)
        work.finish.set()
        assert await asyncio.wait_for(asyncio.gather(leading, *waiting), 5) == ["done"] * 4
    assert in_line(own_server, "one") == []


async def test_case_54_a_socket_timeout_of_the_client_ends_no_wait(
    valkey: Server, make_client: MakeClient
) -> None:
    """The client's timeout is shorter than the wait: the connection that listens is not cut."""
    client = make_client(valkey, socket_timeout=0.2)
    journal = Journal()
    async with LeaderElector(client, LeaderOptions(wait_time=20), hooks=[journal]) as elector:
        work = Work()
        leading = asyncio.create_task(elector.run_if_leader("one", work))
        await work.began.wait()
        waiting = asyncio.create_task(elector.run_if_leader("one", nothing))
        await wait_until(lambda: in_line(valkey, "one"))
        listening = listeners(valkey)
        await asyncio.sleep(1.0)
        assert listeners(valkey) == listening
        work.finish.set()
        assert (await leading, await waiting) == ("done", "done")
    assert not journal.of(AttemptDelayed)


# -- 56 and 57: what waiting must not cost ---------------------------------------------------


async def test_case_56_an_uncontended_election_subscribes_to_nothing(
    own_server: Server, make_client: MakeClient
) -> None:
    """One round trip each way, no sleep, no inbox, no key of a line: waiting is for who waits."""
    async with LeaderElector(make_client(own_server), quick(wait_time=None)) as elector:
        await elector.run_if_leader("one", nothing)
        before, began = calls(own_server), time.monotonic()
        for _ in range(200):
            assert await elector.run_if_leader("one", nothing) == "done"
        assert calls(own_server) - before == 400
        assert time.monotonic() - began < 20, "a tenth of a second each, were there a sleep"
        assert len(connections(own_server)) == 1
        assert "cmdstat_subscribe" not in own_server.admin.info("commandstats")
        assert all_keys(own_server) == {fence_key("one")}


async def test_case_57_a_cut_waiter_takes_nobody_with_it(
    proxy: Proxy, valkey: Server, make_client: MakeClient
) -> None:
    """Its connections break again and again: it retries, the others do not notice."""
    async with (
        LeaderElector(make_client(valkey), quick(wait_time=30)) as elector,
        LeaderElector(make_client(proxy), quick(wait_time=30)) as hit,
    ):
        work = Work()
        leading = asyncio.create_task(elector.run_if_leader("one", work))
        await work.began.wait()
        waiting = [asyncio.create_task(hit.run_if_leader("one", nothing)) for _ in range(5)]
        waiting += [asyncio.create_task(elector.run_if_leader("one", nothing)) for _ in range(5)]
        await wait_until(lambda: len(in_line(valkey, "one")) == 10)
        for _ in range(4):
            proxy.cut()
            await asyncio.sleep(0.1)
        assert not [task for task in waiting if task.done()]
        work.finish.set()
        assert await asyncio.wait_for(asyncio.gather(leading, *waiting), 10) == ["done"] * 11
    assert in_line(valkey, "one") == []


@pytest.mark.parametrize("rights", [["-subscribe"], ["-publish"], ["-subscribe", "-publish"]])
async def test_case_57_without_pub_sub_waiting_works_by_looking(
    own_server: Server, make_client: MakeClient, rights: list[str]
) -> None:
    """A user who may not publish, or listen, or neither, is elected within a second or so."""
    own_server.cli("ACL", "SETUSER", "mute", "on", ">p", "~*", "&*", "+@all", *rights)
    clients = [make_client(own_server, username="mute", password="p") for _ in range(2)]
    holder, waiter = (LeaderElector(client, LeaderOptions(), hooks=()) for client in clients)
    async with holder, waiter:
        async with holder.lead("one"):
            waiting = [
                asyncio.create_task(waiter.using(wait_time=20).attempt("one", nothing))
                for _ in range(3)
            ]
            await wait_until(lambda: len(in_line(own_server, "one")) == 3)
            await asyncio.sleep(2 * line.PROBE_WITHIN)
        for outcome in await asyncio.wait_for(asyncio.gather(*waiting), 5):
            assert isinstance(outcome, Elected)
    assert in_line(own_server, "one") == []


async def test_case_57_a_deaf_inbox_is_noticed_and_replaced(
    proxy: Proxy, valkey: Server, make_client: MakeClient
) -> None:
    """Half open, as after a power cut: nothing comes, nothing fails; a missed probe tells."""
    async with (
        LeaderElector(make_client(valkey), hooks=()) as holder,
        LeaderElector(make_client(proxy), quick(lease_time=3, wait_time=20)) as waiter,
    ):
        async with holder.lead("one"):
            waiting = asyncio.create_task(waiter.run_if_leader("one", nothing))
            await wait_until(lambda: in_line(valkey, "one"))
            (channel,) = valkey.cli("PUBSUB", "CHANNELS", "incumbent:*")
            deaf = listeners(valkey)
            proxy.silence()
            assert valkey.cli("PUBLISH", channel, "unheard") == 1
            await wait_until(lambda: any(link.lossy for link in proxy._links))
            await proxy.restore(reset=False)
            await wait_until(lambda: listeners(valkey) - deaf, what="another one listens")
        assert await asyncio.wait_for(waiting, 2) == "done"


# -- a wait and its end ----------------------------------------------------------------------


async def test_a_wait_ends_at_its_time_and_leaves_the_line(
    valkey: Server, electors: list[LeaderElector]
) -> None:
    """Not before it, and not much later; the holder is told."""
    holder, waiter, _ = electors
    async with holder.lead("one"):
        began = time.monotonic()
        with pytest.raises(NotElectedError) as caught:
            async with waiter.using(wait_time=0.3).lead("one"):
                pass
        assert 0.29 < time.monotonic() - began < 0.3 + SLACK
        assert caught.value.holder is not None
        assert caught.value.holder.leader_id == holder.leader_id
        assert in_line(valkey, "one") == []
        assert (await holder.state("one")).waiting == 0


async def test_a_request_that_is_answered_after_the_time_is_not_the_last(
    proxy: Proxy, valkey: Server, make_client: MakeClient, electors: list[LeaderElector]
) -> None:
    """It was sent while there was time, and stood in line: one more is needed to leave it."""
    async with LeaderElector(make_client(proxy), hooks=()) as waiter, electors[0].lead("one"):
        waiting = asyncio.create_task(waiter.using(wait_time=0.8).attempt("one", nothing))
        (place,) = await wait_until(lambda: in_line(valkey, "one"))
        (channel,) = valkey.cli("PUBSUB", "CHANNELS", "incumbent:*")
        proxy.delay(0.45)
        valkey.cli("PUBLISH", channel, f"wake {place}")
        assert not isinstance(await waiting, Elected)
        assert in_line(valkey, "one") == []


async def test_a_cancelled_waiter_passes_its_wake_up_on(
    valkey: Server, electors: list[LeaderElector], touches: Touches
) -> None:
    """It was its turn, and it went: the next leads at once."""
    holder, first, second = electors
    async with holder.lead("one"):
        one = asyncio.create_task(first.using(wait_time=20).attempt("one", nothing))
        await wait_until(lambda: len(in_line(valkey, "one")) == 1)
        two = asyncio.create_task(second.using(wait_time=20).attempt("one", nothing))
        await wait_until(lambda: len(in_line(valkey, "one")) == 2)
        store: Any = first._office.store
        (its_line,) = store._lines._lines.values()
        its_line.heard = lambda message: one.cancel()  # the wake-up finds it on its way out
    assert isinstance(await asyncio.wait_for(two, 2), Elected)
    assert one.cancelled()
    assert touches.count == 0


async def test_in_memory_a_wait_is_one_in_line_as_well() -> None:
    """Order, time-outs and cancellation, with no server."""
    elector = LeaderElector(MemoryStore(), LeaderOptions(wait_time=None))
    order: list[int] = []

    def job(number: int) -> Callable[[], Any]:
        async def run() -> None:
            order.append(number)

        return run

    async with elector.lead("one"):
        tasks = []
        for number in range(10):
            tasks.append(asyncio.create_task(elector.run_if_leader("one", job(number))))
            await asyncio.sleep(0)
        with pytest.raises(NotElectedError):
            async with elector.using(wait_time=0.05).lead("one"):
                pass
        await cancel(tasks[0])
        await cancel(tasks[5])
        assert (await elector.state("one")).waiting == 8
    await asyncio.wait(tasks)
    assert order == [1, 2, 3, 4, 6, 7, 8, 9]
    assert (await elector.state("one")).waiting == 0


def test_one_loop_after_another_stands_in_line(valkey: Server) -> None:
    """An inbox belongs to its loop: the next loop makes its own, and nothing is left."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    elector = LeaderElector(client, quick(wait_time=5), hooks=())

    async def once() -> str | None:
        valkey.cli("HSET", seat_key("one"), "token", "x", "leader", "x", "fence", 1, "since", 1)
        valkey.cli("PEXPIRE", seat_key("one"), 150)
        led = await elector.run_if_leader("one", nothing)
        await client.aclose()
        return led

    async def end() -> None:
        await elector.aclose()
        await client.aclose()

    assert [asyncio.run(once()) for _ in range(3)] == ["done"] * 3
    asyncio.run(end())
    assert connections(valkey) == []
    assert ttl_of(valkey, "one") == -2
