"""The way to a cluster: which node has an election's slot, and one wire to each node that is used.

Goes by what nodes say in answer to CLUSTER SLOTS, MOVED and ASK. It asks them itself: the caller's
client would wait for a frozen node as long as its own timeouts are. It also asks them regularly
when all is well: nodes may be replaced one by one, and when the last known one is gone, only the
nodes that the user named can be asked.
Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

import asyncio
import weakref
from collections.abc import Iterable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, Final, cast

from redis import exceptions as redis_errors
from redis.asyncio import RedisCluster

from incumbent import clock
from incumbent.shield import close_with_loop, finish, outlast, yielding
from incumbent.stores.redis import faults
from incumbent.stores.redis.canvass import PATIENCE, WITHIN, canvass
from incumbent.stores.redis.directory import Directory
from incumbent.stores.redis.inboxes import Inboxes
from incumbent.stores.redis.nodes import NodePool, addresses_of, forget
from incumbent.stores.redis.scripts import PackedKeys, command
from incumbent.stores.redis.server import Server
from incumbent.stores.redis.slots import Address, SlotMap, address_of, read, slot_of
from incumbent.stores.redis.wire import ElsewhereError, MakeWire, Question, Reply, Wire

GREETING: Final = 1.0
"""Seconds that the client has to find its nodes."""

_WHO: Final = command(b"CLUSTER", b"SLOTS")


class Cluster:
    """The nodes that the caller's `client` knows, and those that they name."""

    def __init__(
        self,
        client: RedisCluster,
        make_wire: MakeWire = Wire,
        *,
        own: bool = False,
        given: Iterable[Address] = (),
    ) -> None:
        """`given`: nodes that the user named, if the client has forgotten them by now.

        A client forgets them once it has found others, unless ``dynamic_startup_nodes`` is False.
        """
        self._client = client
        self._make_wire = make_wire
        self._own = own
        """Whether the connections are ours, because the client is that of the parent process."""
        self._servers: dict[Address, Server] = {}
        self._slots: SlotMap | None = None
        manager = cast(Any, client.nodes_manager)
        self._directory = Directory(tuple(given) or addresses_of(manager.startup_nodes))
        self._look: asyncio.Task[None] | None = None
        self._ears: weakref.WeakSet[Inboxes] = weakref.WeakSet()
        self._closed = False

    # -- requests ----------------------------------------------------------------------------

    def wire(self, keys: PackedKeys) -> Wire | None:
        """The wire to the node that has the slot of `keys`, if it is known and well."""
        owner = self.owner(keys.first)
        if owner is None or owner in self._directory.doubted:
            return None
        if self._directory.due(clock.now()):
            self._start_look()
        server = self._servers.get(owner)
        return None if server is None else server.wire()

    async def find(self, keys: PackedKeys, within: float) -> Wire:
        """A wire to the node that has the slot of `keys`; the nodes are asked who that is."""
        return await self._wire_to(await self.locate(keys, within))

    async def learn(self, error: redis_errors.RedisError, keys: PackedKeys) -> Wire | None:
        """Follow a redirection; doubt a node that does not answer as the owner of a slot should."""
        owner = self.owner(keys.first)
        if owner is None:
            return None
        if isinstance(error, redis_errors.AskError):  # MOVED is one as well
            other = address_of(error.host, error.port, owner, self._remap)
            if not isinstance(error, redis_errors.MovedError):
                return await self._wire_to(other)
            self._move(error.slot_id, other)
            self._directory.moved(other)
            if self._directory.due(clock.now(), moved=True):
                self._start_look()
        elif faults.owner_in_doubt(error):
            self.doubt(owner)
        return None

    # -- who has what ------------------------------------------------------------------------

    async def locate(self, keys: PackedKeys, within: float) -> Address:
        """The node that has the slot of `keys`; unless one is known and well, the nodes are asked.

        Raises:
            redis.exceptions.RedisError: no node has it, or none has said so in time.
        """
        owner = self.owner(keys.first)
        if owner is None or owner in self._directory.doubted:
            await self.look(within)
            owner = self.owner(keys.first)
        if owner is None:
            raise redis_errors.ClusterDownError("no node of the cluster has the slot of this key")
        return owner

    def owner(self, key: bytes) -> Address | None:
        """The node that has the slot of a key or a channel, as far as is known."""
        return None if self._slots is None else self._slots.owner(slot_of(key))

    def doubt(self, address: Address) -> None:
        """The node is not what it was taken for."""
        self._directory.doubted.add(address)

    async def look(self, within: float) -> None:
        """Have the nodes say who has which slot: one look for all who want to know.

        Raises:
            redis.exceptions.RedisError: no node has said so, or not in time.
        """
        self._start_look()
        look = cast("asyncio.Task[None]", self._look)
        await asyncio.wait((look,), timeout=within)
        if not look.done():
            raise redis_errors.TimeoutError("no node of the cluster has said who has which slot")
        if look.cancelled():
            raise redis_errors.ConnectionError("the way to the cluster was closed")
        look.result()

    def _start_look(self) -> None:
        if self._look is None:
            self._directory.looked_at = clock.now()
            self._look = asyncio.get_running_loop().create_task(
                self._look_around(), name="incumbent look", context=Context()
            )
            self._look.add_done_callback(self._looked)
            close_with_loop(self)

    def _looked(self, look: "asyncio.Task[None]") -> None:
        self._look = None
        if not look.cancelled():
            look.exception()  # seen, also when nobody waits any more

    async def _look_around(self) -> None:
        if self._slots is None and not self._own:
            await self._greet()
        asks = [partial(self._ask, address) for address in self._order()]
        informant, slots = await canvass(asks, PATIENCE, "the cluster client knows of no node")
        self._slots = slots
        self._directory.heard(informant, slots.nodes, clock.now())
        self._tell_ears()
        await self._part_from_all_but(slots.owners)

    async def _greet(self) -> None:
        """Let the client find its nodes: one that never has would close none of its connections."""

        async def initialize() -> None:
            # Whatever is wrong, the nodes will say it to us.
            with suppress(Exception):
                async with asyncio.timeout(GREETING):
                    _ = await self._client.initialize()

        await yielding(initialize)

    def _order(self) -> list[Address]:
        """The nodes to ask, one after the other."""
        manager = cast(Any, self._client.nodes_manager)
        others = addresses_of(manager.nodes_cache) | addresses_of(manager.startup_nodes)
        return self._directory.order(self._servers, others)

    async def _ask(self, address: Address) -> tuple[Address, SlotMap]:
        """`address`, and which node has which slot, as the node there says."""
        server = self._servers.get(address)
        # A node that is not in use is asked by a connection that is made for this question.
        passing = Server(self.pool(address), self._make_wire) if server is None else None
        server = server or cast(Server, passing)
        wire: Wire | None = None
        reply: Reply = None
        try:
            while wire is None or isinstance(reply, ElsewhereError):
                wire = server.wire() or await server.find()
                reply = await wire.send(Question(_WHO), WITHIN)
        finally:
            if passing is not None:
                await finish(passing.retire)
            elif wire is not None and self._closed and not wire.busy:
                await wire.retire()
        if isinstance(reply, redis_errors.RedisError):
            raise reply
        if not reply:
            raise redis_errors.ClusterDownError("a node of the cluster knows of no slots")
        return address, read(reply, address, self._remap)

    def _move(self, slot: int, owner: Address) -> None:
        if self._slots is not None and self._slots.owner(slot) != owner:
            self._slots.move(slot, owner)
            self._tell_ears()

    def _remap(self, host: str, port: int) -> Address:
        address: tuple[str, Any] = self._client.nodes_manager.remap_host_port(host, port)
        return address[0], int(address[1])

    # -- connections -------------------------------------------------------------------------

    async def _wire_to(self, address: Address) -> Wire:
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = Server(self.pool(address), self._make_wire)
        return server.wire() or await server.find()

    async def _part_from_all_but(self, owners: frozenset[Address]) -> None:
        """Give back the connections to nodes that have no slots (any more)."""
        for address in self._servers.keys() - owners:
            await finish(self._servers.pop(address).retire)
        forget(self._client, owners)

    def pool(self, address: Address) -> NodePool:
        """The client's connections to a node."""
        return NodePool(self._client, address, own=self._own)

    def ears(self) -> Inboxes:
        """Inboxes, each at the node that has the slots of its channels."""
        made = Inboxes(self)
        self._ears.add(made)
        return made

    def _tell_ears(self) -> None:
        for ears in tuple(self._ears):
            ears.rearrange()

    def beside(self, make_wire: MakeWire) -> "Cluster":
        """The same cluster, by wires of another make."""
        return Cluster(self._client, make_wire, own=self._own, given=self._directory.given)

    def heir(self, *, forked: bool) -> "Cluster":
        """The same for another event loop, or for a forked child."""
        own, given = self._own or forked, self._directory.given
        return Cluster(self._client, self._make_wire, own=own, given=given)

    async def retire(self) -> None:
        """Give all connections back when nothing is under way on them."""
        self._closed = True
        await self.aclose()
        for server in tuple(self._servers.values()):
            await server.retire()

    async def aclose(self) -> None:
        """End a look that nobody waits for, as when the event loop ends."""
        if self._look is not None:
            self._look.cancel()
            await outlast(self._look)

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        for server in self._servers.values():
            await server.forsake()
