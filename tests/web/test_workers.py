"""Field cases 77 and 78: real uvicorn, real workers, killed, reloaded and ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

import incumbent
from kit.ports import free_port
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import seat_key, token_of
from web.ticks import Life, Tick, idle_times, lives, server_time, ticks

SOURCE = Path(incumbent.__file__).parents[1]
TESTS = Path(__file__).parents[1]


class Site:
    """One uvicorn, with its workers."""

    def __init__(self, server: Server, log: Path, *args: str, **env: str) -> None:
        self.server = server
        self.log = log
        self.port = free_port()
        command = [sys.executable, "-m", "uvicorn", "--port", str(self.port), *args]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=os.environ
                | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}", "URL": server.url}
                | env,
            )

    def get(self, path: str) -> Any:
        """What a page answers; None while nobody does."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()

    def up(self) -> Any:
        """Wait until it answers; the answer."""
        return wait_until_blocking(lambda: self.get("/work"), within=120, what="it answers")

    def ticks(self) -> list[Tick]:
        """Each tick so far."""
        return ticks(self.server)

    def more_ticks(self, count: int) -> None:
        """Wait for as many more."""
        wanted = len(self.ticks()) + count
        wait_until_blocking(
            lambda: len(self.ticks()) >= wanted, within=120, every=0.02, what=f"{count} more ticks"
        )

    def all_serve(self, count: int) -> None:
        """Wait until so many workers have answered since now: many are asked at once."""
        served: set[int] = set()

        def all_have() -> bool:
            pages = asked.map(self.get, ["/work"] * 2 * count)
            served.update(page["pid"] for page in pages if page is not None)
            return len(served) >= count

        with ThreadPoolExecutor(2 * count) as asked:
            wait_until_blocking(all_have, within=120, what=f"{count} workers serve")

    def lives(self, killed: dict[int, float]) -> dict[int, Life]:
        """All workers so far."""
        return lives(self.server, killed)

    def leader(self) -> int:
        """The process that ticked last."""
        return self.ticks()[-1].pid


@contextmanager
def site(server: Server, log: Path, *args: str, **env: str) -> Iterator[Site]:
    """A uvicorn that has ended when the block has."""
    running = Site(server, log, *args, **env)
    try:
        yield running
    except BaseException:
        print(log.read_text()[-5000:])
        raise
    finally:
        running.process.terminate()
        try:
            running.process.wait(20)
        finally:
            running.process.kill()


TAKE_OVER = 4.0
"""Seconds: the tick that the killed one leaves, its lease of 1, and until the next tick but one."""


@pytest.mark.timeout(400)
def test_case_77_four_workers_run_each_tick_once(own_server: Server, tmp_path: Path) -> None:
    """All serve, one ticks; its worker is killed twice, and then all are replaced."""
    killed: dict[int, float] = {}
    # A busy machine makes uvicorn give up with its own 5 s, a restart too. As long as this it does
    # not notice the death of a worker that it has just asked whether it lives.
    patient = ("--timeout-worker-healthcheck", "60")
    command = ("--workers", "4", *patient, "web.application:app")
    with site(own_server, tmp_path / "log", *command) as web:
        web.up()
        web.all_serve(4)
        for _ in range(2):
            web.more_ticks(1)
            leader = web.leader()
            os.kill(leader, signal.SIGKILL)
            killed[leader] = server_time(own_server)
            wait_until_blocking(
                lambda: web.leader() not in killed, within=120, what="another ticks"
            )
        wait_until_blocking(lambda: len(web.lives(killed)) == 6, within=150, what="four again")
        old = {*web.lives(killed)}
        web.process.send_signal(signal.SIGHUP)
        wait_until_blocking(
            lambda: len({*web.lives(killed)} - old) == 4 and web.leader() not in old,
            within=120,
            what="all are new",
        )
        web.all_serve(4)
        web.more_ticks(1)
        gaps = idle_times(own_server, killed)
        each_once(web)
    assert max(gaps) < TAKE_OVER, sorted(gaps)
    assert token_of(own_server, "scheduler") is None


def each_once(web: Site) -> None:
    """No tick twice, and none after a later one."""
    periods = [tick.period for tick in web.ticks()]
    assert periods == sorted(set(periods))


@pytest.mark.timeout(240)
def test_case_78_a_reload_hands_over_at_once(own_server: Server, tmp_path: Path) -> None:
    """``--reload`` and a lease of an hour: the new process leads, three times, each tick once."""
    source = (TESTS / "web/application.py").read_text()
    module = tmp_path / "reloaded.py"
    module.write_text(source)
    arguments = ("--reload", "--reload-dir", str(tmp_path), "--app-dir", str(tmp_path))
    with site(own_server, tmp_path / "log", *arguments, "reloaded:app", LEASE="3600") as web:
        web.more_ticks(1)
        for turn in range(3):
            before = web.leader()
            module.write_text(source + f"\n# {turn}\n")
            wait_until_blocking(
                lambda: web.leader() != before,  # noqa: B023 - asked at once
                within=120,
                what="the new one ticks",
            )
        assert web.up()["leading"]
        each_once(web)
    assert token_of(own_server, "scheduler") is None, "released at its end"


@pytest.mark.timeout(120)
def test_a_start_does_not_wait_for_victory(own_server: Server, tmp_path: Path) -> None:
    """Somebody else leads for an hour: the application serves all the same, and ends in order."""
    seat = seat_key("scheduler")
    own_server.cli("HSET", seat, "token", "x", "leader", "x", "fence", 1, "since", 1)
    own_server.cli("PEXPIRE", seat, 3_600_000)
    with site(own_server, tmp_path / "log", "web.application:app") as web:
        assert web.up()["leading"] is False
        page = web.get("/leadership")
        assert page["elections"][0]["leaders"][0]["leader_id"] == "x"
        wait_until_blocking(
            lambda: web.get("/leadership")["elections"][0]["waiting"] == 1, within=120
        )
        web.process.terminate()
        web.process.wait(30)
    assert own_server.cli("ZCARD", "incumbent:{scheduler}:queue") == 0
    assert own_server.cli("HGET", seat, "token") == "x"
