"""The connections to the node that has a seat's slot, as a pipeline of redis-py takes them.

A pipeline of one server asks a pool for a connection, and gives it back there. These pools find out
first which node of a cluster it has to lead to: with asyncio by the way that electors go, for
threads by what the caller's own client knows. They know nothing of what is sent.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

import redis
from redis import exceptions as redis_errors
from redis.asyncio import RedisCluster
from redis.asyncio.connection import AbstractConnection

from incumbent.shield import finish
from incumbent.stores.redis import faults
from incumbent.stores.redis.cluster import Cluster
from incumbent.stores.redis.nodes import NodePool
from incumbent.stores.redis.scripts import PackedKeys
from incumbent.stores.redis.way import Way

FindWay: TypeAlias = Callable[[], Awaitable[Way]]
"""Gives the way to the cluster, for the event loop in which it is called."""


class SlotPool:
    """Connections of a `redis.asyncio.RedisCluster`, one at a time; each comes back closed."""

    def __init__(
        self, client: RedisCluster, seat: bytes, within: float, find_way: FindWay | None
    ) -> None:
        """`find_way` is that of the elector, if it has the same client.

        Without it the nodes are asked who has the slot, and within `within` seconds they have to
        say so.
        """
        self.response_callbacks: Any = client.response_callbacks
        self._client = client
        self._keys: Final = PackedKeys.of(seat)
        self._within = within
        self._find_way = find_way
        self._passing: Cluster | None = None
        """A way for this transaction alone, which keeps no connection after it was asked."""
        self._pool: NodePool | None = None

    @property
    def connection_kwargs(self) -> dict[str, Any]:
        """With what connections are made."""
        options: dict[str, Any] = self._client.get_connection_kwargs()
        return options

    async def get_connection(self, *_: Any, **__: Any) -> AbstractConnection:
        """A connection to the node that has the slot, closed as yet."""
        way = await self._way()
        try:
            owner = await way.locate(self._keys, self._within)
        finally:
            if way is self._passing:
                await finish(way.retire)
        self._pool = pool = way.pool(owner)
        try:
            return pool.get_available_connection()
        except redis_errors.MaxConnectionsError:
            return await pool.get_connection()

    async def release(self, connection: AbstractConnection) -> None:
        """Give it back."""
        await cast(NodePool, self._pool).release(connection)

    async def learn(self, error: redis_errors.RedisError) -> None:
        """Draw the conclusions from what a node said, or from its silence."""
        await (await self._way()).learn(error, self._keys)

    def get_encoder(self) -> Any:
        """What the client makes of text."""
        return cast(Any, self._client).get_encoder()

    async def _way(self) -> Cluster:
        if self._find_way is not None:
            return cast(Cluster, await self._find_way())
        if self._passing is None:
            self._passing = Cluster(self._client)
        return self._passing


class BlockingSlotPool:
    """The same for a `redis.RedisCluster`, by what that knows of its nodes."""

    def __init__(self, client: redis.RedisCluster, seat: bytes) -> None:
        self._client = cast(Any, client)  # redis-py left most of it without types
        self._seat = seat
        self._pool: Any = None
        node = self._client.get_nodes()[0]
        self.response_callbacks: Any = self._client.get_redis_connection(node).response_callbacks

    @property
    def connection_kwargs(self) -> dict[str, Any]:
        """With what connections are made."""
        options: dict[str, Any] = self._client.get_connection_kwargs()
        return options

    def get_connection(self, *args: Any, **options: Any) -> Any:
        """A connection to the node that has the slot."""
        try:
            node = self._client.get_node_from_key(self._seat)
        except redis_errors.RedisClusterException as error:  # which is no RedisError
            raise redis_errors.ClusterDownError(str(error)) from None
        self._pool = self._client.get_redis_connection(node).connection_pool
        return self._pool.get_connection(*args, **options)

    def release(self, connection: Any) -> None:
        """Give it back."""
        self._pool.release(connection)

    def learn(self, error: redis_errors.RedisError) -> None:
        """Let the client look for its nodes anew, if that may help."""
        if faults.owner_in_doubt(error):
            # What it could not find out shows when the same is tried once more.
            with suppress(redis_errors.RedisClusterException, redis_errors.RedisError):
                self._client.nodes_manager.initialize()

    def get_encoder(self) -> Any:
        """What the client makes of text."""
        return self._client.get_encoder()
