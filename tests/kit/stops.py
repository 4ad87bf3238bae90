"""Stops processes for a moment, and sees to it that each of them continues.

A process is known by its number and the moment of its start, so that a number that was given to
another process is never signalled. Others may stop and continue the same process meanwhile: what
they want of it holds when our moment is over. Of two that stop by this module, as when a test of
scripts/shake is shaken, each would leave it to the other to continue a process that both have
stopped: so only one at a time has it.

A tiny watcher process holds the other end of a pipe, on which it is told who is stopped. When the
pipe closes, because we ended or were killed, it continues those who are still on its list.

Needs /proc, as Linux has it. Standard library only: the watcher runs this file as a script.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

PROC = Path("/proc")
STOPPED = "T"
GONE = "ZX"
JOB_CONTROL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""What SIGCONT would remove from what is pending, beside SIGSTOP."""


class Process(NamedTuple):
    """A process, as long as it lives."""

    pid: int
    started: int
    """In ticks of the kernel's clock, as /proc tells it."""


class Status(NamedTuple):
    """What /proc tells of a process at one moment."""

    process: Process
    parent: int
    state: str
    """R, S, D, T (stopped), Z and so on, as in proc(5)."""
    terminal: int
    """The number of its controlling terminal; 0 for none."""


def read_status(pid: int) -> Status | None:
    """What /proc tells; None if there is no such process."""
    try:
        line = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()  # the name before may contain anything
    process = Process(pid, int(fields[19]))
    return Status(process, parent=int(fields[1]), state=fields[0], terminal=int(fields[4]))


def all_processes() -> list[Status]:
    """Everything that runs on this machine, as far as we may know."""
    pids = [int(each.name) for each in PROC.iterdir() if each.name.isdigit()]
    return [status for pid in pids if (status := read_status(pid))]


def below(root: int, table: Iterable[Status]) -> Iterator[Status]:
    """The processes of the tree that begins with the process `root`, itself included."""
    children: dict[int, list[Status]] = {}
    found: list[Status] = []
    for status in table:
        children.setdefault(status.parent, []).append(status)
        if status.process.pid == root:
            found.append(status)
    while found:
        status = found.pop()
        yield status
        found += children.pop(status.process.pid, ())


def command_of(process: Process) -> list[str]:
    """The words that it was started with; empty if it ended."""
    try:
        line = (PROC / str(process.pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in line.rstrip(b"\0").split(b"\0") if line]


def send(process: Process, number: int) -> bool:
    """Signal just this process; False if it ended, or is not ours to signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:  # whoever has the number now keeps it while we have the handle
            status = read_status(process.pid)
            if status is None or status.process != process or status.state in GONE:
                return False
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
        return True
    return False


def freeze(pid: int, *, within: float = 10.0) -> None:
    """Stop a process until `SIGCONT`, also if a `Stop` has it or is about to.

    Two signals on their way at once count as one, so there is another when it stands still: by that
    a `Stop` sees that it is not alone.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + within
    while PROC.exists() and (status := read_status(pid)) and status.state not in STOPPED + GONE:
        assert time.monotonic() < deadline, f"{pid} does not stop: {status}"
        time.sleep(0.0005)
    os.kill(pid, signal.SIGSTOP)


class _Details(NamedTuple):
    state: str
    pending: int
    """One bit for each signal."""

    def has_pending(self, number: int) -> bool:
        return bool(self.pending >> (number - 1) & 1)


def _details(process: Process) -> _Details | None:
    try:
        lines = (PROC / str(process.pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return _Details(told["State"][0], int(told["SigPnd"], 16) | int(told["ShdPnd"], 16))


class Watcher:
    """Continues whom we stopped, if we cannot. A context manager."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,  # no Ctrl-C of ours reaches it
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def tell(self, sign: str, process: Process) -> None:
        """Put it on the list ("+") or take it off ("-")."""
        pipe = self._child.stdin
        assert pipe is not None
        pipe.write(f"{sign}{process.pid} {process.started}\n".encode())
        pipe.flush()


class Stop:
    """One process that stands still from `begin` to `end`."""

    def __init__(self, process: Process, watcher: Watcher) -> None:
        self.process = process
        self._watcher = watcher
        self._stands = False
        self._given_up = False
        self._claim: socket.socket | None = None

    def begin(self) -> bool:
        """Stop it; False if it cannot be, or another `Stop` has it."""
        if not self._is_ours():
            return False
        self._watcher.tell("+", self.process)  # before: we may be killed at any line
        if not send(self.process, signal.SIGSTOP):
            self._leave()
            return False
        return True

    def _is_ours(self) -> bool:
        claim = socket.socket(socket.AF_UNIX)
        try:  # a name that one socket has, until it is closed
            claim.bind("\0kit.stops {} {}".format(*self.process))
        except OSError:
            claim.close()
            return False
        self._claim = claim
        return True

    def _leave(self) -> None:
        self._watcher.tell("-", self.process)
        if self._claim is not None:
            self._claim.close()

    def look(self) -> None:
        """Take note of what others do to it; between two looks they can hide that they did."""
        details = _details(self.process)
        if details is None:
            return
        if details.state == STOPPED:
            self._stands = True
        elif self._stands:
            self._given_up = True  # somebody let it continue, and has it from now on

    def end(self) -> None:
        """Let it continue, unless somebody else has stopped it meanwhile."""
        self.look()
        details = _details(self.process)
        if details is not None and not self._is_theirs(details):
            send(self.process, signal.SIGCONT)
            for number in filter(details.has_pending, JOB_CONTROL):
                send(self.process, number)
        self._leave()

    def _is_theirs(self, details: _Details) -> bool:
        # A signal that comes while it stands still is pending; before that, it may be our own.
        return self._given_up or (self._stands and details.has_pending(signal.SIGSTOP))


def listed(lines: Iterable[str]) -> list[Process]:
    """Who is on the list after the last line: "+7 100" adds a process, "-7 100" removes it."""
    left: dict[Process, None] = {}
    for line in lines:
        pid, started = map(int, line[1:].split())
        if line[0] == "+":
            left[Process(pid, started)] = None
        else:
            left.pop(Process(pid, started), None)
    return list(left)


def _watch() -> None:
    for process in listed(sys.stdin):
        send(process, signal.SIGCONT)


if __name__ == "__main__":
    _watch()
