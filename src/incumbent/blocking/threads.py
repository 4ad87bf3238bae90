"""Real threads, also in a process whose threads gevent has made greenlets.

In a greenlet, our event loop would run in everybody's thread: asyncio and Django refuse to work in
a thread with a running loop, and a computation would keep its own lease from being renewed. So the
loop has a thread of the system to itself. Gevent's events and queues are for one thread only: what
another one has to say is said there by the hub, which watches for that.
Source: https://www.gevent.org/api/gevent.hub.html
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Ear:
    """How other threads have calls made in the thread that has made this."""

    def tell(self, call: Callable[[], object]) -> None:
        """Have `call` called, at once or soon."""
        call()

    def close(self) -> None:
        """Hear no more. Called in the thread that listens."""


class _HubEar(Ear):
    def __init__(self, hub: Any) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._watcher: Any = hub.loop.async_()
        self._watcher.start(self._hear)  # as long as it is, gevent sees that something may come

    def tell(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self._watcher.send()

    def close(self) -> None:
        self._watcher.close()

    def _hear(self) -> None:
        while self._calls:
            self._calls.popleft()()


class Gate:
    """Opened once, by any thread; others wait for that, in any thread."""

    def __init__(self) -> None:
        self.is_open: bool = False
        self._waiting: list[Callable[[], object]] = []

    def open(self) -> None:
        """Let everybody pass, from now on."""
        self.is_open = True
        for wake in tuple(self._waiting):
            wake()

    def wait(self, within: float | None = None) -> None:
        """Wait until it is open, for `within` seconds at most."""
        if self.is_open:
            return
        woken, ear = threading.Event(), listen()
        self._waiting.append(lambda: ear.tell(woken.set))
        try:
            if not self.is_open:  # opened before it knew of us
                woken.wait(within)
        finally:
            ear.close()


def listen() -> Ear:
    """An ear of this thread."""
    return Ear() if _gevent() is None else _HubEar(_hub())


def start(run: Callable[[], None], name: str) -> Callable[[float], None]:
    """Run `run` in a new thread of the system; the interpreter does not wait for its end.

    Returns:
        Waits for its end, for so many seconds at most.

    Raises:
        RuntimeError: no thread of the system can be had.
    """
    check()
    if (patched := _gevent()) is None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread.join
    _hub()  # two threads that make their first hubs at once wait for each other's imports
    ended = Gate()

    def whole() -> None:
        try:
            run()
        finally:
            ended.open()

    patched.get_original("_thread", "start_new_thread")(whole, ())
    return ended.wait


def check() -> None:
    """Refuse a process in which no thread of the system can be had.

    Raises:
        RuntimeError: eventlet has patched it.
    """
    patcher: Any = sys.modules.get("eventlet.patcher")
    if patcher is not None and any(map(patcher.is_monkey_patched, ("thread", "socket", "select"))):
        raise RuntimeError(
            "incumbent.blocking does not work in a process that eventlet.monkey_patch() has"
            " changed: use threads or gevent instead"
        )


def _hub() -> Any:
    """What runs the greenlets of this thread."""
    gevent: Any = sys.modules["gevent"]
    return gevent.get_hub()


def _gevent() -> Any:
    """The module that patches, if it has made the threads of this process greenlets."""
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None
