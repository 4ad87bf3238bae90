"""The one thread of this process in which an event loop runs, for all who have none.

Begins when it is first needed. At the interpreter's exit it gives back what is still held, and is
joined. A forked child never touches its parent's: it has one of its own.
"""

import asyncio
import atexit
import os
import selectors
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel

from incumbent.blocking import threads

CLOSE_WITHIN: Final = 15.0
"""Seconds that the seats have to be given back at the interpreter's exit."""


class Selector(selectors.DefaultSelector):
    """Leaves the parent's alone: a forked child's copies of its sockets are watched by one epoll.

    To let go of one of them in the child, as the garbage collector does, would make the parent
    deaf on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pid = os.getpid()

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch it no longer."""
        if os.getpid() != self._pid:
            return self.get_key(fileobj)
        return super().unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch it for something else."""
        if os.getpid() != self._pid:
            return self.get_key(fileobj)
        return super().modify(fileobj, events, data)


class Closer(Protocol):
    """What has connections in the loop."""

    async def aclose(self) -> None:
        """Give them back."""
        ...


class Portal:
    """The thread and its loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._ready = threads.Gate()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: int | None = None
        self._over = False
        self._closers: set[Closer] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._closings: set[asyncio.Task[Any]] = set()
        self.closing: bool = False
        # The interpreter does not wait for it: it would before it lets us end it.
        self._join = threads.start(self._run, "incumbent portal")

    def wait_until_ready(self) -> None:
        """Wait for the start of the loop; raises what it failed with."""
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def usable(self) -> bool:
        """Whether it is this process's, and is not at its end."""
        return os.getpid() == self._pid and not self.closing and not self._over

    def keep(self, owner: object, closer: "Closer") -> None:
        """Close `closer` at the end, or when `owner` is garbage collected."""
        if closer not in self._closers:
            self._closers.add(closer)
            weakref.finalize(owner, self._let_go, closer).atexit = False

    def _let_go(self, closer: "Closer") -> None:
        """Called in any thread. In a forked child the parent's connections are left alone."""
        self.soon(partial(_begin, partial(self._close, closer), self._closings))

    async def _close(self, closer: "Closer") -> None:
        with suppress(Exception):  # the seats are free already
            async with asyncio.timeout(CLOSE_WITHIN / 3):
                await closer.aclose()
        self._closers.discard(closer)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run the coroutine function `work` in a task of the loop, and return at once."""
        if threading.get_ident() == self._thread:
            raise RuntimeError("a hook must not call a blocking elector: it would wait for itself")
        if self.closing or not self.soon(partial(_begin, work, self._jobs)):
            raise RuntimeError("the portal is closed")

    def soon(self, call: Callable[[], object]) -> bool:
        """Call `call` in the loop's thread; False when that is over, or another process's."""
        loop = self._loop
        if loop is None or os.getpid() != self._pid:
            return False
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def close(self) -> None:
        """Cancel what still runs, which gives the seats back, and join the thread."""
        stopping = self._stopping
        self.closing = True
        if stopping is not None and self.soon(stopping.set):
            self._join(CLOSE_WITHIN)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to who waits for the start
            self._failure = error
        finally:
            self._over = True
            self._ready.open()

    async def _serve(self) -> None:
        self._thread = threading.get_ident()
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # Loads anyio's backend now, and not when a lease waits for the loop.
        await anyio.lowlevel.checkpoint()
        self._ready.open()
        await self._stopping.wait()
        await asyncio.sleep(0)  # those that were asked for last begin, and can be told of their end
        for task in self._jobs:
            task.cancel()
        while tasks := self._jobs | self._closings:
            await asyncio.wait(tasks)
        for closer in tuple(self._closers):
            await self._close(closer)


def _begin(work: Callable[[], Coroutine[Any, Any, Any]], among: set["asyncio.Task[Any]"]) -> None:
    task = asyncio.get_running_loop().create_task(work())
    among.add(task)
    task.add_done_callback(among.discard)


def _loop() -> asyncio.AbstractEventLoop:
    if selectors.DefaultSelector not in Selector.__mro__:
        raise RuntimeError(
            "incumbent.blocking was imported before gevent.monkey.patch_all() was called: call that"
            " first, before all other imports"
        )
    return asyncio.SelectorEventLoop(Selector())


_lock = threading.Lock()
_current: Portal | None = None
_parents: Final[list[Portal]] = []  # kept, so that nothing of them is ever closed from here


def current() -> Portal:
    """The portal of this process."""
    global _current  # noqa: PLW0603 - one per process
    with _lock:
        portal = _current
        if portal is None or not portal.usable:
            portal = _current = Portal()
    portal.wait_until_ready()
    return portal


def _in_child() -> None:
    global _lock, _current  # noqa: PLW0603 - a thread that holds the lock is not here any more
    _lock = threading.Lock()
    if _current is not None:
        _parents.append(_current)
    _current = None


def _at_exit() -> None:
    if _current is not None:
        _current.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
