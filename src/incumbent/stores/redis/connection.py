"""A connection of the caller's pool that is kept, and used in our own way while it is.

Its own retry and socket timeout are set aside (each request has its deadline with us, and
redis-py's retry would outlive it), and put back when the pool gets it back.
"""

import asyncio
from contextlib import suppress
from typing import Final

import redis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from incumbent.shield import yielding

# Releases before 5.3 want to be told a command; later ones warn about it.
_FIRST_COMMAND = ("EVALSHA",) if tuple(redis.VERSION) < (5, 3) else ()

GIVE_BACK_WITHIN: Final = 0.5
"""Seconds that the pool has to take a connection back."""


class KeptConnection:
    """At most one connection, taken from `pool` when it is first needed."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: AbstractConnection | None = None
        self._set_aside: tuple[Retry, float | None] | None = None

    async def ready(self) -> AbstractConnection:
        """The connection, connected and logged in."""
        if self._connection is None or not self._connection.is_connected:
            # redis-py logs in with `asyncio.wait_for`.
            await yielding(self._connect)
        if self._connection is None:
            raise redis_errors.ConnectionError("the connection was given back while it was made")
        return self._connection

    async def _connect(self) -> None:
        connection = self._connection or await self._take()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py left it without
        except BaseException:
            # A log-in that was cut must not leave a connection that looks ready.
            await connection.disconnect(nowait=True)
            raise

    async def _take(self) -> AbstractConnection:
        connection: AbstractConnection
        try:
            # Not connected yet: the client's own retry would decide how long that may take.
            connection = self._pool.get_available_connection()  # type: ignore[no-untyped-call]
        except redis_errors.MaxConnectionsError:
            # A blocking pool waits; any other says so once more.
            connection = await self._pool.get_connection(*_FIRST_COMMAND)  # type: ignore[no-untyped-call]
        self._connection = connection
        self._set_aside = connection.retry, connection.socket_timeout
        connection.retry, connection.socket_timeout = Retry(NoBackoff(), 0), None
        if connection.is_connected and not await _usable(connection):
            await connection.disconnect(nowait=True)
        return connection

    async def cut(self) -> None:
        """Disconnect: whoever reads gets an error, and the next use connects anew."""
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def give_back(self) -> None:
        """Return the connection to its pool, as it came."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._set_aside is not None:
                connection.retry, connection.socket_timeout = self._set_aside
            # A courtesy, which disturbs nobody: a pool that was reset no longer knows it, and one
            # whose credentials were renewed logs it in.
            with suppress(KeyError, TimeoutError, OSError, redis_errors.RedisError):
                async with asyncio.timeout(GIVE_BACK_WITHIN):
                    await self._pool.release(connection)

    async def close(self) -> None:
        """Disconnect and give back: the next event loop could not use an open connection."""
        await self.cut()
        await self.give_back()

    async def forsake(self) -> None:
        """Give back a connection whose event loop is gone."""
        # The dead loop refuses; redis-py has let go of the socket's streams all the same.
        with suppress(RuntimeError):
            await self.cut()
        await self.give_back()


async def _usable(connection: AbstractConnection) -> bool:
    """Whether an idle connection is still open, and no answer of somebody else's lies in it."""
    # Releases before 8 have it by another name.
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        return not await can_read()
    except (redis_errors.RedisError, OSError):
        return False
