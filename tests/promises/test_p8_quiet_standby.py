"""P8: standing by costs two connections and no polling; a release wakes exactly the next."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from incumbent import LeaderElector, LeaderOptions, Lease, MemoryStore
from incumbent.stores.redis import answers, inbox, line
from kit.fixtures import MakeClient
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import cancel, in_line, nothing, seat_key

WATCHED = 4.0
"""Seconds for which the quiet is listened to."""


def commands(server: Server) -> int:
    """How many commands clients of ours have sent so far."""
    stats = server.admin.info("commandstats")
    ours = ("evalsha", "eval", "subscribe", "unsubscribe", "hello", "auth", "ping")
    return sum(stats[f"cmdstat_{name}"]["calls"] for name in ours if f"cmdstat_{name}" in stats)


class Crowd:
    """Waiters of one elector who lead one after another, each until it is told to go on."""

    def __init__(self, elector: LeaderElector, size: int) -> None:
        self.elected: list[int] = []
        self.leases: list[Lease] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._elector = elector.using(wait_time=None)
        self._size = size
        self._go_on = asyncio.Semaphore(0)

    async def stand(self, server: Server | None = None) -> None:
        """All stand in line, one after another, in the order of their numbers."""
        for number in range(self._size):
            self.tasks.append(asyncio.create_task(self._wait(number)))
            if server is None:
                await asyncio.sleep(0)
            else:
                await wait_until(lambda: len(in_line(server, "one")) == len(self.tasks))

    async def has_elected(self, count: int) -> None:
        """Wait until so many have been elected."""
        await wait_until(lambda: len(self.elected) >= count, what=f"{count} elections")
        assert len(self.elected) == count

    def go_on(self) -> None:
        """Let who leads give the seat back."""
        self._go_on.release()

    async def leave(self) -> None:
        """All give up."""
        for task in self.tasks:
            await cancel(task)

    async def _wait(self, number: int) -> None:
        async with self._elector.lead("one") as lease:
            self.elected.append(number)
            self.leases.append(lease)
            await self._go_on.acquire()


@pytest.fixture
async def crowd(own_server: Server, make_client: MakeClient) -> AsyncIterator[Crowd]:
    """Two hundred waiters with the default lease."""
    async with LeaderElector(make_client(own_server)) as elector:
        made = Crowd(elector, 200)
        yield made
        await made.leave()
        await wait_until(lambda: not in_line(own_server, "one"), what="the line is empty")


async def test_p8_two_hundred_waiters_of_one_process_are_quiet(
    own_server: Server, make_client: MakeClient, crowd: Crowd
) -> None:
    """At most a command a second for all together, and two connections; one is for being told."""
    async with LeaderElector(make_client(own_server)) as holder, holder.lead("one"):
        others = {each["id"] for each in connections(own_server)}
        await crowd.stand(own_server)
        assert len({each["id"] for each in connections(own_server)} - others) == 2
        await asyncio.sleep(2 * line.FIRST_TOUCH[1])  # a first touch finds out whether it is heard
        before = commands(own_server)
        await asyncio.sleep(WATCHED)
        assert commands(own_server) - before <= WATCHED
        assert len({each["id"] for each in connections(own_server)} - others) == 2
        assert not crowd.elected


async def test_p8_a_release_wakes_exactly_the_next(
    own_server: Server, make_client: MakeClient, crowd: Crowd
) -> None:
    """One wake-up, one request and one election for each release; the others sleep on."""
    async with LeaderElector(make_client(own_server)) as holder:
        async with holder.lead("one"):
            await crowd.stand(own_server)
            await asyncio.sleep(2 * line.FIRST_TOUCH[1])
            before = commands(own_server)
        for turn in range(20):
            await crowd.has_elected(turn + 1)
            crowd.go_on()
        await wait_until(lambda: len(crowd.elected) == 21)
        # Twenty-one acquisitions and releases, and what a slow machine needs of touches.
        assert commands(own_server) - before <= 2 * 21 + 4
        assert crowd.elected == list(range(21))
        assert len(in_line(own_server, "one")) == 200 - 21


async def test_p8_many_elections_share_the_two_connections(
    own_server: Server, make_client: MakeClient
) -> None:
    """A hundred elections in which one process stands by need no more."""
    names = [f"one-{number}" for number in range(100)]
    async with (
        LeaderElector(make_client(own_server)) as holder,
        LeaderElector(make_client(own_server)) as elector,
        asyncio.TaskGroup() as group,
    ):
        leases = [await holder.lead(name).__aenter__() for name in names]
        others = len(connections(own_server))
        waiting = elector.using(wait_time=None)
        tasks = [group.create_task(waiting.run_if_leader(name, nothing)) for name in names]
        await wait_until(lambda: all(in_line(own_server, name) for name in names), within=20)
        assert len(connections(own_server)) == others + 2
        for lease in leases:
            await lease.release()
        assert [await task for task in tasks] == ["done"] * 100


async def test_p8_in_memory_a_release_wakes_exactly_the_next() -> None:
    """The store inside the process keeps the same order, and wakes nobody in vain."""
    store = MemoryStore()
    asked = 0
    acquire = store.acquire

    async def counted(*args: object, **kwargs: object) -> object:
        nonlocal asked
        asked += 1
        return await acquire(*args, **kwargs)  # type: ignore[arg-type] # handed through

    store.acquire = counted  # type: ignore[assignment, method-assign] # it only counts
    elector = LeaderElector(store, LeaderOptions())
    crowd = Crowd(elector, 50)
    async with elector.lead("one"):
        await crowd.stand()
        await wait_until(lambda: asked == 101)
        state = await elector.state("one")
        assert state.waiting == 50
    for turn in range(50):
        await crowd.has_elected(turn + 1)
        assert asked == 102 + turn
        crowd.go_on()
    await asyncio.gather(*crowd.tasks)
    assert crowd.elected == list(range(50))


async def test_p8_an_expired_lease_is_found_by_one_timer(
    own_server: Server, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody releases: one touch of the process finds the seat free, and wakes the first."""
    monkeypatch.setattr(line, "FIRST_TOUCH", (60.0, 60.0))
    async with LeaderElector(make_client(own_server)) as elector:
        crowd = Crowd(elector, 50)
        own_server.cli("HSET", seat_key("one"), "token", "x", "leader", "x", "fence", 1, "since", 1)
        own_server.cli("PEXPIRE", seat_key("one"), 60_000)
        await crowd.stand(own_server)
        own_server.cli("PEXPIRE", seat_key("one"), 700)
        last = asyncio.create_task(elector.using(wait_time=None).attempt("one", nothing))
        await wait_until(lambda: len(in_line(own_server, "one")) == 51)  # and is told of the end
        before = commands(own_server)
        assert not crowd.elected
        await wait_until(lambda: crowd.elected == [0], within=3)
        # A touch, which is sent again as text, another if it came too early, and one request.
        assert commands(own_server) - before <= 5
        await cancel(last)
        await crowd.leave()


async def test_p8_a_full_server_costs_nobody_its_rank(
    own_server: Server, make_client: MakeClient
) -> None:
    """A waiter still counts as alive, and is elected in its turn."""
    one = LeaderElector(make_client(own_server), LeaderOptions(lease_time=1.2, wait_time=None))
    other = LeaderElector(make_client(own_server), LeaderOptions(lease_time=30, wait_time=None))
    elected: list[str] = []

    async def note(who: str) -> None:
        elected.append(who)

    def believed() -> float:
        (place, *_) = in_line(own_server, "one")
        process = place.split(":")[1]
        score = own_server.cli("ZSCORE", "incumbent:{one}:alive", f"p:{process}")
        return float(score or 0)

    async with one, other:
        async with LeaderElector(make_client(own_server)).lead("one"):
            first = asyncio.create_task(one.run_if_leader("one", note, "first"))
            await wait_until(lambda: len(in_line(own_server, "one")) == 1)
            second = asyncio.create_task(other.run_if_leader("one", note, "second"))
            await wait_until(lambda: len(in_line(own_server, "one")) == 2)
            own_server.cli("CONFIG", "SET", "maxmemory", 1)
            before, ranks = believed(), in_line(own_server, "one")
            await wait_until(lambda: believed() > before + 2_000, within=10)
            assert in_line(own_server, "one") == ranks
        await asyncio.gather(first, second)
    assert elected == ["first", "second"]


async def test_p8_many_who_give_up_at_once_send_little(
    own_server: Server, make_client: MakeClient
) -> None:
    """The script by which they leave is sent once, and called by its digest by all the others."""
    async with LeaderElector(make_client(own_server), LeaderOptions(wait_time=None)) as elector:
        crowd = Crowd(elector, 300)
        async with elector.lead("one"):
            await crowd.stand()
            await wait_until(lambda: len(in_line(own_server, "one")) == 300)
            own_server.cli("CONFIG", "RESETSTAT")
            tasks = [asyncio.create_task(cancel(task)) for task in crowd.tasks]
            await asyncio.gather(*tasks)
            stats, received = (own_server.admin.info(part) for part in ("commandstats", "stats"))
            assert in_line(own_server, "one") == []
        assert stats["cmdstat_eval"]["calls"] < 10, "each script that the server had not got"
        assert received["total_net_input_bytes"] < 300 * 1000


async def test_p8_when_nobody_waits_any_more_the_second_connection_goes_back(
    own_server: Server, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool of two has one for the program itself: for its commands, and for a transaction."""
    monkeypatch.setattr(inbox, "IDLE", 0.2)
    client = make_client(own_server, max_connections=2)
    lent = client.connection_pool._in_use_connections
    async with (
        LeaderElector(client, LeaderOptions(wait_time=60)) as elector,
        LeaderElector(make_client(own_server)) as other,
    ):
        for _ in range(2):
            async with other.lead("one"):
                waiting = asyncio.create_task(elector.run_if_leader("one", nothing))
                watch = elector.watch("one")
                await anext(watch)
                await wait_until(lambda: in_line(own_server, "one"))
            assert await waiting == "done"
            watch.close()
            await wait_until(lambda: len(lent) == 1, what="it went back")
            assert await client.exists("one") == 0
            async with elector.lead("one") as lease, lease.transaction(client) as pipe:
                pipe.set("incumbent:{one}:mine", 1, ex=1)  # type: ignore[unused-awaitable]  # sent at the end


async def test_p8_a_subscriber_whose_connection_died_in_silence_is_called_again(
    proxy: Proxy, make_client: MakeClient, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood in line before; then its connection died, which TCP does not notice for minutes."""
    monkeypatch.setattr(answers, "WITHIN", 0.5)
    monkeypatch.setattr(line, "LINGER", 60.0)
    options = LeaderOptions(wait_time=60, request_timeout=1.0)
    async with (
        LeaderElector(make_client(proxy), options, hooks=()) as far,
        LeaderElector(make_client(valkey), LeaderOptions(wait_time=60)) as near,
    ):
        async with near.lead("one"):
            waiting = asyncio.create_task(far.run_if_leader("one", nothing))
            await wait_until(lambda: in_line(valkey, "one"))
        assert await waiting == "done"
        await asyncio.sleep(1.0)  # no probe is under way any more
        proxy.silence()
        (channel,) = valkey.cli("PUBSUB", "CHANNELS", "*{one}*inbox*")
        assert valkey.cli("PUBLISH", channel, "lost") == 1
        await asyncio.sleep(0.1)
        await proxy.restore(reset=False)  # what lost something stays silent
        async with near.lead("two"):
            waiting = asyncio.create_task(far.run_if_leader("two", nothing))
            await wait_until(lambda: in_line(valkey, "two"), what="it stands in line")
            await wait_until(
                lambda: valkey.cli("PUBSUB", "CHANNELS", "*{two}*inbox*"), what="it listens"
            )
            await asyncio.sleep(1.0)  # the first touch is over
            before = commands(valkey)
            await asyncio.sleep(2.0)
            assert commands(valkey) - before <= 3, "it asks all the time"
        assert await waiting == "done"
