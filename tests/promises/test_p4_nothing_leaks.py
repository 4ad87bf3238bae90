"""P4: no key without a TTL, ever; no seat, task or connection is left behind.

That no test leaves a key without TTL or a task is checked after every test of this suite by the
fault kit. What `tests/cancellation` shows at every await is not repeated here.
"""

import asyncio
import contextlib
import gc
import time
import weakref
from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio
from redis.exceptions import RedisError

from incumbent import Elected, LeaderElector, LeadershipLostError, Skipped, current_lease
from incumbent.events import TermRenewed
from incumbent.stores.redis import scripts
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.leftovers import connections, keys_without_ttl
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    all_keys,
    cancel,
    fence_key,
    forever,
    gone_key,
    nothing,
    quick,
    seat_key,
    token_of,
    ttl_of,
)

COMMANDS = [
    "time",
    "hget",
    "hmget",
    "exists",
    "zscore",
    "pttl",
    "get",
    "set",
    "pexpire",
    "hset",
    "del",
    "zadd",
    "zremrangebyscore",
]  # what the scripts of a leader use
LINE = ("fence", "gone", "queue", "alive", "tick")


async def test_p4_every_key_has_a_ttl_at_every_step(
    server: Server, make_client: MakeClient
) -> None:
    """Looked at after each request of a term's whole life, and then only the counter remains."""
    journal = Journal()

    def look() -> None:
        assert keys_without_ttl(server) == []

    async with LeaderElector(make_client(server), quick(), hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            look()
            await journal.has(TermRenewed)
            look()
            assert await lease.extend(3)
            look()
            assert await elector.run_if_leader("one", forever) is None
            look()
        look()
        assert all_keys(server) == {fence_key("one")}
        await elector.using(lease_time=60, min_hold_time=60).run_if_leader("one", nothing)
        look()
        assert 0 < ttl_of(server, "one") <= 60_000
    assert server.cli("PTTL", fence_key("one")) > 23 * 3_600_000


@pytest.mark.parametrize("missing", COMMANDS)
async def test_p4_a_missing_right_leaves_nothing(
    own_server: Server, make_client: MakeClient, make_proxy: MakeProxy, missing: str
) -> None:
    """Whichever command the user may not run: no key without TTL, no seat that outlives its TTL."""
    own_server.cli("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", f"-{missing}")
    proxy = await make_proxy(own_server)
    client = make_client(proxy, username="u", password="p")
    options = quick(min_hold_time=0.05, request_timeout=0.8)
    async with LeaderElector(client, options) as elector:
        with contextlib.suppress(RedisError):
            await elector.run_if_leader("one", nothing)
        assert keys_without_ttl(own_server) == []
        # The scripts of clean-up and extension as well, which an abandoned claim needs.
        proxy.hold_replies("EVALSHA", "EVAL")
        task = asyncio.create_task(elector.run_if_leader("two", nothing))
        await wait_until(lambda: proxy.held)
        await cancel(task)
        proxy.release()
    leave = scripts.LEAVE.text.decode()
    with contextlib.suppress(RedisError):
        keys = [f"incumbent:{{two}}:{name}" for name in LINE]
        await client.eval(leave, 6, *keys, seat_key("two"), "token", "", "1000")
    assert keys_without_ttl(own_server) == []
    for election in ("one", "two"):
        assert ttl_of(own_server, election) in range(-2, 1501)


@pytest.mark.parametrize(("how", "late"), [("released", "gone"), ("forced", "free")])
def test_p4_a_seat_that_is_retained_in_its_last_millisecond_has_an_end(
    server: Server, how: str, late: str
) -> None:
    """What is to be kept for a minimum hold, or by force, when it is about to expire, has a TTL.

    A key's TTL reads 0 in its last millisecond, and PEXPIRE with 0 deletes it, and at times with 1
    on Redis 6 and 7: what is written next would stay. The race is run two hundred times, around
    that millisecond.
    """
    key, answers = seat_key("one"), set[str]()
    line = [f"incumbent:{{one}}:{name}" for name in LINE]
    for turn in range(200):
        server.cli("HSET", key, "token", "mine")
        server.cli("PEXPIRE", key, 3)
        until = time.perf_counter() + 0.0020 + (turn % 20) * 0.00007
        while time.perf_counter() < until:
            pass
        if how == "released":
            answer = server.cli(
                "EVAL", scripts.RELEASE.text, 6, *line, key, "mine", 0, 500, 0, 0, 0
            )
        else:
            answer = server.cli("EVAL", scripts.FORCE.text, 2, fence_key("one"), key, 0, "", 0)
        answers.add(answer[0])
        assert server.cli("PTTL", key) != -1, f"left for ever after {turn} turns"
        server.cli("DEL", key)
    assert answers <= {how, late}


async def test_p4_a_cancelled_claim_frees_what_it_had_taken(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Cancelled while the answer is on its way: the seat is free when the call has ended."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), quick(lease_time=60)) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.hold_replies("EVALSHA", "EVAL")
        task = asyncio.create_task(elector.run_if_leader("one", forever))
        await wait_until(lambda: token_of(valkey, "one") is not None)
        for _ in range(3):  # an impatient caller
            task.cancel()
            await asyncio.sleep(0)
        proxy.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert token_of(valkey, "one") is None
        assert isinstance(await elector.attempt("one", nothing), Elected)


async def test_p4_a_release_that_is_cancelled_frees_the_seat(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The release is swallowed by the network and its caller cancelled: it is sent again."""
    proxy = await make_proxy(valkey)

    async def work() -> None:
        proxy.silence()

    async with LeaderElector(make_client(proxy), quick(lease_time=60)) as elector:
        await elector.run_if_leader("one", nothing)
        sent = proxy.commands.total()
        task = asyncio.create_task(elector.run_if_leader("one", work))
        await wait_until(lambda: proxy.commands.total() == sent + 2)  # acquire and release
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        await proxy.restore()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert token_of(valkey, "one") is None


async def test_p4_a_claim_that_arrives_after_its_clean_up_takes_nothing(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The request was held by the network, and arrives when its candidate has long given up."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), quick(lease_time=60)) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.hold_requests("EVALSHA")
        task = asyncio.create_task(elector.run_if_leader("one", forever))
        await wait_until(lambda: proxy.held)
        await cancel(task)  # its clean-up goes by another connection, and is not held
        assert valkey.cli("ZCARD", gone_key("one")) == 1
        assert token_of(valkey, "one") is None
        proxy.release()
        await wait_until(lambda: proxy.held == 0)
        await elector.state("one")  # the server has seen all that was sent before
        assert token_of(valkey, "one") is None


async def test_p4_connections_are_given_back(own_server: Server, make_client: MakeClient) -> None:
    """One connection while it works, which the caller's pool gets back at `aclose`."""
    client = make_client(own_server)
    pool = client.connection_pool
    async with LeaderElector(client, quick()) as elector:
        await elector.run_if_leader("one", nothing)
        assert len(connections(own_server)) == len(pool._in_use_connections) == 1
    assert not pool._in_use_connections
    assert await client.ping()
    assert len(connections(own_server)) == 1
    await client.aclose()
    await wait_until(lambda: not connections(own_server))


async def test_p4_abandoned_requests_leave_no_connection(
    own_server: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Twenty claims are cancelled or time out in mid-air; the pool has a connection or two of it.

    Two, if one claim was cleaned up while the next one came.
    """
    proxy = await make_proxy(own_server)
    client = make_client(proxy)
    async with LeaderElector(client, quick(request_timeout=0.05)) as elector:
        for turn in range(20):
            proxy.drop_replies(1, "EVALSHA", "EVAL")
            task = asyncio.create_task(elector.attempt(f"e{turn}", nothing))
            if turn % 2:
                await asyncio.wait([task], timeout=0.01)
                await cancel(task)
            else:
                await asyncio.wait([task])
                task.exception()
        await wait_until(lambda: len(connections(own_server)) <= 2)
    pool = client.connection_pool
    assert not pool._in_use_connections


async def test_p4_an_elector_that_nobody_closes_makes_no_noise(
    valkey: Server, make_client: MakeClient, recwarn: pytest.WarningsRecorder
) -> None:
    """Forgotten without `aclose`: no warning, no task; its client still closes all."""
    elector = LeaderElector(make_client(valkey), quick())
    await elector.run_if_leader("one", nothing)
    del elector
    assert not recwarn.list


async def test_p4_a_seat_that_nobody_releases_is_free_after_its_lease(
    valkey: Server, make_client: MakeClient, client: "redis.asyncio.Redis"
) -> None:
    """A holder that vanishes without a word costs one lease, whatever it had in mind."""
    gone = make_client(valkey)
    lost = LeaderElector(gone, quick(lease_time=0.4, auto_extend=False, on_loss="notify"))
    lead = lost.lead("one")
    await lead.__aenter__()
    async with LeaderElector(client, quick()) as elector:
        assert isinstance(await elector.attempt("one", nothing), Skipped)
        assert isinstance(await elector.using(wait_time=5).attempt("one", nothing), Elected)
    await lead.__aexit__(None, None, None)


async def test_p4_a_frozen_server_keeps_nothing_that_lasts(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """Claims that a frozen server swallowed take the seat for one lease at most when it thaws."""
    server, work = start_server(), Work()
    options = quick(lease_time=0.5, request_timeout=0.8)
    async with LeaderElector(make_client(server), options) as elector:
        await elector.run_if_leader("one", nothing)
        server.pause()
        for _ in range(3):
            with pytest.raises(RedisError):
                await elector.run_if_leader("one", work)
        server.resume()
        assert isinstance(await elector.using(wait_time=5).attempt("one", nothing), Elected)
    assert work.runs == 0
    assert all_keys(server) <= {fence_key("one"), gone_key("one")}


class Load:
    """Something large that an action works with."""


Ending = Callable[[], Awaitable[object]]


async def loses() -> str:
    """Lose the lease, and obey."""
    lease = current_lease()
    assert lease is not None
    await lease.step_down()
    return "never"


async def fails() -> str:
    """Raise."""
    raise ValueError("no good")


async def loses_and_fails() -> str:
    """Lose the lease, and raise in the clean-up."""
    try:
        return await loses()
    finally:
        raise ValueError("no good")


@pytest.mark.parametrize("ending", [nothing, fails, loses, loses_and_fails])
@pytest.mark.parametrize("entry", ["run_if_leader", "attempt", "lead"])
async def test_p4_what_an_action_had_goes_with_its_outcome(
    client: redis.asyncio.Redis, entry: str, ending: Ending
) -> None:
    """An error is not kept alive by what it went through: without the garbage collector."""
    elector = LeaderElector(client, quick(), hooks=())  # what is logged here is kept by pytest
    loads: list[weakref.ref[Load]] = []

    async def act() -> object:
        load = Load()
        loads.append(weakref.ref(load))
        return await ending()

    async def block() -> object:
        async with elector.lead("one"):
            return await act()

    gc.disable()
    try:
        with contextlib.suppress(ValueError, LeadershipLostError):
            await (block() if entry == "lead" else getattr(elector, entry)("one", act))
        await asyncio.sleep(0)  # in which a timer's call that was cancelled is let go of
        assert [load() for load in loads] == [None]
    finally:
        gc.enable()
        await elector.aclose()
