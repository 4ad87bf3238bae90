"""P4 on a cluster and behind Sentinels: cancelled in each turn of the loop, nothing is left.

Each run has a client and an elector of its own, which must first find out whom to ask. That is done
by tasks of the library's own; by turns of the event loop these are struck at each step as well.
"""

import asyncio
import gc
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest
import redis
from redis.asyncio import RedisCluster

from cancellation.stage import nothing
from incumbent.stores.redis import directory, primary
from kit.cluster import Cluster
from kit.leftovers import leftover_tasks, open_sockets
from kit.sentinels import SERVICE
from kit.servers import Server
from topology.scene import StartWatched, elector_of, manager_of, seat_of

FREE = 1000
"""More turns than an election takes."""

HELD = 150
"""Turns after which everyone stands in line, and hears what is said there."""

Cli = Callable[..., Any]
Connect = Callable[[], Any]
Tasks = set[asyncio.Task[Any]]


def the_caller(task: asyncio.Task[Any], spared: Tasks) -> None:
    """As a timeout does, or who has no use for the result any more."""
    task.cancel()


def everyone(task: asyncio.Task[Any], spared: Tasks) -> None:
    """As programs do when they end."""
    for each in asyncio.all_tasks() - spared:
        each.cancel()


Strike = Callable[[asyncio.Task[Any], Tasks], None]
strikes = pytest.mark.parametrize("strike", [the_caller, everyone])
abandoned = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore:loop is closed")
plots = pytest.mark.parametrize("held", [False, True], ids=["free", "held"])


async def strike_each(connect: Connect, cli: Cli, strike: Strike, *, held: bool) -> None:
    """Strike a run in each turn of the loop, and look what is left."""
    if held:
        cli("HSET", seat_of("job"), "token", "x", "leader", "x", "fence", 1, "since", 1)
        cli("PEXPIRE", seat_of("job"), 600_000)
    turns, struck = 0, True
    while struck and turns < (HELD if held else FREE):
        struck = await _struck(connect(), strike, turns)
        assert bool(cli("EXISTS", seat_of("job"))) == held, turns
        assert not cli("EXISTS", "incumbent:{job}:queue"), turns
        turns += 1
    assert struck == held, "too soon, or too late"
    assert turns > 20


async def _struck(client: Any, strike: Strike, turns: int) -> bool:
    elector, spared = elector_of(client, wait_time=None), asyncio.all_tasks()
    task = asyncio.create_task(elector.run_if_leader("job", nothing))
    for _ in range(turns):
        await asyncio.sleep(0)
    struck = not task.done()
    if struck:
        strike(task, spared)
    await asyncio.wait((task,))
    assert task.cancelled() == struck, f"swallowed in turn {turns}: {task!r}"
    await elector.aclose()
    await client.aclose()
    assert not await leftover_tasks(), turns
    assert await open_sockets() == [], turns
    return struck


@plots
@strikes
async def test_p4_in_each_turn_on_a_cluster(cluster: Cluster, strike: Strike, held: bool) -> None:
    """The client does not know its nodes yet."""
    if strike is everyone and tuple(redis.VERSION) < (7,):
        pytest.skip("redis-py before 7 closes a node that it replaces in a task that nobody holds")

    def connect() -> Any:
        return RedisCluster.from_url(cluster.url)

    await strike_each(connect, cluster.primary_of(seat_of("job")).cli, strike, held=held)


@plots
@strikes
async def test_p4_in_each_turn_behind_sentinels(
    start_watched: StartWatched, strike: Strike, held: bool
) -> None:
    """The Sentinel has not been asked yet."""
    watched = start_watched()

    def connect() -> Any:
        return manager_of(watched.sentinel).master_for(SERVICE)

    await strike_each(connect, watched.primary.cli, strike, held=held)


async def _program(connect: Connect, silent: Iterable[Server]) -> None:
    """It leads until it ends. By then, those who would say which server to ask are silent."""
    leading = asyncio.Event()

    async def lead() -> None:
        leading.set()
        await anyio.sleep_forever()

    elector = elector_of(connect(), lease_time=1)
    campaign = asyncio.create_task(elector.campaign("job", lead))
    await leading.wait()
    for each in silent:
        each.pause()
    assert not campaign.done()


def _pending(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    said = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    return [each for each in said if "pending" in each]


@abandoned
def test_case_32_a_look_is_under_way_at_the_end_on_a_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was begun by the last release, and ends with the loop."""
    monkeypatch.setattr(directory, "LOOK_EVERY", 0)
    try:
        asyncio.run(_program(lambda: RedisCluster.from_url(cluster.url), cluster.nodes))
    finally:
        for each in cluster.nodes:
            each.resume()
    assert _pending(caplog) == []


@abandoned
def test_case_32_a_look_is_under_way_at_the_end_behind_sentinels(
    start_watched: StartWatched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, and the release is not kept from its server."""
    monkeypatch.setattr(primary, "LOOK_EVERY", 0)
    watched = start_watched()

    def connect() -> Any:
        return manager_of(watched.sentinel).master_for(SERVICE)

    try:
        asyncio.run(_program(connect, [watched.sentinel]))
    finally:
        watched.sentinel.resume()
    assert _pending(caplog) == []
    assert not watched.primary.cli("EXISTS", seat_of("job"))
