"""A whole terminal for the length of a block: pages, keys, and its modes as they were afterwards.

However the block ends, and also while the program is stopped by Ctrl-Z.
"""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, ConsoleDimensions, Group
from rich.text import Text

from incumbent.cli.elections.keys import pressed

USUAL: Final = (80, 24)
"""Columns and lines of a terminal that does not know its size."""

AT_ONCE: Final = 1024
"""Bytes that are read at once: more than anybody can type."""


class Terminal:
    """What stdout is, and stdin if that is a terminal, too. For one block in one event loop."""

    def __init__(self) -> None:
        self._awake = asyncio.Event()
        self._pressed: list[str] = []
        self._console = Console(file=sys.stdout, highlight=False, force_terminal=True)
        self._stdin = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._modes: list[Any] | None = None
        self._begun = b""
        self._last: list[Text] = []

    @property
    def listens(self) -> bool:
        """Whether there are keys to press."""
        return self._stdin is not None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return USUAL
        return columns or USUAL[0], lines or USUAL[1]

    def show(self, lines: Iterable[Text]) -> None:
        """Draw a page."""
        self._last = list(lines)
        self._console.size = ConsoleDimensions(*self.size)
        self._console.update_screen(Group(*self._last))

    def wake(self) -> None:
        """The page has to be drawn anew."""
        self._awake.set()

    async def keys(self, within: float) -> list[str]:
        """What is pressed: returns with the first key, when it is woken, or after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._awake.wait()
        self._awake.clear()
        keys, self._pressed = self._pressed, []
        return keys

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._take()
        loop.add_signal_handler(signal.SIGWINCH, self.wake)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        if self._stdin is not None:
            loop.add_reader(self._stdin, self._read, self._stdin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        if self._stdin is not None:
            loop.remove_reader(self._stdin)
        loop.remove_signal_handler(signal.SIGTSTP)
        loop.remove_signal_handler(signal.SIGWINCH)
        self._give_back()
        # What was seen last stays, without the line of the keys.
        for line in self._last[:-1]:
            if line.plain:
                self._console.print(line, soft_wrap=True)

    def _take(self) -> None:
        if self._stdin is not None:
            self._modes = termios.tcgetattr(self._stdin)
            tty.setcbreak(self._stdin)  # keys come one by one, and Ctrl-C is still a signal
        self._console.set_alt_screen(True)
        self._console.show_cursor(show=False)

    def _give_back(self) -> None:
        self._console.show_cursor(show=True)
        self._console.set_alt_screen(False)
        if self._stdin is not None and self._modes is not None:
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._modes)

    def _stop(self) -> None:
        """Ctrl-Z: the shell gets the terminal as it was; when it goes on, it is taken again."""
        loop = asyncio.get_running_loop()
        self._give_back()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        # It goes on here, with SIGCONT; or at once, where no shell could let it go on.
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._take()
        self.wake()

    def _read(self, stdin: int) -> None:
        data = os.read(stdin, AT_ONCE)
        if not data:  # it was hung up
            asyncio.get_running_loop().remove_reader(stdin)
        keys, self._begun = pressed(self._begun + data)
        self._pressed += keys
        if keys:
            self.wake()
