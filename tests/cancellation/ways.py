"""The ways in which a caller cancels, each with what must come out of it.

A way runs a coroutine in the current task (or in a child of its own), strikes it at a given
suspension and returns an `Ending`. It asserts what belongs to the way itself: a timeout ends in
`TimeoutError`, a scope catches its own, a group ends with its sibling's error, and the count of
`asyncio.Task.cancelling` is right afterwards.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from cancellation.stepping import Stepped

Work = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended, as the line that awaited it saw it."""

    stepped: Stepped[Any]
    value: Any = None
    error: BaseException | None = None
    """What the coroutine itself raised."""

    @property
    def cancelled(self) -> bool:
        """Whether a cancellation came out of the coroutine."""
        return isinstance(self.error, asyncio.CancelledError)


class Way(Protocol):
    """One way of cancelling."""

    async def __call__(self, work: Work, at: int, *, late: bool = False) -> Ending:
        """Run `work`, cancel it at its suspension number `at` (0: never), tell how it ended."""
        ...


async def by_task(work: Work, at: int, *, late: bool = False) -> Ending:
    """``task.cancel()``: counted once, and left to us to take back."""
    return await _directly(work, at, _this_task().cancel, late=late)


async def by_task_again(work: Work, at: int, *, late: bool = False) -> Ending:
    """``task.cancel()`` at that suspension and at every one after it."""
    return await _directly(work, at, _this_task().cancel, late=late, again=True)


async def by_everyone(work: Work, at: int, *, late: bool = False) -> Ending:
    """Every task is cancelled but those that were there before, as programs do at their end."""
    return await _directly(work, at, _cancel_but(asyncio.all_tasks()), late=late)


async def by_everyone_twice(work: Work, at: int, *, late: bool = False) -> Ending:
    """The same, and once more at the next suspension: an impatient operator."""
    return await _directly(work, at, _cancel_but(asyncio.all_tasks()), late=late, again=1)


def _cancel_but(spared: "set[asyncio.Task[Any]]") -> Callable[[], None]:
    spared = spared - {_this_task()}

    def strike() -> None:
        for task in asyncio.all_tasks() - spared:
            task.cancel()

    return strike


async def _directly(
    work: Work, at: int, strike: Callable[[], object], *, late: bool, again: int = 0
) -> Ending:
    task = _this_task()
    stepped = Stepped(work(), at, strike, late=late, again=again)
    ending = await _outcome(stepped)
    assert task.cancelling() == stepped.strikes, "the caller's own cancellation was taken back"
    for _ in range(stepped.strikes):
        task.uncancel()
    return ending


async def by_timeout(work: Work, at: int, *, late: bool = False) -> Ending:
    """``asyncio.timeout`` that runs out: `TimeoutError` outside, nothing left of the count."""
    ending: Ending | None = None
    try:
        async with asyncio.timeout(None) as limit:
            now = asyncio.get_running_loop().time()
            stepped = Stepped(work(), at, lambda: limit.reschedule(now), late=late)
            ending = await _outcome(stepped)
            if ending.error is not None:
                raise ending.error
    except TimeoutError:
        assert ending is not None
        assert ending.cancelled
    except BaseException as error:
        assert ending is not None
        assert error is ending.error
        assert not ending.cancelled, "the timeout did not know its own cancellation"
    assert ending is not None
    assert limit.expired() == ending.cancelled
    assert _this_task().cancelling() == 0
    return ending


async def by_scope(work: Work, at: int, *, late: bool = False) -> Ending:
    """``anyio.move_on_after`` that runs out: caught by its scope, level-wise until then."""
    ending: Ending | None = None
    error: BaseException | None = None
    try:
        with anyio.move_on_after(None) as scope:

            def strike() -> None:
                scope.deadline = anyio.current_time()

            ending = await _outcome(Stepped(work(), at, strike, late=late))
            if ending.error is not None:
                raise ending.error
    except BaseException as raised:
        error = raised
    assert ending is not None
    assert scope.cancelled_caught == ending.cancelled
    assert error is (None if ending.cancelled else ending.error)
    assert _this_task().cancelling() == 0
    return ending


class SiblingError(Exception):
    """What the sibling in a task group fails with."""


async def by_group(work: Work, at: int, *, late: bool = False) -> Ending:
    """A sibling in the ``asyncio.TaskGroup`` fails: the group's error comes out, and only that."""
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stepped = Stepped(work(), at, lambda: failing.set_exception(SiblingError()), late=late)

    async def sibling() -> None:
        await failing

    async def child() -> Ending:
        ending = await _outcome(stepped)
        assert _this_task().cancelling() == int(ending.cancelled)
        if not failing.done():
            failing.set_result(None)
        if ending.error is not None:
            endings.append(ending)
            raise ending.error
        return ending

    endings: list[Ending] = []
    errors: tuple[BaseException, ...] = ()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            running = group.create_task(child())
    except BaseExceptionGroup as raised:
        errors = raised.exceptions
    ending = endings[0] if endings else running.result()
    others = [error for error in errors if not isinstance(error, SiblingError)]
    assert others == ([] if ending.error is None or ending.cancelled else [ending.error])
    if sys.version_info < (3, 13):  # there, a group forgets to take its own cancellation back
        for _ in range(_this_task().cancelling()):
            _this_task().uncancel()
    assert _this_task().cancelling() == 0
    return ending


async def _outcome(stepped: Stepped[Any]) -> Ending:
    try:
        return Ending(stepped=stepped, value=await stepped)
    except BaseException as error:
        return Ending(stepped=stepped, error=error)


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
    "every task, twice": by_everyone_twice,
}
"""What a program in trouble does: also the action's own cleanup is cut."""
