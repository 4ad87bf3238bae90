"""Durations as users write them on a command line: ``30``, ``500ms``, ``1h30m``, ``1d``. Pure."""

import re
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)


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
