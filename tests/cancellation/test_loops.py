"""Cancellation on uvloop, and one elector that goes from one event loop to the next."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import redis.asyncio
import uvloop

from cancellation import ways
from cancellation.stage import Action, count_after, in_use, lose, nothing
from cancellation.stepping import Stepped
from cancellation.ways import FOUR, HARDER, Way, obeyed
from incumbent import (
    LeaderElector,
    LeaderOptions,
    LeadershipLostError,
    MemoryStore,
    current_lease,
)
from kit.leftovers import Complaints, leftover_tasks
from kit.servers import Server
from kit.waiting import wait_until

MOST = 100
Scene = Callable[[], Coroutine[Any, Any, None]]


def on_uvloop(scene: Scene) -> None:
    """Run `scene` there, and let nothing of it be left."""

    async def watched() -> None:
        complaints = Complaints()
        complaints.listen()
        await scene()
        assert not await leftover_tasks()
        assert not complaints.heard

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(watched())


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", (FOUR | HARDER).values(), ids=FOUR | HARDER)
def test_p4_at_each_point_on_uvloop(valkey: Server, way: Way, late: bool) -> None:
    """Cancelled at each suspension, cold and with others there, a call leaves nothing on uvloop."""

    async def one_run(at: int) -> Stepped[Any]:
        client = redis.asyncio.Redis.from_url(valkey.url)
        elector = LeaderElector(client)
        try:
            call = partial(elector.run_if_leader, "uvloop", Action(shielded=way is ways.by_scope))
            run = await asyncio.create_task(way(call, at, late=late))
            assert obeyed(run, way)
            assert not valkey.cli("EXISTS", "incumbent:{uvloop}:seat:0")
            await elector.aclose()
            assert in_use(client) == 0
        finally:
            await client.aclose()  # or uvloop, told of it by an error, would not end
        return run

    async def scene() -> None:
        for at in range(1, MOST):
            valkey.cli("SCRIPT", "FLUSH")
            run = await one_run(at)
            if not run.struck:
                assert run.value == "done"
                return

    on_uvloop(scene)


def test_p6_loss_on_uvloop(valkey: Server) -> None:
    """A loss cancels the action once and comes out as itself; the count is zero afterwards."""

    async def action() -> None:
        lose(valkey, current_lease())
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("cleaned up")

    async def scene() -> None:
        client = redis.asyncio.Redis.from_url(valkey.url)
        async with LeaderElector(client) as elector:
            came_out, count = await count_after(elector.run_if_leader("uvloop", action))
        assert isinstance(came_out, LeadershipLostError)
        assert count == 0
        await client.aclose()

    steps: list[str] = []
    on_uvloop(scene)
    assert steps == ["cleaned up"]


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """A fresh event loop of asyncio's own or of uvloop."""
    return uvloop.new_event_loop() if kind == "uvloop" else asyncio.new_event_loop()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
@pytest.mark.parametrize("closed", ["client closed", "nothing closed"])
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore:loop is closed")
def test_one_elector_in_one_loop_after_another(valkey: Server, kind: str, closed: str) -> None:
    """An elector works in each event loop in turn, whether its client was closed or not."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    elector = LeaderElector(client, LeaderOptions(lease_time=5))

    async def scene() -> None:
        assert await elector.run_if_leader("loops", nothing) == "done"
        task = asyncio.create_task(elector.run_if_leader("loops", asyncio.sleep, 5))
        await wait_until(lambda: elector.is_leading("loops"))
        task.cancel()
        await asyncio.wait((task,))
        assert not valkey.cli("EXISTS", "incumbent:{loops}:seat:0")
        assert in_use(client) == 1
        if closed != "nothing closed":
            await client.aclose()

    for _ in range(3):
        with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner:
            runner.run(scene())
    assert not elector._office.terms

    async def the_end() -> None:
        await elector.aclose()
        await client.aclose()
        assert in_use(client) == 0

    with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner:
        runner.run(the_end())
    gc.collect()  # what redis-py and asyncio say of dead sockets is said here


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore:loop is closed")
def test_a_loop_that_died_under_its_leader(valkey: Server) -> None:
    """A term whose loop ended without it neither renews nor bothers the next loop."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    elector = LeaderElector(client, LeaderOptions(lease_time=0.3))

    async def leave_in_the_midst() -> None:
        tasks.append(asyncio.create_task(elector.run_if_leader("died", asyncio.sleep, 5)))
        await wait_until(lambda: elector.is_leading("died"))

    async def again() -> None:
        waiting = elector.using(wait_time=2)
        assert await waiting.run_if_leader("died", nothing) == "done"
        assert not elector.leases
        await waiting.aclose()
        await elector.aclose()
        await client.aclose()

    tasks: list[asyncio.Task[None]] = []
    asyncio.run(leave_in_the_midst())  # which cancels what is left, and waits for it
    assert not valkey.cli("EXISTS", "incumbent:{died}:seat:0")
    asyncio.run(again())
    gc.collect()  # what redis-py and asyncio say of dead sockets is said here


@pytest.mark.parametrize("kind", ["server", "memory"])
def test_one_elector_in_two_loops_at_once_is_refused(valkey: Server, kind: str) -> None:
    """In words, and the first goes on; when that has ended, the other may have it."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    elector = LeaderElector(client if kind == "server" else MemoryStore(), hooks=())
    inside, leave = threading.Event(), threading.Event()

    async def hold() -> None:
        async with elector.lead("one"):
            watch = elector.watch("two")
            await anext(watch)
            inside.set()
            await asyncio.to_thread(leave.wait)
            watch.close()
        await client.aclose()

    async def intrude() -> None:
        for call in (
            lambda: elector.attempt("two", nothing),
            lambda: elector.lead("two").__aenter__(),
            lambda: anext(elector.watch("two")),
        ):
            with pytest.raises(RuntimeError, match="in use in another event loop"):
                await call()

    async def follow() -> None:
        assert await elector.run_if_leader("one", nothing) == "done"
        await elector.aclose()
        await client.aclose()

    holding = threading.Thread(target=asyncio.run, args=(hold(),))
    holding.start()
    try:
        assert inside.wait(20)
        asyncio.run(intrude())
        assert elector.is_leading("one")
    finally:
        leave.set()
        holding.join(20)
    asyncio.run(follow())


def test_leases_may_be_asked_in_any_thread(valkey: Server) -> None:
    """While the loop elects and releases hundreds."""
    errors: list[BaseException] = []
    over = threading.Event()
    seen = 0

    async def work() -> None:
        await asyncio.sleep(0.01)  # in which the other threads run

    async def elect() -> None:
        client = redis.asyncio.Redis.from_url(valkey.url)
        async with LeaderElector(client, hooks=()) as elector:

            def ask() -> None:
                nonlocal seen
                try:
                    while not over.is_set():
                        elector.is_leading("none")
                        seen += len(elector.leases)
                except RuntimeError as error:
                    errors.append(error)

            asking = [threading.Thread(target=ask) for _ in range(2)]
            for each in asking:
                each.start()
            for _ in range(10):
                await asyncio.gather(
                    *(elector.run_if_leader(f"n{number}", work) for number in range(200))
                )
            over.set()
            for each in asking:
                await asyncio.to_thread(each.join)
        await client.aclose()

    asyncio.run(elect())
    assert errors == []
    assert seen
