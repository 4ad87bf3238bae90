"""Durations as users give them: seconds, a `timedelta`, or a text such as ``1h30m``. Pure."""

import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeAlias

Duration: TypeAlias = float | timedelta
"""Seconds, or a `timedelta`."""

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)

LONG: Final = (("d", 86_400), ("h", 3600), ("m", 60))
_FROM_AN_HOUR: Final = 3600
_EXPONENT_FROM: Final = 1e15


def seconds(what: str, value: Duration) -> float:
    """`value` as finite seconds of 0 or more; `what` names it in errors."""
    if isinstance(value, timedelta):
        return _not_negative(what, value.total_seconds())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(
            f"{what} must be seconds (int or float) or a timedelta, not {type(value).__name__}"
        )
    try:
        return _not_negative(what, float(value))
    except OverflowError:
        raise ValueError(f"{what} must be finite, not {str(value)[:12]}... s") from None


def _not_negative(what: str, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be finite and not negative, not {shown(value)}")
    return value


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
        return f"{decimal(1000 * seconds)}ms"
    whole, parts = int(seconds), ""
    for unit, length in LONG:
        count, whole = divmod(whole, length)
        parts += f"{count}{unit}" if count else ""
    rest = whole + seconds % 1
    return parts if parts and not rest else f"{parts}{decimal(rest)}s"


def shown(seconds: float) -> str:
    """For messages: ``0.25 s``, ``2592000 s (30d)``."""
    if not abs(seconds) < _EXPONENT_FROM:
        return f"{seconds:.15g} s"
    plain = f"{Decimal(f'{seconds:.15g}'):f} s"
    return plain if seconds < _FROM_AN_HOUR else f"{plain} ({exact(seconds)})"


def about(seconds: float) -> str:
    """To be read at a glance, in two units at most: ``350ms``, ``4.2s``, ``3m12s``, ``2d5h``."""
    milliseconds = round(float(f"{seconds / UNITS['ms']:.3g}"), 2)
    if 0 < milliseconds * UNITS["ms"] < 1:
        return f"{decimal(milliseconds)}ms"
    for (unit, length), (smaller, step) in pairwise((*LONG, ("s", 1))):
        count, rest = divmod(round(seconds / step), length // step)
        if count and round(seconds, 1) >= UNITS["m"]:
            return f"{count}{unit}{rest}{smaller}" if rest else f"{count}{unit}"
    return f"{decimal(seconds, 1)}s"


def age(since: datetime, now: datetime) -> str:
    """How long ago `since` was, in whole seconds; 0 at least, because two clocks may differ."""
    return about(max(0, math.floor((now - since).total_seconds())))


def decimal(number: float, digits: int = 6) -> str:
    """`number` without zeros at its end."""
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
