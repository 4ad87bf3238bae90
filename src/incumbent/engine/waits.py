"""What one elector waits for, until it is closed: then every wait ends, and none begins.

Knows tasks, not elections. A wait is ended as `asyncio.timeout` ends one: by one counted
``task.cancel()``, with ``uncancel()`` at its end, so that it cleans up as after any cancellation.
What it was granted by then is given back by that clean-up.
Source: https://docs.python.org/3/library/asyncio-task.html#asyncio.Task.uncancel
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from incumbent.errors import ElectorClosedError

T = TypeVar("T")


class Waits:
    """The waits of one elector. Those in an event loop that is gone are left alone."""

    def __init__(self) -> None:
        self.closed: bool = False
        self._waits: set[_Wait] = set()

    def check(self) -> None:
        """Raise `ElectorClosedError` if the elector is closed."""
        if self.closed:
            raise ElectorClosedError

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what ``work()`` gives.

        Raises:
            ElectorClosedError: the elector is closed before.
        """
        self.check()
        wait = _Wait()
        self._waits.add(wait)
        try:
            return await work()
        except asyncio.CancelledError:
            if wait.ended_by_us_alone:
                raise ElectorClosedError from None
            raise
        finally:
            self._waits.discard(wait)
            wait.is_over()

    async def sleep(self, seconds: float) -> None:
        """Sleep, unless the elector is closed."""
        await self.run(partial(asyncio.sleep, seconds))

    async def close(self, within: float) -> None:
        """End all waits, and wait until they have cleaned up, for `within` seconds at most."""
        self.closed = True
        loop = asyncio.get_running_loop()
        here = [wait for wait in self._waits if wait.task.get_loop() is loop]
        ends = [wait.end() for wait in here if wait.task is not asyncio.current_task()]
        if ends:
            await asyncio.wait(ends, timeout=within)


class _Wait:
    """One wait, in the task that made this."""

    __slots__ = ("_baseline", "_end", "_sent", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an election needs a running asyncio task")
        self.task: asyncio.Task[Any] = task
        self._baseline = task.cancelling()
        self._sent = False
        self._end: asyncio.Future[None] | None = None

    @property
    def ended_by_us_alone(self) -> bool:
        """Whether a cancellation that leaves the wait is ours, and nobody else's."""
        return self._sent and self.task.cancelling() <= self._baseline + 1

    def end(self) -> "asyncio.Future[None]":
        """Ask it to end; what is returned is done when it has."""
        if self._end is None:
            self._end = self.task.get_loop().create_future()
            self._sent = self.task.cancel()
        return self._end

    def is_over(self) -> None:
        """It has ended."""
        if self._sent:
            self.task.uncancel()
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
