"""The guard for SQL, by a connection of asyncio."""

import inspect
from typing import Any

from incumbent.errors import StaleFenceError
from incumbent.fencing.connections import (
    check_kind,
    is_asyncpg,
    is_sqlalchemy,
    refuse_autocommit,
    style_of,
)
from incumbent.fencing.statements import Statement, guard_of


async def guard(
    connection: Any, resource: str, fence: int, *, paramstyle: str | None = None
) -> None:
    """Let the transaction go on only if no fence above `fence` was seen for `resource`.

    Call it first in the transaction of the write. Until that ends, other leaders wait here; then
    those with a smaller fence are refused, and those with the same or a larger one go on. Needs the
    table of `CREATE_TABLE`, in PostgreSQL or SQLite (3.24 or later).

    Args:
        connection: an `AsyncConnection` of SQLAlchemy (of a session: ``await
            session.connection()``) or of psycopg, a connection of asyncpg or aiosqlite.
        resource: what is written to, by any name; in a group, one name per seat.
        fence: `Lease.fence`.
        paramstyle: how a driver that is not known here writes parameters, as in PEP 249.

    Raises:
        StaleFenceError: a higher fence was seen. Roll back; the connection is usable.
        RuntimeError: the connection commits each statement by itself.
        TypeError, ValueError: the arguments are not usable; before any I/O.
        Exception: what the driver raises: of a table that is missing, or, where the transaction is
            "repeatable read" or stricter, of a row that another has just changed.
    """
    style = style_of(connection) if paramstyle is None else paramstyle
    guarding = guard_of(style, resource, fence)
    check_kind(connection, "asyncio")
    if await _affects_a_row(connection, guarding.advance):
        refuse_autocommit(connection)
        return
    highest = await _look(connection, guarding.look)
    if highest is None or highest > fence:
        raise StaleFenceError(resource, fence, highest)
    refuse_autocommit(connection)  # a driver that does not count rows


async def _affects_a_row(connection: Any, statement: Statement) -> bool:
    if is_asyncpg(connection):
        done = await connection.execute(statement.sql, *statement.parameters)
        return str(done).endswith(" 1")
    cursor = await _run(connection, statement)
    try:
        return bool(cursor.rowcount == 1)
    finally:
        await _settled(cursor.close())


async def _look(connection: Any, statement: Statement) -> int | None:
    if is_asyncpg(connection):
        highest: int | None = await connection.fetchval(statement.sql, *statement.parameters)
        return highest
    cursor = await _run(connection, statement)
    try:
        row = await _settled(cursor.fetchone())
    finally:
        await _settled(cursor.close())
    return None if row is None else int(row[0])


async def _run(connection: Any, statement: Statement) -> Any:
    run = connection.exec_driver_sql if is_sqlalchemy(connection) else connection.execute
    return await run(statement.sql, statement.parameters)


async def _settled(value: Any) -> Any:
    """What a method gave, whether it has to be awaited or not."""
    return await value if inspect.isawaitable(value) else value
