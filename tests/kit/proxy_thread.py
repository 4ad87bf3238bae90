"""A proxy in a thread with a loop of its own, for tests that block: the facade for threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeVar

from kit.proxy import Proxy, Target

if TYPE_CHECKING:
    from kit.tls import Authority

T = TypeVar("T")
ANSWER_WITHIN = 10.0


class ProxyThread:
    """Use as a context manager; faults go through `do`, counters are read at `proxy`.

    >>> with ProxyThread(server) as relay:
    ...     relay.do(lambda proxy: proxy.cut())
    ...     relay.do_async(lambda proxy: proxy.restore())
    """

    def __init__(self, target: Target, *, tls: "Authority | None" = None) -> None:
        self.proxy = Proxy(target, tls=tls)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return self.proxy.url

    def do(self, deed: Callable[[Proxy], T]) -> T:
        """Run `deed` on the proxy in the proxy's loop; its value or its exception comes back."""

        async def step() -> T:
            return deed(self.proxy)

        return asyncio.run_coroutine_threadsafe(step(), self._loop).result(ANSWER_WITHIN)

    def do_async(self, deed: Callable[[Proxy], Awaitable[T]]) -> T:
        """The same for a deed that is awaited."""

        async def step() -> T:
            return await deed(self.proxy)

        return asyncio.run_coroutine_threadsafe(step(), self._loop).result(ANSWER_WITHIN)

    def start(self) -> Self:
        """Start the thread and listen."""
        self._thread.start()
        self.do_async(Proxy.start)
        return self

    def close(self) -> None:
        """Close the proxy and end the thread."""
        self.do_async(Proxy.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_WITHIN)
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
