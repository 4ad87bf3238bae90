"""What one elector waits for, until it is closed: then every wait ends, and none begins.

Knows tasks, not elections. A wait is ended as `asyncio.timeout` ends one: by one counted
``task.cancel()``, with ``uncancel()`` at its end, so that it cleans up as after any cancellation.
What it was granted by then is given back by that clean-up.
Source: https://docs.python.org/3/library/asyncio-task.html#asyncio.Task.uncancel
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from incumbent.engine.guard import NO_TASK
from incumbent.errors import ElectorClosedError

T = TypeVar("T")


class Waits:
    """The waits of one elector. Those in an event loop that is gone are left alone."""

    def __init__(self) -> None:
        self.closed: bool = False
        self.present: set[Wait] = set()

    def check(self) -> None:
        """Raise `ElectorClosedError` if the elector is closed."""
        if self.closed:
            raise ElectorClosedError

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what ``work()`` gives.

        Raises:
            ElectorClosedError: the elector is closed, or was closed meanwhile.
        """
        with Wait(self):
            return await work()

    async def sleep(self, seconds: float) -> None:
        """Sleep, unless the elector is closed."""
        await self.run(partial(asyncio.sleep, seconds))

    async def close(self, within: float) -> None:
        """End all waits, and wait until they have cleaned up, for `within` seconds at most."""
        self.closed = True
        loop = asyncio.get_running_loop()
        here = [wait for wait in self.present if wait.task.get_loop() is loop]
        ends = [wait.end() for wait in here if wait.task is not asyncio.current_task()]
        if ends:
            await asyncio.wait(ends, timeout=within)


class Wait:
    """``with`` this, the current task waits: once at a time.

    The block raises `ElectorClosedError` when the elector is closed before or during it.
    """

    __slots__ = ("_baseline", "_end", "_waits", "loop", "task")

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self.loop: asyncio.AbstractEventLoop | None = None
        """The running event loop: who knows it saves the time to look for it."""

    def __enter__(self) -> None:
        waits = self._waits
        waits.check()
        task = asyncio.current_task(self.loop)
        if task is None:
            raise RuntimeError(NO_TASK)
        self.task: asyncio.Task[Any] = task
        self._baseline = task.cancelling()
        self._end: asyncio.Future[None] | None = None
        waits.present.add(self)

    def end(self) -> "asyncio.Future[None]":
        """Ask it to end; what is returned is done when it has."""
        if self._end is None:
            self._end = self.task.get_loop().create_future()
            self.task.cancel()
        return self._end

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waits.present.discard(self)
        if self._end is None:  # as nearly always
            return
        if not self._end.done():
            self._end.set_result(None)
        ours_alone = self.task.uncancel() <= self._baseline
        if ours_alone and isinstance(error, asyncio.CancelledError):
            raise ElectorClosedError from None
