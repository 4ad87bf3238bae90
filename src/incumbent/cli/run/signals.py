"""What signals to the command mean: for the program while it runs, for the command otherwise."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
)
ENDING: Final = frozenset[int]({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""What ends the command while no program runs."""


class Running(Protocol):
    """A program that may be running."""

    @property
    def running(self) -> bool:
        """Whether it is."""
        ...

    def signal(self, number: int) -> None:
        """Hand a signal on to it."""
        ...


class Signals:
    """Hands signals on to the program of `duty`, or ends `task`, which is given up then.

    SIGTSTP is handed on, too: whoever hears that the program has been stopped by it stops this
    process.
    """

    def __init__(
        self,
        duty: Running,
        task: "asyncio.Task[object]",
        *,
        final: frozenset[int] = frozenset(),
        ending: frozenset[int] = ENDING,
    ) -> None:
        """`final` are those after which the program is not started again."""
        self._duty = duty
        self._task = task
        self._final = final
        self._ending = ending
        self.ended_by: int | None = None

    @contextmanager
    def taken(self) -> Generator[None]:
        """A block in which signals come here. Those that were ignored before still are."""
        loop = asyncio.get_running_loop()
        mine = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        for number in mine:
            loop.add_signal_handler(number, self._take, number)
        try:
            yield
        finally:
            for number in mine:
                loop.remove_signal_handler(number)

    def _take(self, number: int) -> None:
        if self._duty.running:
            self._duty.signal(number)
            if number in self._final:
                self.ended_by = self.ended_by or number
        elif number == signal.SIGTSTP:
            suspend(number)
        elif number in self._ending and self.ended_by is None:
            self.ended_by = number
            self._task.cancel()


def suspend(number: int) -> bool:
    """Stop this process and its group by signal `number`, as if nobody handled it.

    Returns whether SIGCONT came. If not, nothing was stopped: the signal is ignored, or no shell
    could let the group go on.
    """
    if signal.getsignal(number) == signal.SIG_IGN:
        return False
    resumed: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        resumed.append(number)

    continued = signal.signal(signal.SIGCONT, note)
    handled = signal.signal(number, signal.SIG_DFL)
    try:
        os.killpg(0, number)
    finally:
        signal.signal(number, handled)
        signal.signal(signal.SIGCONT, continued)
    return bool(resumed)
