"""Durations as people write and read them: ``30``, ``500ms``, ``1h30m``, ``3d4h``. Pure."""

import math
from datetime import datetime
from itertools import pairwise

from incumbent.durations import LONG, UNITS, decimal, exact, parse

__all__ = ["about", "age", "exact", "parse"]


def about(seconds: float) -> str:
    """To be read at a glance, in two units at most: ``350ms``, ``4.2s``, ``3m12s``, ``2d5h``."""
    milliseconds = float(f"{seconds / UNITS['ms']:.3g}")
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
