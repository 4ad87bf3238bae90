"""What the electors of one family share: the store, the hooks, and the terms that are running.

Knows no rules of elections. One timer per event loop notices that the machine was suspended,
because the loop's own timers stand still meanwhile.
"""

import asyncio
import inspect
import logging
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from incumbent import clock
from incumbent.events import Event, Hook
from incumbent.stores.base import Store

PULSE: Final = 1.0
"""Seconds between two looks at the clock that counts suspend."""

SUSPENDED: Final = 0.05
"""Seconds by which that clock outruns the loop's when the machine was suspended."""

_log: Final = logging.getLogger("incumbent")


class Running(Protocol):
    """What an office asks of a term."""

    def wake(self) -> None:
        """Look at the clock now."""
        ...


TermT = TypeVar("TermT", bound=Running)


class Office(Generic[TermT]):
    """What a family of electors shares: those made from one another by `using` and `for_tenant`."""

    def __init__(self, store: Store, hooks: Iterable[Hook], *, owns_store: bool) -> None:
        self.store = store
        self.terms: set[TermT] = set()
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not callable(hook):
                raise TypeError(f"a hook must be callable with an event, not {hook!r}")
            if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(hook.__call__):
                raise TypeError(
                    f"a hook must be a plain function, not a coroutine function: {hook!r}"
                )
        self._owns_store = owns_store
        self._pulse: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    def tell(self, event: Event) -> None:
        """Call every hook with `event`; what a hook raises is logged and disturbs nobody."""
        for hook in self._hooks:
            try:
                hook(event)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 - a hook may fail in any way
                _log.exception("a hook failed on %s", type(event).__name__)

    def open(self, term: TermT) -> None:
        """Take `term` into the running ones."""
        self.terms.add(term)
        loop = asyncio.get_running_loop()
        if self._pulse is None or self._pulse[0] is not loop:
            self._beat(loop, clock.now() - loop.time())

    def close(self, term: TermT) -> None:
        """Take `term` out of the running ones."""
        self.terms.discard(term)

    async def aclose(self) -> None:
        """Close the store, if it was made for this family."""
        if self._owns_store:
            await self.store.aclose()

    def _beat(self, loop: asyncio.AbstractEventLoop, ahead: float) -> None:
        """Look every second, while there are terms, whether the machine was suspended."""
        self._pulse = None
        if not self.terms:
            return
        ahead_now = clock.now() - loop.time()
        if abs(ahead_now - ahead) > SUSPENDED:
            for term in tuple(self.terms):
                term.wake()
        self._pulse = loop, loop.call_later(PULSE, self._beat, loop, ahead_now)
