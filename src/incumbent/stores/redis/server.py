"""The way to one server: the wire that is used, and those that gave way and may end in peace."""

import copy
from typing import TYPE_CHECKING, Final

from redis import exceptions as redis_errors

from incumbent.stores.redis.connection import Pool
from incumbent.stores.redis.scripts import PackedKeys
from incumbent.stores.redis.slots import Address
from incumbent.stores.redis.wire import MakeWire, Wire

if TYPE_CHECKING:
    from incumbent.stores.redis.inbox import Inbox

MOST_RETIRED: Final = 5
"""How many slow wires may end in peace beside the one that is used; a frozen server makes many."""


class Server:
    """One server, by the connections of `pool`."""

    def __init__(self, pool: Pool, make_wire: MakeWire = Wire) -> None:
        self.pool: Pool = pool
        self._make_wire = make_wire
        self._wire: Wire | None = None
        self._retired: list[Wire] = []

    def wire(self, keys: PackedKeys | None = None) -> Wire | None:
        """The wire that is used, if there is a good one; a server has all keys."""
        wire = self._wire
        return None if wire is None or wire.retired else wire

    async def find(self, keys: PackedKeys | None = None, within: float = 0.0) -> Wire:
        """A new wire. Old ones that still have something under way are remembered, but not many.

        Of those that connect, only the one that has done so for longest: the others began anew, as
        this one does, in case the server is another one by now. None if the pool has no more
        connections.
        """
        old = (*self._retired, self._wire)
        self._retired = [wire for wire in old if wire is not None and wire.engaged]
        new = self._wire = self._make_wire(self.pool)
        new.connected = self._take
        connecting = [wire for wire in self._retired if wire.connects]
        answering = [wire for wire in self._retired if not wire.connects]
        goes_on = 1 if self.pool.can_get_connection() else 0
        self._retired = connecting[:goes_on] + answering[-MOST_RETIRED:]
        for wire in connecting[goes_on:] + answering[:-MOST_RETIRED]:
            await wire.drop()
        return new

    def _take(self, wire: Wire) -> None:
        """Use a wire that has connected, unless the one that is used has as well; end the others.

        It may be one that gave way, and whose place another one has, which is at it still.
        """
        current = self._wire
        if current is not None and current is not wire:
            if current.ready:
                wire.retired = True  # so that it gives its connection back
                return
            self._wire = wire
            self._retired = [each for each in (*self._retired, current) if each is not wire]
            current.yield_to_another()
        for each in self._retired:
            each.stop_connecting()

    async def part_from_all_but(self, address: Address) -> None:
        """Cut connections that lead elsewhere."""
        for wire in (*self._retired, self._wire):
            if wire is not None and wire.address not in {None, address}:
                await wire.drop()

    async def learn(self, error: redis_errors.RedisError, keys: PackedKeys) -> None:
        """There is no other server to ask."""

    def ears(self) -> "Inbox":
        """An inbox on this server."""
        from incumbent.stores.redis.inbox import Inbox  # noqa: PLC0415 - most never wait

        return Inbox(self.pool)

    def beside(self, make_wire: MakeWire) -> "Server":
        """The same server, by wires of another make."""
        return Server(self.pool, make_wire)

    def heir(self, *, forked: bool) -> "Server":
        """The same for another event loop, or for a forked child."""
        pool = self.pool
        if forked:
            pool = copy.copy(pool)
            pool.reset()
        return Server(pool, self._make_wire)

    async def retire(self) -> None:
        """Give all connections back when nothing is under way on them."""
        for wire in (*self._retired, self._wire):
            if wire is not None:
                await wire.retire()

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        for wire in (*self._retired, self._wire):
            if wire is not None:
                await wire.forsake()
