"""What can be told of a database connection by looking at it: its style, and its transaction.

Imports no driver: goes by what PEP 249, SQLAlchemy, psycopg, asyncpg and sqlite3 document.
"""

import inspect
import sys
from typing import Any, Final, Literal

from incumbent.kinds import made

LIBPQ_IDLE: Final = 0
"""PQTRANS_IDLE: https://www.postgresql.org/docs/current/libpq-status.html"""


def is_sqlalchemy(connection: Any) -> bool:
    """Whether it is a SQLAlchemy `Connection` or `AsyncConnection`."""
    return hasattr(connection, "exec_driver_sql")


def is_asyncpg(connection: Any) -> bool:
    """Whether it is a connection of asyncpg, or one that its pool has lent."""
    return hasattr(connection, "fetchval") and hasattr(connection, "is_in_transaction")


def check_kind(connection: Any, kind: Literal["asyncio", "threads"]) -> None:
    """Refuse what cannot run statements for code of that kind, as far as that can be seen.

    Raises:
        TypeError: it is no connection, or one for the other kind of code.
    """
    made("connection", connection)
    run = "cursor" if kind == "threads" else "execute"
    if not (is_sqlalchemy(connection) or callable(getattr(connection, run, None))):
        raise TypeError(f"a connection is needed, not {type(connection).__qualname__}")
    commit = getattr(connection, "commit", None)
    awaited = is_asyncpg(connection) or inspect.iscoroutinefunction(commit)
    if kind == "threads" and awaited:
        raise TypeError(
            f"{type(connection).__qualname__} is a connection of asyncio: await"
            " incumbent.fencing.guard()"
        )
    # A driver that is not known may give an awaitable by a plain function.
    package = type(connection).__module__.partition(".")[0]
    plain = inspect.isbuiltin(commit) or package in {"psycopg", "sqlalchemy"}
    if kind == "asyncio" and plain and not awaited:
        raise TypeError(
            f"{type(connection).__qualname__} is no connection of asyncio: call"
            " incumbent.fencing.blocking.guard()"
        )


def style_of(connection: Any) -> str:
    """How its driver writes parameters.

    Raises:
        TypeError: that cannot be seen.
    """
    if is_asyncpg(connection):
        return "numeric_dollar"
    if is_sqlalchemy(connection):
        return str(connection.dialect.paramstyle)
    for kind in type(connection).__mro__:
        module = kind.__module__
        while module:
            style = getattr(sys.modules.get(module), "paramstyle", None)
            if isinstance(style, str):
                return style
            module = module.rpartition(".")[0]
    raise TypeError(
        f"a connection is needed, and how {type(connection).__qualname__} writes parameters cannot "
        "be seen: give paramstyle=, or of a SQLAlchemy session its connection()"
    )


def refuse_autocommit(connection: Any) -> None:
    """Raise `RuntimeError` if it is seen that a statement that was just run is committed already.

    Then the guard held nothing: a newer leader may write between it and the write.
    """
    if not _in_transaction(_driver_connection(connection)):
        raise RuntimeError(
            "the guard must run in the transaction of the write: "
            "this connection commits each statement by itself"
        )


def _driver_connection(connection: Any) -> Any:
    if not is_sqlalchemy(connection):
        return connection
    plain = getattr(connection, "sync_connection", connection)
    return plain.connection.driver_connection


def _in_transaction(driver_connection: Any) -> bool:
    """Whether there is one; also True where that cannot be seen."""
    status = getattr(getattr(driver_connection, "info", None), "transaction_status", None)
    if isinstance(status, int):
        return status != LIBPQ_IDLE
    known = getattr(driver_connection, "in_transaction", None)
    if known is None and is_asyncpg(driver_connection):
        known = driver_connection.is_in_transaction()
    return known is not False
