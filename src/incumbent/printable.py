r"""Text of others, made fit to be read: one rule for terminals, log lines and messages. Pure.

Names, leader ids, metadata and what a server says come from whoever may write to the server. On a
terminal, control characters move the cursor and forge lines; format characters turn the direction
of text or take no room, so that two names look the same. All of these are spelled out, as Python's
`repr` does: ``\x1b``, ``\n``, ``\u202e``.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

LONGEST: Final = 255
"""Characters of one text: no name of ours is longer, so a longer one was written by others."""

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What `str.isprintable` lets through and nobody sees: fillers, joiners, variation selectors.

Source: Default_Ignorable_Code_Point in https://www.unicode.org/reports/tr44/; and the braille blank
"""


def is_printable(text: str) -> bool:
    """Whether `text` shows as it is: nothing in it is hidden, and nothing acts on a terminal."""
    return text.isprintable() and (text.isascii() or _INVISIBLE.search(text) is None)


def printable(text: str, longest: int | None = LONGEST) -> str:
    """`text` in one line, with whatever a terminal must not see spelled out.

    What has more than `longest` characters is cut, and ends in ``...``; None cuts nothing.
    """
    if longest is not None and len(text) > longest:
        text = text[: longest - 3] + "..."
    if is_printable(text):
        return text
    return "".join(each if is_printable(each) else _spelled(each) for each in text)


def printable_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """`value` as one line of JSON in printable ASCII; `default` is that of `json.dumps`."""
    return json.dumps(value, default=default).replace("\x7f", "\\u007f")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
