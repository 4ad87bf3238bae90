"""The demo's hold on one process: starts, kills, stops and resumes it, and hears what it says."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from incumbent import clock
from incumbent.cli.demo.reports import Report, parse
from incumbent.cli.demo.warden import Warden

Condition: TypeAlias = Literal["running", "killed", "stopped", "left"]

CANDIDATE: Final = "incumbent.cli.demo.candidate"
CHUNK: Final = 65536


class NodeDiedError(Exception):
    """A process ended that nobody had killed."""


class Node:
    """One of the three that stand for the election; when started again, it is a new process."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        warden: Warden,
        heard: Callable[["Node", Report], None],
    ) -> None:
        """Prepare `name`; `heard` is called with each of its reports, before it is the `last`."""
        self.name = name
        self.condition: Condition = "running"
        self.last: Report | None = None
        self._command = [sys.executable, "-m", CANDIDATE, *arguments]
        self._warden = warden
        self._heard = heard
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._noise = ""

    @property
    def pid(self) -> int:
        """The number of its process; 0 before the first start."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Begin as a new process."""
        self.condition, self.last, self._pending = "running", None, b""
        pipe = subprocess.PIPE
        self._process = self._warden.start(self._command, stdin=pipe, stdout=pipe)
        output = self._process.stdout
        if output is not None:
            os.set_blocking(output.fileno(), False)

    def kill(self) -> None:
        """SIGKILL: it does nothing more, not even release."""
        self.condition = "killed"
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP: it stands still, as in a long pause of its machine."""
        self.condition = "stopped"
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on where it stood, and does not know for how long."""
        self.condition = "running"
        self._signal(signal.SIGCONT)

    def leave(self) -> None:
        """Ask it to give its seat back and to end."""
        self.condition = "left"
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._process is not None and self._process.poll() is not None

    def listen(self) -> None:
        """Hear what it has said meanwhile.

        Raises:
            NodeDiedError: it ended, though nobody wanted it to; with its last words.
        """
        died = self.condition in ("running", "stopped") and self.ended
        *lines, self._pending = (self._pending + self._output()).split(b"\n")
        for line in lines:
            self._hear(line.decode(errors="replace"))
        if died:
            raise NodeDiedError(f"{self.name} died: {self._noise or 'nobody knows why'}")

    def leads(self, fence: int) -> bool:
        """Whether it said, in its last words, that it leads with `fence`, and may still."""
        last = self.last
        return last is not None and last.fence == fence and last.until > clock.now()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _output(self) -> bytes:
        if self._process is None or self._process.stdout is None:
            return b""
        try:
            return os.read(self._process.stdout.fileno(), CHUNK)
        except BlockingIOError:
            return b""

    def _hear(self, line: str) -> None:
        report = parse(line)
        if report is None:
            self._noise = line.strip() or self._noise
            return
        self._heard(self, report)
        self.last = report
