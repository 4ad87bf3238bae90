"""What a process does to itself when the crew tells it: stall its loop, step its clock, cancel.

The crew appends a line to a file and sends SIGUSR1. A process cannot be made to do these things
from outside, and each of them must happen at a moment that the process itself did not choose.
"""

import asyncio
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from incumbent import clock
from kit.records import Kind

_real_now = clock.now


def give(path: Path, order: str, seconds: float) -> None:
    """Write one order down; the process reads it at its next SIGUSR1."""
    with path.open("a") as file:
        file.write(f"{order} {seconds}\n")


class Orders:
    """Listens in the running loop. `note` is told "paused" and "resumed"."""

    def __init__(self, path: Path, note: Callable[[Kind], None], seed: str) -> None:
        self.cancellable: set[asyncio.Task[object]] = set()
        self._path = path
        self._note = note
        self._random = random.Random(seed)
        self._done = 0
        self._stepped = 0.0

    def listen(self) -> None:
        """From now on."""
        self._path.touch()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._obey)

    def _obey(self) -> None:
        *lines, _ = self._path.read_text().split("\n")  # the last is being written, or empty
        new, self._done = lines[self._done :], len(lines)
        for line in new:
            order, _, seconds = line.partition(" ")
            {"stall": self._stall, "step": self._step, "cancel": self._cancel}[order](
                float(seconds)
            )

    def _stall(self, seconds: float) -> None:
        """The loop does nothing else for so long."""
        self._note("paused")
        time.sleep(seconds)
        self._note("resumed")

    def _step(self, seconds: float) -> None:
        """The library's clock jumps ahead, as that of a machine that was suspended."""
        self._note("paused")
        self._stepped += seconds
        clock.now = lambda: _real_now() + self._stepped
        self._note("resumed")

    def _cancel(self, _: float) -> None:
        """Any of the long calls."""
        if self.cancellable:
            ordered = sorted(self.cancellable, key=asyncio.Task.get_name)
            self._random.choice(ordered).cancel()
