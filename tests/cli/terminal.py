"""A pseudo-terminal with a program in it, and somebody who reads and types."""

import os
import pty
import re
import select
import struct
import subprocess
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from termios import TIOCSCTTY, TIOCSWINSZ

from cli.stage import INCUMBENT, SOURCE
from kit.waiting import wait_until_blocking

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Typist:
    """A program, as the leader of a session whose terminal this is: 24 lines of 100 columns."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(self._ours, TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "100", **env},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - it is one call, and no thread holds a lock
        )
        os.close(theirs)
        self.raw = ""
        """All that came, as the terminal was told it."""

    @property
    def text(self) -> str:
        """All that came so far, without what moves the cursor."""
        while select.select([self._ours], [], [], 0)[0]:
            try:
                read = os.read(self._ours, 65536)
            except OSError:  # the other side is closed
                break
            if not read:
                break
            self.raw += read.decode(errors="replace")
        return _CONTROL.sub("", self.raw)

    def wait_for(self, words: str, *, within: float = 60.0) -> str:
        """All that came, when `words` are in it."""
        return wait_until_blocking(
            lambda: text if words in (text := self.text) else None, within=within, what=words
        )

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def ends(self, *, within: float = 60.0) -> int:
        """The exit code, when it has ended."""
        wait_until_blocking(lambda: (self.text, self.process.poll())[1] is not None, within=within)
        return self.process.returncode

    def close(self) -> None:
        """End what is left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


class Terminal(Typist):
    """The command on a terminal."""

    def __init__(self, url: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        super().__init__([*INCUMBENT, *arguments], {"INCUMBENT_URL": url, **(env or {})})


def _take_terminal() -> None:
    """In the child: Ctrl-C is for who has it as the terminal of its session."""
    ioctl(0, TIOCSCTTY, 0)
