"""What the electors of one family share: the store, the hooks, and the terms that are running.

Knows no rules of elections.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from incumbent import actions, process
from incumbent.engine.alarms import Alarms
from incumbent.events import Event, Hook, Names
from incumbent.mishaps import contain
from incumbent.stores.base import Store


class Named(Protocol):
    """Who an event is about."""

    @property
    def names(self) -> Names:
        """What every event about it says."""
        ...


TermT = TypeVar("TermT")


def hooks_of(hooks: Any) -> tuple[Hook, ...]:
    """`hooks` as an elector takes them.

    Raises:
        TypeError: they are no hooks, or a single hook without a list.
    """
    given: Any = hooks  # whose own type stays unchecked, as the elements' are checked below
    if not isinstance(hooks, Iterable) or isinstance(hooks, str | bytes | type):
        raise TypeError(f"hooks must be a list of callables, not {type(hooks).__name__}")
    found: tuple[Any, ...] = tuple(given)
    for hook in found:
        if not callable(hook):
            raise TypeError(f"a hook must be callable with an event, not {type(hook).__name__}")
        actions.check_called(hook, "a hook")
    return found


class Office(Generic[TermT]):
    """What a family of electors shares: those made from one another by `using` and `for_tenant`."""

    def __init__(self, store: Store, hooks: Iterable[Hook], *, owns_store: bool) -> None:
        self.store = store
        self.terms: set[TermT] = set()
        """Those that are running."""
        self._hooks = [(hook, getattr(hook, "wants", None)) for hook in hooks_of(hooks)]
        self._owns_store = owns_store
        self._alarms: Alarms | None = None
        self._pid = process.pid

    def tell(self, kind: type[Event], who: Named, /, **details: Any) -> None:
        """Tell every hook that wants to hear such events; errors of hooks are contained.

        Made only if somebody listens: to make two events takes as much time as to send a request.
        """
        event: Event | None = None
        for hook, wants in self._hooks:
            try:
                if wants is None or wants(kind):
                    event = event or kind(**who.names, **details)
                    hook(event)
            except BaseException as error:  # noqa: BLE001 - a hook may fail in any way
                contain(error, "a hook failed on %s", kind.__name__)

    def come_home(self) -> asyncio.AbstractEventLoop:
        """Use the running event loop, which is returned, from now on.

        Raises:
            RuntimeError: this was used in another event loop, which still runs.
        """
        loop, alarms = asyncio.get_running_loop(), self._alarms
        if alarms is None or alarms.loop is not loop:
            process.leave(None if alarms is None else alarms.loop, self._pid)
            self._alarms, self._pid = Alarms(loop), process.pid
        return loop

    @property
    def alarms(self) -> Alarms:
        """The alarms of the event loop that is used. A loop that is gone takes its own with it."""
        if self._alarms is None:
            raise RuntimeError("come_home() comes first")
        return self._alarms

    async def aclose(self) -> None:
        """Close the store, if it was made for this family."""
        if self._owns_store:
            await self.store.aclose()
