"""`lease.transaction`: what is committed, what is refused, and what is left after trouble."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
import redis
import redis.asyncio
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.cache import CacheConfig

from fencing.looks import between
from incumbent import (
    GroupElector,
    LeaderElector,
    LeaderOptions,
    Lease,
    MemoryStore,
    StaleFenceError,
)
from incumbent import blocking as threads
from incumbent.stores.redis.transaction import BlockingTransaction, Transaction
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import THIEF, cancel, seat_key, steal

OPTIONS = LeaderOptions(lease_time=30, request_timeout=10)
"""A lease that nothing in a test of another thing renews or ends."""


@pytest.fixture
async def lease(valkey: Server, make_client: MakeClient) -> AsyncIterator[Lease]:
    """A lease of election "one" on `valkey`."""
    async with (
        LeaderElector(make_client(valkey), OPTIONS) as elector,
        elector.using(on_loss="notify").lead("one") as held,
    ):
        yield held


def counter(server: Server, key: str = "count") -> str | None:
    """What the transactions of these tests count."""
    found: str | None = server.cli("GET", key)
    return found


def begin(lease: Lease | threads.Lease, client: Any) -> Any:
    """The transaction; without a type, because redis-py has the wrong ones for pipelines."""
    return lease.transaction(client)


def decoding(client: Any) -> bool:
    """Whether it gives text."""
    return bool(client.get_encoder().decode_responses)


def free(client: "redis.asyncio.Redis", *, electors: int = 0) -> bool:
    """Whether every connection is back in the pool, but the one that an elector keeps."""
    return len(client.connection_pool._in_use_connections) == electors


# -- a lease that is held ---------------------------------------------------------------------


async def test_what_the_leader_writes_is_committed(
    wire_client: "redis.asyncio.Redis", server: Server
) -> None:
    """At the end of the block, or at `execute`, which gives the results; as often as it likes."""
    async with LeaderElector(wire_client, OPTIONS).lead("one") as lease:
        async with begin(lease, wire_client) as pipe:
            pipe.incr("count")
            pipe.set("name", "one")
            assert counter(server) is None
        assert (counter(server), counter(server, "name")) == ("1", "one")
        async with begin(lease, wire_client) as pipe:
            assert await pipe.incr("count").get("name").execute() == [
                2,
                "one" if decoding(wire_client) else b"one",
            ]
            await pipe.incr("count")  # also like that
        assert counter(server) == "3"
        assert await begin(lease, wire_client).incr("count").execute() == [4]
        assert free(wire_client, electors=1)


async def test_an_error_in_the_block_sends_nothing(
    lease: Lease, client: "redis.asyncio.Redis", valkey: Server
) -> None:
    """The error comes out as it is."""
    valkey.admin.config_resetstat()
    with pytest.raises(KeyError):
        async with begin(lease, client) as pipe:
            pipe.incr("count")
            raise KeyError
    assert counter(valkey) is None
    assert valkey.admin.info("commandstats").get("cmdstat_multi") is None


async def test_an_empty_block_asks_nothing(client: "redis.asyncio.Redis", valkey: Server) -> None:
    """There is nothing that could be refused."""
    async with LeaderElector(client, OPTIONS).lead("one") as lease:
        steal(valkey, "one")
        async with begin(lease, client):
            pass
        assert await begin(lease, client).execute() == []
        valkey.cli("DEL", seat_key("one"))


async def test_an_error_of_a_command_is_the_commands(
    lease: Lease, client: "redis.asyncio.Redis", valkey: Server
) -> None:
    """As in every pipeline: what cannot be queued undoes all, what fails later only itself."""
    valkey.cli("SET", "text", "x")
    with pytest.raises(redis_errors.ResponseError, match="LPUSH"):
        async with begin(lease, client) as pipe:
            pipe.incr("count").lpush("text", "y")
    assert counter(valkey) == "1"
    with pytest.raises(redis_errors.ResponseError):
        async with begin(lease, client) as pipe:
            pipe.incr("count").execute_command("NOSUCH")
    assert counter(valkey) == "1"
    pipe = begin(lease, client).incr("count").lpush("text", "y")
    first, second = await pipe.execute(raise_on_error=False)
    assert first == 2
    assert isinstance(second, redis_errors.ResponseError)
    assert free(client)


async def test_scripts_are_loaded_as_in_every_pipeline(
    lease: Lease, client: "redis.asyncio.Redis", valkey: Server
) -> None:
    """A registered script that the server does not know."""
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    async with begin(lease, client) as pipe:
        await script(keys=["count"], args=[5], client=pipe)
        assert await pipe.execute() == [5]
        await script(keys=["count"], args=[5], client=pipe)
    assert counter(valkey) == "10"


async def test_each_seat_of_a_group_has_its_own(
    client: "redis.asyncio.Redis", valkey: Server
) -> None:
    """Who loses one of the seats disturbs nobody on the others."""
    options = LeaderOptions(lease_time=30, on_loss="notify")
    group = GroupElector(client, options, seats=2)
    async with group.lead("one") as first, group.lead("one") as second:
        valkey.cli("HSET", seat_key("one"), "token", THIEF)
        async with begin(second, client) as pipe:
            pipe.incr("count")
        with pytest.raises(StaleFenceError):
            async with begin(first, client) as pipe:
                pipe.incr("count")
    assert counter(valkey) == "1"


# -- a lease that is not ----------------------------------------------------------------------


def taken(server: Server) -> None:
    """A newer leader has the seat."""
    fence = int(server.cli("HGET", seat_key("one"), "fence"))
    server.cli("HSET", seat_key("one"), "token", THIEF, "fence", fence + 1)


def forced(server: Server) -> None:
    """An operator took it; nobody has it yet."""
    server.cli("HSET", seat_key("one"), "token", "retained")


def gone(server: Server) -> None:
    """It expired, or was evicted."""
    server.cli("DEL", seat_key("one"))


LOSSES = pytest.mark.parametrize("lose", [taken, forced, gone])


@LOSSES
async def test_a_stale_leader_commits_nothing(
    server: Server, wire: dict[str, Any], make_client: MakeClient, lose: Callable[[Server], None]
) -> None:
    """Although it believes to lead; the error says what the server has seen, and no token."""
    client = make_client(server, **wire)
    options = OPTIONS.changed(on_loss="notify")
    async with LeaderElector(client, options).lead("one") as lease:
        lose(server)
        assert lease.held
        with pytest.raises(StaleFenceError) as caught:
            async with begin(lease, client) as pipe:
                pipe.incr("count")
        error = caught.value
        assert (error.resource, error.fence) == ("one", lease.fence)
        assert error.highest == (lease.fence + 1 if lose is taken else None)
        assert lease._term.claim.token not in f"{error!r} {error} {pipe!r} {vars(pipe)}"
        assert THIEF not in f"{error!r} {error}"
        assert counter(server) is None
        assert free(client, electors=1)
        assert await client.ping()


@LOSSES
async def test_a_seat_that_is_lost_after_the_look_is_lost(
    lease: Lease,
    client: "redis.asyncio.Redis",
    valkey: Server,
    monkeypatch: pytest.MonkeyPatch,
    lose: Callable[[Server], None],
) -> None:
    """Between the look and EXEC: the server itself compares, at the last moment."""
    between(monkeypatch, Transaction, lambda: lose(valkey))
    with pytest.raises(StaleFenceError):
        async with begin(lease, client) as pipe:
            pipe.incr("count")
    assert counter(valkey) is None
    assert free(client)


async def test_a_seat_that_expires_after_the_look_is_lost(
    lease: Lease,
    client: "redis.asyncio.Redis",
    valkey: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its time runs out while the connection watches it."""

    def expire() -> None:
        valkey.cli("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        valkey.cli("PEXPIRE", seat_key("one"), 1)
        while valkey.cli("PTTL", seat_key("one")) != -2:
            pass

    between(monkeypatch, Transaction, expire)
    with pytest.raises(StaleFenceError):
        async with begin(lease, client) as pipe:
            pipe.incr("count")
    valkey.cli("DEBUG", "SET-ACTIVE-EXPIRE", "1")
    assert counter(valkey) is None


async def test_a_renewal_in_between_costs_another_look(
    lease: Lease, client: "redis.asyncio.Redis", valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It touches the seat, so that EXEC does nothing; the commands are then sent once more."""
    renewals = [lambda: valkey.cli("PEXPIRE", seat_key("one"), 40_000)] * 3
    looks = between(monkeypatch, Transaction, *renewals)
    async with begin(lease, client) as pipe:
        pipe.incr("count")
        assert await pipe.execute() == [1]
    assert looks == [4]
    assert counter(valkey) == "1"


async def test_every_commit_gets_through_beside_renewals(
    valkey: Server, make_client: MakeClient
) -> None:
    """A lease that is renewed sixty times in a row, forty writers under it: each counts once."""
    client, another = make_client(valkey), make_client(valkey)

    async def write(held: Lease) -> None:
        async with begin(held, client) as pipe:
            pipe.incr("count")

    async def renew(held: Lease) -> None:
        for more in range(60):
            await held.extend(100 + more)

    async with LeaderElector(another, OPTIONS).lead("one") as held:
        renewing = asyncio.create_task(renew(held))
        await asyncio.gather(*(write(held) for _ in range(40)))
        await renewing
    assert counter(valkey) == "40"


async def test_a_lease_that_is_known_to_be_over_sends_nothing(
    client: "redis.asyncio.Redis", valkey: Server
) -> None:
    """After its release, and whenever `held` is false."""
    async with LeaderElector(client, OPTIONS).lead("one") as lease:
        await lease.release()
        valkey.admin.config_resetstat()
        with pytest.raises(StaleFenceError, match="the lease is not held"):
            async with begin(lease, client) as pipe:
                pipe.incr("count")
    assert "cmdstat_watch" not in valkey.admin.info("commandstats")


async def test_another_database_and_another_server_are_no_place_to_look(
    lease: Lease, valkey: Server, own_server: Server, make_client: MakeClient
) -> None:
    """The seat is not there, so nothing is written there; the message helps to find out why."""
    elsewhere = [make_client(own_server), make_client(valkey.url.replace("/0", "/1"))]
    for client in elsewhere:
        with pytest.raises(StaleFenceError, match="no such seat in this database"):
            async with begin(lease, client) as pipe:
                pipe.incr("count")
    assert not own_server.cli("KEYS", "*")
    assert counter(valkey) is None


# -- what cannot be used ----------------------------------------------------------------------


async def test_what_is_no_client_is_refused_before_any_io(lease: Lease) -> None:
    """So is a lease that is on no server."""
    for client in ("redis://localhost", None):
        with pytest.raises(TypeError, match=r"needs a client of redis-py"):
            begin(lease, client)
    async with LeaderElector(MemoryStore(), OPTIONS).lead("one") as on_no_server:
        with pytest.raises(TypeError, match="on no server"):
            begin(on_no_server, redis.asyncio.Redis())


@pytest.mark.parametrize("command", ["watch", "UNWATCH", "Discard", "EXEC", "multi", b"WATCH"])
async def test_the_transactions_own_commands_are_refused(
    lease: Lease, client: "redis.asyncio.Redis", valkey: Server, command: str | bytes
) -> None:
    """With one of them in the middle, the rest would be written whoever leads."""
    with pytest.raises(redis_errors.RedisError, match="does its own"):
        async with begin(lease, client) as pipe:
            pipe.incr("count")
            pipe.execute_command(command, "count")
    with pytest.raises(redis_errors.RedisError, match="does its own WATCH"):
        async with begin(lease, client) as pipe:
            await pipe.watch("count")
    assert counter(valkey) is None


# -- trouble on the way -----------------------------------------------------------------------


async def test_a_lost_answer_is_not_sent_again(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient
) -> None:
    """All of it was done, once; the error says "all or nothing", whatever the client's retry."""
    proxy = await make_proxy(valkey)
    client = make_client(proxy, retry=Retry(NoBackoff(), 3))
    async with LeaderElector(make_client(valkey), OPTIONS).lead("one") as lease:
        proxy.drop_replies(1, "EXEC", cut=True)
        with pytest.raises(redis_errors.ConnectionError, match="or nothing of it"):
            async with begin(lease, client) as pipe:
                pipe.incr("count")
        assert counter(valkey) == "1"
        assert free(client)
        async with begin(lease, client) as pipe:
            pipe.incr("count")
    assert counter(valkey) == "2"


async def test_a_connection_that_is_cut_between_look_and_exec(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch went with it: nothing may be sent by a new connection, which watches nothing."""
    proxy = await make_proxy(valkey)
    client = make_client(proxy, retry=Retry(NoBackoff(), 3))
    async with LeaderElector(make_client(valkey), OPTIONS).lead("one") as lease:
        between(monkeypatch, Transaction, proxy.cut)
        with pytest.raises(redis_errors.ConnectionError):
            async with begin(lease, client) as pipe:
                pipe.incr("count")
        assert counter(valkey) is None
        assert free(client)


@pytest.mark.parametrize("held", ["WATCH", "HMGET", "EXEC"])
async def test_a_cancelled_commit_is_whole_or_nothing(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, held: str
) -> None:
    """Wherever it is cut; the connection is given back, and no reply is left in it for others."""
    proxy = await make_proxy(valkey)
    client = make_client(proxy, max_connections=1)
    async with LeaderElector(make_client(valkey), OPTIONS).lead("one") as lease:
        await client.ping()
        proxy.hold_replies(held)

        async def commit() -> None:
            async with begin(lease, client) as pipe:
                pipe.incr("count").incr("other")

        task = asyncio.create_task(commit())
        await wait_until(lambda: proxy.held, within=20, what=f"the answer to {held} is held")
        await cancel(task)
        assert task.cancelled()
        assert free(client)
        proxy.release()
        assert counter(valkey) == counter(valkey, "other") == ("1" if held == "EXEC" else None)
        assert await client.echo("hello") == b"hello"
        async with begin(lease, client) as pipe:
            pipe.incr("count")


@pytest.mark.parametrize("way", ["task.cancel", "anyio", "every task"])
async def test_p4_a_cancellation_of_a_commit_is_never_swallowed(
    lease: Lease, valkey: Server, make_client: MakeClient, way: str
) -> None:
    """In each turn of the loop in which redis-py connects, asks and commits."""

    async def commit(client: Any) -> None:
        with scope:
            async with begin(lease, client) as pipe:
                pipe.incr("count")

    turns, struck = 0, True
    while struck:
        scope, client = anyio.CancelScope(), make_client(valkey)
        spared = asyncio.all_tasks()
        task = asyncio.create_task(commit(client))
        for _ in range(turns):
            await asyncio.sleep(0)
        struck = not task.done()
        if way == "anyio":
            scope.cancel()
        else:  # also those that redis-py has begun, as programs do when they end
            for each in {task} if way == "task.cancel" else asyncio.all_tasks() - spared:
                each.cancel()
        await asyncio.wait((task,))
        # A scope catches its own; it may come too late for who has nothing to wait for any more.
        assert task.cancelled() == (struck and way != "anyio"), f"in turn {turns}"
        assert free(client)
        await client.aclose()
        turns += 1
    assert turns > 20


@pytest.mark.parametrize("after_the_look", [False, True])
async def test_p9_a_frozen_server_costs_two_requests_time(
    start_server: StartServer,
    make_client: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    after_the_look: bool,
) -> None:
    """Whatever the client's own patience is, which here has no end; nothing is said in parting."""
    server = start_server()
    client = make_client(server, socket_timeout=None, retry=Retry(NoBackoff(), 10))
    options = LeaderOptions(lease_time=60, request_timeout=0.8, on_loss="notify")
    async with LeaderElector(make_client(server), options).lead("one") as lease:
        await client.ping()
        if after_the_look:
            between(monkeypatch, Transaction, server.pause)
        else:
            server.pause()
        with pytest.raises(redis_errors.TimeoutError, match="or nothing of it"):
            async with asyncio.timeout(40), begin(lease, client) as pipe:
                pipe.incr("count")
        assert free(client)
        server.resume()


# -- the same for threads ---------------------------------------------------------------------


def test_threads_what_the_leader_writes_is_committed(valkey: Server, wire: dict[str, Any]) -> None:
    """At the end of the block, or at `execute`; an error in the block sends nothing."""
    with (
        redis.Redis.from_url(valkey.url, **wire) as client,
        threads.LeaderElector(valkey.url, OPTIONS) as elector,
        elector.lead("one") as lease,
    ):
        with begin(lease, client) as pipe:
            assert pipe.incr("count").incr("count").execute() == [1, 2]
            pipe.incr("count")
        assert counter(valkey) == "3"
        with pytest.raises(KeyError), begin(lease, client) as pipe:
            pipe.incr("count")
            raise KeyError
        with pytest.raises(redis_errors.RedisError, match="does its own"):
            begin(lease, client).watch("count")
        assert counter(valkey) == "3"


@LOSSES
def test_threads_a_stale_leader_commits_nothing(
    valkey: Server, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Server], None]
) -> None:
    """Whether the seat is lost before the look or after it; the connection can be used again."""
    options = OPTIONS.changed(on_loss="notify")
    for late in (False, True):
        with (
            redis.Redis.from_url(valkey.url, max_connections=1) as client,
            threads.LeaderElector(valkey.url, options) as elector,
            elector.lead("one") as lease,
        ):
            if late:
                between(monkeypatch, BlockingTransaction, lambda: lose(valkey))
            else:
                lose(valkey)
            with pytest.raises(StaleFenceError), begin(lease, client) as pipe:
                pipe.incr("count")
            assert client.get("count") is None
        valkey.cli("DEL", seat_key("one"))


def test_threads_a_renewal_in_between_costs_another_look(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as without threads."""
    renewals = [lambda: valkey.cli("PEXPIRE", seat_key("one"), 40_000)] * 3
    looks = between(monkeypatch, BlockingTransaction, *renewals)
    with (
        redis.Redis.from_url(valkey.url) as client,
        threads.LeaderElector(valkey.url, OPTIONS) as elector,
        elector.lead("one") as lease,
        begin(lease, client) as pipe,
    ):
        assert pipe.incr("count").execute() == [1]
    assert looks == [4]
    assert counter(valkey) == "1"


def test_threads_a_lost_answer_is_not_sent_again(valkey: Server) -> None:
    """All of it was done, once, whatever the client's retry."""
    patient = redis.retry.Retry(NoBackoff(), 3)
    with (
        ProxyThread(valkey) as relay,
        redis.Redis.from_url(relay.url, retry=patient) as client,
        threads.LeaderElector(valkey.url, OPTIONS) as elector,
        elector.lead("one") as lease,
    ):
        relay.do(lambda proxy: proxy.drop_replies(1, "EXEC", cut=True))
        with (
            pytest.raises(redis_errors.ConnectionError, match="or nothing of it"),
            begin(lease, client) as pipe,
        ):
            pipe.incr("count")
        assert counter(valkey) == "1"
        with begin(lease, client) as pipe:
            pipe.incr("count")
        assert counter(valkey) == "2"


@pytest.mark.skipif(
    tuple(redis.VERSION) < (6,), reason="redis-py 5 hangs when its own cache hears of a change"
)
def test_threads_a_clients_cache_does_not_answer(start_server: StartServer) -> None:
    """With redis-py's client-side cache the seat is looked at on the server all the same."""
    server = start_server("redis-8")
    options = OPTIONS.changed(on_loss="notify")
    with (
        redis.Redis.from_url(server.url, protocol=3, cache_config=CacheConfig()) as client,
        threads.LeaderElector(server.url, options) as elector,
        elector.lead("one") as lease,
    ):
        assert client.hget(seat_key("one"), "token")
        with begin(lease, client) as pipe:
            pipe.incr("count")
        taken(server)
        with pytest.raises(StaleFenceError), begin(lease, client) as pipe:
            pipe.incr("count")
        assert counter(server) == "1"
