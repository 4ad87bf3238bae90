"""Errors of the user's code that must not stop an election: told once, and contained.

Hooks, logging handlers and filters run in the middle of elections. Their errors end here.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NoReturn

_log: Final = logging.getLogger("incumbent")


def contain(error: BaseException, what: str, /, *details: object) -> None:
    """Tell that user code has raised `error`: ``what % details`` says where. Never raises.

    `KeyboardInterrupt` and `SystemExit` in the main thread are meant for the program: they come out
    of the running event loop in its next turn, as if one of its callbacks had raised them. So the
    election's own step is completed first.
    """
    if _ends_the_program(error):
        with suppress(RuntimeError):  # no loop is running
            asyncio.get_running_loop().call_soon(_raise, error)
    else:
        log(logging.ERROR, what, *details, error=error)


def log(
    level: int,
    what: str,
    /,
    *details: object,
    error: BaseException | None = None,
    extra: Mapping[str, object] | None = None,
) -> None:
    """Write a log record. Never raises: what a handler or filter raises is printed to stderr."""
    try:
        _log.log(level, what, *details, exc_info=error, extra=extra)
    except BaseException as failure:  # noqa: BLE001 - a handler or filter may fail in any way
        if _ends_the_program(failure):
            contain(failure, what, *details)
        elif sys.stderr is not None:
            with suppress(Exception):
                sys.stderr.write("incumbent: a log record could not be written\n")
                traceback.print_exception(failure, file=sys.stderr)


def note(error: BaseException, text: str) -> None:
    """Add a note to an error of the user's, unless it cannot take one: some errors are frozen."""
    with suppress(Exception):
        error.add_note(text)


def _ends_the_program(error: BaseException) -> bool:
    ends = isinstance(error, (KeyboardInterrupt, SystemExit))
    return ends and threading.current_thread() is threading.main_thread()


def _raise(error: BaseException) -> NoReturn:
    raise error
