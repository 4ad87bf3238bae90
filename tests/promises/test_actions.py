"""What is no action is refused: before anything is sent, or else without a run that counts."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from incumbent import Elected, LeaderElector, MemoryStore, StrategicElector
from incumbent.asgi import leadership, leading
from incumbent.blocking import LeaderElector as BlockingElector
from incumbent.events import ActionRaised
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from promises.scene import Journal, nothing, quick

YEAR = timedelta(days=366)

ran: list[str] = []
"""What has run that should not."""


def send() -> None:
    """A plain function, whose author forgot `async`."""
    ran.append("send")


async def spread() -> AsyncIterator[int]:
    """An asynchronous generator."""
    ran.append("spread")
    yield 1


class Sender:
    """An object that can be called."""

    def __call__(self) -> None:
        """It sends."""
        ran.append("Sender")


NO_ACTIONS = {
    "plain": send,
    "partial": functools.partial(send),
    "object": Sender(),
    "class": Sender,
    "generator": spread,
    "no function": "send",
}
CALLS: dict[str, Callable[[Any, Any], Awaitable[object]]] = {
    "run_if_leader": lambda elector, action: elector.run_if_leader("one", action),
    "attempt": lambda elector, action: elector.attempt("one", action),
    "campaign": lambda elector, action: elector.campaign("one", action),
    "schedule": lambda elector, action: elector.schedule("one", every=0.1, action=action),
}


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Nothing of it, at first."""
    ran.clear()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("action", NO_ACTIONS.values(), ids=NO_ACTIONS)
async def test_what_is_known_to_be_no_action_is_refused_before_anything_is_sent(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, call: Any, action: Any
) -> None:
    """Nothing of it runs, whoever leads."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), quick(restart=True)) as elector:
        with pytest.raises(TypeError, match="action must be a coroutine function, not "):
            await asyncio.wait_for(call(elector, action), 30)
    assert proxy.opened == 0
    assert not ran


@pytest.mark.parametrize("serve", NO_ACTIONS.values(), ids=NO_ACTIONS)
async def test_a_service_is_refused_before_the_application_starts(serve: Any) -> None:
    """It would be called again and again, and be nobody's failure."""
    elector = LeaderElector(MemoryStore(), hooks=[])
    with pytest.raises(TypeError, match="serve must be a coroutine function"):
        leadership(elector, "one", serve)
    app = SimpleNamespace(state=SimpleNamespace())
    with pytest.raises(TypeError, match="serve must be a coroutine function"):
        async with leading(app, elector, "one", serve):
            pass
    assert not ran


@pytest.mark.parametrize("kind", ["valkey", "memory", "strategic"])
@pytest.mark.parametrize("call", list(CALLS)[:3])
async def test_a_call_that_gives_no_awaitable_is_a_mistake_and_no_run(
    valkey: Server, make_client: MakeClient, kind: str, call: str
) -> None:
    """What only the call shows: a `TypeError`, whatever `restart` says, and the period is open."""
    memory, journal = MemoryStore(), Journal()
    options = quick(once_per=YEAR, restart=True, wait_time=10)
    async with AsyncExitStack() as stack:

        def made() -> Any:
            store: Any = make_client(valkey) if kind == "valkey" else memory
            if kind == "strategic":
                return StrategicElector(store, options, strategy=Fifo(), hooks=[journal])
            return LeaderElector(store, options, hooks=[journal])

        elector = await stack.enter_async_context(made())
        if kind == "strategic":
            await stack.enter_async_context(elector.candidate("one", ttl=600))
        with pytest.raises(TypeError, match="action must return an awaitable, not str"):
            await asyncio.wait_for(CALLS[call](elector, lambda: "done"), 30)
        if kind == "strategic":
            (candidate,) = await elector.candidates("one")
            assert (candidate.successes, candidate.failures) == (0, 0)
        assert not elector.leases
        assert isinstance(await elector.attempt("one", nothing), Elected)
    assert len(journal.of(ActionRaised)) == 1


async def test_a_schedule_ends_with_a_call_that_gives_no_awaitable() -> None:
    """It would be wrong at each tick."""
    elector = LeaderElector(MemoryStore(), hooks=[])
    with pytest.raises(TypeError, match="action must return an awaitable"):
        await asyncio.wait_for(CALLS["schedule"](elector, lambda: "done"), 30)


async def test_the_mistake_of_an_inner_election_is_an_error_to_the_outer_one() -> None:
    """The outer action has run; its period is spent."""
    outer = LeaderElector(MemoryStore(), quick(once_per=YEAR), hooks=[])
    inner = LeaderElector(MemoryStore(), quick(once_per=YEAR), hooks=[])

    async def act() -> object:
        return await CALLS["attempt"](inner, lambda: "done")

    with pytest.raises(TypeError, match="action must return an awaitable"):
        await outer.run_if_leader("one", act)
    assert await outer.run_if_leader("one", nothing) is None
    assert await inner.run_if_leader("one", nothing) == "done"


async def work() -> str:
    """A coroutine function, for threads."""
    ran.append("work")
    return "done"


class Job:
    """An object whose call is one."""

    async def __call__(self) -> str:
        """The work."""
        ran.append("Job")
        return "done"


THREAD_CALLS: dict[str, Callable[[Any, Any], object]] = {
    "run_if_leader": lambda elector, action: elector.run_if_leader("one", action),
    "attempt": lambda elector, action: elector.attempt("one", action),
    "campaign": lambda elector, action: elector.campaign("one", action),
    "schedule": lambda elector, action: elector.schedule("one", every=0.1, action=action),
    "leader_only": lambda elector, action: elector.leader_only("one")(action)(),
}


@pytest.mark.parametrize("call", THREAD_CALLS.values(), ids=THREAD_CALLS)
@pytest.mark.parametrize(
    "action",
    [work, functools.partial(work), Job(), Job().__call__, spread],
    ids=["function", "partial", "object", "method", "generator"],
)
def test_a_thread_is_refused_a_coroutine_function_before_anything_is_sent(
    call: Any, action: Any
) -> None:
    """There is no server at all."""
    with (
        BlockingElector("redis://localhost:1", quick(restart=True), hooks=[]) as elector,
        pytest.raises(TypeError, match="action must be a plain function"),
    ):
        call(elector, action)
    assert not ran


@pytest.mark.parametrize("call", list(THREAD_CALLS)[:4])
def test_a_thread_that_is_given_a_coroutine_has_not_run(valkey: Server, call: str) -> None:
    """A lambda around a coroutine function does nothing: that is told, and the period is open."""
    options = quick(once_per=YEAR, restart=True)
    with BlockingElector(valkey.url, options, hooks=[]) as elector:
        with pytest.raises(TypeError, match="it returned an awaitable, coroutine"):
            THREAD_CALLS[call](elector, lambda: work())  # noqa: PLW0108 - as they are written
        if call != "schedule":  # which was asked about other periods
            assert isinstance(elector.attempt("one", lambda: 1), Elected)
    assert not ran
