"""SIGTERM for commands that have to put something in order before they end."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from incumbent.cli.endings import SIGNALLED

T = TypeVar("T")


async def until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Do `work`; SIGTERM cancels it as Ctrl-C does, and what it cleans up is awaited.

    Raises:
        SystemExit: SIGTERM came; 143.
    """
    task = asyncio.ensure_future(work)
    terminated: list[int] = []

    def end() -> None:
        terminated.append(signal.SIGTERM)
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await task
    except asyncio.CancelledError:
        if not terminated:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise
        raise SystemExit(SIGNALLED + signal.SIGTERM) from None
