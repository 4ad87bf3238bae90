"""Child processes that die with the process that started them, however that one ends.

A tiny watcher process holds the other end of a pipe. When the pipe closes, because we exited or
were killed, it kills what is still on its list. Unlike PR_SET_PDEATHSIG this works on macOS, does
not depend on which thread started the child, and needs no code between fork and exec.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

_watchers: dict[int, subprocess.Popen[bytes]] = {}  # by the process that started it


def start_child(
    command: Sequence[str],
    *,
    output: IO[bytes] | int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own (no Ctrl-C of ours reaches it), under watch.

    stdout and stderr both go to `output`.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    _tell(f"+{child.pid}\n")
    return child


def reaped(child: subprocess.Popen[bytes]) -> None:
    """Take a child that was waited for off the list: its number may be given to another."""
    _tell(f"-{child.pid}\n")


def _tell(line: str) -> None:
    pipe = _watch().stdin
    assert pipe is not None
    pipe.write(line.encode())
    pipe.flush()


def _watch() -> subprocess.Popen[bytes]:
    me = os.getpid()  # in a child that was forked from us, it is another
    if me not in _watchers:
        _watchers[me] = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(_dismiss, me)
    return _watchers[me]


def _dismiss(owner: int) -> None:
    if owner == os.getpid():
        _watchers[owner].communicate()


def listed(lines: Iterable[str]) -> set[int]:
    """Who is on the list after the last line: "+7" adds a process, "-7" takes it off."""
    alive: set[int] = set()
    for line in lines:
        change, pid = line[0], int(line[1:])
        (alive.add if change == "+" else alive.discard)(pid)
    return alive


def _main() -> None:
    for pid in listed(sys.stdin):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _main()
