"""Field case 75 with a real gunicorn: its workers are forked from a process that has the loop."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from blocking.scene import environment
from kit.ports import free_port
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import token_of

WORKERS = 3


class Site:
    """One gunicorn, with its workers."""

    def __init__(self, server: Server, log: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", str(WORKERS)]
        command += ["--bind", f"127.0.0.1:{self.port}", "blocking.prefork:app"]
        env = environment() | {"URL": server.url}
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=env)

    def get(self, path: str = "/") -> Any:
        """What a page answers; None while nobody does."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=150).json()
        except httpx.TransportError:
            return None

    def each(self, path: str = "/") -> dict[int, Any]:
        """An answer of each worker, asked until all have answered with what stands."""
        answers: dict[int, Any] = {}

        def all_have() -> bool:
            if (page := self.get(path)) is not None:
                answers[page["pid"]] = page
            return len(answers) >= WORKERS

        wait_until_blocking(all_have, within=120, what="all workers answer")
        return answers

    def leader(self) -> int | None:
        """The worker that says that it leads, if it is asked now."""
        page = self.get()
        return page["pid"] if page is not None and page["leading"] else None


@contextmanager
def site(server: Server, log: Path) -> Iterator[Site]:
    """A gunicorn that has ended when the block has."""
    running = Site(server, log)
    try:
        yield running
    except BaseException:
        print(log.read_text()[-5000:])
        raise
    finally:
        running.process.terminate()
        try:
            running.process.wait(30)
        finally:
            running.process.kill()


def test_case_75_gunicorn_with_preload(valkey: Server, tmp_path: Path) -> None:
    """Each worker has an id and a loop of its own; one leads, and when it is killed, another."""
    with site(valkey, tmp_path / "log") as web:
        pages = web.each("/lead")
        assert all(page["parent"] == web.process.pid for page in pages.values())
        ids = {page["elected_as"] for page in pages.values()}
        assert len(ids) == WORKERS, "an id is a process's own"
        assert None not in ids
        first = wait_until_blocking(web.leader, within=120, what="one leads")
        state = token_of(valkey, "main")
        assert state is not None
        os.kill(first, signal.SIGKILL)
        second = wait_until_blocking(web.leader, within=120, what="another leads")
        assert second != first
        assert token_of(valkey, "main") != state
    assert token_of(valkey, "main") is None, "released at the worker's exit"
    assert web.process.returncode == 0
