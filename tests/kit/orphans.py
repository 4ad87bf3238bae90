"""Whatever becomes of `incumbent run` or of its supervisor, nothing of the program is left.

Each round starts the real command on a real server, at a random moment does something to it (see
`FAULTS`), waits for its end and looks for processes of its session that are still alive. The seed
chooses the program, the fault's form and the moment; the machine does the rest.

    PYTHONPATH=tests python -m kit.orphans --rounds 300 --jobs 4 --load 2
    PYTHONPATH=tests python -m kit.orphans frozen-supervisor --seed 7 --rounds 1

Commands are forked from a process that has imported everything, so that a round costs little.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped] # as in cli/test_demo.py

from kit import warden
from kit.servers import Server
from kit.stops import freeze
from kit.waiting import wait_until_blocking

LEASE: Final = 1.0
SEAT: Final = "incumbent:{x}:seat:0"
LIVES: Final = ("running", "sleeping", "disk-sleep", "stopped", "tracing-stop")
ENDS_WITHIN: Final = 60.0
"""Seconds for a command to end by itself."""
GONE_WITHIN: Final = 20.0
"""Seconds for the group of a command that was killed."""

PLAIN: Final = "sh -c 'tell $$; sleep 61 & tell $!; wait' & wait; sleep 61"
PROGRAMS: Final = {
    "family": PLAIN,
    "deaf": f"trap '' TERM INT HUP QUIT; {PLAIN}",
    "orphans": "(sh -c 'tell $$; sleep 61 & tell $!; wait' &) ; sleep 61",
    "forking": "tell $$; tell $$; while :; do sleep 3 & sleep 0.01; done",
    "short": "sleep 61 & tell $!; sleep 61 & tell $!; sleep 0.05; exit 3",
}
"""What is run; each tells two of its processes, in a file, when they are there."""


class Member(NamedTuple):
    """A process of a command's session that could do something when it was looked at."""

    pid: int
    parent: int
    command: str

    def signal(self, number: int) -> None:
        """Send it a signal; it may have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Scene:
    """One command and what it has started: a session of its own."""

    def __init__(self, server: Server, chance: random.Random, folder: Path) -> None:
        self.server = server
        self.chance = chance
        self.program = chance.choice([*PROGRAMS])
        self._log = folder / "log"
        self._errors = folder / "errors"
        tell = folder / "tell"
        tell.write_text(f'#!/bin/sh\necho "$@" >>{self._log}\n')
        tell.chmod(0o700)
        arguments = ["run", "x", "--lease", f"{LEASE}s", "--max-hold", "20s"]
        arguments += ["--", "sh", "-c", PROGRAMS[self.program].replace("tell", str(tell))]
        self.pid = self._fork(arguments)
        self.status: int | None = None

    def _fork(self, arguments: Sequence[str]) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:  # pragma: no cover - another process
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            errors = os.open(self._errors, os.O_WRONLY | os.O_CREAT)
            for ours, theirs in ((nowhere, 0), (nowhere, 1), (errors, 2)):
                os.dup2(ours, theirs)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - for good
            os.environ["INCUMBENT_URL"] = self.server.url
            sys.argv = ["incumbent", *arguments]
            _command()()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(99)

    @property
    def errors(self) -> str:
        """What the command wrote to stderr."""
        return self._errors.read_text() if self._errors.exists() else ""

    @property
    def told(self) -> int:
        """How many processes of the program were told of."""
        return self._log.read_text().count("\n") if self._log.exists() else 0

    def members(self) -> list[Member]:
        """Those of the session that can still do something, without the command."""
        members: list[Member] = []
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(pid) == self.pid and pid != self.pid:
                    process = psutil.Process(pid)
                    command = " ".join(process.cmdline())
                    if process.status() in LIVES:
                        members.append(Member(pid, process.ppid(), command))
        return members

    def supervisor(self) -> Member | None:
        """What watches the program; None when the command has ended."""

        def found() -> tuple[Member | None] | None:
            its = [each for each in self.members() if "supervisor.py" in each.command]
            return (its[0],) if its else (None,) if self.ended() else None

        return wait_until_blocking(found, within=ENDS_WITHIN)[0]

    def wait_for_a_moment(self) -> None:
        """Somewhere between the supervisor's start and a while after the program's."""
        self.supervisor()
        if self.chance.random() < 0.5:
            wait_until_blocking(lambda: self.told >= 2 or self.ended(), within=ENDS_WITHIN)
        time.sleep(self.chance.random() * self.chance.choice((0.003, 0.1)))

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        if not self.ended():
            os.kill(self.pid, number)

    def lose(self) -> None:
        """Take the lease away."""
        if self.chance.random() < 0.5:
            self.server.admin.delete(SEAT)
        else:
            self.server.admin.hset(SEAT, "token", "another")
            self.server.admin.pexpire(SEAT, 1000)

    def ended(self) -> bool:
        """Whether the command has."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def close(self) -> None:
        """End what is left."""
        while True:
            for each in (left := self.members()):
                each.signal(signal.SIGKILL)
            if not self.ended():
                os.kill(self.pid, signal.SIGKILL)
            elif not left:
                return


def _signal(number: int) -> Callable[[Scene], None]:
    return lambda scene: scene.signal(number)


def _stop_server(scene: Scene) -> None:
    scene.server.pause()
    time.sleep(LEASE * 1.5)
    scene.server.resume()


def _freeze(member: Member | None) -> None:
    if member is not None:
        with contextlib.suppress(ProcessLookupError):
            freeze(member.pid, within=ENDS_WITHIN)


def _kill_supervisor(scene: Scene) -> None:
    if (supervisor := scene.supervisor()) is not None:
        supervisor.signal(signal.SIGKILL)


def _kill_both(scene: Scene) -> None:
    wait_until_blocking(lambda: scene.told >= 2 or scene.ended(), within=ENDS_WITHIN)
    supervisor = scene.supervisor()
    scene.signal(signal.SIGSTOP)
    if supervisor is not None:
        supervisor.signal(signal.SIGKILL)
    scene.signal(signal.SIGKILL)


def _freeze_supervisor(scene: Scene) -> None:
    _freeze(scene.supervisor())
    scene.lose()


def _freeze_supervisor_and_kill(scene: Scene) -> None:
    _freeze(scene.supervisor())
    scene.signal(signal.SIGKILL)


def _freeze_supervisor_and_server(scene: Scene) -> None:
    _freeze(scene.supervisor())
    _stop_server(scene)


def _freeze_command(scene: Scene) -> None:
    scene.signal(signal.SIGSTOP)
    time.sleep(LEASE * 1.2)
    scene.signal(signal.SIGCONT)
    scene.lose()


def _stop_program(scene: Scene) -> None:
    for each in scene.members():
        if each.parent != scene.pid:
            each.signal(signal.SIGSTOP)
    scene.lose()


def _kill_leader(scene: Scene) -> None:
    supervisor = scene.supervisor()
    for each in scene.members():
        if supervisor is not None and each.parent == supervisor.pid:
            each.signal(signal.SIGKILL)
    scene.lose()


FAULTS: Final[dict[str, Callable[[Scene], None]]] = {
    "lost": Scene.lose,
    "sigterm": _signal(signal.SIGTERM),
    "sigint": _signal(signal.SIGINT),
    "sighup": _signal(signal.SIGHUP),
    "sigquit": _signal(signal.SIGQUIT),
    "killed-command": _signal(signal.SIGKILL),
    "frozen-command": _freeze_command,
    "killed-supervisor": _kill_supervisor,
    "frozen-supervisor": _freeze_supervisor,
    "frozen-supervisor-killed-command": _freeze_supervisor_and_kill,
    "frozen-supervisor-frozen-server": _freeze_supervisor_and_server,
    "frozen-server": _stop_server,
    "stopped-program": _stop_program,
    "killed-leader": _kill_leader,
}
BEYOND: Final[dict[str, Callable[[Scene], None]]] = {"killed-both": _kill_both}
"""What nobody is left to answer: played only when asked for, and shows that orphans are found."""

ENDLESS: Final = ("sigterm", "sigint", "sighup", "sigquit")
"""What a deaf program survives, with its command."""


def play(fault: str, seed: int) -> str | None:
    """One round. Returns what was found."""
    server = _server()
    server.flush()
    folder = warden.make_folder()
    scene = Scene(server, random.Random(seed), folder)
    try:
        scene.wait_for_a_moment()
        (FAULTS | BEYOND)[fault](scene)
        if fault in ENDLESS:
            time.sleep(0.2)
            scene.lose()
        wait_until_blocking(scene.ended, within=ENDS_WITHIN, what="the command has ended")
        if scene.status == signal.SIGKILL:  # it could not wait for the others
            with contextlib.suppress(AssertionError):
                wait_until_blocking(lambda: not scene.members(), within=GONE_WITHIN)
        if left := scene.members():
            return f"{scene.program}: ended {scene.status}, left {left}: {scene.errors.strip()}"
    except AssertionError as error:
        return f"{scene.program}: {error}: {scene.members()}: {scene.errors.strip()}"
    finally:
        scene.close()
        warden.remove_folder(folder)
    return f"{scene.program}: {scene.errors}" if "Traceback" in scene.errors else None


@cache
def _server() -> Server:
    return Server().start()


@cache
def _command() -> Callable[[], None]:
    import incumbent.cli.group
    import incumbent.cli.run.performance  # noqa: F401
    from incumbent.cli import main

    return main


def main() -> int:
    """Play all rounds. Returns 1 when something was left of a program."""
    chosen = _arguments()
    seeds = range(chosen.seed, chosen.seed + chosen.rounds)
    load = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(load) for _ in range(chosen.load)]
    bad = 0
    try:
        with ProcessPoolExecutor(
            chosen.jobs, mp_context=get_context("spawn"), initializer=_command
        ) as pool:
            for fault in chosen.faults or FAULTS:
                began = time.monotonic()
                found = zip(seeds, pool.map(play, [fault] * len(seeds), seeds), strict=True)
                complaints = [f"{fault} --seed {seed}: {what}" for seed, what in found if what]
                took = time.monotonic() - began
                tally = f"{fault}: {len(seeds)} rounds, {len(complaints)} bad, {took:.0f} s"
                print(*complaints, tally, sep="\n", flush=True)
                bad += len(complaints)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    return 1 if bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    known = [*FAULTS, *BEYOND]
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"{', '.join(known)} [all]")
    parser.add_argument("--rounds", type=int, default=300, help="of each fault [300]")
    parser.add_argument("--jobs", type=int, default=2, help="commands at the same time [2]")
    parser.add_argument("--load", type=int, default=0, help="processes that keep a core busy [0]")
    parser.add_argument("--seed", type=int, default=1, help="of the first round [1]")
    chosen = parser.parse_args()
    if unknown := {*chosen.faults} - {*known}:
        parser.error(f"no such fault: {', '.join(unknown)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
