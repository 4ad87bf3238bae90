"""P6: leases and timeouts inside one another in one task, ended at the same moment.

From the outside: a timeout, an outer lease, a timeout, an inner lease, a timeout, the body. What
ends together is told apart by counting: each level inside the outermost one that ended lets the
cancellation through, that one makes its own error of it, and nothing is left of the count.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal

import anyio
import pytest
import redis.asyncio

from cancellation.stage import FOREIGN, count_after, lose
from incumbent import LeaderElector, LeaderOptions, LeadershipLostError, current_lease
from kit.servers import Server

LEVELS: Final = ("far timeout", "outer", "middle timeout", "inner", "near timeout")
LEASES: Final = ("outer", "inner")
SUBSETS: Final = [
    subset for size in range(len(LEVELS) + 1) for subset in itertools.combinations(LEVELS, size)
]
Order = Literal["inside first", "outside first"]
Body = Callable[[], Awaitable[None]]


class Nest:
    """The five levels, each of which can be ended from inside, and what came out of each."""

    def __init__(self, server: Server, elector: LeaderElector) -> None:
        self.came_out: dict[str, BaseException | None] = dict.fromkeys(LEVELS)
        self._server = server
        self._elector = elector
        self._limits: dict[str, asyncio.Timeout] = {}

    async def run(self, body: Body, level: int = 0) -> None:
        """Enter the levels from `level` on one by one, and run `body` in the innermost."""
        if level == len(LEVELS):
            await body()
            return
        name = LEVELS[level]
        try:
            async with self._enter(name):
                await self.run(body, level + 1)
        except BaseException as error:
            self.came_out[name] = error
            raise

    def end(self, name: str) -> None:
        """End this level: its cancellation comes at the next suspension."""
        if name in LEASES:
            lose(self._server, current_lease(name))
        else:
            self._limits[name].reschedule(asyncio.get_running_loop().time())

    def _enter(self, name: str) -> AbstractAsyncContextManager[object, bool | None]:
        if name in LEASES:
            return self._elector.lead(name)
        self._limits[name] = asyncio.timeout(None)
        return self._limits[name]


@pytest.mark.parametrize("order", ["inside first", "outside first"])
@pytest.mark.parametrize("ended", SUBSETS, ids=lambda ended: " + ".join(ended) or "nothing")
async def test_p6_ended_together(
    valkey: Server, client: redis.asyncio.Redis, ended: tuple[str, ...], order: Order
) -> None:
    """Whatever ends at once, the outermost of it tells, and all inside let the cancellation by."""

    async def body() -> None:
        for name in reversed(ended) if order == "inside first" else ended:
            nest.end(name)
        if ended:
            await asyncio.Event().wait()

    async with LeaderElector(client, LeaderOptions(lease_time=5)) as elector:
        nest = Nest(valkey, elector)
        assert (await count_after(nest.run(body)))[1] == 0
        assert not elector._office.terms

    outermost = LEVELS.index(ended[0]) if ended else len(LEVELS)
    for level, name in enumerate(LEVELS):
        error = nest.came_out[name]
        if not ended:
            assert error is None
        elif level > outermost:
            assert isinstance(error, asyncio.CancelledError), name
        elif LEVELS[outermost] in LEASES:
            assert isinstance(error, LeadershipLostError)
            assert error.election == LEVELS[outermost]
        else:
            assert isinstance(error, TimeoutError)
    assert valkey.cli("HGET", "incumbent:{outer}:seat:0", "token") in (None, FOREIGN)
    assert valkey.cli("HGET", "incumbent:{inner}:seat:0", "token") in (None, FOREIGN)


async def test_p6_inner_loss_is_caught_and_the_outer_goes_on(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """An inner lease that was lost leaves the outer one held, and the task uncancelled."""

    async def lost_inside() -> None:
        async with elector.lead("inner"):
            lose(valkey, current_lease("inner"))
            await asyncio.Event().wait()

    task = asyncio.current_task()
    assert task is not None
    async with (
        LeaderElector(client, LeaderOptions(lease_time=5)) as elector,
        elector.lead("outer") as outer,
    ):
        for _ in range(3):
            with pytest.raises(LeadershipLostError, match="'inner'"):
                await lost_inside()
            valkey.cli("DEL", "incumbent:{inner}:seat:0")
            assert task.cancelling() == 0
            assert outer.held
            assert current_lease() is outer


async def test_p6_outer_loss_while_the_inner_one_tells_its_own(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """An inner loss on its way out stays what it is; the outer one becomes a note on it."""

    async def inner() -> None:
        try:
            async with elector.lead("inner"):
                lose(valkey, current_lease("inner"))
                await asyncio.Event().wait()
        finally:
            lose(valkey, current_lease("outer"))

    elector = LeaderElector(client, LeaderOptions(lease_time=5))
    with pytest.raises(LeadershipLostError, match="'inner'") as raised:
        await elector.run_if_leader("outer", inner)
    assert raised.value.__notes__ == [str(LeadershipLostError("outer", "taken"))]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await elector.aclose()


async def test_p6_in_a_group_that_fails(valkey: Server, client: redis.asyncio.Redis) -> None:
    """A loss inside of a task group's child is that child's error; the sibling is cancelled."""

    async def leader() -> None:
        lose(valkey, current_lease("group"))
        await asyncio.Event().wait()

    async def group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(elector.run_if_leader("group", leader))
            siblings.append(group.create_task(asyncio.Event().wait()))

    siblings: list[asyncio.Task[object]] = []
    elector = LeaderElector(client, LeaderOptions(lease_time=5))
    with pytest.raises(ExceptionGroup) as raised:
        await group()
    (error,) = raised.value.exceptions
    assert isinstance(error, LeadershipLostError)
    assert siblings[0].cancelled()
    await elector.aclose()


@pytest.mark.parametrize("where", ["outside", "inside"])
@pytest.mark.parametrize("order", ["scope first", "loss first"])
async def test_p6_with_an_anyio_scope(
    valkey: Server, client: redis.asyncio.Redis, where: str, order: str
) -> None:
    """A scope that ends with the lease: no count is left, and success is never told."""

    def end_both(scope: anyio.CancelScope) -> None:
        if order == "scope first":
            scope.cancel()
        lose(valkey, current_lease("scope"))
        scope.cancel()

    async def action() -> str:
        if where == "outside":
            end_both(outside)
            await anyio.sleep(5)
        with anyio.CancelScope() as inside:
            end_both(inside)
            await anyio.sleep(5)
        return "done"

    async def caller() -> object:
        with outside:
            return await elector.run_if_leader("scope", action)
        return None

    outside = anyio.CancelScope()
    elector = LeaderElector(client, LeaderOptions(lease_time=5))
    came_out, count = await count_after(caller())
    assert count == 0
    assert isinstance(came_out, LeadershipLostError) or (came_out is None and where == "outside")
    await elector.aclose()
