"""The store on a server in trouble: lost replies, late requests, budgets, connections."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
import redis.asyncio
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ConstantBackoff

from contract.bench import BUDGET, LEASE, Bench, claim, key, keys_of
from incumbent import clock
from incumbent.stores.base import Budget, Busy, Extended, Grant, Place
from incumbent.stores.redis import RedisStore
from incumbent.stores.redis.place import ServerPlace
from kit.fixtures import MakeClient
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

PATIENT = Budget(4.0, 0.3)
"""A lost reply costs 0.3 s, then the request is sent again."""

SCRIPT = ("EVAL", "EVALSHA")


@dataclass(frozen=True)
class Far:
    """A bench whose store reaches the server through a proxy."""

    bench: Bench
    proxy: Proxy
    server: Server

    @property
    def store(self) -> RedisStore:
        """The store behind the proxy."""
        assert isinstance(self.bench.store, RedisStore)
        return self.bench.store

    async def warm(self) -> None:
        """Connect and fill the script cache, so that each call is one request from now on."""
        mine = claim("warm")
        grant = await self.bench.elect(mine)
        await self.store.extend(mine, 0, 60, BUDGET)
        await self.store.release(mine, grant, 0, BUDGET)
        await self.store.state("warm", 1, BUDGET)


@pytest.fixture
async def far(valkey: Server, proxy: Proxy, make_client: MakeClient) -> AsyncIterator[Far]:
    """A store behind a proxy that does no harm yet."""
    store = RedisStore(make_client(proxy), "incumbent")
    far = Far(Bench(store, valkey), proxy, valkey)
    await far.warm()
    yield far
    await store.aclose()


# -- lost replies ----------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
async def test_p5_case_45_a_grant_whose_reply_was_lost_is_given_again(far: Far, cut: bool) -> None:
    """The same seat by the same token, known to be doubtful; nobody blocks himself."""
    far.proxy.drop_replies(1, *SCRIPT, cut=cut)
    grant = await far.store.acquire(claim("job"), PATIENT)
    assert isinstance(grant, Grant)
    assert grant.doubtful
    assert await far.bench.names("job") == [(0, "leader-a")]
    assert await far.store.release(claim("job"), grant, 0, BUDGET) == "released"
    assert set(keys_of(far.server, "{job}*")) == {key("job", "fence"), key("job", "gone")}


async def test_p2_the_grant_counts_from_the_request_that_was_answered(far: Far) -> None:
    """The TTL in the answer is that of the second request, and so is the time of sending."""
    before = clock.now()
    far.proxy.drop_replies(1, *SCRIPT)
    grant = await far.store.acquire(claim("job"), PATIENT)
    assert isinstance(grant, Grant)
    assert before + PATIENT.each - 0.01 <= grant.sent_at <= clock.now()


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
async def test_p5_a_release_whose_reply_was_lost_is_released(far: Far, cut: bool) -> None:
    """The second one finds nothing of its own, which is as it should be."""
    grant = await far.bench.elect(claim("job"))
    far.proxy.drop_replies(1, *SCRIPT, cut=cut)
    assert await far.store.release(claim("job"), grant, 0, PATIENT) == "released"
    assert await far.bench.names("job") == []


async def test_p5_an_extension_whose_reply_was_lost_is_confirmed(far: Far) -> None:
    """Sent again it says what it said before."""
    await far.bench.elect(claim("job"))
    far.proxy.drop_replies(1, *SCRIPT)
    answer = await far.store.extend(claim("job"), 0, 60, PATIENT)
    assert isinstance(answer, Extended)
    assert 59 < answer.ttl <= 60


async def test_p4_a_busy_answer_after_a_lost_one_leaves_no_ghost(far: Far) -> None:
    """The copy without an answer may arrive when the seat is free: it gets nothing then."""
    await far.bench.elect(claim("job", "a"))
    far.proxy.drop_replies(1, *SCRIPT)
    assert isinstance(await far.store.acquire(claim("job", "b"), PATIENT), Busy)
    far.bench.expire("job")
    with pytest.raises(redis.ResponseError, match="given up"):
        await far.store.acquire(claim("job", "b"), BUDGET)
    assert await far.bench.names("job") == []


@pytest.mark.parametrize("direction", ["replies", "requests"])
async def test_p4_case_22_a_cancelled_acquire_leaves_nothing(far: Far, direction: str) -> None:
    """Whether its request has reached the server or is still to come, nobody is elected by it."""
    if direction == "replies":
        far.proxy.hold_replies("EVALSHA")
    else:
        far.proxy.hold_requests("EVALSHA")
    task = asyncio.create_task(far.store.acquire(claim("job"), BUDGET))
    await wait_until(lambda: far.proxy.held)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    far.proxy.release()
    # A request that was held back is first in its lane, so it has been answered when this is.
    assert await far.bench.names("job") == []
    await wait_until(lambda: far.server.cli("EXISTS", key("job", "gone")))
    await far.bench.elect(claim("job", "b"))


async def test_p2_a_grant_without_the_margin_is_none(redis_bench: Bench) -> None:
    """What arrives with less left than is needed counts as overdue, and is undone."""
    hasty = claim("job", lease_time=30)._replace(margin=20.0)
    grant = await redis_bench.elect(hasty)
    assert await redis_bench.store.release(hasty, grant, 0, BUDGET) == "released"
    late = claim("job", "b", lease_time=30)._replace(margin=29.7)
    with pytest.raises(redis.TimeoutError, match="'job' was granted too late") as said:
        await redis_bench.store.acquire(late, BUDGET)
    assert redis_bench.store.passing(said.value)
    assert await redis_bench.names("job") == []


# -- budgets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["acquire", "extend", "release", "leave", "state"])
async def test_p9_no_call_outlives_its_budget(far: Far, call: str) -> None:
    """A server that accepts and never answers costs the budget, and is redis-py's TimeoutError."""
    mine = claim("job")
    grant = await far.bench.elect(mine)
    far.proxy.silence()
    budget, began = Budget(0.4, 0.15), clock.now()
    calls: dict[str, Any] = {
        "acquire": lambda: far.store.acquire(claim("job", "b"), budget),
        "extend": lambda: far.store.extend(mine, 0, 60, budget),
        "release": lambda: far.store.release(mine, grant, 0, budget),
        "leave": lambda: far.store.leave(mine, budget),
        "state": lambda: far.store.state("job", 1, budget),
    }
    with pytest.raises(redis.TimeoutError) as said:
        await calls[call]()
    assert 0.25 < clock.now() - began < 0.4 + 3
    assert far.store.passing(said.value)
    assert "token" not in str(said.value)
    await far.proxy.restore()


async def test_p9_an_outage_within_the_budget_is_not_noticed(far: Far) -> None:
    """Refused connections are tried again while there is time."""
    far.proxy.cut(refuse=True)
    task = asyncio.create_task(far.store.acquire(claim("job"), BUDGET))
    await asyncio.sleep(0.1)
    await far.proxy.restore()
    assert isinstance(await task, Grant)


async def test_p9_without_a_server_the_error_says_so(make_client: MakeClient) -> None:
    """When nothing listens there, it is a ConnectionError within the budget, which may pass."""
    store = RedisStore(make_client("redis://127.0.0.1:1"), "incumbent")
    began = clock.now()
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)) as said:
        await store.acquire(claim("job"), Budget(0.4, 0.2))
    assert clock.now() - began < 0.4 + 3
    assert store.passing(said.value)


async def test_a_wrong_password_is_said_within_the_budget(
    valkey: Server, make_client: MakeClient
) -> None:
    """It will not pass, so it must not look like a slow server, however short the budget."""
    if not valkey.ours:
        pytest.skip("makes a user on the server")
    valkey.cli("ACL", "SETUSER", "incumbent-auth", "reset", "on", ">right", "~*", "+@all")
    login = {"username": "incumbent-auth", "password": "wrong"}
    client = make_client(valkey, retry=Retry(ConstantBackoff(0.2), 10), **login)
    store = RedisStore(client, "incumbent")
    try:
        with pytest.raises(redis.AuthenticationError) as said:
            await store.acquire(claim("job"), Budget(1.0, 0.5))
        assert not store.passing(said.value)
    finally:
        valkey.cli("ACL", "DELUSER", "incumbent-auth")
        await store.aclose()
        await wait_until(lambda: len(asyncio.all_tasks()) == 1)


# -- connections -----------------------------------------------------------------------------


async def test_p8_many_calls_at_once_share_one_connection(
    bench_of_first: Bench, valkey: Server
) -> None:
    """Two hundred elections in one turn of the loop need one connection of the caller's pool."""
    answers = await asyncio.gather(
        *(bench_of_first.store.acquire(claim(f"job-{n}"), BUDGET) for n in range(200))
    )
    assert all(isinstance(answer, Grant) for answer in answers)
    assert len(connections(valkey)) == 1


async def test_p11_a_closed_store_keeps_no_connection(
    valkey: Server, make_client: MakeClient
) -> None:
    """All is given back, by closing and by each call after it; the client stays the caller's."""
    client = make_client(valkey, max_connections=1)
    store = RedisStore(client, "incumbent")
    grant = await store.acquire(claim("job"), BUDGET)
    assert isinstance(grant, Grant)
    await store.aclose()
    assert await client.ping()  # would raise while the only connection is kept
    assert await store.release(claim("job"), grant, 0, BUDGET) == "released"
    assert await client.ping()


def test_a_store_serves_one_loop_after_another(valkey: Server) -> None:
    """Tests and scripts run several loops in one process; each ends the client's connections."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    store = RedisStore(client, "incumbent")

    async def once(who: str) -> int:
        grant = await store.acquire(claim("job", who), BUDGET)
        assert isinstance(grant, Grant)
        await store.release(claim("job", who), grant, 0, BUDGET)
        await client.aclose()
        return grant.fence

    async def end() -> None:
        await store.aclose()
        await client.aclose()

    fences = [asyncio.run(once(who)) for who in "abc"]
    asyncio.run(end())
    assert fences == sorted(set(fences))
    assert connections(valkey) == []


# -- clients ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client", [None, "redis://localhost", redis.Redis(), object()], ids=lambda c: type(c).__name__
)
def test_only_an_asynchronous_client_is_taken(client: Any) -> None:
    """Anything else is a TypeError that names what was given, and what to give."""
    with pytest.raises(TypeError, match=r"^redis must be a redis\.asyncio\.Redis or") as said:
        RedisStore(client, "incumbent")
    assert type(client).__qualname__ in str(said.value)
    for_threads = isinstance(client, redis.Redis)
    hint = "incumbent.blocking" if for_threads else "redis.asyncio.Redis.from_url"
    assert hint in str(said.value)


async def test_a_client_of_replicas_is_refused_clearly() -> None:
    """An election is held on the primary."""
    client = Sentinel([("127.0.0.1", 1)]).slave_for("main")  # type: ignore[no-untyped-call] # redis-py's
    with pytest.raises(TypeError, match="master_for"):
        RedisStore(client, "incumbent")


# -- standing in line ------------------------------------------------------------------------


def in_line(server: Server) -> list[str]:
    """The places of the line, in order."""
    found: list[str] = server.cli("ZRANGE", key("job", "queue"), 0, -1)
    return found


async def stand(store: RedisStore, who: str, *, lease_time: float = LEASE) -> Place:
    """Stand in line, behind somebody who leads."""
    wanted = claim("job", who, lease_time=lease_time)
    place = await store.stand(wanted, BUDGET)
    assert isinstance(await store.acquire(wanted, BUDGET, place), Busy)
    return place


def name_of(place: Place) -> str:
    """How the server knows it."""
    assert isinstance(place, ServerPlace)
    return place.name.decode()


async def test_who_was_dropped_by_mistake_gets_its_place_back(
    valkey: Server, make_client: MakeClient
) -> None:
    """It asks again with the arrival that it was told, and is before those who came later."""
    store, other = (RedisStore(make_client(valkey), "incumbent") for _ in range(2))
    await store.acquire(claim("job", "a"), BUDGET)
    first = await stand(store, "b", lease_time=0.9)
    second = await stand(other, "c")
    valkey.cli("ZREM", key("job", "queue"), name_of(first))
    until = clock.now() + 5
    await first.called(until)
    assert clock.now() < until, "a touch finds out that it is not in line"
    assert isinstance(await store.acquire(claim("job", "b"), BUDGET, first), Busy)
    assert in_line(valkey) == [name_of(first), name_of(second)]
    for place in (first, second):
        await place.leave(BUDGET)
    for each in (store, other):
        await each.aclose()


async def test_p5_a_refusal_that_had_to_be_repeated_spends_the_claim(
    proxy: Proxy, valkey: Server, make_client: MakeClient
) -> None:
    """A copy may arrive when the seat is free: it must find the claim given up, the place not."""
    store = RedisStore(make_client(proxy), "incumbent")
    await store.acquire(claim("job", "a"), BUDGET)
    place = await stand(store, "b")
    before = in_line(valkey)
    proxy.drop_replies(1, "EVALSHA", cut=True)
    answer = await store.acquire(claim("job", "b"), BUDGET, place)
    assert isinstance(answer, Busy)
    assert answer.spent
    assert in_line(valkey) == before
    await place.called(clock.now() + 60)  # at once: a copy may have taken the seat meanwhile
    with pytest.raises(redis_errors.ResponseError, match="given up"):
        await store.acquire(claim("job", "b"), BUDGET, place)
    assert isinstance(await store.acquire(claim("job", "b2"), BUDGET, place), Busy)
    await place.leave(BUDGET)
    assert in_line(valkey) == []
    await store.aclose()


async def test_a_request_in_line_that_fails_leaves_the_line(
    proxy: Proxy, valkey: Server, make_client: MakeClient
) -> None:
    """Nothing of it is left, and who is next is not held up; used again, it has its old rank."""
    store = RedisStore(make_client(proxy), "incumbent")
    other = RedisStore(make_client(valkey), "incumbent")
    await store.acquire(claim("job", "a"), BUDGET)
    first, second = await stand(store, "b"), await stand(other, "c")
    names = [name_of(first), name_of(second)]
    assert in_line(valkey) == names
    proxy.drop_replies(1, "EVALSHA")
    budget = Budget(4.0, 3.0)  # a quarter is for leaving: more than a machine stands still
    with pytest.raises(redis_errors.TimeoutError):
        await store.acquire(claim("job", "b"), budget, first)
    await wait_until(lambda: in_line(valkey) == names[1:])
    assert isinstance(await store.acquire(claim("job", "b2"), BUDGET, first), Busy)
    assert in_line(valkey) == names
    for place in (first, second):
        await place.leave(BUDGET)
    for each in (store, other):
        await each.aclose()


async def test_p11_a_closed_store_goes_on_waiting_without_an_inbox(
    valkey: Server, make_client: MakeClient
) -> None:
    """Whoever stands in line when it is closed is served by looking, and nothing is left open."""
    client = make_client(valkey)
    store, other = (RedisStore(each, "incumbent") for each in (client, make_client(valkey)))
    grant = await other.acquire(claim("job", "a"), BUDGET)
    assert isinstance(grant, Grant)
    place = await stand(store, "b")
    await store.aclose()
    late = await store.stand(claim("job", "c"), BUDGET)
    await other.release(claim("job", "a"), grant, 0, BUDGET)
    until = clock.now() + 5
    await place.called(until)
    assert clock.now() < until
    assert isinstance(await store.acquire(claim("job", "b"), BUDGET, place), Grant)
    late.close()
    await store.leave(claim("job", "b"), BUDGET)
    await wait_until(lambda: len(client.connection_pool._in_use_connections) == 0)
    await other.aclose()


async def test_a_line_that_is_over_is_unsubscribed(valkey: Server, make_client: MakeClient) -> None:
    """A little later, so that who comes back at once need not subscribe again."""
    store = RedisStore(make_client(valkey), "incumbent")
    await store.acquire(claim("job", "a"), BUDGET)
    place = await stand(store, "b")
    (channel,) = valkey.cli("PUBSUB", "CHANNELS", "incumbent:*")
    assert channel.startswith(key("job", "db0:inbox:"))
    await place.leave(BUDGET)
    assert valkey.cli("PUBSUB", "CHANNELS", "incumbent:*") == [channel]
    await wait_until(lambda: valkey.cli("PUBSUB", "CHANNELS", "incumbent:*") == [])
    await store.aclose()


async def test_a_wake_up_for_a_place_that_is_gone_goes_to_the_next(
    valkey: Server, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the grace of who was woken is over."""
    monkeypatch.setattr("incumbent.stores.base.LONGEST_GRACE", 10.0)
    store = RedisStore(make_client(valkey), "incumbent")
    grant = await store.acquire(claim("job", "a"), BUDGET)
    assert isinstance(grant, Grant)
    first, second = await stand(store, "b"), await stand(store, "c")
    first.close()
    await store.release(claim("job", "a"), grant, 0, BUDGET)
    began = clock.now()
    await second.called(began + 20)
    assert clock.now() - began < 10.0 / 2
    assert isinstance(await store.acquire(claim("job", "c"), BUDGET, second), Grant)
    await store.aclose()
