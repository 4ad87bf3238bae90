"""kit.proxy: each fault is exactly what its name says, and none of it stays behind."""

import asyncio
import contextlib
import gc
import socket
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.leftovers import connections, open_sockets
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.tls import Authority
from kit.waiting import wait_until

Connect = Callable[..., "redis.asyncio.Redis"]
SCRIPT = """
local n = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return n
"""


@pytest.fixture
def connect(proxy: Proxy, make_client: MakeClient) -> Connect:
    """Makes clients through the proxy that do not retry, with one connection each."""

    def make(**options: object) -> "redis.asyncio.Redis":
        defaults = {"retry": Retry(NoBackoff(), 0), "max_connections": 1, "socket_timeout": 60}
        return make_client(proxy, **(defaults | options))

    return make


async def _key(client: "redis.asyncio.Redis") -> int:
    return int(await client.get("kit:n") or 0)


async def _increment(client: "redis.asyncio.Redis") -> object:
    return await client.eval(SCRIPT, 1, "kit:n")


async def _gets_no_answer(
    call: Awaitable[object], happened: Callable[[], object] = lambda: True
) -> None:
    """Make the call, and give it up a moment after what happens to it has happened."""
    waiting = asyncio.ensure_future(call)
    await wait_until(happened, within=60, what="it happened")
    await asyncio.wait((waiting,), timeout=0.15)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait((waiting,))


async def test_relays_and_counts(
    proxy: Proxy, make_client: MakeClient, wire: dict[str, object]
) -> None:
    """Without faults it is invisible in every wire, and counts connections and commands."""
    client = make_client(proxy, **wire)
    big = "x" * 300_000
    await client.set("kit:big", big, px=60_000)
    assert len(await client.get("kit:big") or "") == len(big)
    async with client.pipeline(transaction=True) as pipe:
        for _ in range(100):
            pipe.execute_command("PING")
        assert await pipe.execute() == [True] * 100
    assert (proxy.commands["SET"], proxy.commands["GET"], proxy.commands["PING"]) == (1, 1, 100)
    assert (proxy.opened, proxy.open) == (1, 1)
    await client.aclose()
    await wait_until(lambda: proxy.open == 0, what="the proxy sees the client go")
    assert proxy.opened == 1


async def test_password_and_database_of_its_target(
    start_server: StartServer, make_proxy: MakeProxy, make_client: MakeClient
) -> None:
    """Its URL differs from the target's by the port alone."""
    server = start_server(password="sesame")
    proxy = await make_proxy(server)
    assert proxy.url == server.url.replace(str(server.port), str(proxy.port))
    assert await make_client(proxy).ping()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_drops_exactly_one_reply(proxy: Proxy, connect: Connect, protocol: int) -> None:
    """The script ran on the server, its answer is lost, the next command is answered."""
    client = connect(protocol=protocol)
    await _increment(client)
    proxy.drop_replies(1, "EVAL", "EVALSHA")
    assert await client.ping()  # other commands are left alone
    await _gets_no_answer(client.eval(SCRIPT, 1, "kit:n"), lambda: proxy.dropped)
    assert proxy.dropped == 1
    assert await _key(client) == 2
    assert await client.eval(SCRIPT, 1, "kit:n") == 3
    assert proxy.dropped == 1


async def test_a_dropped_reply_goes_as_a_whole(own_server: Server, make_proxy: MakeProxy) -> None:
    """On one connection the bytes of the next reply follow, and nothing of the dropped one."""
    proxy = await make_proxy(own_server)
    own_server.cli("RPUSH", "list", "a", "b", "c")
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    proxy.drop_replies(1)
    writer.write(b"LRANGE list 0 -1\r\nLLEN list\r\nPING\r\n")
    assert await reader.readexactly(11) == b":3\r\n+PONG\r\n"
    writer.close()
    await writer.wait_closed()


async def test_drop_leaves_the_handshake_alone(proxy: Proxy, connect: Connect) -> None:
    """A new connection still says HELLO and gets its answer; its first real reply is dropped."""
    proxy.drop_replies(1)
    client = connect(protocol=3, client_name="somebody")
    await _gets_no_answer(client.ping(), lambda: proxy.dropped)
    assert proxy.commands["HELLO"] == 1
    assert proxy.dropped == 1
    assert await client.ping()


async def test_drop_and_cut(proxy: Proxy, connect: Connect) -> None:
    """With `cut` the client hears of the loss at once, and the deed is done."""
    client = connect()
    await _increment(client)
    proxy.drop_replies(1, "EVAL", cut=True)
    with pytest.raises(redis.ConnectionError):
        await client.eval(SCRIPT, 1, "kit:n")
    assert await _key(client) == 2
    assert proxy.opened == 2


@pytest.mark.parametrize("protocol", [2, 3])
async def test_pushes_are_no_replies(
    proxy: Proxy, connect: Connect, valkey: Server, protocol: int
) -> None:
    """Subscriptions and messages are relayed, and the next reply is still the one dropped."""
    client = connect(protocol=protocol, max_connections=2)
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("a", "b")
        for _ in "ab":
            assert (await pubsub.get_message(timeout=60) or {})["type"] == "subscribe"
        proxy.drop_replies(1, "PING")
        valkey.cli("PUBLISH", "a", "hello")
        assert (await pubsub.get_message(timeout=60) or {})["data"] == b"hello"
        assert proxy.dropped == 0
        await _gets_no_answer(client.ping(), lambda: proxy.dropped)
        assert proxy.dropped == 1


async def test_delay(proxy: Proxy, connect: Connect) -> None:
    """Replies and requests are late by so much each, in order, and only while it lasts."""
    client = connect()
    await client.ping()
    proxy.delay(1.0, "both")
    start = time.monotonic()
    await client.ping()
    assert 2.0 <= time.monotonic() - start < 4.0
    proxy.delay(60, "both")
    proxy.delay(0, "both")
    start = time.monotonic()
    await client.ping()
    assert time.monotonic() - start < 30


async def test_delay_is_no_queue(proxy: Proxy, make_client: MakeClient) -> None:
    """Messages that come together leave together: latency, not bandwidth."""
    client = make_client(proxy)
    await client.ping()
    proxy.delay(0.5)
    start = time.monotonic()
    await asyncio.gather(*(client.ping() for _ in range(20)))
    assert time.monotonic() - start < 20 * 0.5


async def test_hold_replies(proxy: Proxy, connect: Connect) -> None:
    """What is held is answered when it is released, and was carried out long before."""
    client = connect()
    await _increment(client)
    proxy.hold_replies("EVAL")
    call = asyncio.create_task(_increment(client))
    await wait_until(lambda: proxy.held == 1, what="the reply is held")
    other = connect()
    assert await _key(other) == 2
    assert not call.done()
    proxy.release()
    assert await call == 2
    assert proxy.held == 0


async def test_a_held_request_outlives_its_client(
    proxy: Proxy, connect: Connect, make_client: MakeClient, valkey: Server
) -> None:
    """A command that its client gave up may still arrive, after everything else."""
    client, other = connect(), make_client(valkey)
    await _increment(client)
    proxy.hold_requests("EVAL")
    await _gets_no_answer(client.eval(SCRIPT, 1, "kit:n"), lambda: proxy.held)
    await client.aclose()
    assert await _key(other) == 1
    proxy.release()

    async def arrived() -> bool:
        return await _key(other) == 2

    await wait_until(arrived, what="the late request runs")
    await wait_until(lambda: proxy.open == 0, what="its connection ends after it")


async def test_cut_resets_and_takes_new_connections(proxy: Proxy, connect: Connect) -> None:
    """Open connections are reset at once; the next one works."""
    client = connect()
    await client.ping()
    proxy.cut()
    with pytest.raises(redis.ConnectionError):
        await client.ping()
    assert await client.ping()
    assert proxy.opened == 2


async def test_cut_and_refuse(proxy: Proxy, connect: Connect) -> None:
    """New connections are refused until `restore`, which keeps the port."""
    client = connect()
    await client.ping()
    port = proxy.port
    proxy.cut(refuse=True)
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            await client.ping()
    assert proxy.opened == 1
    await proxy.restore()
    assert await client.ping()
    assert proxy.port == port


async def test_silence_swallows_both_ways(proxy: Proxy, connect: Connect, valkey: Server) -> None:
    """It accepts, never answers, and the server never hears of it."""
    client = connect()
    await _increment(client)
    proxy.silence()
    await _gets_no_answer(client.eval(SCRIPT, 1, "kit:n"), lambda: proxy.commands["EVAL"] == 2)
    await _gets_no_answer(connect(protocol=3).ping(), lambda: proxy.opened == 2)
    assert valkey.cli("GET", "kit:n") == "1"
    assert proxy.commands["EVAL"] == 2
    await proxy.restore()
    assert await client.eval(SCRIPT, 1, "kit:n") == 2


async def test_silence_may_let_requests_through(
    proxy: Proxy, connect: Connect, valkey: Server
) -> None:
    """With `requests=True` the server does what it is told, and only the answers are lost."""
    client = connect()
    await _increment(client)
    proxy.silence(requests=True)
    await _gets_no_answer(
        client.eval(SCRIPT, 1, "kit:n"), lambda: valkey.cli("GET", "kit:n") == "2"
    )


async def test_after_a_silence(proxy: Proxy, connect: Connect) -> None:
    """A connection that lost something is reset by `restore`, or stays half open if wanted."""
    lost, fine = connect(), connect()
    await lost.ping()
    proxy.silence()
    call = asyncio.ensure_future(lost.ping())
    await wait_until(lambda: proxy.commands["PING"] == 2, what="the request was swallowed")
    await proxy.restore(reset=False)
    assert await fine.ping()
    assert not call.done()
    await proxy.restore()
    with pytest.raises(redis.ConnectionError):
        await call


async def test_a_dead_server_resets_its_clients(
    own_server: Server, make_proxy: MakeProxy, make_client: MakeClient
) -> None:
    """A killed server is felt through the proxy, and so is its return."""
    client = make_client(await make_proxy(own_server), retry=Retry(NoBackoff(), 0))
    await client.ping()
    own_server.kill()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            await client.ping()
    own_server.start()
    assert await client.ping()


async def test_tls(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, authority: Authority
) -> None:
    """Clients speak TLS to it, with a certificate that the authority's file proves."""
    proxy = await make_proxy(valkey, tls=authority)
    assert await make_client(proxy).ping()
    by_options = redis.asyncio.Redis(
        host="localhost", port=proxy.port, ssl=True, ssl_ca_certs=str(authority.ca_file)
    )
    assert await by_options.ping()
    proxy.cut()
    with contextlib.suppress(redis.ConnectionError):  # some releases try again by themselves
        await by_options.ping()
    assert await by_options.ping()
    await by_options.aclose()
    stranger = make_client(f"rediss://127.0.0.1:{proxy.port}", retry=Retry(NoBackoff(), 0))
    with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
        await stranger.ping()


async def test_closing_leaves_nothing(valkey: Server) -> None:
    """No task, no connection on the server, no warning, whatever was going on."""
    before = asyncio.all_tasks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with Proxy(valkey) as proxy:
            clients = [redis.asyncio.Redis.from_url(proxy.url) for _ in range(4)]
            await asyncio.gather(*(client.ping() for client in clients))
            proxy.delay(10, "both")
            proxy.hold_requests("GET")
            calls: list[asyncio.Future[Any]] = [
                *(asyncio.ensure_future(client.ping()) for client in clients[:2]),
                asyncio.ensure_future(clients[2].get("x")),
            ]
            await wait_until(lambda: proxy.commands["PING"] == 6)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert asyncio.all_tasks() == before
        for client in clients:
            await client.aclose()
    assert [str(warning.message) for warning in caught] == []
    await wait_until(lambda: not connections(valkey), what="the server has no client left")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(proxy.host, proxy.port)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("turns", range(6))
async def test_closing_leaves_nothing_of_who_is_just_connecting(
    valkey: Server, authority: Authority, turns: int, tls: bool
) -> None:
    """However far its connection has come when the proxy is closed: no socket stays open."""
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        async with Proxy(valkey, tls=authority if tls else None) as proxy:
            where = proxy.host, proxy.port
            clients = [stack.enter_context(socket.create_connection(where)) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        assert await open_sockets() == []
        for client in clients:
            client.settimeout(60)
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b"", "it is told that it is over"
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_in_a_thread(valkey: Server) -> None:
    """Blocking code can use a proxy that runs beside it, and leaves no thread."""
    with ProxyThread(valkey) as relay:
        with redis.Redis.from_url(relay.url, retry=Retry(NoBackoff(), 0)) as client:
            assert client.ping()
            relay.do(lambda proxy: proxy.cut(refuse=True))
            with pytest.raises(redis.ConnectionError):
                client.ping()
            relay.do_async(lambda proxy: proxy.restore())
            assert client.ping()
        assert relay.proxy.commands["PING"] == 2
    assert [thread.name for thread in threading.enumerate() if thread.name == "proxy"] == []


async def test_refuses(proxy: Proxy, connect: Connect) -> None:
    """Some commands, so many times or all: the answers keep their order, and nothing is done."""
    client = connect()
    proxy.refuse("OOM no memory", "EVAL", times=1)
    proxy.refuse("READONLY no writes", "SET")
    async with client.pipeline(transaction=False) as pipe:
        pipe.execute_command("PING")
        pipe.execute_command("EVAL", SCRIPT, 1, "kit:n")
        pipe.execute_command("EVAL", SCRIPT, 1, "kit:n")
        pipe.execute_command("SET", "kit:x", 1, "PX", 60_000)
        pong, refused, done, refused_too = await pipe.execute(raise_on_error=False)
    assert (pong, done) == (True, 1)
    assert isinstance(refused, redis.exceptions.OutOfMemoryError)
    assert isinstance(refused_too, redis.exceptions.ReadOnlyError)
    assert await _key(client) == 1
    await proxy.restore()
    assert await client.set("kit:x", 1, px=60_000)
