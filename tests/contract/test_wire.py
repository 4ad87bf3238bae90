"""For a server next door the loop stays awake, as to be woken takes as long as the answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis

from incumbent.stores.redis import server as servers
from incumbent.stores.redis import wire as wires
from incumbent.stores.redis.scripts import command
from incumbent.stores.redis.wire import FULL, Question, Wire
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

PING = command(b"PING")
PONG = b"PONG"


@pytest.fixture
async def naps() -> AsyncIterator[list[float | None]]:
    """For how long the loop would have slept, each time that it looked for something to do."""
    loop: Any = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.SelectorEventLoop):
        pytest.skip("only asyncio's own loop tells for how long it sleeps")
    watched: Any = loop
    select, timeouts = watched._selector.select, list[float | None]()

    def noted(timeout: float | None = None) -> Any:
        timeouts.append(timeout)
        return select(timeout)

    watched._selector.select = noted
    yield timeouts
    watched._selector.select = select


async def ask(wire: Wire) -> None:
    """Send one request alone."""
    assert await wire.send(Question(PING), 10.0) == PONG


async def test_a_quick_answer_is_waited_for_awake(
    valkey: Server, make_client: MakeClient, naps: list[float | None], monkeypatch: Any
) -> None:
    """When it is known that the server is near, which the first one does not tell: it connects."""
    monkeypatch.setattr(wires, "NEAR", 10.0)  # however busy the machine is
    wire = Wire(make_client(valkey).connection_pool)
    await ask(wire)
    await ask(wire)
    naps.clear()
    await ask(wire)
    assert set(naps) == {0}
    await wire.retire()


async def test_a_slow_answer_is_not(
    proxy: Proxy, make_client: MakeClient, naps: list[float | None]
) -> None:
    """Who is far is waited for asleep, and one late answer is enough to count as far."""
    wire = Wire(make_client(proxy).connection_pool)
    proxy.delay(0.02)
    for _ in range(3):
        await ask(wire)
        assert not wire._near
    naps.clear()
    await ask(wire)
    assert any(nap != 0 for nap in naps)
    await wire.retire()


async def test_nobody_stays_awake_for_long(
    proxy: Proxy, make_client: MakeClient, naps: list[float | None], monkeypatch: Any
) -> None:
    """An answer that does not come is waited for asleep, after the time that it took before."""
    wire = Wire(make_client(proxy).connection_pool)
    monkeypatch.setattr(wires, "NEAR", 10.0)
    await ask(wire)
    monkeypatch.setattr(wires, "NEAR", 0.01)
    proxy.delay(0.3)
    naps.clear()
    await ask(wire)
    assert any(nap != 0 for nap in naps)
    assert not wire._near
    await wire.retire()


# -- what is given up ------------------------------------------------------------------------


async def test_an_answer_that_is_waited_for_keeps_the_others_in_order(
    proxy: Proxy, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow server is no silent one: the queue waits, and leaves on the same connection."""
    monkeypatch.setattr(wires, "ABANDONED", 0.01)
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    proxy.delay(0.2)
    first = wire._enqueue(Question(PING), 30.0)
    await asyncio.sleep(0)
    answers = list(await asyncio.gather(first, wire.send(Question(PING), 30.0)))
    assert answers == [PONG, PONG]
    assert not wire.retired
    await wire.retire()


async def test_an_answer_that_was_given_up_is_nobody_else_s(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """It is not read: the connection on which it comes is cut."""
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    proxy.hold_replies()
    given_up = asyncio.ensure_future(wire.send(Question(echo(1)), 30.0))
    await wait_until(lambda: proxy.held == 1)
    given_up.cancel()
    await asyncio.wait([given_up])
    proxy.release()
    assert await wire.send(Question(echo(2)), 30.0) == b"2"
    await wire.retire()


async def test_with_the_loop_ends_what_nobody_waits_for(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """A request that is waited for, as by a generator that is closed, is answered before that."""
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    proxy.delay(0.05)
    answers = [wire.send(Question(PING), 0.4) for _ in range(2)]  # too hasty to go alone
    closing = asyncio.create_task(wire.aclose())
    assert list(await asyncio.gather(*answers)) == [PONG, PONG]
    await closing
    proxy.hold_replies()
    given_up = asyncio.ensure_future(wire.send(Question(PING), 0.4))
    await asyncio.sleep(0)
    given_up.cancel()
    sender = wire._sender
    assert sender is not None
    await wire.aclose()
    assert sender.done()
    await wire.retire()


async def test_a_connection_that_is_being_given_back_is_waited_for(
    valkey: Server, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another wire is in use since: who closes an elector has all of them back."""
    pool = make_client(valkey).connection_pool
    release, may_go = pool.release, asyncio.Event()

    async def slowly(connection: Any) -> None:
        await may_go.wait()
        await release(connection)

    server = servers.Server(pool)
    wire = await server.find()
    monkeypatch.setattr(pool, "release", slowly)
    asked = asyncio.ensure_future(wire.send(Question(PING), 0.4))  # too hasty to go alone
    wire.retired = True
    assert await asked == PONG
    assert wire.engaged
    assert not wire.busy
    assert await server.find() is not wire
    retiring = asyncio.create_task(server.retire())
    await asyncio.sleep(0.05)
    assert not retiring.done()
    may_go.set()
    await retiring
    assert not pool._in_use_connections


# -- a crowd ---------------------------------------------------------------------------------


class Crowd:
    """Two full batches and `rest` more requests, behind one whose answer is held back."""

    def __init__(self, wire: Wire, proxy: Proxy, rest: int) -> None:
        self.wire, self.proxy = wire, proxy
        self.ahead, self.size = 2 * FULL, 2 * FULL + rest
        self.requests = [Question(echo(number)) for number in range(self.size)]
        self.first: asyncio.Future[Any] = asyncio.Future()
        self.answers: list[asyncio.Future[Any]] = []

    async def come(self, *, first: float = 30.0, others: float = 30.0) -> None:
        """Ask it all; nothing is answered."""
        self.proxy.hold_replies()
        self.first = asyncio.ensure_future(self.wire.send(Question(PING), first))
        await wait_until(lambda: self.proxy.held == 1)
        self.answers = [asyncio.ensure_future(self.wire.send(e, others)) for e in self.requests]

    async def is_answered(self, *, since: int = 0) -> None:
        """Each by its own answer, as far as they have not left."""
        expected = [b"%d" % number for number in range(since, self.size)]
        assert list(await asyncio.gather(*self.answers[since:])) == expected


def echo(number: int) -> bytes:
    """A command whose answer is like no other's."""
    return command(b"ECHO", b"%d" % number)


def echoed(server: Server) -> int:
    """How many of these the server has answered."""
    return int(server.admin.info("commandstats").get("cmdstat_echo", {}).get("calls", 0))


@pytest.fixture(params=[0, 10], ids=["nobody_queued", "some_queued"])
async def crowd(
    request: pytest.FixtureRequest, valkey: Server, proxy: Proxy, make_client: MakeClient
) -> Crowd:
    """On a good connection."""
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    valkey.admin.config_resetstat()
    return Crowd(wire, proxy, request.param)


async def test_a_full_batch_does_not_wait_for_the_answers_before_it(
    crowd: Crowd, valkey: Server
) -> None:
    """And each gets its own answer; the rest of the crowd leaves when all these are there."""
    await crowd.come()
    await wait_until(lambda: echoed(valkey) == crowd.ahead)
    crowd.proxy.release()
    assert await crowd.first == PONG
    await crowd.is_answered()
    await wait_until(lambda: not crowd.wire.busy)
    await ask(crowd.wire)
    await crowd.wire.retire()


async def test_a_crowd_whose_connection_is_lost_is_told(crowd: Crowd) -> None:
    """What was sent is in doubt; what was not is sent on the next connection."""
    await crowd.come()
    crowd.proxy.cut()
    with pytest.raises(redis.ConnectionError):
        await crowd.first
    crowd.proxy.release()
    lost = await asyncio.gather(*crowd.answers[: crowd.ahead])
    assert {type(each) for each in lost} == {redis.ConnectionError}
    assert all(each.unanswered for each in crowd.requests[: crowd.ahead])
    await crowd.is_answered(since=crowd.ahead)
    await ask(crowd.wire)
    await crowd.wire.retire()


async def test_a_crowd_goes_on_when_its_sender_is_cancelled_before_it_began(crowd: Crowd) -> None:
    """As every task is when a program ends: the next one reads what was written."""
    await crowd.come()
    struck: list[object] = []

    def new_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task = asyncio.Task(work, loop=loop, **options)
        if not struck and "_send_queue" in work.__qualname__:
            task.cancel()
            struck.append(task)
        return task

    loop = asyncio.get_running_loop()
    loop.set_task_factory(new_task)
    crowd.proxy.release()
    await crowd.is_answered()
    loop.set_task_factory(None)
    assert struck
    await crowd.wire.retire()


async def test_a_crowd_that_has_given_up_leaves_a_good_connection(
    crowd: Crowd, valkey: Server
) -> None:
    """All its answers are read, so that no later request takes them for its own."""
    await crowd.come()
    for answer in crowd.answers:
        answer.cancel()
    crowd.proxy.release()
    await crowd.first
    await ask(crowd.wire)
    await wait_until(lambda: not crowd.wire.busy)
    await ask(crowd.wire)
    assert len(valkey.admin.client_list(_type="normal")) == 2  # it, and who asks this
    await crowd.wire.retire()


async def test_a_crowd_is_told_in_time_that_there_is_no_answer(crowd: Crowd) -> None:
    """Also what has been sent; nothing new comes to this wire."""
    await crowd.come(others=0.3)
    answers = await asyncio.wait_for(asyncio.gather(*crowd.answers), 10)
    assert {type(each) for each in answers[: crowd.ahead]} == {redis.TimeoutError}
    for each in answers[crowd.ahead :]:
        assert isinstance(each, redis.TimeoutError | wires.ElsewhereError)
    assert crowd.wire.retired
    crowd.proxy.release()
    assert await crowd.first == PONG


@pytest.mark.parametrize("end", [Wire.aclose, Wire.retire])
async def test_the_end_waits_for_a_crowd(
    crowd: Crowd, end: Callable[[Wire], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if nobody waits for what is before it."""
    monkeypatch.setattr(wires, "HASTY", 60.0)  # the first goes as a batch
    await crowd.come()
    crowd.first.cancel()
    ending = asyncio.ensure_future(end(crowd.wire))
    await asyncio.sleep(0)
    crowd.proxy.release()
    await crowd.is_answered()
    await ending
    await crowd.wire.retire()


async def test_a_crowd_is_told_that_the_sender_before_it_was_cancelled(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which cuts the connection."""
    monkeypatch.setattr(wires, "HASTY", 60.0)  # the first goes as a batch
    await crowd.come()
    sender = crowd.wire._sender
    assert sender is not None
    sender.cancel()
    crowd.proxy.release()
    lost = await asyncio.gather(*crowd.answers[: crowd.ahead])
    assert {type(each) for each in lost} == {redis.ConnectionError}
    await crowd.is_answered(since=crowd.ahead)
    await crowd.wire.retire()


async def test_a_crowd_that_waits_keeps_a_batch_that_has_given_up(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind it on its connection: to end that would cost the crowd its answers."""
    monkeypatch.setattr(wires, "LINGER", 0.0)
    monkeypatch.setattr(wires, "ABANDONED", 0.0)
    monkeypatch.setattr(wires, "HASTY", 60.0)  # the first goes as a batch
    await crowd.come()
    crowd.first.cancel()
    crowd.wire._batch[0].overdue_at = 0.0
    crowd.wire._look()
    await asyncio.sleep(0)
    crowd.proxy.release()
    await crowd.is_answered()
    assert not crowd.wire.retired
    await crowd.wire.retire()


async def test_a_crowd_does_not_disturb_a_log_in(proxy: Proxy, make_client: MakeClient) -> None:
    """It waits for its end, however many they are."""
    wire = Wire(make_client(proxy).connection_pool)
    proxy.delay(0.1)
    first = asyncio.ensure_future(wire.send(Question(echo(0)), 30.0))
    await wait_until(lambda: wire._kept.connection is not None)  # it logs in
    assert not wire.ready
    others = [wire.send(Question(echo(number)), 30.0) for number in range(1, 2 * FULL)]
    assert list(await asyncio.gather(first, *others)) == [b"%d" % each for each in range(2 * FULL)]
    await wire.retire()
