"""The early end of commands that have to put something in order before they end."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from incumbent.cli.endings import SIGNALLED

T = TypeVar("T")

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


async def until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Do `work`; what ends it early cancels it as Ctrl-C does, and what it cleans up is awaited.

    That is SIGTERM; SIGHUP, unless it was ignored as under nohup; and that nobody reads stdout any
    more, where that is a pipe.

    Raises:
        SystemExit: a signal came; 128 and its number.
        BrokenPipeError: nobody reads any more.
    """
    task = asyncio.ensure_future(work)
    reasons: list[int] = []

    def end(number: int) -> None:
        reasons.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        with _noticed_when_nobody_reads(lambda: end(signal.SIGPIPE)):
            return await task
    except asyncio.CancelledError:
        if not reasons:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise
        if reasons[0] == signal.SIGPIPE:
            raise BrokenPipeError from None
        raise SystemExit(SIGNALLED + reasons[0]) from None


@contextmanager
def _noticed_when_nobody_reads(tell: Callable[[], None]) -> Generator[None]:
    """Call `tell` when the last reader of the pipe that stdout is has closed it.

    The writing end of a pipe becomes readable then, as asyncio's own transports rely on.
    """
    out = _stdout_if_pipe()
    if out is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(out)
        tell()

    loop.add_reader(out, gone)
    try:
        yield
    finally:
        loop.remove_reader(out)


def _stdout_if_pipe() -> int | None:
    try:
        out = sys.stdout.fileno()
        return out if stat.S_ISFIFO(os.fstat(out).st_mode) else None
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return None
