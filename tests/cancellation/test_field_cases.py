"""Field cases 22 to 34: what cancellation did to users of other libraries."""

import asyncio
import gc
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis.asyncio

from cancellation.stage import in_use, nothing
from incumbent import (
    Elected,
    ElectorClosedError,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    events,
)
from kit.fixtures import MakeClient
from kit.leftovers import leftover_tasks
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

SEAT = "incumbent:{case}:seat:0"


async def forever() -> None:
    """An action that ends when it is cancelled."""
    await asyncio.Event().wait()


async def ended(task: "asyncio.Task[Any]", within: float) -> None:
    """Wait for the end of `task`, which must be a cancellation and in time."""
    await asyncio.wait((task,), timeout=within)
    assert task.done(), f"not ended within {within} s: {task!r}"
    assert task.cancelled(), f"swallowed: {task!r}"


def warm_scripts(proxy: Proxy) -> Callable[[], bool]:
    """Whether the proxy has seen one more script since now."""
    seen = proxy.commands["EVALSHA"] + proxy.commands["EVAL"]
    return lambda: proxy.commands["EVALSHA"] + proxy.commands["EVAL"] > seen


@pytest.mark.parametrize("direction", ["replies", "requests", "both"])
async def test_case_22_cancelled_acquire(
    valkey: Server, proxy: Proxy, make_client: MakeClient, direction: str
) -> None:
    """When the cancellation comes out the seat is free, on a slow way to the server as well."""
    elector = LeaderElector(make_client(proxy))
    await elector.run_if_leader("warm", nothing)
    proxy.delay(0.05, direction)  # type: ignore[arg-type] # a word of the parametrisation
    sent = warm_scripts(proxy)
    task = asyncio.create_task(elector.run_if_leader("case", forever))
    await wait_until(sent)
    task.cancel()
    await ended(task, within=2)
    assert not valkey.cli("EXISTS", SEAT)
    await elector.aclose()


async def test_case_22_late_copy(valkey: Server, proxy: Proxy, make_client: MakeClient) -> None:
    """An acquire that reaches the server after its own clean-up finds that it was given up."""
    elector = LeaderElector(make_client(proxy))
    await elector.run_if_leader("warm", nothing)
    proxy.hold_requests("EVALSHA")
    task = asyncio.create_task(elector.run_if_leader("case", forever))
    await wait_until(lambda: proxy.held)
    task.cancel()
    await ended(task, within=2)  # its clean-up, an EVAL, has overtaken it
    calls = valkey.admin.info("commandstats")["cmdstat_evalsha"]["calls"]
    proxy.release()
    await wait_until(
        lambda: valkey.admin.info("commandstats")["cmdstat_evalsha"]["calls"] > calls,
        what="the late copy has come",
    )
    assert not valkey.cli("EXISTS", SEAT)
    assert await elector.run_if_leader("case", nothing) == "done"
    await elector.aclose()


async def test_case_22_bounded(proxy: Proxy, make_client: MakeClient) -> None:
    """A clean-up that nobody answers holds the cancellation up for its budget at most."""
    elector = LeaderElector(make_client(proxy), LeaderOptions(request_timeout=0.8))
    await elector.run_if_leader("warm", nothing)
    proxy.silence()
    sent = warm_scripts(proxy)
    task = asyncio.create_task(elector.run_if_leader("case", forever))
    await wait_until(sent)
    task.cancel()
    await ended(task, within=0.8 + 2)
    await proxy.restore()
    await elector.aclose()


@pytest.mark.parametrize("entry", ["run_if_leader", "lead"])
async def test_case_25_body_error_releases(
    valkey: Server, client: redis.asyncio.Redis, entry: str
) -> None:
    """An error in the body comes out unchanged, and the seat is free at once."""

    async def body() -> None:
        raise error

    async def block() -> None:
        async with elector.lead("case"):
            await body()

    error = ValueError("the body's own")
    async with LeaderElector(client) as elector:
        with pytest.raises(ValueError, match="the body's own") as raised:
            await (elector.run_if_leader("case", body) if entry == "run_if_leader" else block())
        assert raised.value is error
        assert not getattr(error, "__notes__", ())
        assert not valkey.cli("EXISTS", SEAT)


async def test_case_27_stopped_a_thousand_times(valkey: Server, make_client: MakeClient) -> None:
    """Stopped anywhere between its log-in and a renewal, a campaign ends in time, always."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    choices = random.Random(seed)
    shared = make_client(valkey)
    options = LeaderOptions(lease_time=0.25)

    async def start_and_stop(number: int) -> None:
        client = make_client(valkey) if number % 10 == 0 else shared
        elector = LeaderElector(client, options, hooks=())
        task = asyncio.create_task(elector.campaign(f"stop-{number}", forever))
        await asyncio.wait((task,), timeout=choices.choice([0.003, 0.02, 0.15]) * choices.random())
        task.cancel()
        await ended(task, within=3)
        await elector.aclose()
        if client is not shared:
            await client.aclose()

    for first in range(0, 1000, 50):
        await asyncio.gather(*(start_and_stop(number) for number in range(first, first + 50)))
    assert in_use(shared) == 0
    assert not [key for key in valkey.cli("KEYS", "incumbent:*") if ":seat:" in key]


@pytest.mark.parametrize("auto_extend", [True, False])
async def test_case_29_lease_shorter_than_the_job(
    valkey: Server, client: redis.asyncio.Redis, auto_extend: bool
) -> None:
    """With extension there is one run; without it the loss is told, and nothing else breaks."""
    renewals = 0
    renewed = asyncio.Event()

    def hear(event: events.Event) -> None:
        nonlocal renewals
        renewals += isinstance(event, events.TermRenewed)
        if renewals == 4:  # each a third of a lease time after the one before
            renewed.set()

    async def job() -> str:
        await renewed.wait()
        return "done"

    options = LeaderOptions(lease_time=3.0 if auto_extend else 1.5, auto_extend=auto_extend)
    async with LeaderElector(client, options, hooks=[hear]) as elector:
        outcome = await elector.attempt("case", job)
        if auto_extend:
            assert isinstance(outcome, Elected)
            assert outcome.value == "done"
        else:
            assert outcome == LeadershipLost("expired")
        assert not elector.leases
        assert not valkey.cli("EXISTS", SEAT)
        assert await elector.run_if_leader("case", nothing) == "done"


async def test_case_30_no_crossed_replies(client: redis.asyncio.Redis) -> None:
    """On a client whose electors were cancelled at random every GET has its own answer."""
    choices = random.Random(30)
    elector = LeaderElector(client)
    for number in range(100):
        await client.set(f"kit:{number}", f"value {number}", px=60_000)

    async def user() -> None:
        while not cancelled.is_set():
            number = choices.randrange(100)
            assert await client.get(f"kit:{number}") == b"value %d" % number

    async def canceller(lane: int) -> None:
        for number in range(50):
            name = f"case-{lane}-{number % 3}"
            asks = choices.random() < 0.5
            call = elector.state(name) if asks else elector.run_if_leader(name, nothing)
            task: asyncio.Task[Any] = asyncio.create_task(call)
            await asyncio.wait((task,), timeout=choices.random() * 0.003)
            task.cancel()
            await asyncio.wait((task,))

    cancelled = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        users = [group.create_task(user()) for _ in range(3)]
        await asyncio.gather(*(canceller(lane) for lane in range(4)))
        cancelled.set()
    assert all(user.done() for user in users)
    for number in range(1000):
        key = number % 100
        assert await client.get(f"kit:{key}") == b"value %d" % key
    await elector.aclose()
    assert in_use(client) == 0


async def test_case_31_cancelled_wait(valkey: Server, make_client: MakeClient) -> None:
    """After a cancelled wait the next command on the same client is answered as always."""
    # One connection for asking, one for being told, and one for the client's own commands.
    client = make_client(valkey, max_connections=3)
    valkey.cli("HSET", SEAT, "token", "another", "leader", "x", "fence", 1, "since", 1)
    valkey.cli("PEXPIRE", SEAT, 60_000)
    elector = LeaderElector(client)
    for number in range(20):
        task = asyncio.create_task(elector.campaign("case", forever))
        await asyncio.wait((task,), timeout=0.002 * number)
        task.cancel()
        assert await asyncio.wait_for(client.get("kit:nothing"), 30) is None
        await ended(task, within=2)
        assert await asyncio.wait_for(client.echo("x"), 30) == b"x"
    await elector.aclose()


async def test_case_33_collected_at_once(valkey: Server, client: redis.asyncio.Redis) -> None:
    """With a garbage collection right after each exit, all seats are free a thousand times."""
    gc.collect()
    gc.freeze()
    try:
        for number in range(1000):
            elector: LeaderElector | None = LeaderElector(client, hooks=())
            assert elector is not None
            task: asyncio.Task[Any] | None = None
            if number % 2:
                assert await elector.run_if_leader("case", nothing) == "done"
            else:
                task = asyncio.create_task(elector.run_if_leader("case", forever))
                await asyncio.wait((task,), timeout=0.0005 * (number % 5))
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await elector.aclose()
            elector = task = None
            gc.collect()
            assert not valkey.cli("EXISTS", SEAT)
    finally:
        gc.unfreeze()
    assert in_use(client) == 0
    assert not await leftover_tasks()


@pytest.mark.parametrize("busy", ["idle", "asking", "waiting", "leading"])
async def test_case_34_silence_at_the_close(
    valkey: Server, proxy: Proxy, make_client: MakeClient, busy: str
) -> None:
    """A silent network holds up neither `aclose` nor the end of what is under way."""
    elector = LeaderElector(make_client(proxy), LeaderOptions(request_timeout=0.8, wait_time=None))
    await elector.run_if_leader("warm", nothing)
    if busy == "waiting":
        valkey.cli("HSET", SEAT, "token", "another", "leader", "x", "fence", 1, "since", 1)
        valkey.cli("PEXPIRE", SEAT, 60_000)
    tasks: list[asyncio.Task[Any]] = []
    if busy in ("waiting", "leading"):
        sent = warm_scripts(proxy)
        tasks.append(asyncio.create_task(elector.run_if_leader("case", forever)))
        await wait_until(sent)
        if busy == "leading":
            await wait_until(lambda: elector.is_leading("case"))
    proxy.silence()
    if busy == "asking":
        tasks.append(asyncio.create_task(elector.run_if_leader("case", forever)))
        await asyncio.sleep(0)
    began = time.monotonic()
    await elector.aclose()
    assert time.monotonic() - began < 2
    for task in tasks:
        if busy == "leading":
            task.cancel()
            await ended(task, within=2)
        else:  # it is no candidate any more
            with pytest.raises(ElectorClosedError):
                await asyncio.wait_for(task, 2)
    await proxy.restore()
