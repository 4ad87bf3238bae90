"""A connection of the caller's pool that is kept, and used in our own way while it is.

Its own retry and socket timeout are set aside (each request has its deadline with us, and
redis-py's retry would outlive it), and put back when the pool gets it back.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import redis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from incumbent import clock
from incumbent.shield import yielding
from incumbent.stores.redis import faults, sentinels
from incumbent.stores.redis.discretion import discreet
from incumbent.stores.redis.logins import log_ins_of
from incumbent.stores.redis.slots import Address

# Releases before 5.3 want to be told a command; later ones warn about it.
_FIRST_COMMAND = ("EVALSHA",) if tuple(redis.VERSION) < (5, 3) else ()

TRUSTED: Final = 1.0
"""Seconds for which Sentinels are believed while the primary that they name is connected to."""

GIVE_BACK_WITHIN: Final = 0.5
"""Seconds that the pool has to take a connection back."""


class Pool(Protocol):
    """What is needed of redis-py's `ConnectionPool`, which left the most of it without types."""

    def can_get_connection(self) -> Any:
        """Whether there is a connection to be had now."""
        ...

    def get_available_connection(self) -> Any:
        """A connection, as it is."""
        ...

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> Any:
        """A connection that is connected; may wait for one."""
        ...

    async def release(self, connection: AbstractConnection) -> Any:
        """Take a connection back."""
        ...

    def reset(self) -> Any:
        """Forget all connections."""
        ...


class Parser(Protocol):
    """What reads answers for a connection of redis-py's."""

    async def read_response(self, disable_decoding: bool = ...) -> Any:  # noqa: FBT001 - redis-py's
        """The next answer; an error that the server says is one as well, and not raised.

        Except for what redis-py takes for a broken connection: LOADING, NOAUTH, too many clients.
        """
        ...


class KeptConnection:
    """At most one connection, taken from `pool` when it is first needed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # A node's pool is made anew for each question: it is its client that logs in.
        self._log_ins = log_ins_of(getattr(pool, "owner", pool))
        self._connection: AbstractConnection | None = None
        self._set_aside: tuple[Retry, float | None] | None = None

    @property
    def address(self) -> Address | None:
        """Host and port of the server, while it is connected by these."""
        connection: Any = self._connection
        if connection is None or not _open(connection) or not hasattr(connection, "host"):
            return None
        return connection.host, int(connection.port)

    @property
    def connection(self) -> AbstractConnection | None:
        """The connection, if it is connected and logged in."""
        connection = self._connection
        return connection if connection is not None and _open(connection) else None

    async def ready(self) -> AbstractConnection:
        """The connection, connected and logged in."""
        if self._connection is None or not _open(self._connection):
            # redis-py logs in with `asyncio.wait_for`.
            await yielding(self._connect)
        if self._connection is None:
            raise redis_errors.ConnectionError("the connection was given back while it was made")
        return self._connection

    async def _connect(self) -> None:
        connection = self._connection or await self._take()
        try:
            if not _open(connection):
                await _disconnect(connection)
                await self._reach(connection)
                self._log_ins.accept()
        except BaseException as error:
            # A log-in that was cut must not leave a connection that looks ready.
            await _disconnect(connection)
            if not isinstance(error, Exception):
                raise
            reason = self._reason(error)
            raise reason from reason.__cause__

    def _reason(self, error: Exception) -> redis_errors.RedisError:
        """Why it could not be connected, without passwords."""
        if isinstance(error, redis_errors.RedisError):
            return self._log_ins.judge(discreet(error, self._pool))
        if faults.garbled(error):
            return self._log_ins.judge(discreet(faults.not_understood(error), self._pool))
        # From a credential provider, or a connect function.
        failed = redis_errors.ConnectionError(f"could not connect: {error!r}")
        failed.__cause__ = error
        return discreet(failed, self._pool)

    async def _reach(self, connection: AbstractConnection) -> None:
        if isinstance(self._pool, SentinelConnectionPool):
            began = clock.now()
            address = await sentinels.connect(connection, self._pool)
            if clock.now() - began > TRUSTED and address != await sentinels.address_for(self._pool):
                raise redis_errors.ConnectionError("it was replaced while it was connected to")
        else:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py left it without

    async def _take(self) -> AbstractConnection:
        connection: AbstractConnection
        try:
            # Not connected yet: the client's own retry would decide how long that may take.
            connection = self._pool.get_available_connection()
        except redis_errors.ConnectionError:
            # A blocking pool waits; any other says so once more.
            connection = await self._pool.get_connection(*_FIRST_COMMAND)
        self._connection = connection
        self._set_aside = connection.retry, connection.socket_timeout
        connection.retry, connection.socket_timeout = Retry(NoBackoff(), 0), None
        if _open(connection) and not await _clean(connection):
            await _disconnect(connection)
        return connection

    async def cut(self) -> None:
        """Disconnect: whoever reads gets an error, and the next use connects anew."""
        if self._connection is not None:
            await _disconnect(self._connection)

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


def parser_of(connection: AbstractConnection) -> Parser:
    """What reads the answers of `connection`.

    Its own `read_response` takes twice the time for each. Whoever reads by this must cut the
    connection, as that does, when an answer could not be read to its end. On a connection of
    Sentinels' that does so at READONLY as well, which it takes for a lost connection; to us it is
    an answer like any other of the wrong server's.
    """
    parser: Parser = cast(Any, connection)._parser  # noqa: SLF001 - it has no public name
    return parser


def write(connection: AbstractConnection, packed: bytes) -> None:
    """Send this now, or as soon as the socket takes it.

    Not by its own `send_packed_command`, which is a coroutine.
    """
    cast(Any, connection)._writer.write(packed)  # noqa: SLF001 - it has no public name


def _open(connection: AbstractConnection) -> bool:
    """Whether the connection is open as far as anybody here knows.

    redis-py calls a connection connected that has just been reset; what is sent on it is lost, and
    nobody can tell. Its streams know better, but it has no public word for them.
    """
    reader, writer = getattr(connection, "_reader", None), getattr(connection, "_writer", None)
    if reader is None or writer is None:
        return False
    return not (reader.at_eof() or reader.exception() or writer.is_closing())


async def _clean(connection: AbstractConnection) -> bool:
    """Whether no answer of somebody else's lies in an idle connection of the pool."""
    # Releases before 8 have it by another name.
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        # One that was opened in an earlier event loop looks well, and is even written to.
        return _loop_of(connection) is asyncio.get_running_loop() and not await can_read()
    except Exception:  # noqa: BLE001 - whatever it is, such a connection is of no use
        return False


def _loop_of(connection: AbstractConnection) -> asyncio.AbstractEventLoop | None:
    writer = getattr(connection, "_writer", None)
    return getattr(getattr(writer, "transport", None), "_loop", None)


async def _disconnect(connection: AbstractConnection) -> None:
    # A dead event loop refuses; redis-py has let go of the socket's streams all the same.
    with suppress(RuntimeError):
        await connection.disconnect(nowait=True)
