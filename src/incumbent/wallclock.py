"""The wall clock of a time zone: what it shows, and when it is put forward or back.

Pure. Instants are whole seconds since the epoch. A *reading* is what the clock shows: an instant
plus the zone's offset from UTC at that instant, so that readings can be compared like numbers.
"""

from bisect import bisect_left
from datetime import datetime, timedelta, tzinfo
from itertools import chain
from typing import Final

DAY: Final = 86_400
"""Seconds. No zone puts its clock forward or back by more, or twice within this time."""

SECOND: Final = timedelta(seconds=1)


class WallClock:
    """The clock of one zone."""

    __slots__ = ("zone",)

    def __init__(self, zone: tzinfo) -> None:
        self.zone: tzinfo = zone

    def offset(self, instant: int) -> int:
        """Seconds that the clock is ahead of UTC at `instant`."""
        offset = datetime.fromtimestamp(instant, self.zone).utcoffset()
        return 0 if offset is None else offset // SECOND

    def first_change(self, begins: int, ends: int, offset: int) -> int | None:
        """The first instant after `begins`, up to `ends`, whose offset is not `offset`."""
        for day in chain(range(begins + DAY, ends, DAY), (ends,)):
            if self.offset(day) != offset:
                instants = range(max(begins, day - DAY) + 1, day + 1)
                return instants[bisect_left(instants, 1, key=lambda at: self.offset(at) != offset)]
        return None

    def last_change(self, begins: int, ends: int) -> int | None:
        """The last instant after `begins`, up to `ends`, with another offset than just before."""
        offset = self.offset(ends)
        for day in chain(range(ends - DAY, begins, -DAY), (begins,)):
            if self.offset(day) != offset:
                instants = range(day + 1, min(ends, day + DAY) + 1)
                return instants[bisect_left(instants, 1, key=lambda at: self.offset(at) == offset)]
        return None

    def highest(self, instant: int) -> int:
        """The highest reading up to `instant`.

        In an hour that is repeated this is the reading at the end of the first time.
        """
        reading = instant + self.offset(instant)
        change = self.last_change(instant - DAY, instant)
        return reading if change is None else max(reading, change - 1 + self.offset(change - 1))

    def reaches(self, reading: int) -> int:
        """The first instant at which the clock shows `reading`, or has skipped it."""
        instants = range(reading - DAY, reading + DAY)
        return instants[bisect_left(instants, reading, key=self.highest)]
