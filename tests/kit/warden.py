"""Child processes and folders that go with the process that made them, however that one ends.

A tiny watcher process holds the other end of a pipe. When the pipe closes, because we exited or
were killed, it kills and removes what is still on its list. Unlike PR_SET_PDEATHSIG this works on
macOS, does not depend on which thread started the child, and runs no code between fork and exec.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
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
    user: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own (no Ctrl-C of ours reaches it), under watch.

    stdout and stderr both go to `output`. Another `user` than ours can be had by root.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=env,
        user=user,
        start_new_session=True,
    )
    _tell(f"+{child.pid}\n")
    return child


def reaped(child: subprocess.Popen[bytes]) -> None:
    """Take a child that was waited for off the list: its number may be given to another."""
    _tell(f"-{child.pid}\n")


def make_folder() -> Path:
    """Make a temporary folder, under watch."""
    folder = Path(tempfile.mkdtemp(prefix="incumbent-"))
    _tell(f"+{folder}\n")
    return folder


def remove_folder(folder: Path) -> None:
    """Remove it, and take it off the list."""
    shutil.rmtree(folder, ignore_errors=True)
    _tell(f"-{folder}\n")


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


def listed(lines: Iterable[str]) -> set[str]:
    """What is on the list after the last line: "+7" adds process 7, "-/x" takes a folder off."""
    left: set[str] = set()
    for line in lines:
        (left.add if line[0] == "+" else left.discard)(line[1:].rstrip("\n"))
    return left


def _main() -> None:
    left = listed(sys.stdin)
    for pid in filter(str.isdigit, left):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    for folder in left:
        if not folder.isdigit():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main()
