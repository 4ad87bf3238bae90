"""What all of this is for: a leader is frozen, another leads, and then the first one goes on."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import IO

import incumbent
from incumbent import LeaderElector
from incumbent.fencing import blocking, fenced_eval
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.stops import freeze
from promises.scene import token_of

PROGRAM = Path(__file__).with_name("paused.py")
SOURCE = Path(incumbent.__file__).parents[1]


async def test_a_leader_that_wakes_up_too_late_overwrites_nothing(
    valkey: Server, sqlite: Path, make_client: MakeClient
) -> None:
    """It writes while it leads, is frozen until another leads, and is refused in each storage."""
    old = start(valkey, sqlite)
    client = make_client(valkey)
    try:
        assert old.stdin is not None
        assert old.stdout is not None
        leads, old_fence = old.stdout.readline().split()
        assert leads == "leads"
        assert write(old.stdin, old.stdout) == [
            "by_sql: done",
            "by_lua: done",
            "by_transaction: done",
        ]
        freeze(old.pid)
        async with (
            LeaderElector(client) as elector,
            elector.using(wait_time=40).lead("notes") as lease,
        ):
            assert lease.fence > int(old_fence)
            connection = sqlite3.connect(sqlite)
            with connection:
                blocking.guard(connection, "notes", lease.fence)
                connection.execute("UPDATE notes SET body = 'new'")
            script = "return redis.call('SET', KEYS[1], 'new')"
            await fenced_eval(client, "highest", lease.fence, script, keys=["by-lua"])
            async with lease.transaction(client) as pipe:
                await pipe.set("by-transaction", "new")
            os.kill(old.pid, signal.SIGCONT)
            assert write(old.stdin, old.stdout) == [
                f"by_sql: stale, {lease.fence}",
                f"by_lua: stale, {lease.fence}",
                "by_transaction: stale, None",  # it knows by itself
            ]
            assert connection.execute("SELECT body FROM notes").fetchall() == [("new",)]
            connection.close()
            assert valkey.cli("MGET", "by-lua", "by-transaction") == ["new", "new"]
            assert token_of(valkey, "notes") is not None
        old.stdin.close()  # which is its end
        assert old.wait(30) == 0
    finally:
        old.kill()
        old.wait()
        for end in (old.stdin, old.stdout):
            if end is not None:
                end.close()


def write(stdin: IO[str], stdout: IO[str]) -> list[str]:
    """Let it try, and read what became of it."""
    stdin.write("go\n")
    stdin.flush()
    return [stdout.readline().strip() for _ in range(3)]


def start(server: Server, path: Path) -> "subprocess.Popen[str]":
    """The leader that will be frozen."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), server.url, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
