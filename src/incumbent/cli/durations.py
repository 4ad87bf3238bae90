"""Durations as people write and read them: ``30``, ``500ms``, ``1h30m``, ``3d4h``. Pure."""

import math
import re
from datetime import datetime
from itertools import pairwise
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)

_LONG: Final = (("d", 86_400), ("h", 3600), ("m", 60))


def parse(text: str) -> float:
    """Seconds in `text`: a number of seconds, or numbers with units (ms, s, m, h, d, w).

    Raises:
        ValueError: it is neither.
    """
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write 30, 500ms, 90s, 15m, 1h30m, 1d or 2w")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def exact(seconds: float) -> str:
    """The whole of it, as it could be typed: ``250ms``, ``2.5s``, ``1h30m``, ``30d1s``."""
    if 0 < seconds < 1:
        return f"{_decimal(1000 * seconds)}ms"
    whole, parts = int(seconds), ""
    for unit, length in _LONG:
        count, whole = divmod(whole, length)
        parts += f"{count}{unit}" if count else ""
    rest = whole + seconds % 1
    return parts if parts and not rest else f"{parts}{_decimal(rest)}s"


def about(seconds: float) -> str:
    """To be read at a glance, in two units at most: ``350ms``, ``4.2s``, ``3m12s``, ``2d5h``."""
    milliseconds = round(seconds / UNITS["ms"], 1)
    if 0 < milliseconds * UNITS["ms"] < 1:
        return f"{_decimal(milliseconds)}ms"
    for (unit, length), (smaller, step) in pairwise((*_LONG, ("s", 1))):
        count, rest = divmod(round(seconds / step), length // step)
        if count and round(seconds, 1) >= UNITS["m"]:
            return f"{count}{unit}{rest}{smaller}" if rest else f"{count}{unit}"
    return f"{_decimal(seconds, 1)}s"


def age(since: datetime, now: datetime) -> str:
    """How long ago `since` was, in whole seconds; 0 at least, because two clocks may differ."""
    return about(max(0, math.floor((now - since).total_seconds())))


def _decimal(number: float, digits: int = 6) -> str:
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
