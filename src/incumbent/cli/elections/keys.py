"""What was pressed, from the bytes that a terminal sends, and what it does to a view. Pure.

Source of the sequences: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html (cursor keys and
editing keys, in normal and in application mode)
"""

import re
from dataclasses import dataclass, replace
from typing import Final

_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])")
_BEGUN: Final = re.compile(rb"\x1b(?:\[[0-9;]*|O)")
_NAMES: Final = {
    b"A": "up",
    b"B": "down",
    b"H": "home",
    b"F": "end",
    b"1~": "home",
    b"4~": "end",
    b"5~": "back",
    b"6~": "next",
    b"7~": "home",
    b"8~": "end",
}
_CONTROLS: Final = {0x0D: "enter", 0x0A: "enter", 0x7F: "erase", 0x08: "erase", 0x15: "clear"}
_LONGEST: Final = 4
"""Bytes of a character in UTF-8."""

ESCAPE: Final = 0x1B


def pressed(data: bytes) -> tuple[list[str], bytes]:
    """The keys, by name or by the character that they stand for; and what has only begun.

    A lone escape character is the key: terminals send a sequence as a whole.
    """
    keys: list[str] = []
    while data:
        key, size = _first(data)
        if not size:
            break
        keys += [key] if key else []
        data = data[size:]
    return keys, data


def _first(data: bytes) -> tuple[str, int]:
    """The first key, '' for one that means nothing here, and how many bytes it takes."""
    if data[0] == ESCAPE:
        sequence = _SEQUENCE.match(data)
        if sequence is not None:
            return _NAMES.get(sequence[0][2:], ""), sequence.end()
        return ("", 0) if len(data) > 1 and _BEGUN.fullmatch(data) else ("escape", 1)
    if data[0] in _CONTROLS:
        return _CONTROLS[data[0]], 1
    for size in range(1, min(len(data), _LONGEST) + 1):
        try:
            character = data[:size].decode()
        except UnicodeDecodeError:
            continue
        return (character if character.isprintable() else ""), size
    return "", 1 if len(data) >= _LONGEST else 0


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a long table is shown."""

    top: int = 0
    """How many rows are above it."""
    wanted: str = ""
    """Only elections in which this occurs."""
    typing: bool = False
    """Whether the keys go into `wanted`."""


def after(view: View, key: str, *, page: int, rows: int) -> View | None:
    """What is shown after `key`, with `page` of `rows` rows on the screen; None to leave."""
    if view.typing:
        return _typed(view, key)
    if key == "q":
        return None
    if key == "/":
        return replace(view, typing=True)
    if key == "escape":
        return View()
    steps = {
        **dict.fromkeys((" ", "f", "next"), page),
        **dict.fromkeys(("b", "back"), -page),
        **dict.fromkeys(("down", "j"), 1),
        **dict.fromkeys(("up", "k"), -1),
        **dict.fromkeys(("end", "G"), rows),
        **dict.fromkeys(("home", "g"), -rows),
    }
    return within(replace(view, top=view.top + steps.get(key, 0)), page=page, rows=rows)


def within(view: View, *, page: int, rows: int) -> View:
    """`view`, not beyond the last row: there may be fewer than there were."""
    return replace(view, top=max(0, min(view.top, rows - page)))


def _typed(view: View, key: str) -> View:
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return View()
    if key == "erase":
        return View(0, view.wanted[:-1], typing=True)
    if key == "clear":
        return View(0, "", typing=True)
    return View(0, view.wanted + key, typing=True) if len(key) == 1 else view
