"""The guards for code without asyncio: any driver after PEP 249, SQLAlchemy, a `redis.Redis`."""

from collections.abc import Sequence
from typing import Any

from incumbent.errors import StaleFenceError
from incumbent.fencing.connections import check_kind, is_sqlalchemy, refuse_autocommit, style_of
from incumbent.fencing.scripts import Evaluating, Part, call_of, refusal_of
from incumbent.fencing.statements import CREATE_TABLE, Statement, guard_of
from incumbent.stores.redis import ServerError, discreet

__all__ = ["CREATE_TABLE", "StaleFenceError", "fenced_eval", "guard"]


def guard(connection: Any, resource: str, fence: int, *, paramstyle: str | None = None) -> None:
    """Let the transaction go on only if no fence above `fence` was seen for `resource`.

    Call it first in the transaction of the write. Until that ends, other leaders wait here; then
    those with a smaller fence are refused, and those with the same or a larger one go on. Needs the
    table of `CREATE_TABLE`, in PostgreSQL or SQLite (3.24 or later).

    Args:
        connection: of sqlite3, psycopg or another driver after PEP 249, or a `Connection` of
            SQLAlchemy (of a session: ``session.connection()``).
        resource: what is written to, by any name; in a group, one name per seat.
        fence: `Lease.fence`.
        paramstyle: how the driver writes parameters, where its module does not say it.

    Raises:
        StaleFenceError: a higher fence was seen. Roll back; the connection is usable.
        RuntimeError: the connection commits each statement by itself.
        TypeError, ValueError: the arguments are not usable; before any I/O.
        Exception: what the driver raises: of a table that is missing, or, where the transaction is
            "repeatable read" or stricter, of a row that another has just changed.
    """
    style = style_of(connection) if paramstyle is None else paramstyle
    guarding = guard_of(style, resource, fence)
    check_kind(connection, "threads")
    if _affects_a_row(connection, guarding.advance):
        refuse_autocommit(connection)
        return
    highest = _look(connection, guarding.look)
    if highest is None or highest > fence:
        raise StaleFenceError(resource, fence, highest)
    refuse_autocommit(connection)  # a driver that does not count rows


def fenced_eval(
    redis: Evaluating,
    register: str,
    fence: int,
    script: str,
    *,
    keys: Sequence[str | bytes] = (),
    args: Sequence[Part] = (),
) -> Any:
    """Run a Lua script on any server, only if no fence above `fence` was seen at key `register`.

    `redis` is a `redis.Redis` or `redis.RedisCluster`; all else is as in
    `incumbent.fencing.fenced_eval`.
    """
    call = call_of(register, fence, script, keys, args)
    try:
        return redis.eval(*call)
    except ServerError as error:
        raise refusal_of(error, register, fence) or discreet(error, redis) from None


def _affects_a_row(connection: Any, statement: Statement) -> bool:
    cursor = _run(connection, statement)
    try:
        return bool(cursor.rowcount == 1)
    finally:
        cursor.close()


def _look(connection: Any, statement: Statement) -> int | None:
    cursor = _run(connection, statement)
    try:
        row = cursor.fetchone()
    finally:
        cursor.close()
    return None if row is None else int(row[0])


def _run(connection: Any, statement: Statement) -> Any:
    if is_sqlalchemy(connection):
        return connection.exec_driver_sql(statement.sql, statement.parameters)
    cursor = connection.cursor()
    cursor.execute(statement.sql, statement.parameters)
    return cursor
