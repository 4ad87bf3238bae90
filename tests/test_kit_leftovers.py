"""kit.leftovers and kit.fixtures: what a test leaves behind is seen, and fails that test."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis.asyncio

from kit.fixtures import MakeClient
from kit.leftovers import Complaints, connections, keys_without_ttl, leftover_tasks
from kit.servers import Server
from kit.waiting import wait_until

TESTS = Path(__file__).parent


def test_finds_keys_without_ttl_in_every_database(own_server: Server) -> None:
    """Of each type and database, below the prefix only, and none that has a TTL."""
    assert keys_without_ttl(own_server) == []
    own_server.cli("SET", "incumbent:fine", 1, "PX", 60_000)
    own_server.cli("SET", "other", 1)
    own_server.cli("HSET", "incumbent:{a}:seat:0", "token", "x")
    own_server.cli("SELECT", 3)
    own_server.cli("SADD", "incumbent:{b}:set", "x")
    own_server.cli("SELECT", 0)
    assert keys_without_ttl(own_server) == ["0/incumbent:{a}:seat:0", "3/incumbent:{b}:set"]
    assert keys_without_ttl(own_server, ["nothing"]) == []
    assert own_server.cli("GET", "other") == "1"  # still in database 0
    own_server.cli("FLUSHALL")


async def test_counts_connections(valkey: Server, make_client: MakeClient) -> None:
    """Each connection of a client is seen, the one that asks is not."""
    assert connections(valkey) == []
    client = make_client(valkey, client_name="me")
    await client.ping()
    assert [each["name"] for each in connections(valkey)] == ["me"]
    await client.aclose()
    await wait_until(lambda: not connections(valkey))


async def test_tells_leftover_tasks() -> None:
    """A task that stays is told; one that ends within a few turns is not."""

    async def turn() -> None:
        await asyncio.sleep(0)

    short = asyncio.create_task(turn())
    assert await leftover_tasks() == set()
    assert short.done()
    stays = asyncio.create_task(asyncio.sleep(60))
    assert await leftover_tasks() == {stays}
    stays.cancel()


async def test_hears_the_loop_complain(loop_complaints: list[str]) -> None:
    """An exception that nobody retrieved is heard when its task is collected."""

    async def fail() -> None:
        raise ValueError("lost")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task)
    del task
    await wait_until(lambda: loop_complaints, what="the complaint")
    assert "ValueError('lost')" in loop_complaints[0]
    loop_complaints.clear()
    assert Complaints().heard == []


BAD_TESTS = """
import asyncio
import pytest
import redis.asyncio

def test_key(valkey):
    valkey.cli("SET", "incumbent:x", 1)

def test_key_after_failure(valkey):
    assert valkey.cli("DBSIZE") == 0

def test_own_key(own_server, watched_prefixes):
    watched_prefixes.append("mine")
    own_server.cli("SET", "mine:x", 1)

def test_frozen(own_server):
    own_server.cli("SET", "incumbent:x", 1)
    own_server.pause()

def test_dead(own_server):
    own_server.cli("SET", "incumbent:x", 1)
    own_server.kill()

async def test_task():
    test_task.kept = asyncio.create_task(asyncio.sleep(60))

async def test_socket(valkey):
    test_socket.kept = redis.asyncio.Redis.from_url(valkey.url)
    await test_socket.kept.ping()

async def test_lost():
    async def fail():
        raise ValueError
    asyncio.create_task(fail())
    await asyncio.sleep(0.01)

def test_fine(valkey):
    valkey.cli("SET", "incumbent:x", 1, "PX", 1000)
"""


def test_the_checks_fail_the_test_that_left_something(tmp_path: Path) -> None:
    """Each kind of leftover turns its own test red, and no other."""
    if os.environ.get("INCUMBENT_TEST_URL"):
        pytest.skip("needs servers that it may kill")
    (tmp_path / "test_bad.py").write_text(textwrap.dedent(BAD_TESTS))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "kit.fixtures",
        "-p",
        "no:cacheprovider",
        "-rE",
    ]
    run = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    red = {
        line.split("::")[1].split(" ")[0] for line in run.stdout.splitlines() if "ERROR t" in line
    }
    red_ones = {"test_key", "test_own_key", "test_frozen", "test_task", "test_socket", "test_lost"}
    assert red == red_ones, run.stdout
    assert "9 passed" in run.stdout


async def test_the_ready_client(client: "redis.asyncio.Redis", valkey: Server) -> None:
    """`client` is a plain redis-py client of the `valkey` server."""
    await client.set("incumbent:x", "1", px=60_000)
    assert valkey.cli("GET", "incumbent:x") == "1"
