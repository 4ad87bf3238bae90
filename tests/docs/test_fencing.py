"""Every Python example of the page about fencing runs, in the order of the page."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from docs.test_readme import run
from incumbent import LeaderElector
from incumbent.blocking import LeaderElector as BlockingElector
from incumbent.fencing import statements
from kit.servers import Server

PAGE = (Path(__file__).parents[2] / "docs/fencing.md").read_text()


def examples(language: str) -> list[str]:
    """The blocks of the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_examples_run_one_after_another(valkey: Server, tmp_path: Path) -> None:
    """On SQLite and two databases of a server; each writes what it says."""
    path = tmp_path / "reports.db"
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE reports (id INTEGER PRIMARY KEY, body TEXT, fence BIGINT NOT NULL)")
    file.execute("INSERT INTO reports VALUES (1, 'old', 0)")
    file.commit()
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    bodies: list[str] = []
    async with (
        Redis.from_url(valkey.url) as redis,
        Redis.from_url(valkey.url, db=1) as other,
        LeaderElector(redis) as elector,
    ):
        with BlockingElector(valkey.url) as blocking_elector:
            names: dict[str, Any] = {
                "blocking_elector": blocking_elector,
                "elector": elector,
                "engine": engine,
                "other": other,
                "path": path,
                "redis": redis,
                "sqlite3": sqlite3,
                "text": text,
            }
            first, *others = examples("python")
            async with engine.begin() as names["connection"]:
                await run(first, names)
            for example in others:
                await run(example, names)
                bodies += [body for (body,) in file.execute("SELECT body FROM reports")]
        assert (await redis.get("report"), await other.get("report")) == (b"new", b"new")
    await engine.dispose()
    file.close()
    assert bodies == ["new", "newer", "newest", "newest", "newest"]
    assert len(examples("python")) == 6


def test_the_statement_is_the_one_that_is_used() -> None:
    """The SQL of the page, without its comment and line breaks."""
    (shown,) = examples("sql")
    used = statements.guard_of("named", "reports", 1).advance.sql
    assert " ".join(re.sub("--.*", "", shown).split()) == used


async def test_the_guard_in_lua_does_what_ours_does(client: Any) -> None:
    """For scripts of the reader's own."""
    (shown,) = examples("lua")
    script = shown + "return redis.call('SET', KEYS[2], ARGV[2])"
    for fence in (2, 2, 3):
        assert await client.eval(script, 2, "register", "note", fence, f"by {fence}")
    for fence in (2, 1):
        with pytest.raises(ResponseError, match=r"^STALEFENCE 3$"):
            await client.eval(script, 2, "register", "note", fence, "stale")
    assert await client.get("note") == b"by 3"
