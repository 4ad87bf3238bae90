"""The ways in which a caller cancels, each with what must come out of it.

A way runs a coroutine in the current task (or in a child of its own), strikes it at a given
suspension and returns the `Stepped`. It asserts what belongs to the way itself: a timeout ends in
`TimeoutError`, a scope catches its own, a group ends with its sibling's error, and the count of
`asyncio.Task.cancelling` is right afterwards.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import Any, Protocol

import anyio

from cancellation.stepping import Stepped

Work = Callable[[], Coroutine[Any, Any, Any]]


class Way(Protocol):
    """One way of cancelling."""

    async def __call__(self, work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
        """Run `work`, cancel it at its suspension number `at` (0: never), tell how it ended."""
        ...


async def by_task(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """``task.cancel()``: counted once, and left to us to take back."""
    return await _directly(work, at, _this_task().cancel, late=late)


async def by_task_again(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """``task.cancel()`` at that suspension and at every one after it."""
    return await _directly(work, at, _this_task().cancel, late=late, again=range(1, 1000))


async def by_everyone(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """Every task is cancelled but those that were there before, as programs do at their end."""
    return await _directly(work, at, _cancel_but(asyncio.all_tasks()), late=late)


def by_everyone_twice(gap: int) -> Way:
    """The same, and once more `gap` suspensions later: an impatient operator."""

    async def way(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
        return await _directly(work, at, _cancel_but(asyncio.all_tasks()), late=late, again=(gap,))

    return way


def _cancel_but(spared: "set[asyncio.Task[Any]]") -> Callable[[], None]:
    spared = spared - {_this_task()}

    def strike() -> None:
        for task in asyncio.all_tasks() - spared:
            task.cancel()

    return strike


async def _directly(
    work: Work, at: int, strike: Callable[[], object], *, late: bool, again: Container[int] = ()
) -> Stepped[Any]:
    task = _this_task()
    stepped = Stepped(work(), at, strike, late=late, again=again)
    assert await _error_of(stepped) is stepped.error
    assert task.cancelling() == stepped.strikes, "the caller's own cancellation was taken back"
    for _ in range(stepped.strikes):
        task.uncancel()
    return stepped


async def by_timeout(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """``asyncio.timeout`` that runs out: `TimeoutError` outside, nothing left of the count."""
    limit = asyncio.timeout(None)
    now = asyncio.get_running_loop().time()
    stepped = Stepped(work(), at, lambda: limit.reschedule(now), late=late)

    async def limited() -> None:
        async with limit:
            await stepped

    error = await _error_of(limited())
    if stepped.cancelled:
        assert isinstance(error, TimeoutError), "the timeout did not know its own cancellation"
    else:
        assert error is stepped.error
    assert limit.expired() == stepped.cancelled
    assert _this_task().cancelling() == 0
    return stepped


async def by_scope(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """``anyio.move_on_after`` that runs out: caught by its scope, level-wise until then."""
    scope = anyio.move_on_after(None)

    def strike() -> None:
        scope.deadline = anyio.current_time()

    stepped = Stepped(work(), at, strike, late=late)

    async def scoped() -> None:
        with scope:
            await stepped

    error = await _error_of(scoped())
    assert error is (None if stepped.cancelled else stepped.error)
    assert scope.cancelled_caught == stepped.cancelled
    assert _this_task().cancelling() == 0
    return stepped


class SiblingError(Exception):
    """What the sibling in a task group fails with."""


async def by_group(work: Work, at: int, *, late: bool = False) -> Stepped[Any]:
    """A sibling in the ``asyncio.TaskGroup`` fails: the group's error comes out, and only that."""
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stepped = Stepped(work(), at, lambda: failing.set_exception(SiblingError()), late=late)
    counts: list[int] = []

    async def sibling() -> None:
        await failing

    async def child() -> None:
        try:
            await stepped
        finally:
            counts.append(_this_task().cancelling())
            if not failing.done():
                failing.set_result(None)

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            group.create_task(child())

    error = await _error_of(grouped())
    raised = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    others = [each for each in raised if not isinstance(each, SiblingError)]
    assert others == ([] if stepped.error is None or stepped.cancelled else [stepped.error])
    assert counts == [int(stepped.cancelled)]
    if sys.version_info < (3, 13):  # there, a group may forget to take its own cancellation back
        for _ in range(_this_task().cancelling()):
            _this_task().uncancel()
    assert _this_task().cancelling() == 0
    return stepped


def obeyed(run: Stepped[Any], way: Way) -> bool:
    """Whether the strike, if there was one, went in and came out again.

    Only a scope may miss: it spares who is shielded, or about to go on, and asks again later.
    """
    return run.cancelled == run.seen and (run.seen == run.struck or way is by_scope)


async def _error_of(work: Awaitable[Any]) -> BaseException | None:
    try:
        await work
    except BaseException as error:  # noqa: BLE001 - it is what the tests are about
        return error
    return None


def _this_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


FOUR: dict[str, Way] = {
    "task.cancel": by_task,
    "asyncio.timeout": by_timeout,
    "anyio.move_on_after": by_scope,
    "TaskGroup": by_group,
}
"""The ways that any caller may use."""

HARDER: dict[str, Way] = {
    "task.cancel again and again": by_task_again,
    "every task": by_everyone,
    "every task, twice": by_everyone_twice(1),
    "every task, twice, with a gap": by_everyone_twice(3),
}
"""What a program in trouble does: also the action's own cleanup is cut."""
