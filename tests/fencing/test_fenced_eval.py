"""`fenced_eval`: the guard in front of a Lua script, on each kind of server."""

import asyncio
from typing import Any

import pytest
import redis
from redis import exceptions as redis_errors

from incumbent.fencing import StaleFenceError, blocking, fenced_eval
from kit.fixtures import MakeClient, StartServer
from kit.servers import Server

SET = "return redis.call('SET', KEYS[1], ARGV[1])"
NOW = 1_795_998_645_434_343
"""A fence as elections give them: microseconds since the epoch."""


async def test_a_stale_write_is_refused(wire_client: Any, server: Server) -> None:
    """The same fence may write again and again, a larger one may; from then on the old may not."""

    async def write(body: str, fence: int) -> None:
        await fenced_eval(wire_client, "highest", fence, SET, keys=["note"], args=[body])

    for body in ("one", "two"):
        await write(body, NOW)
    await write("three", NOW + 1)
    with pytest.raises(StaleFenceError) as caught:
        await write("four", NOW)
    error = caught.value
    assert (error.resource, error.fence, error.highest) == ("highest", NOW, NOW + 1)
    assert server.cli("GET", "note") == "three"
    await write("five", NOW + 1)
    assert (server.cli("GET", "note"), server.cli("GET", "highest")) == ("five", str(NOW + 1))


async def test_fences_are_numbers(client: Any) -> None:
    """As texts, 10 would be less than 9."""
    await fenced_eval(client, "highest", 9, "return 1")
    await fenced_eval(client, "highest", 10, "return 1")
    with pytest.raises(StaleFenceError):
        await fenced_eval(client, "highest", 9, "return 1")


async def test_a_script_sees_its_own_keys_and_arguments(wire_client: Any) -> None:
    """As if the guard were not there; also when there are none, or very many."""
    text = wire_client.get_encoder().decode_responses
    told = await fenced_eval(
        wire_client,
        "highest",
        1,
        "-- a comment\nlocal function all(list) return table.concat(list, ' ') end\n"
        "return {#KEYS, #ARGV, all(KEYS), all(ARGV)} -- the end",
        keys=["a", b"b"],
        args=["x", b"y", 3],
    )
    assert told == [2, 3, "a b", "x y 3"] if text else [2, 3, b"a b", b"x y 3"]
    assert await fenced_eval(wire_client, "highest", 1, "return #KEYS + #ARGV") == 0
    many = ["x"] * 10_000
    assert await fenced_eval(wire_client, "highest", 1, "return #ARGV", args=many) == 10_000


async def test_fences_out_of_order_from_many_at_once(client: Any, valkey: Server) -> None:
    """Whatever the order of arrival, what is there at the end is the write of the highest."""
    fences = [NOW + each for each in (5, 2, 8, 1, 7, 3, 6, 4)]
    done = await asyncio.gather(
        *(fenced_eval(client, "highest", each, SET, keys=["n"], args=[each]) for each in fences),
        return_exceptions=True,
    )
    assert {type(each) for each in done} <= {bytes, StaleFenceError}
    assert valkey.cli("GET", "n") == valkey.cli("GET", "highest") == str(NOW + 8)


async def test_the_errors_of_a_script_are_its_own(client: Any, valkey: Server) -> None:
    """They are not taken for a refusal; the fence was seen all the same."""
    for script in ("return redis.call('LPUSH', KEYS[1], 'x')", "error('no')", "return nonsense("):
        valkey.cli("SET", "n", "text")
        with pytest.raises(redis_errors.ResponseError):
            await fenced_eval(client, "highest", 1, script, keys=["n"])
    assert valkey.cli("GET", "highest") == "1"


@pytest.mark.parametrize("junk", ["", "nan", "1e99", "-1", "x"])
async def test_a_register_with_something_else_admits_nothing(
    client: Any, valkey: Server, junk: str
) -> None:
    """Not a number that was written here: an error, not an admission."""
    valkey.cli("SET", "highest", junk)
    with pytest.raises(redis_errors.ResponseError, match="register of fences"):
        await fenced_eval(client, "highest", NOW, SET, keys=["n"], args=["x"])
    valkey.cli("DEL", "highest")
    valkey.cli("LPUSH", "highest", "1")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        await fenced_eval(client, "highest", NOW, SET, keys=["n"], args=["x"])
    assert valkey.cli("GET", "n") is None


async def test_a_full_server_refuses_before_the_script_begins(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """The register is written first."""
    server = start_server(args=["--maxmemory", "1", "--maxmemory-policy", "noeviction"])
    with pytest.raises(redis_errors.OutOfMemoryError):
        await fenced_eval(make_client(server), "highest", 1, SET, keys=["n"], args=["x"])
    assert server.cli("DBSIZE") == 0


def test_threads(valkey: Server) -> None:
    """The same by a `redis.Redis`."""
    with redis.Redis.from_url(valkey.url) as client:
        assert blocking.fenced_eval(client, "highest", 2, SET, keys=["n"], args=["x"])
        with pytest.raises(StaleFenceError, match="2 has been seen"):
            blocking.fenced_eval(client, "highest", 1, SET, keys=["n"], args=["y"])
        with pytest.raises(redis_errors.ResponseError):
            blocking.fenced_eval(client, "highest", 2, "error('no')")
        assert client.get("n") == b"x"


@pytest.mark.parametrize(
    ("register", "fence", "script", "error"),
    [
        ("", 1, SET, ValueError),
        ("highest", 0, SET, ValueError),
        ("highest", 2**53, SET, ValueError),
        ("highest", 1.0, SET, TypeError),
        ("highest", 1, "#!lua flags=no-writes\nreturn 1", ValueError),
    ],
)
async def test_bad_arguments_are_refused_before_any_io(
    register: Any, fence: Any, script: str, error: type[Exception]
) -> None:
    """There is no client at all."""
    nobody: Any = None
    with pytest.raises(error):
        await fenced_eval(nobody, register, fence, script)
    with pytest.raises(error):
        blocking.fenced_eval(nobody, register, fence, script)
