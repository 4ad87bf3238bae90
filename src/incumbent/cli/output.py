"""The only place where a command writes lines: one line each, with nothing in it that acts.

What is written may hold names, leader ids, reasons and errors that come from strangers: none of
them moves the cursor, or forges a line. A full screen gets its texts from `printable`, too.
"""

import os
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from incumbent.printable import printable, printable_json

DUMB: Final = ("", "dumb", "unknown")
"""Kinds of terminals, as TERM names them, that show an escape sequence instead of obeying it."""

FURTHER: Final = 4
"""Blanks before what did not fit into a line, beyond those that the line itself begins with."""

LONGEST_SENTENCE: Final = 1000
"""Characters on stderr: an error of a server may be as long as it likes."""


def tell(line: str) -> None:
    """Write a line to stdout: what the command was asked for."""
    print(_folded(printable(line, longest=None), sys.stdout), flush=True)


def tell_json(value: Any) -> None:
    """Write a line of JSON to stdout, for programs."""
    print(printable_json(value, default=_time), flush=True)


def say(sentence: str) -> None:
    """Write a line to stderr: what a person should know. Who closed stderr misses it."""
    line = printable(" ".join(sentence.split()), LONGEST_SENTENCE)
    try:
        print(_folded(f"incumbent: {line}", sys.stderr), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def draws() -> bool:
    """Whether stdout is a terminal that can move its cursor: a table may be drawn on it."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in DUMB


def say_lines(text: str) -> None:
    """Write the lines of `text`, which are ours, with words in them that may not be, to stderr."""
    for line in text.split("\n"):
        print(printable(line, LONGEST_SENTENCE), file=sys.stderr)


def _folded(line: str, stream: TextIO) -> str:
    """`line`, which goes on in the next one where a terminal ends, between two words and set in."""
    if not stream.isatty():
        return line
    first = textwrap.TextWrapper(
        width=shutil.get_terminal_size().columns,
        subsequent_indent=" " * (len(line) - len(line.lstrip()) + FURTHER),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return first.fill(line)


def _time(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"no JSON for {type(value).__name__}")
