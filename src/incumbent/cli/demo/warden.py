"""Processes that end with the process that started them, however that one ends.

They are one process group. Its leader, the warden, holds the reading end of a pipe that nobody
ever writes to. When the pipe closes, because the demo let go of it or was killed, the warden
removes the demo's folder and kills the group, itself included. There is no list that could be
incomplete and no process number that could have been given to somebody else; SIGKILL also ends
those who are stopped; and a Ctrl-C in the terminal reaches the demo alone. SIGHUP must not end the
warden: the kernel sends it to the group, orphaned by the demo's death, if one of it is stopped.
Source: https://pubs.opengroup.org/onlinepubs/9799919799/functions/_Exit.html

Run as a script, without `site`: nothing of the library may be imported here.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

LONGEST_FOLDER: Final = 70
"""Characters. The path of a Unix socket may have 103 on macOS, 107 on Linux."""


class Warden:
    """A group of processes and their temporary folder, for the length of a ``with`` block."""

    def __init__(self) -> None:
        self.folder: Path = Path(tempfile.mkdtemp(prefix="incumbent-demo-", dir=_short_folder()))
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                [sys.executable, "-I", "-S", __file__, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd="/",
                process_group=0,
            )
        except BaseException:
            self.folder.rmdir()
            raise

    def start(
        self, command: Sequence[str], *, stdin: int, stdout: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start `command` in the group; its stderr goes where its stdout goes."""
        child = subprocess.Popen(  # noqa: S603 - only the demo's own parts are started
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            process_group=self._process.pid,
        )
        self._children.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the whole group, and wait until it has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        for child in self._children:
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()


def _short_folder() -> str | None:
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp makes it safe


def _main(folder: str) -> None:  # pragma: no cover - ends by its own SIGKILL, and measures nothing
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":  # pragma: no cover - as above
    _main(sys.argv[1])
