"""Durations as users give them: seconds, or a `timedelta`. Pure."""

import math
from datetime import timedelta
from typing import TypeAlias

Duration: TypeAlias = float | timedelta
"""Seconds, or a `timedelta`."""


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
        raise ValueError(f"{what} must be finite and not negative, not {value:.15g} s")
    return value
