"""Whether the machine's wall clock was set: servers count the time of a lease by it.

Where it steps forward, as on a virtual machine whose host sets it, a lease ends too early, and a
test that saw that found no fault of the library.
"""

import time
from typing import Final

TOLERATED: Final = 0.05
"""Seconds: clocks are slewed all the time, and nobody reads two of them at the same moment."""
READINGS: Final = 5
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def ahead() -> float:
    """Seconds by which the wall clock is ahead of a clock that nobody sets."""
    return min(map(_reading, range(READINGS)))[1]  # that which was held up least


def _reading(_: int) -> tuple[float, float]:
    before = time.clock_gettime(_STEADY)
    wall = time.time()
    after = time.clock_gettime(_STEADY)
    return after - before, wall - (before + after) / 2


def complaint(stepped: float) -> str:
    """A sentence if the clock was set by so many seconds; nothing otherwise."""
    if abs(stepped) <= TOLERATED:
        return ""
    return (
        f"The machine's wall clock was set by {stepped:+.3f} s during this test, and the servers'"
        " leases with it: that may be why it failed."
    )
