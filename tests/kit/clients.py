"""What differs between the releases of redis-py that are supported, for tests that look inside."""

import redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool

# Releases before 5.3 want to be told a command; later ones warn about it.
_FIRST_COMMAND = ("PING",) if tuple(redis.VERSION) < (5, 3) else ()


async def borrow(pool: ConnectionPool) -> AbstractConnection:
    """A connection of the pool, as a command of the caller's would take one."""
    taken: AbstractConnection = await pool.get_connection(*_FIRST_COMMAND)  # type: ignore[no-untyped-call]
    return taken
