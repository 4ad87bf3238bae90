"""The guard for SQL, by each way to a database: what it admits, refuses and leaves behind."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencing.drivers import (
    WAYS,
    Open,
    asyncpg_itself,
    psycopg_async,
    sqlalchemy_async_by,
    sqlalchemy_by,
)
from incumbent.fencing import CREATE_TABLE, StaleFenceError, blocking, guard
from incumbent.fencing.statements import guard_of
from kit.postgres import Postgres
from kit.waiting import wait_until

BIG = 2**62
LONG = 30.0
"""Seconds within which what must happen happens, also on a busy machine."""


class Database:
    """One way to one database."""

    def __init__(self, place: Any, way: Open) -> None:
        self.place = place
        self.open = way

    async def write(self, body: str, fence: int, resource: str = "notes") -> None:
        """One guarded write, in a transaction of its own."""
        async with self.open(self.place) as way:
            await way.guard(resource, fence)
            await way.write(body)

    def read(self, sql: str = "SELECT body FROM notes") -> list[Any]:
        """What is committed."""
        with closing(self._connect()) as connection:
            return [row[0] for row in connection.execute(sql)]

    def run(self, sql: str) -> None:
        """Change something, and commit."""
        with closing(self._connect()) as connection, connection:
            connection.execute(sql)

    def _connect(self) -> Any:
        if isinstance(self.place, Path):
            return sqlite3.connect(self.place)
        import psycopg

        return psycopg.connect(self.place.dsn)


@pytest.fixture(params=WAYS)
def database(request: pytest.FixtureRequest) -> Database:
    """Each way to each database."""
    place, way = WAYS[request.param]
    return Database(request.getfixturevalue(place), way)


async def test_a_stale_write_is_refused(database: Database) -> None:
    """The same fence may write again and again, a larger one may; from then on the old may not."""
    for body in ("one", "two", "three"):
        await database.write(body, BIG)
    await database.write("four", BIG + 1)
    with pytest.raises(StaleFenceError) as caught:
        await database.write("five", BIG)
    error = caught.value
    assert (error.resource, error.fence, error.highest) == ("notes", BIG, BIG + 1)
    assert str(error) == f"fence {BIG} of 'notes' is stale: {BIG + 1} has been seen"
    assert database.read() == ["four"]
    await database.write("six", BIG + 1)
    assert database.read() == ["six"]


async def test_resources_have_nothing_to_do_with_one_another(database: Database) -> None:
    """Each has its own highest fence; its name may be any text."""
    await database.write("one", 7, "notes")
    await database.write("two", 3, "a:b'; %s ? :1 é")
    with pytest.raises(StaleFenceError):
        await database.write("three", 2, "a:b'; %s ? :1 é")
    await database.write("four", 7, "notes")
    assert database.read("SELECT fence FROM incumbent_fences ORDER BY fence") == [3, 7]


async def test_a_transaction_that_fails_leaves_no_fence(database: Database) -> None:
    """What a newer leader has rolled back was never seen."""
    await database.write("one", 1)
    with pytest.raises(KeyError):
        async with database.open(database.place) as way:
            await way.guard("notes", 9)
            await way.write("nine")
            raise KeyError
    await database.write("two", 1)
    assert database.read() == ["two"]


async def test_after_a_refusal_the_connection_is_usable(database: Database) -> None:
    """In the same transaction even, if the caller wants that."""
    await database.write("one", 2)
    async with database.open(database.place) as way:
        with pytest.raises(StaleFenceError):
            await way.guard("notes", 1)
        await way.guard("others", 1)
        await way.write("two")
    assert database.read() == ["two"]


async def test_without_the_table_the_driver_says_so(database: Database) -> None:
    """It is not taken for a refusal, nor for an admission."""
    database.run("DROP TABLE incumbent_fences")
    with pytest.raises(Exception, match="incumbent_fences"):
        await database.write("one", 1)
    assert database.read() == []


# -- two at once -----------------------------------------------------------------------------

POSTGRES = [name for name, (place, _) in WAYS.items() if place == "postgres" and "async" in name]


@pytest.fixture(params=POSTGRES)
def two_at_once(request: pytest.FixtureRequest, postgres: Postgres) -> Database:
    """The ways that can wait for one another in one thread."""
    return Database(postgres, WAYS[request.param][1])


async def waits_for_a_lock(database: Database) -> None:
    """Return when a backend waits for another's transaction."""
    asked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    await wait_until(lambda: database.read(asked), within=LONG, every=0.02, what="one waits")


async def test_a_stale_write_waits_for_the_newer_and_is_refused(two_at_once: Database) -> None:
    """The row stays locked until the newer leader's commit: nothing gets in between."""
    await two_at_once.write("zero", 1)
    async with two_at_once.open(two_at_once.place) as newer:
        await newer.guard("notes", 2)
        stale = asyncio.create_task(two_at_once.write("stale", 1))
        await waits_for_a_lock(two_at_once)
        await newer.write("newer")
        assert not stale.done()
    with pytest.raises(StaleFenceError, match="2 has been seen"):
        await asyncio.wait_for(stale, LONG)
    assert two_at_once.read() == ["newer"]


async def test_the_first_writes_of_all_wait_for_one_another(two_at_once: Database) -> None:
    """The same where there is no row yet that could be locked."""
    async with two_at_once.open(two_at_once.place) as newer:
        await newer.guard("notes", 2)
        stale = asyncio.create_task(two_at_once.write("stale", 1))
        await waits_for_a_lock(two_at_once)
        await newer.write("newer")
    with pytest.raises(StaleFenceError, match="2 has been seen"):
        await asyncio.wait_for(stale, LONG)
    assert two_at_once.read() == ["newer"]


async def test_a_newer_write_waits_for_one_that_began_before_it(two_at_once: Database) -> None:
    """The older leader was first, and may finish; the newer one's write comes after it."""
    async with two_at_once.open(two_at_once.place) as older:
        await older.guard("notes", 1)
        newer = asyncio.create_task(two_at_once.write("newer", 2))
        await waits_for_a_lock(two_at_once)
        await older.write("older")
    await asyncio.wait_for(newer, LONG)
    assert two_at_once.read() == ["newer"]


async def test_who_waits_for_a_newer_that_rolls_back_goes_on(two_at_once: Database) -> None:
    """It compares with what was committed, not with what it met."""
    with pytest.raises(KeyError):
        async with two_at_once.open(two_at_once.place) as newer:
            await newer.guard("notes", 2)
            older = asyncio.create_task(two_at_once.write("older", 1))
            await waits_for_a_lock(two_at_once)
            raise KeyError
    await asyncio.wait_for(older, LONG)
    assert two_at_once.read() == ["older"]


async def test_a_repeatable_read_is_never_admitted_by_mistake(postgres: Postgres) -> None:
    """It cannot see the newer fence, and so PostgreSQL ends it: an error of the driver's."""
    import psycopg

    database = Database(postgres, psycopg_async)
    await database.write("zero", 1)
    with pytest.raises(psycopg.errors.SerializationFailure):
        async with psycopg_async(postgres) as way:
            await way.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await way.connection.execute("SELECT 1 FROM notes")
            await database.write("newer", 2)
            await way.guard("notes", 1)
            await way.write("stale")
    assert database.read() == ["newer"]


async def test_fences_out_of_order_from_many_at_once(postgres: Postgres) -> None:
    """Whatever the order of arrival, what is there at the end is the write of the highest."""
    database = Database(postgres, asyncpg_itself)
    fences = [5, 2, 8, 1, 7, 3, 6, 4]
    done = await asyncio.gather(
        *(database.write(str(fence), fence) for fence in fences), return_exceptions=True
    )
    assert all(each is None or isinstance(each, StaleFenceError) for each in done), done
    assert database.read() == ["8"]
    assert database.read("SELECT fence FROM incumbent_fences") == [8]


# -- connections that cannot be guarded ------------------------------------------------------

COMMITS_EACH = "commits each statement by itself"


async def test_a_connection_that_commits_each_statement_is_refused(
    sqlite: Path, postgres: Postgres
) -> None:
    """There the lock would be gone before the write; in a block of its own it is one again."""
    import asyncpg  # type: ignore[import-untyped]  # it has no types
    import psycopg

    plain = sqlite3.connect(sqlite, isolation_level=None)
    with pytest.raises(RuntimeError, match=COMMITS_EACH):
        blocking.guard(plain, "notes", 1)
    plain.execute("BEGIN")
    blocking.guard(plain, "notes", 1)
    plain.close()
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        with pytest.raises(RuntimeError, match=COMMITS_EACH):
            blocking.guard(connection, "notes", 1)
        with connection.transaction():
            blocking.guard(connection, "notes", 1)
    lone = await asyncpg.connect(host=postgres.host, user="postgres", database="postgres")
    with pytest.raises(RuntimeError, match=COMMITS_EACH):
        await guard(lone, "notes", 1)
    await lone.close()


@pytest.mark.parametrize(
    ("place", "way"),
    [
        ("sqlite", sqlalchemy_by("pysqlite", isolation_level="AUTOCOMMIT")),
        ("sqlite", sqlalchemy_async_by("aiosqlite", isolation_level="AUTOCOMMIT")),
        ("postgres", sqlalchemy_by("psycopg", isolation_level="AUTOCOMMIT")),
        ("postgres", sqlalchemy_async_by("asyncpg", isolation_level="AUTOCOMMIT")),
    ],
    ids=["sqlite3", "aiosqlite", "psycopg", "asyncpg"],
)
async def test_autocommit_is_seen_behind_sqlalchemy(
    request: pytest.FixtureRequest, place: str, way: Open
) -> None:
    """Its `begin()` begins nothing then; the driver's connection tells."""
    with pytest.raises(RuntimeError, match=COMMITS_EACH):
        await Database(request.getfixturevalue(place), way).write("one", 1)


async def test_sessions_give_their_connection(sqlite: Path) -> None:
    """A session itself is refused with a hint; what it gives is guarded."""
    from sqlalchemy import create_engine
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
    from sqlalchemy.orm import Session

    engine = create_engine(f"sqlite:///{sqlite}")
    with Session(engine) as session, session.begin():
        with pytest.raises(TypeError, match=r"of a SQLAlchemy session its connection\(\)"):
            blocking.guard(session, "notes", 2)
        blocking.guard(session.connection(), "notes", 2)
    engine.dispose()
    async_engine = create_async_engine(f"sqlite+aiosqlite:///{sqlite}")
    async with AsyncSession(async_engine) as asking, asking.begin():
        with pytest.raises(StaleFenceError):
            await guard(await asking.connection(), "notes", 1)
    await async_engine.dispose()


class Wrapped:
    """A connection around another, as frameworks have them; one that counts no rows."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)

    def cursor(self) -> Any:
        """One that does not know how many rows it changed: PEP 249 allows that."""
        real = self._connection.cursor()

        class Cursor:
            rowcount = -1
            execute = real.execute
            fetchone = real.fetchone
            close = real.close

        return Cursor()

    def close(self) -> None:
        """Roll back, and end it."""
        self._connection.close()


@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_a_driver_that_is_not_known(sqlite: Path, paramstyle: str) -> None:
    """Its style can be told; where it counts no rows, the table itself is asked."""
    connection = Wrapped(sqlite)
    with pytest.raises(TypeError, match="how Wrapped writes parameters cannot be seen"):
        blocking.guard(connection, "notes", 2)
    blocking.guard(connection, "notes", 2, paramstyle=paramstyle)
    blocking.guard(connection, "notes", 2, paramstyle=paramstyle)
    with pytest.raises(StaleFenceError, match="2 has been seen"):
        blocking.guard(connection, "notes", 1, paramstyle=paramstyle)
    connection.close()


def test_numbered_parameters() -> None:
    """For drivers that nobody has here: in order, and by their place."""
    advance, look = guard_of("numeric", "notes", 2)
    assert "VALUES (:1, :2) ON CONFLICT" in advance.sql
    assert advance.parameters == ("notes", 2)
    assert look == ("SELECT fence FROM incumbent_fences WHERE resource = :1", ("notes",))


@pytest.mark.parametrize("paramstyle", ["format", "pyformat"])
def test_both_styles_with_percent_signs(postgres: Postgres, paramstyle: str) -> None:
    """As psycopg takes them."""
    import psycopg

    with psycopg.connect(postgres.dsn) as connection:
        blocking.guard(connection, "notes", 2, paramstyle=paramstyle)
        with pytest.raises(StaleFenceError):
            blocking.guard(connection, "notes", 1, paramstyle=paramstyle)


@pytest.mark.parametrize(
    ("resource", "fence", "paramstyle", "error"),
    [
        ("", 1, "qmark", ValueError),
        (b"notes", 1, "qmark", TypeError),
        ("notes", 0, "qmark", ValueError),
        ("notes", 2**63, "qmark", ValueError),
        ("notes", 1.5, "qmark", TypeError),
        ("notes", True, "qmark", TypeError),
        ("notes", 1, "dollar", ValueError),
    ],
)
async def test_bad_arguments_are_refused_before_any_io(
    resource: Any, fence: Any, paramstyle: str, error: type[Exception]
) -> None:
    """There is no connection at all."""
    with pytest.raises(error):
        blocking.guard(None, resource, fence, paramstyle=paramstyle)
    with pytest.raises(error):
        await guard(None, resource, fence, paramstyle=paramstyle)


def test_the_table_can_be_made_again(sqlite: Path) -> None:
    """What is in it stays."""
    connection = sqlite3.connect(sqlite)
    blocking.guard(connection, "notes", 2)
    connection.execute(CREATE_TABLE)
    with pytest.raises(StaleFenceError):
        blocking.guard(connection, "notes", 1)
    connection.close()
