"""The library's one clock: seconds that also pass while the machine is suspended.

Knows nothing of event loops and wall clocks. ``CLOCK_BOOTTIME`` is used where the system has it,
because ``CLOCK_MONOTONIC`` stops in suspend and a lease on the server does not.
Source: https://man7.org/linux/man-pages/man2/clock_gettime.2.html
"""

import time
from collections.abc import Callable
from functools import partial

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

now: Callable[[], float] = (
    time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
)
"""Seconds since an arbitrary start; comparable within one boot of one machine only."""
