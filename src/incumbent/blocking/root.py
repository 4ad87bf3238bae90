"""An asyncio elector and the client that was made for it: what an elector for threads stands on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from incumbent import GroupElector, LeaderElector
from incumbent.stores.base import Store
from incumbent.stores.redis import Client

if TYPE_CHECKING:
    from incumbent import StrategicElector  # at run time, only for those who have one

Twin: TypeAlias = "LeaderElector | GroupElector | StrategicElector"


class Holdings:
    """What a root has open in the loop. It outlives the root, so that it can be closed then."""

    __slots__ = ("_client", "_twin")

    def __init__(self, twin: Twin, client: Client | None) -> None:
        self._twin = twin
        self._client = client

    async def aclose(self) -> None:
        """Give everything back. Idempotent."""
        try:
            await self._twin.aclose()
        finally:
            if self._client is not None:
                await self._client.aclose()


class Root:
    """One process's asyncio elector; closes the client only if that is nobody else's."""

    __slots__ = ("__weakref__", "_base", "holdings", "twin")

    def __init__(
        self, twin: Twin, client: Client | None = None, base: "Root | None" = None
    ) -> None:
        self.twin: Twin = twin
        self.holdings: Holdings = Holdings(twin, client)
        self._base = base  # not itself: a cycle would wait for the garbage collector

    @classmethod
    def of(cls, source: Client | Store, make: Callable[[Client | Store], Twin]) -> "Root":
        """The elector that `make` makes from `source`."""
        return cls(make(source), None if isinstance(source, Store) else source)

    @property
    def base(self) -> "Root":
        """The root that owns the connections."""
        return self if self._base is None else self._base

    def sibling(self, change: Callable[[Twin], Twin]) -> "Root":
        """One on the same connections."""
        return Root(change(self.twin), base=self.base)
