"""Finishing what must be finished: work that goes on to its end although its caller was cancelled.

Knows nothing of elections. The work runs in a task of its own, so that no cancellation of the
caller reaches it; the caller's cancellation is handed on when the work has ended, never swallowed.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar, cast

import anyio

T = TypeVar("T")

TRIES: Final = 3

CLEAN_UP_WITHIN: Final = 0.1
"""Seconds after which a cancelled task is taken to have swallowed its cancellation."""

SLICES: Final = 10
"""In which that time is measured: when the process stands still, for however long, it is one."""

STOP_WITHIN: Final = 5.0
"""Seconds for which a task that swallows cancellations is waited for."""


class Closer(Protocol):
    """What has tasks that nobody waits for."""

    async def aclose(self) -> None:
        """End them."""
        ...


def close_with_loop(closer: Closer) -> None:
    """Have `closer` closed when the running event loop ends, if it is still there.

    A program that ends cancels its tasks, and waits only for those that there are at that moment:
    not for what their clean-up starts. After that it closes its asynchronous generators, and all
    that it has of them is a weak reference and `aclose`. So `closer` is passed off as one.
    Source: https://docs.python.org/3/library/sys.html#sys.set_asyncgen_hooks
    """
    introduce = cast(Any, sys.get_asyncgen_hooks().firstiter)
    # A debugger, or a Trio that is this loop's guest, may want to see a generator indeed.
    if getattr(introduce, "__self__", None) is asyncio.get_running_loop():
        introduce(closer)


async def finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``work()`` to its end, whoever cancels the caller; then hand the cancellation on.

    A program that ends cancels *every* task, ours too: then the work, which must bear to be
    repeated, begins anew.
    """
    cancelled: asyncio.CancelledError | None = None
    tries = 0
    while True:
        task = asyncio.get_running_loop().create_task(work(), name="incumbent clean-up")
        try:
            await outlast(task)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
        tries += 1
        if not task.cancelled() or tries == TRIES:
            break
    if cancelled is not None:
        raise cancelled
    return task.result()


async def yielding(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``work()``, which may swallow a cancellation, and end it all the same if cancelled."""
    task = asyncio.get_running_loop().create_task(work(), name="incumbent connection")
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        await stop(task)
        raise
    task.result()


async def stop(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel `tasks` until they have ended, whoever cancels the caller; then hand that on.

    On Python 3.11 `asyncio.wait_for` now and then returns its result instead of the cancellation.
    Such a task is cancelled again, but not at once, as by a cancelled scope: that would cut what
    an obedient one does to clean up. One that has swallowed every cancellation for `STOP_WITHIN`
    is left alone: code of the user's may run in it, as a credential provider does.
    Source: https://github.com/python/cpython/issues/86296
    """

    async def insist() -> None:
        give_up_at = asyncio.get_running_loop().time() + STOP_WITHIN
        for task in tasks:
            if not task.cancelling():  # or it is at its clean-up already
                task.cancel()
        deaf: list[asyncio.Task[Any]] = [task for task in tasks if not task.done()]
        slices = 0
        while deaf and asyncio.get_running_loop().time() < give_up_at:
            await asyncio.wait(deaf, timeout=CLEAN_UP_WITHIN / SLICES)
            deaf = [task for task in deaf if not task.done()]
            slices += 1
            if slices % SLICES == 0:
                for task in deaf:
                    task.cancel()

    try:
        await finish(insist)
    finally:
        for task in tasks:
            task.add_done_callback(_see)


def _see(work: "asyncio.Future[Any]") -> None:
    """Look at its error, so that the loop does not report it as never retrieved."""
    if not work.cancelled():
        work.exception()


async def heed(cancelling: int) -> None:
    """Raise the cancellation that the running task has had since it counted `cancelling`, if any.

    For who awaits in the caller's own task what may swallow one, as said at `stop`.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling() > cancelling:
        # Here, because it hardly ever comes to this.
        from anyio.lowlevel import checkpoint_if_cancelled  # noqa: PLC0415 - see above

        await checkpoint_if_cancelled()  # a scope knows its own only if it has raised it
        raise asyncio.CancelledError


async def outlast(*works: "asyncio.Future[Any]") -> None:
    """Wait for the end of `works`, whoever cancels the caller; then hand that on."""
    cancelled: asyncio.CancelledError | None = None
    while not all(work.done() for work in works):
        try:
            if cancelled is None:
                await asyncio.wait(works)
            else:
                # A cancelled anyio scope around us would cancel anew in every turn of the loop.
                with anyio.CancelScope(shield=True):
                    await asyncio.wait(works)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    for work in works:
        _see(work)
    if cancelled is not None:
        raise cancelled
