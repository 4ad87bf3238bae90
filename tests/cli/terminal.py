"""A pseudo-terminal with a program in it, and somebody who reads and types."""

import os
import pty
import re
import select
import struct
import subprocess
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from termios import TIOCSCTTY, TIOCSWINSZ, tcgetattr

from cli.stage import INCUMBENT, SOURCE
from kit.waiting import wait_until_blocking

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SCREENFUL = 20_000
"""Characters that draw a whole screen, with colours."""

_LINE = re.compile(r"\x1b\[(\d+);1H([^\x1b]*)")


class Typist:
    """A program, as the leader of a session whose terminal this is: of 24 lines."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = 100
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._columns, self._lines = columns, 24
        self.resize(self._columns, self._lines)
        self.modes_before = tcgetattr(self._ours)
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={
                **os.environ,
                "PYTHONPATH": SOURCE,
                "TERM": "xterm",
                "COLUMNS": str(columns),
                **env,
            },
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

    @property
    def screen(self) -> str:
        """What is on a full screen now: its lines, without the blanks at their ends."""
        drawn = _COLOUR.sub("", self.raw[-SCREENFUL:]) if self.text else ""
        shown = {int(line): said.rstrip() for line, said in _LINE.findall(drawn)}
        return "\n".join(shown.get(line, "") for line in range(1, self._lines + 1))

    @property
    def modes(self) -> list[object]:
        """How the terminal is set."""
        return list(tcgetattr(self._ours))

    @property
    def foreground(self) -> int:
        """The process group that has the terminal."""
        return os.tcgetpgrp(self._ours)

    def resize(self, columns: int, lines: int) -> None:
        """Make it larger or smaller: who has it is told by a signal."""
        self._columns, self._lines = columns, lines
        ioctl(self._ours, TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def shows(self, *words: str, without: str | None = None, within: float = 60.0) -> str:
        """What is on the screen, when all `words` are, and `without` is not."""
        return wait_until_blocking(
            lambda: (
                screen
                if all(each in (screen := self.screen) for each in words)
                and (without is None or without not in screen)
                else None
            ),
            within=within,
            what=f"{words} on the screen, without {without!r}",
            every=0.02,
        )

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

    def __init__(
        self,
        url: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        script: str | None = None,
    ) -> None:
        """`script`: for a shell, in which ``"$0" "$@"`` is the command."""
        shell = [] if script is None else ["sh", "-c", script]
        command = [*shell, *INCUMBENT, *arguments]
        super().__init__(command, {"INCUMBENT_URL": url, **(env or {})})


def _take_terminal() -> None:
    """In the child: Ctrl-C is for who has it as the terminal of its session."""
    ioctl(0, TIOCSCTTY, 0)
