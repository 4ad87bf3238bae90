"""Ways to a database, all with one face: begin a transaction, guard, write a note, end it.

The face is asynchronous; drivers for threads are called as they are.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from incumbent.fencing import blocking, guard
from kit.postgres import Postgres


class Way:
    """A transaction by one driver; its block commits, or rolls back on an error."""

    def __init__(self, connection: Any, *, wait: bool, run: Callable[..., Any]) -> None:
        self.connection = connection
        self._wait = wait
        self._run = run

    async def guard(self, resource: str, fence: int) -> None:
        """The guard that is tested."""
        if self._wait:
            await guard(self.connection, resource, fence)
        else:
            blocking.guard(self.connection, resource, fence)

    async def write(self, body: str) -> None:
        """A write of the user's."""
        done = self._run(
            f"INSERT INTO notes VALUES (1, '{body}', 0)"
            " ON CONFLICT (id) DO UPDATE SET body = excluded.body"
        )
        if self._wait:
            await done


Opened: TypeAlias = AbstractAsyncContextManager[Way]
Open: TypeAlias = Callable[[Any], Opened]


@asynccontextmanager
async def sqlite3_itself(path: Path) -> AsyncIterator[Way]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield Way(connection, wait=False, run=connection.execute)
    finally:
        connection.close()


@asynccontextmanager
async def aiosqlite_itself(path: Path) -> AsyncIterator[Way]:
    import aiosqlite

    async with aiosqlite.connect(path) as connection:
        yield Way(connection, wait=True, run=connection.execute)
        await connection.commit()


@asynccontextmanager
async def psycopg_itself(server: Postgres) -> AsyncIterator[Way]:
    import psycopg

    with psycopg.connect(server.dsn) as connection:
        yield Way(connection, wait=False, run=connection.execute)


@asynccontextmanager
async def psycopg_async(server: Postgres) -> AsyncIterator[Way]:
    import psycopg

    async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
        yield Way(connection, wait=True, run=connection.execute)


@asynccontextmanager
async def asyncpg_itself(server: Postgres) -> AsyncIterator[Way]:
    import asyncpg  # type: ignore[import-untyped]  # it has no types

    connection = await asyncpg.connect(host=server.host, user="postgres", database="postgres")
    try:
        async with connection.transaction():
            yield Way(connection, wait=True, run=connection.execute)
    finally:
        await connection.close()


def sqlalchemy_by(driver: str, **options: Any) -> Open:
    """By an engine of SQLAlchemy for threads."""

    @asynccontextmanager
    async def opened(place: Any) -> AsyncIterator[Way]:
        import sqlalchemy

        engine = sqlalchemy.create_engine(url_of(place, driver), **options)
        try:
            with engine.begin() as connection:
                yield Way(connection, wait=False, run=connection.exec_driver_sql)
        finally:
            engine.dispose()

    return opened


def sqlalchemy_async_by(driver: str, **options: Any) -> Open:
    """By an engine of SQLAlchemy for asyncio."""

    @asynccontextmanager
    async def opened(place: Any) -> AsyncIterator[Way]:
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(url_of(place, driver), **options)
        try:
            async with engine.begin() as connection:
                yield Way(connection, wait=True, run=connection.exec_driver_sql)
        finally:
            await engine.dispose()

    return opened


def url_of(place: Path | Postgres, driver: str) -> str:
    """For SQLAlchemy."""
    return place.url(driver) if isinstance(place, Postgres) else f"sqlite+{driver}:///{place}"


WAYS: dict[str, tuple[str, Open]] = {
    "sqlite3": ("sqlite", sqlite3_itself),
    "aiosqlite": ("sqlite", aiosqlite_itself),
    "sqlalchemy-sqlite3": ("sqlite", sqlalchemy_by("pysqlite")),
    "sqlalchemy-aiosqlite": ("sqlite", sqlalchemy_async_by("aiosqlite")),
    "psycopg": ("postgres", psycopg_itself),
    "psycopg-async": ("postgres", psycopg_async),
    "asyncpg": ("postgres", asyncpg_itself),
    "sqlalchemy-psycopg": ("postgres", sqlalchemy_by("psycopg")),
    "sqlalchemy-psycopg-async": ("postgres", sqlalchemy_async_by("psycopg")),
    "sqlalchemy-asyncpg": ("postgres", sqlalchemy_async_by("asyncpg")),
}
"""By name: on which database, and how."""
