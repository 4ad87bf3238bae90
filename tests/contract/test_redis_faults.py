"""What an error of the server means: for now, for good, or for another server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from contract.bench import BUDGET, Bench, claim, content, keys_of
from incumbent.stores.base import Budget, Extended, Grant
from incumbent.stores.redis import faults
from kit.servers import Server

QUICK = Budget(0.3, 0.2)


def own(bench: Bench) -> Server:
    """The bench's server, which must be one that may be set up for a test."""
    assert bench.server is not None
    if not bench.server.ours:
        pytest.skip("changes the server's settings")
    return bench.server


@contextmanager
def setting(server: Server, name: str, value: str) -> Iterator[None]:
    """Another value of one setting, for a while."""
    before = server.cli("CONFIG", "GET", name)[1]
    server.cli("CONFIG", "SET", name, value)
    try:
        yield
    finally:
        server.cli("CONFIG", "SET", name, before)


@contextmanager
def replica(server: Server) -> Iterator[None]:
    """A replica of nobody who is there, for a while."""
    server.cli("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        server.cli("REPLICAOF", "NO", "ONE")


async def test_case_74_a_full_server_refuses_a_new_lease_for_now(redis_bench: Bench) -> None:
    """Nothing is written, and a wait for better times makes sense."""
    server = own(redis_bench)
    before = content(server)
    with setting(server, "maxmemory", "1"), pytest.raises(redis.ResponseError) as said:
        await redis_bench.store.acquire(claim("job"), BUDGET)
    assert redis_bench.store.passing(said.value)
    assert not faults.worth_sending_again(said.value)
    assert content(server) == before == {}
    await redis_bench.elect(claim("job"))


async def test_case_74_a_full_server_lets_go_and_live_on(redis_bench: Bench) -> None:
    """Whoever leads can extend, release, keep and leave: none of it needs memory first."""
    server = own(redis_bench)
    grants = [await redis_bench.elect(claim(name)) for name in ("one", "two", "three", "four")]
    with setting(server, "maxmemory", "1"):
        assert isinstance(await redis_bench.store.extend(claim("one"), 0, 60, BUDGET), Extended)
        for election, grant, keep in zip(("one", "two"), grants, (0.0, 10.0), strict=False):
            given = await redis_bench.store.release(claim(election), grant, keep, BUDGET)
            assert given == "released"
        await redis_bench.store.leave(claim("three"), BUDGET)
        await redis_bench.store.leave(claim("four", "stranger"), BUDGET)
        assert await redis_bench.names("one") == await redis_bench.names("three") == []
        assert await redis_bench.names("four") == [(0, "leader-a")]


async def test_case_74_on_a_full_server_a_holder_can_be_asked_to_step_down(
    redis_bench: Bench,
) -> None:
    """The place of its work may be changed just because of that; and it keeps its time."""
    server = own(redis_bench)
    await redis_bench.elect(claim("job"))
    (seat,) = (key for key in content(server) if key.endswith("seat:0"))
    before = server.cli("PTTL", seat)
    with setting(server, "maxmemory", "1"):
        assert await redis_bench.store.ask_to_step_down("job", 1, None, BUDGET) == 1
    assert server.cli("HGET", seat, "asked") == "1"
    assert before - 5000 < server.cli("PTTL", seat) <= before


async def test_case_71_a_replica_is_the_wrong_server(redis_bench: Bench) -> None:
    """Asked again on a fresh connection while there is time; then it is redis-py's error."""
    with replica(own(redis_bench)), pytest.raises(redis.RedisError) as said:
        await redis_bench.store.acquire(claim("job"), QUICK)
    assert "replica" in str(said.value)
    assert faults.wrong_server(said.value)
    assert faults.worth_sending_again(said.value)
    assert redis_bench.store.passing(said.value)


async def test_a_replica_without_a_primary_is_the_wrong_server(redis_bench: Bench) -> None:
    """One that does not even serve what it has is no answer about who leads."""
    server = own(redis_bench)
    with (
        setting(server, "replica-serve-stale-data", "no"),
        replica(server),
        pytest.raises(redis.RedisError) as said,
    ):
        await redis_bench.store.state("job", 1, QUICK)
    assert faults.wrong_server(said.value)
    assert redis_bench.store.passing(said.value)


async def test_a_server_without_enough_replicas_will_do_later(redis_bench: Bench) -> None:
    """It refuses writes until replicas are back: that may pass."""
    server = own(redis_bench)
    if server.kind == "redis-6":
        pytest.skip("Redis 6 does not hold its scripts to this")
    with setting(server, "min-replicas-to-write", "1"), pytest.raises(redis.RedisError) as said:
        await redis_bench.store.acquire(claim("job"), QUICK)
    assert redis_bench.store.passing(said.value)
    assert keys_of(server) == []


async def test_a_failover_within_the_budget_is_not_noticed(redis_bench: Bench) -> None:
    """What a replica refuses is asked again, until it is a primary."""
    server = own(redis_bench)
    await redis_bench.elect(claim("warm"))
    server.cli("REPLICAOF", "127.0.0.1", "1")
    try:
        task = asyncio.create_task(redis_bench.store.acquire(claim("job"), BUDGET))
        await asyncio.sleep(0.05)
        assert not task.done()
    finally:
        server.cli("REPLICAOF", "NO", "ONE")
    answer = await task
    assert isinstance(answer, Grant)
    assert not answer.doubtful


@pytest.mark.parametrize(
    ("error", "again", "passes", "elsewhere"),
    [
        (redis.ConnectionError("Connection closed by server."), True, True, False),
        (redis.TimeoutError("Timeout reading"), True, True, False),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), True, True, True),
        (redis.ReadOnlyError("You can't write against a read only replica."), True, True, True),
        (redis.OutOfMemoryError("command not allowed"), False, True, False),
        (
            redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
            False,
            True,
            False,
        ),
        (redis.ResponseError("NOREPLICAS Not enough good replicas"), False, True, False),
        (redis.ResponseError("BUSY Redis is busy running a script."), False, True, False),
        (redis.AuthenticationError("invalid username-password pair"), False, False, False),
        (redis.exceptions.AuthorizationError("no"), False, False, False),
        (
            redis.exceptions.NoPermissionError("no permissions to run 'evalsha'"),
            False,
            False,
            False,
        ),
        (redis.ResponseError("WRONGTYPE Operation against a key"), False, False, False),
        (redis.ResponseError("unknown command 'EVALSHA'"), False, False, False),
        (redis.ResponseError("BUSYGROUP no such kind here"), False, False, False),
        (redis.ResponseError("A sentence that begins so"), False, False, False),
        (redis.DataError("our own bug"), False, False, False),
        (ValueError("OOM"), False, False, False),
        (
            redis.ResponseError(
                "Error running script (call to f_ab): @user_script:66: @user_script: 66: "
                "-OOM command not allowed when used memory > 'maxmemory'."
            ),
            False,
            True,
            False,
        ),
        (
            redis.ResponseError(
                "Error running script (call to f_ab): @user_script:66: @user_script: 66: "
                "-READONLY You can't write against a read only replica."
            ),
            True,
            True,
            True,
        ),
    ],
    ids=lambda part: (
        f"{type(part).__name__} {str(part)[-24:]}" if isinstance(part, Exception) else None
    ),
)
def test_what_an_error_means(error: Exception, again: bool, passes: bool, elsewhere: bool) -> None:
    """Each kind is sent again or not, waited out or not, and blamed on the server or not."""
    assert faults.worth_sending_again(error) == again
    assert faults.passing(error) == passes
    assert faults.wrong_server(error) == elsewhere
