"""The connections of one node of a cluster, borrowed from the caller's cluster client.

They are the client's own, so that it closes them with all others should nobody else. What comes
back is disconnected: a client that is about to look for its nodes anew closes nothing.
"""

from collections.abc import Mapping
from typing import Any, cast

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection

from incumbent.stores.redis.slots import Address


class _Guest(ClusterNode):
    """A node that the client did not find itself."""

    __slots__ = ()


def addresses_of(nodes: Mapping[str, ClusterNode]) -> frozenset[Address]:
    """The addresses of nodes that a client knows of."""
    return frozenset((str(node.host), int(node.port)) for node in nodes.values())


def forget(client: RedisCluster, owners: frozenset[Address]) -> None:
    """Remove the nodes from `client` that only we have used and that are no `owners` now.

    The client would use them when it asks all nodes, and they may be gone.
    """
    manager = cast(Any, client.nodes_manager)
    for name, node in tuple(manager.nodes_cache.items()):
        if isinstance(node, _Guest) and (node.host, int(node.port)) not in owners:
            its_own = any(node in nodes for nodes in manager.slots_cache.values())
            if not its_own and _unused(node):
                del manager.nodes_cache[name]


def _unused(node: Any) -> bool:
    """Whether all connections are back, and closed; redis-py has no public word for it."""
    free, all_of_them = node._free, node._connections  # noqa: SLF001 - see above
    return len(free) == len(all_of_them) and not any(each.is_connected for each in free)


class NodePool:
    """What a `KeptConnection` takes from a pool, for the node at `address`.

    With `own`, the client's connections are left alone: they are those of the parent process.
    """

    def __init__(self, client: RedisCluster, address: Address, *, own: bool) -> None:
        self.owner: RedisCluster = client
        """Who logs in."""
        self._client = cast(Any, client)  # redis-py left most of it without types
        self._address = address
        self._mine: ClusterNode | None = self._make() if own else None
        self._lent: dict[AbstractConnection, tuple[ClusterNode, Any]] = {}

    @property
    def connection_kwargs(self) -> dict[str, Any]:
        """With what connections are made."""
        options: dict[str, Any] = self._client.get_connection_kwargs()
        return options

    def can_get_connection(self) -> bool:
        """Whether the client may have one more, or has one that is not in use."""
        node = cast(Any, self._mine or self._node())
        free, all_of_them = node._free, node._connections  # noqa: SLF001 - as above
        return bool(free) or len(all_of_them) < node.max_connections

    def get_available_connection(self) -> AbstractConnection:
        """A connection that is not open: one that is may be in the mode that replicas need.

        Raises:
            redis.exceptions.ConnectionError: the client has as many as it may have.
        """
        node = cast(Any, self._mine or self._node())
        opened: list[Any] = []
        try:
            while (connection := node.acquire_connection()).is_connected:
                opened.append(connection)
        finally:
            node._free.extend(opened)  # noqa: SLF001 - `release` came with redis-py 7
        return self._lend(connection, node)

    async def get_connection(self, *_: Any, **__: Any) -> AbstractConnection:
        """Any connection, closed: there is no other left."""
        node = cast(Any, self._mine or self._node())
        connection = node.acquire_connection()
        await connection.disconnect(nowait=True)
        return self._lend(connection, node)

    def _lend(self, connection: Any, node: ClusterNode) -> AbstractConnection:
        greeting = connection.redis_connect_func
        self._lent[connection] = node, greeting
        if greeting == self._client.on_connect:
            # That of a client which reads from replicas: they would answer us what is no longer so.
            connection.redis_connect_func = None
        return cast(AbstractConnection, connection)

    async def release(self, connection: AbstractConnection) -> None:
        """Give a connection back to its node, closed."""
        node, greeting = cast(Any, self._lent.pop(connection))
        await connection.disconnect(nowait=True)
        cast(Any, connection).redis_connect_func = greeting
        node._free.append(connection)  # noqa: SLF001 - `release` came with redis-py 7

    def reset(self) -> None:
        """Not asked for: a forked child makes pools of its own."""
        raise NotImplementedError

    def _node(self) -> ClusterNode:
        """The client's own node, which may be another object than a moment ago."""
        manager = self._client.nodes_manager
        for known in (manager.nodes_cache, manager.startup_nodes):
            for node in known.values():
                if (node.host, int(node.port)) == self._address:
                    return cast(ClusterNode, node)
        made = self._make()
        # From now on the client closes it, or forgets it when it finds that it is gone.
        return cast(ClusterNode, manager.nodes_cache.setdefault(made.name, made))

    def _make(self) -> ClusterNode:
        host, port = self._address
        return _Guest(host, port, "primary", **self._client.get_connection_kwargs())
