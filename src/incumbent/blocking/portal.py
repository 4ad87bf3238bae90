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
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from anyio.from_thread import BlockingPortal

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
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._portal: BlockingPortal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closers: set[Closer] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.closing: bool = False
        # A daemon, because the interpreter waits for all other threads before it lets us end it.
        self._thread = threading.Thread(target=self._run, name="incumbent portal", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def usable(self) -> bool:
        """Whether it is this process's, and is not at its end."""
        return os.getpid() == self._pid and not self.closing and self._thread.is_alive()

    def keep(self, owner: object, closer: "Closer") -> None:
        """Close `closer` at the end, or when `owner` is garbage collected."""
        if closer not in self._closers:
            self._closers.add(closer)
            weakref.finalize(owner, self._let_go, closer).atexit = False

    def _let_go(self, closer: "Closer") -> None:
        """Called in any thread. In a forked child the parent's connections are left alone."""
        self.soon(partial(self._start_closing, closer))

    def _start_closing(self, closer: "Closer") -> None:
        task = asyncio.get_running_loop().create_task(self._close(closer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, closer: "Closer") -> None:
        with suppress(Exception):  # the seats are free already
            async with asyncio.timeout(CLOSE_WITHIN / 3):
                await closer.aclose()
        self._closers.discard(closer)

    def spawn(self, work: Callable[[], Any]) -> None:
        """Run the coroutine function `work` in a task of the loop, and return at once."""
        portal = self._portal
        if portal is None:
            raise RuntimeError("the portal is closed")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a hook must not call a blocking elector: it would wait for itself")
        portal.start_task_soon(work)

    def soon(self, call: Callable[[], object]) -> None:
        """Call `call` in the loop's thread; nothing happens when that is over."""
        loop = self._loop
        if loop is not None and os.getpid() == self._pid:
            try:
                loop.call_soon_threadsafe(call)
            except RuntimeError:  # the loop is closed: all is over
                return

    def close(self) -> None:
        """Cancel what still runs, which gives the seats back, and join the thread."""
        portal = self._portal
        if os.getpid() != self._pid or portal is None:
            return
        self.closing = True
        try:
            portal.start_task_soon(portal.stop, True)  # noqa: FBT003 - anyio's own parameter
        except RuntimeError:
            return  # it has ended by itself
        self._thread.join(CLOSE_WITHIN)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to who waits for the start
            self._failure = error
        finally:
            self._portal = None
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with BlockingPortal() as portal:
            self._portal = portal
            self._ready.set()
            await portal.sleep_until_stopped()
        for closer in tuple(self._closers):
            await self._close(closer)


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(Selector())


_lock = threading.Lock()
_current: Portal | None = None
_parents: Final[list[Portal]] = []  # kept, so that nothing of them is ever closed from here


def current() -> Portal:
    """The portal of this process."""
    global _current  # noqa: PLW0603 - one per process
    with _lock:
        if _current is None or not _current.usable:
            _current = Portal()
        return _current


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
