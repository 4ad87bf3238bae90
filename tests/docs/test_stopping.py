"""The recipes of "Stop in order": real processes get SIGTERM, and the next one leads at once.

The lease is the default one of 30 s: a seat that is not given back is free much too late.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docs.test_readme import ROOT, programs
from kit.ports import free_port
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import seat_key, token_of

AT_ONCE = 15.0
"""Seconds, on however busy a machine; the lease has 30."""

APPLICATION = """
import asyncio
from pathlib import Path
from fastapi import FastAPI
from redis.asyncio import Redis
from incumbent import LeaderElector
from incumbent.fastapi import LeadershipDep, leadership

redis = Redis.from_url({url!r})
elector = LeaderElector(redis)


async def serve():
    await asyncio.sleep(3600)


app = FastAPI(lifespan=leadership(elector, "scheduler", serve))


@app.get("/")
async def home(leadership: LeadershipDep) -> bool:
    return leadership.leading


@app.get("/hang")
async def hang() -> None:
    Path("hangs").touch()
    await asyncio.sleep(3600)
"""

THREADS = """
import threading
from incumbent.blocking import LeaderElector

elector = LeaderElector({url!r})


def lead():
    with elector.using(wait_time=None).lead("scheduler") as lease:
        lease.lost.wait()


def app(environ, start_response):
    if not threads:
        threads.append(threading.Thread(target=lead, daemon=True))
        threads[0].start()
    start_response("200 OK", [])
    return [b"true" if elector.is_leading("scheduler") else b"false"]


threads = []
"""


class Program:
    """One process with a recipe, and the port that it may serve on."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.port = free_port()
        self.log = folder / f"log-{self.port}"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *(part.format(port=self.port) for part in command)],
                cwd=folder,
                stdout=output,
                stderr=output,
                env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}"},
            )

    def get(self, path: str = "/", within: float = 60) -> str:
        """What a page answers; nothing while nobody does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()


@contextmanager
def running(folder: Path, *command: str) -> Iterator[Program]:
    """A program that has ended when the block has."""
    program = Program(folder, *command)
    try:
        yield program
    except BaseException:
        print(program.log.read_text()[-3000:])
        raise
    finally:
        program.process.terminate()
        try:
            program.process.wait(20)
        except subprocess.TimeoutExpired:
            program.process.kill()


def leader(server: Server) -> str | None:
    """The process that leads."""
    found = server.cli("HGET", seat_key("scheduler"), "leader")
    return None if found is None else str(found).split(":")[1]


def follows_at_once(server: Server, folder: Path, *command: str, hangs: bool = False) -> int:
    """Two of it: the one that leads gets SIGTERM, and the other leads; the exit code of the first.

    Asking a page of each lets those begin that serve; with `hangs` a request is under way.
    """
    with running(folder, *command) as first, running(folder, *command) as second:
        programs = [first, second]
        wait_until_blocking(
            lambda: [each.get() for each in programs] and token_of(server, "scheduler") is not None,
            within=120,
            what="one leads",
        )
        wait_until_blocking(
            lambda: (
                [each.get() for each in programs]
                and server.cli("ZCARD", "incumbent:{scheduler}:queue") == 1
            ),
            within=120,
            what="the other one waits",
        )
        before = leader(server)
        if command[-1].endswith(("app:app", "threads:app")):
            (leading,) = [each for each in programs if each.get() == "true"]
        else:
            (leading,) = [each for each in programs if str(each.process.pid) == before]
        if hangs:
            threading.Thread(target=leading.get, args=("/hang", 120), daemon=True).start()
            wait_until_blocking((folder / "hangs").exists, within=60, what="the request hangs")
        leading.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        wait_until_blocking(
            lambda: leader(server) not in {None, before}, within=60, what="the other one leads"
        )
        assert time.monotonic() - began < AT_ONCE
        return leading.process.wait(60)


def test_a_program_of_asyncio(valkey: Server, tmp_path: Path) -> None:
    """The recipe as it stands, with the port of the server changed."""
    recipe = programs()[1].replace("Redis()", f"Redis.from_url({valkey.url!r})")
    (tmp_path / "recipe.py").write_text(recipe)
    assert follows_at_once(valkey, tmp_path, "recipe.py") == 0


def test_without_the_recipe_the_seat_stays_taken(valkey: Server, tmp_path: Path) -> None:
    """What the page says of SIGTERM: the process is gone, its lease is not."""
    recipe = programs()[1].replace("Redis()", f"Redis.from_url({valkey.url!r})")
    line = "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)\n"
    assert line in recipe
    (tmp_path / "recipe.py").write_text(recipe.replace(line, ""))
    with running(tmp_path, "recipe.py") as program:
        wait_until_blocking(lambda: token_of(valkey, "scheduler"), within=120, what="it leads")
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(60) == -signal.SIGTERM
        assert valkey.cli("PTTL", seat_key("scheduler")) > 10_000
    valkey.cli("DEL", seat_key("scheduler"))


@pytest.mark.parametrize("hangs", [False, True], ids=["idle", "a request hangs"])
def test_uvicorn(valkey: Server, tmp_path: Path, hangs: bool) -> None:
    """With the option that the page names, also while a request does not end."""
    (tmp_path / "app.py").write_text(APPLICATION.format(url=valkey.url))
    options = ("--timeout-graceful-shutdown", "5", "--port", "{port}")
    command = ("-m", "uvicorn", *options, "app:app")
    follows_at_once(valkey, tmp_path, *command, hangs=hangs)


def test_gunicorn_with_asyncio(valkey: Server, tmp_path: Path) -> None:
    """By the worker of the package `uvicorn-worker`."""
    (tmp_path / "app.py").write_text(APPLICATION.format(url=valkey.url))
    options = ("-k", "uvicorn_worker.UvicornWorker", "--bind", "127.0.0.1:{port}")
    assert follows_at_once(valkey, tmp_path, "-m", "gunicorn", *options, "app:app") == 0


def test_gunicorn_with_a_request_that_hangs(valkey: Server, tmp_path: Path) -> None:
    """By a subclass of the worker that has a limit."""
    (tmp_path / "app.py").write_text(APPLICATION.format(url=valkey.url))
    (tmp_path / "limited.py").write_text(
        "from uvicorn_worker import UvicornWorker\n\n\n"
        "class Worker(UvicornWorker):\n"
        '    CONFIG_KWARGS = {"timeout_graceful_shutdown": 5}\n'
    )
    options = ("-k", "limited.Worker", "--bind", "127.0.0.1:{port}")
    follows_at_once(valkey, tmp_path, "-m", "gunicorn", *options, "app:app", hangs=True)


@pytest.mark.parametrize("worker", ["sync", "gthread"])
def test_gunicorn_with_threads(valkey: Server, tmp_path: Path, worker: str) -> None:
    """Its workers end as a program of Python does, which gives the seats back."""
    (tmp_path / "threads.py").write_text(THREADS.format(url=valkey.url))
    options = ("-k", worker, "--bind", "127.0.0.1:{port}")
    assert follows_at_once(valkey, tmp_path, "-m", "gunicorn", *options, "threads:app") == 0


def test_a_script_with_threads(valkey: Server, tmp_path: Path) -> None:
    """The line that the page names makes an exit of the signal."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    assert f"`{handler}`" in (ROOT / "README.md").read_text()
    (tmp_path / "script.py").write_text(
        "import signal, sys, time\n"
        "from incumbent import LeaderOptions\n"
        "from incumbent.blocking import LeaderElector\n"
        f"{handler}\n"
        f"elector = LeaderElector({valkey.url!r}, LeaderOptions(wait_time=None))\n"
        "elector.run_if_leader('scheduler', time.sleep, 3600)\n"
    )
    assert follows_at_once(valkey, tmp_path, "script.py") == 0
