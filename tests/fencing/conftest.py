"""The databases of these tests: a PostgreSQL for the session, fresh tables for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from incumbent.fencing import CREATE_TABLE
from kit.postgres import Postgres, missing

NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fence BIGINT NOT NULL)"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The server; without the wheel, what needs it is skipped, and says so."""
    if reason := missing():
        pytest.skip(reason)
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """The server, with an empty table of fences and one of notes."""
    import psycopg

    with psycopg.connect(postgres_server.dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS incumbent_fences, notes")
        connection.execute(CREATE_TABLE)
        connection.execute(NOTES)
    return postgres_server


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    """A file with the same tables."""
    import sqlite3

    path = tmp_path / "notes.db"
    connection = sqlite3.connect(path)
    connection.execute(CREATE_TABLE)
    connection.execute(NOTES)
    connection.commit()
    connection.close()
    return path
