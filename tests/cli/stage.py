"""Runs the command as its users do: as a process, with programs that tell what they see.

Each process is in a session of its own and under the kit's watch, so that nothing outlives a test.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil  # type: ignore[import-untyped] # as in test_demo.py

import incumbent
from cli.inside import Inside
from incumbent import LeaderOptions
from incumbent.blocking import GroupElector, Lease
from kit import warden
from kit.servers import Server
from kit.waiting import wait_until_blocking

SOURCE = str(Path(incumbent.__file__).parents[1])
INCUMBENT = [sys.executable, "-m", "incumbent.cli"]
LIVES = ("running", "sleeping", "disk-sleep", "stopped")


class Program:
    """A program to be run under a lease: it writes down what happens to it, line by line."""

    def __init__(self, folder: Path, name: str = "log") -> None:
        self.log = folder / name

    def command(self, script: str) -> list[str]:
        """A shell that runs `script`; ``tell WORDS`` in it writes a line to the log."""
        return ["sh", "-c", f'tell() {{ echo "$@" >>"{self.log}"; }}; {script}']

    @property
    def lines(self) -> list[str]:
        """What was told so far, but for a line that is just being written."""
        *whole, _ = self.log.read_text().split("\n") if self.log.exists() else [""]
        return whole

    def told(self, word: str) -> list[str]:
        """What followed `word`, for each line that begins with it."""
        return [line[len(word) :].strip() for line in self.lines if line.split()[:1] == [word]]

    def wait_for(self, word: str, *, times: int = 1, within: float = 60.0) -> list[str]:
        """What followed `word`, when it was told so many times."""
        return wait_until_blocking(
            lambda: told if len(told := self.told(word)) >= times else None,
            within=within,
            what=f"{word!r} in {self.log.name}",
        )

    def pids(self, *, count: int = 1) -> list[int]:
        """The numbers of the processes that said ``pid N``."""
        return [int(text) for text in self.wait_for("pid", times=count)]


class Closing(Protocol):
    """Something that runs, and can be ended."""

    def close(self) -> None:
        """End what is left of it."""
        ...


class Run:
    """One process of the command."""

    def __init__(
        self, server: Server | str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._stderr = warden.make_folder() / "stderr"
        url = server if isinstance(server, str) else server.url
        with self._stderr.open("wb") as out:
            self.process = subprocess.Popen(
                [*INCUMBENT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=out,
                env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": url, **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The number of the command's own process."""
        return self.process.pid

    @property
    def errors(self) -> str:
        """What it wrote to stderr so far."""
        return self._stderr.read_text()

    @property
    def supervisor(self) -> psutil.Process:
        """The process that watches the program."""
        return wait_until_blocking(
            lambda: next(iter(psutil.Process(self.pid).children()), None), what="a supervisor"
        )

    def signal(self, number: int) -> None:
        """Send a signal to the command itself."""
        self.process.send_signal(number)

    def ends(self, *, within: float = 60.0) -> int:
        """Its exit code, when it has ended."""
        return self.process.wait(within)

    def close(self) -> None:
        """End what is left of it: its supervisor ends the program."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        warden.remove_folder(self._stderr.parent)


class Runs:
    """Starts commands on a server, and ends them when the block ends."""

    def __init__(self, server: Server, inside: Inside) -> None:
        self.server = server
        self._inside = inside
        self._started: list[Closing] = []

    def start(
        self, *arguments: str, url: str | None = None, env: Mapping[str, str] | None = None
    ) -> Run:
        """Start ``incumbent ARGUMENTS``."""
        run = Run(url or self.server, *arguments, env=env)
        self.keep(run)
        return run

    def keep(self, run: Closing) -> None:
        """Close `run`, too, when the block ends."""
        self._started.append(run)

    def __call__(self, *arguments: str, url: str | None = None) -> tuple[int, str]:
        """Run it to its end, in this process: the exit code and stderr."""
        said = self._inside(*arguments, url=url)
        return said.code, said.err

    def close(self) -> None:
        """End all."""
        for run in self._started:
            run.close()


@contextmanager
def runs_on(server: Server, inside: Inside) -> Iterator[Runs]:
    """A block in which commands run."""
    runs = Runs(server, inside)
    try:
        yield runs
    finally:
        runs.close()


class Follower:
    """A `watch` that writes to a pipe, whose lines are read one by one."""

    def __init__(self, url: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*INCUMBENT, "watch", *arguments],
            env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        """The next line: the test's own timeout is the only one."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextmanager
def led(server: Server, name: str, *, lease: float = 30.0, seats: int = 1) -> Iterator[Lease]:
    """A block in which somebody in this process leads `name`, until it is lost."""
    with (
        GroupElector(
            server.url,
            LeaderOptions(lease_time=lease, on_loss="notify"),
            seats=seats,
            leader_id="me",
        ) as elector,
        elector.lead(name) as lease_of_it,
    ):
        yield lease_of_it


def alive(pid: int) -> bool:
    """Whether process `pid` can still do something."""
    try:
        return psutil.Process(pid).status() in LIVES
    except psutil.NoSuchProcess:
        return False


def gone(pids: list[int]) -> bool:
    """Whether none of them is alive."""
    return not any(map(alive, pids))


def seat(name: str, number: int = 0) -> str:
    """The key of a seat."""
    return f"incumbent:{{{name}}}:seat:{number}"
