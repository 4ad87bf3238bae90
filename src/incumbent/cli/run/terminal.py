"""The terminal of `incumbent run`: lent to the program, taken back as it was.

What a shell does for its jobs is done here for one program. Source:
https://www.gnu.org/software/libc/manual/html_node/Implementing-a-Shell.html
"""

import contextlib
import os
import signal
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

STDIN: Final = 0


class Terminal:
    """The terminal that stdin is, in whose foreground this process is when it makes one."""

    def __init__(self) -> None:
        self._modes: list[Any] = termios.tcgetattr(STDIN)
        """What they are to be when the program does not have the terminal."""
        self._modes_of_program: list[Any] | None = None
        """What they were when the program was stopped."""
        self._lent = False

    def lent(self) -> None:
        """The program is started, and puts itself into the foreground."""
        self._lent = True
        self._modes_of_program = None

    def lend(self, group: int) -> None:
        """Put the program's `group` into the foreground, if this process is there."""
        if not in_foreground():
            return
        with _allowed():
            self._modes = termios.tcgetattr(STDIN)
            os.tcsetpgrp(STDIN, group)
            self._lent = True
            if self._modes_of_program is not None:
                termios.tcsetattr(STDIN, termios.TCSANOW, self._modes_of_program)

    def suspend(self) -> None:
        """Take it back from a program that was stopped; it gets its modes back when it goes on."""
        if self._lent:
            with _allowed():
                self._modes_of_program = termios.tcgetattr(STDIN)
            self.take_back(restore=True)

    def take_back(self, *, restore: bool) -> None:
        """Come into the foreground again, if the program had it; `restore` the modes as well."""
        if not self._lent:
            return
        self._lent = False
        with _allowed():
            os.tcsetpgrp(STDIN, os.getpgrp())
            if restore:
                termios.tcsetattr(STDIN, termios.TCSANOW, self._modes)


def has_terminal() -> bool:
    """Whether this process is in the foreground of a terminal, and in no pipe.

    Others in a pipe are of our process group, and would be in the background without us.
    """
    return os.isatty(STDIN) and os.isatty(1) and in_foreground()


def in_foreground() -> bool:
    """Whether this process is in the foreground of the terminal that stdin is, if it is one."""
    try:
        return os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def _allowed() -> Generator[None]:
    """A block in which a process in the background may change the terminal; it may be gone.

    It would be stopped for that, unless it does not care.
    """
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError, termios.error):
            yield
    finally:
        signal.signal(signal.SIGTTOU, before)
