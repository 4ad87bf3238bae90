"""Runs the tests while their processes are stopped at random: ``python -m kit.shake --help``.

A machine that is busy, or paused by its host, stops any process at any moment. A test that falls
under this is either one that believes in the speed of a machine, or it has found a fault of the
library. The processes are pytest, its workers, and whatever they start: servers, contenders,
commands. What the tests themselves stop and continue is left to them.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from kit.stops import Process, Status, Stop, Watcher, all_processes, below, command_of, read_status

SHORTEST, LONGEST = 0.01, 0.5
"""Seconds that a process stands still."""
EVERY = 4.0
"""Seconds between two stops of one process, on average."""
LOOK_EVERY = 0.25
"""Seconds between looks which processes there are."""
WATCH_EVERY = 0.01
"""Seconds between looks what the tests do to those who are stopped."""
AWAKE = "RSD"
SIDE_BY_SIDE = ["--dist", "worksteal", "-n", "8"]


class Choice(NamedTuple):
    """Whom to stop next, and for how long."""

    after: float
    """Seconds since the last one."""
    which: float
    """From 0 to below 1, of those who are there then."""
    length: float
    """Seconds."""


def draw(chance: Random, every: float, there: int) -> Choice:
    """The next one, so that each of those who are `there` is stopped once in `every` seconds."""
    after = chance.expovariate(max(1, there) / every)
    return Choice(after, chance.random(), chance.uniform(SHORTEST, LONGEST))


def candidates(root: int, table: Iterable[Status], terminal: int) -> list[Process]:
    """Who may be stopped: the tree below `root`, as far as it is awake.

    Those at another terminal than ours are not: a shell that runs there would see it as Ctrl-Z,
    and wait for somebody to continue the command.
    """
    return sorted(
        each.process
        for each in below(root, table)
        if each.state in AWAKE and each.terminal in {0, terminal}
    )


def label(command: Sequence[str]) -> str:
    """A short name for what runs: the program, or the module or script that Python runs."""
    if not command:
        return "(gone)"
    name, *arguments = command
    program = Path(name.split()[0]).name  # a server tells its port behind it
    if not program.startswith("python"):
        return program
    for position, word in enumerate(arguments):
        if word == "-m":
            return f"python -m {' '.join(arguments[position + 1 : position + 2])}"
        if word == "-c":
            return "python -c"
        if not word.startswith("-"):
            return Path(word).name
    return program


class Tally:
    """What was stopped, how often and for how long."""

    def __init__(self) -> None:
        self._lengths: dict[str, list[float]] = {}

    def add(self, name: str, length: float) -> None:
        """Count one stop of so many seconds."""
        self._lengths.setdefault(name, []).append(length)

    def lines(self) -> list[str]:
        """One for all, and one for each name, the most frequent first."""
        by_name = sorted(self._lengths.items(), key=lambda each: -len(each[1]))
        each = [f"{len(them):>7,} {sum(them):>9,.1f} s  {name}" for name, them in by_name]
        lengths = [length for them in self._lengths.values() for length in them]
        return [f"{len(lengths):,} stops, {sum(lengths):,.1f} s in all", *each]


class Shaker:
    """Stops processes below `root` as `chance` has it."""

    def __init__(self, root: int, chance: Random, every: float, watcher: Watcher) -> None:
        self.tally = Tally()
        self._root = root
        self._chance = chance
        self._every = every
        self._watcher = watcher
        own = read_status(os.getpid())
        self._terminal = own.terminal if own else 0
        self._there: list[Process] = []
        self._stopped: list[tuple[float, Stop]] = []
        """With the moments at which they are to continue."""

    def run(self, tests: subprocess.Popen[bytes]) -> None:
        """Go on until the tests have ended."""
        looked, last = float("-inf"), time.monotonic()
        choice = draw(self._chance, self._every, 0)
        while tests.poll() is None:
            now = time.monotonic()
            if now >= looked + LOOK_EVERY:
                self._there, looked = candidates(self._root, all_processes(), self._terminal), now
            self._attend(now)
            if now >= last + choice.after:
                self._stop(choice, now)
                choice, last = draw(self._chance, self._every, len(self._there)), now
            next_look = WATCH_EVERY if self._stopped else LOOK_EVERY
            time.sleep(max(0.0, min(next_look, last + choice.after - time.monotonic())))

    def close(self) -> None:
        """Let all continue."""
        self._attend(float("inf"))

    def _stop(self, choice: Choice, now: float) -> None:
        still = {stop.process for _, stop in self._stopped}
        awake = [each for each in self._there if each not in still]
        if not awake:
            return
        process = awake[int(choice.which * len(awake))]
        stop, name = Stop(process, self._watcher), label(command_of(process))
        if stop.begin():
            self.tally.add(name, choice.length)
            self._stopped.append((now + choice.length, stop))

    def _attend(self, now: float) -> None:
        for due, stop in self._stopped:
            if due <= now:
                stop.end()
            else:
                stop.look()
        self._stopped = [each for each in self._stopped if each[0] > now]


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    own = list(given)
    for_pytest: list[str] = []
    if "--" in own:
        at = own.index("--")
        own, for_pytest = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(
        prog="scripts/shake",
        description="Run the tests while their processes are stopped at random for 10 to 500 ms.",
        epilog="What follows -- goes to pytest.",
    )
    parser.add_argument("--seed", type=int, help="of what is drawn; by default another each time")
    parser.add_argument(
        "--every",
        type=float,
        default=EVERY,
        metavar="SECONDS",
        help="between two stops of one process, on average (%(default)s)",
    )
    options = parser.parse_args(own)
    if not options.every > 0:
        parser.error(f"--every must be more than 0, not {options.every}")
    if options.seed is None:
        options.seed = Random().randrange(1_000_000)
    options.pytest = for_pytest
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Run and shake the tests; the exit code of pytest."""
    options = arguments(sys.argv[1:] if given is None else given)
    if not hasattr(os, "pidfd_open") or read_status(os.getpid()) is None:
        sys.exit("scripts/shake needs /proc and pidfd_open, as Linux has them")
    print(f"seed {options.seed}", flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pytest", *SIDE_BY_SIDE, *options.pytest]
    with Watcher() as watcher, subprocess.Popen(command, env=environment) as tests:
        shaker = Shaker(tests.pid, Random(options.seed), options.every, watcher)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to pytest as well
        signal.signal(signal.SIGTERM, lambda number, _: tests.send_signal(number))
        try:
            shaker.run(tests)
        finally:
            shaker.close()
    print("\n".join([f"seed {options.seed}", *shaker.tally.lines()]), flush=True)
    code = tests.returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
