"""What a thread has the loop do: a task there, an action here, and what they tell each other.

The task stands in elections and holds the term. When it is elected, the thread runs the action;
the task waits for its end, as a coroutine would that computes. So one engine knows all the rules.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from incumbent import Lease as AsyncLease
from incumbent import current_lease
from incumbent.blocking import portal, threads

T = TypeVar("T")

GIVE_UP_WITHIN: Final = 12.0
"""Seconds that an interrupted call waits for its seat to be given back: two requests and more."""


class Started:
    """The task is elected: the thread may work."""

    __slots__ = ("lease", "lost")

    def __init__(self, lease: AsyncLease, lost: threading.Event) -> None:
        self.lease: AsyncLease = lease
        self.lost: threading.Event = lost


class Ended:
    """The task has ended."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value: Any = value
        self.error: BaseException | None = error

    def outcome(self) -> Any:
        """What it returned; raises what it raised."""
        error, self.error = self.error, None
        if error is None:
            return self.value
        try:
            raise error
        finally:
            error = None  # or the frame and its traceback would keep each other alive


class _Left:
    """How the thread's action ended; the task waits for it."""

    def __init__(self) -> None:
        self.event: asyncio.Event = asyncio.Event()
        self.value: Any = None
        self.error: Exception | None = None


class Job(Generic[T]):
    """One task in the loop, for one thread."""

    def __init__(self, work: Callable[["Job[T]"], Awaitable[T]]) -> None:
        self._work = work
        self._pid = os.getpid()
        self._portal = portal.current()
        self._ear = threads.listen()
        self._told: queue.SimpleQueue[Started | Ended] = queue.SimpleQueue()
        self._task: asyncio.Task[Any] | None = None
        self._left: _Left | None = None
        self._abandoned = False
        self._over = threads.Gate()

    # -- in the thread -----------------------------------------------------------------------

    @property
    def ours(self) -> bool:
        """Whether this process began it; what a forked child has is a copy without a task."""
        return os.getpid() == self._pid

    def start(self) -> None:
        """Begin the task."""
        try:
            self._portal.spawn(self._run)
        except BaseException:
            self._ear.close()
            raise

    def hear(self) -> Started | Ended:
        """Wait for what comes next. An interruption of the wait ends the task as well."""
        try:
            return self._told.get()
        except BaseException:
            self.abandon()
            raise

    def leave(self, value: Any = None, error: Exception | None = None) -> None:
        """Tell the task how the action ended."""
        self._portal.soon(lambda: self._leave(value, error))

    def abandon(self) -> None:
        """Cancel the task, and wait until what it held is given back."""
        if self.ours and not self._over.is_open:
            self._portal.soon(self._abandon)
            self._over.wait(GIVE_UP_WITHIN)

    def result(self) -> T:
        """Wait for the end, or for what the task says in `stay`; what it returned or raised."""
        while isinstance(told := self.hear(), Started):
            pass
        return cast(T, told.outcome())

    # -- in the loop -------------------------------------------------------------------------

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        ended = Ended()
        try:
            if self._abandoned:
                raise asyncio.CancelledError  # noqa: TRY301 - it was given up before it began
            ended.value = await self._work(self)
        except BaseException as error:  # noqa: BLE001 - it is the thread's
            ended.error = error
        finally:
            del self._work  # it refers to the block: the cycle would keep its elector alive
            self._tell(ended)
            self._ear.tell(self._end)

    def _tell(self, what: Started | Ended) -> None:
        self._ear.tell(partial(self._told.put, what))

    def _end(self) -> None:
        self._over.open()
        self._ear.close()

    async def act(self) -> Any:
        """The action as the engine sees it: it runs in the thread until that has left it.

        A cancellation cannot stop a thread. It is told, and the seat is kept as long as may be; the
        engine looks after that. Only who gave up the whole call is not waited for.
        """
        lease = current_lease()
        if lease is None:
            raise RuntimeError("an action runs under a lease")
        left, lost = _Left(), threading.Event()
        tell_loss = partial(self._ear.tell, lost.set)
        telling = asyncio.create_task(_when_lost(lease, tell_loss), name="incumbent loss")
        self._left = left
        self._tell(Started(lease, lost))
        try:
            while not left.event.is_set():
                try:
                    await left.event.wait()
                except asyncio.CancelledError:
                    if lease.loss_reason is not None:
                        tell_loss()
                    if self._abandoned or self._portal.closing:
                        raise
        finally:
            telling.cancel()
        if self._abandoned:
            raise asyncio.CancelledError
        if left.error is not None:
            raise left.error
        return left.value

    async def stay(self, value: T) -> None:
        """Let the thread go on with `value`, and wait until it has left. Needs no lease."""
        self._left = left = _Left()
        self._tell(Ended(value))
        await left.event.wait()

    def _leave(self, value: Any, error: Exception | None) -> None:
        if self._left is not None:
            self._left.value, self._left.error = value, error
            self._left.event.set()

    def _abandon(self) -> None:
        self._abandoned = True
        if self._task is not None:
            self._task.cancel()


async def _when_lost(lease: AsyncLease, tell: Callable[[], object]) -> None:
    await lease.lost.wait()
    tell()


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run the coroutine function `work` in the loop, and wait for it."""
    job: Job[T] = Job(lambda _: work())
    job.start()
    return job.result()


def converse(work: Callable[[Job[T]], Awaitable[T]], action: Callable[[Started], Any]) -> T:
    """Run `work` in the loop, and `action` in this thread each time that `work` is elected.

    What the action raised comes out as it is, when `work` says that it failed.
    """
    job: Job[T] = Job(work)
    try:
        job.start()
        while isinstance(told := job.hear(), Started):
            try:
                value = action(told)
            except Exception as error:  # noqa: BLE001 - it comes out by way of the engine
                job.leave(error=error)
            else:
                job.leave(value)
    except BaseException:
        job.abandon()  # an interruption, anywhere: the seat is given back before it comes out
        raise
    return cast(T, told.outcome())
