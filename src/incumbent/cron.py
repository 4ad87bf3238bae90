"""Ticks of a cron expression in a time zone, by cronsim, which is loaded for this alone.

Pure. Cronsim is asked about readings of the wall clock only; which instants they are is decided
here, because cronsim is wrong about it around a change of the clocks. See `OncePer` for the rules.
Source: https://github.com/cuu508/cronsim
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from incumbent.wallclock import SECOND, WallClock

try:
    from cronsim import CronSim, CronSimError
except ImportError as _error:
    raise ImportError(
        "a cron expression needs cronsim: pip install 'incumbent[cron]'", name="cronsim"
    ) from _error

SOME_TIME: Final = 1_700_000_000
WITHOUT_SECONDS: Final = 5
"""Fields of an expression, where the first is the minute."""
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a reading of a wall clock, in no zone


class Ticks:
    """The instants at which `expression` is due, by the wall clock of `zone`."""

    def __init__(self, expression: str, zone: str | tzinfo) -> None:
        self.expression: str = expression
        self.zone: tzinfo = _zone(zone)
        self._clock = WallClock(self.zone)
        self._at_fixed_times = _at_fixed_times(expression)
        try:
            self.around(SOME_TIME)
        except CronSimError as error:
            raise ValueError(
                f"{expression!r} is no cron expression ({error}): it has five fields, such as"
                " '0 3 * * *'"
            ) from None
        except StopIteration:
            raise ValueError(f"the cron expression {expression!r} is never due") from None

    def around(self, second: int) -> tuple[int, int]:
        """The last tick at or before `second` and the next one after it, since the epoch."""
        if not self._at_fixed_times:
            return self._last_shown(second), self._next_shown(second)
        # Each reading counts once: at the first instant at which the clock has come so far.
        highest = self._clock.highest(second)
        last, following = self._last_match(highest), self._next_match(highest)
        return self._clock.reaches(last), self._clock.reaches(following)

    def _next_shown(self, second: int) -> int:
        """The first instant after `second` at which the clock shows a reading that matches."""
        offset = self._clock.offset(second)
        while True:
            due = self._next_match(second + offset) - offset
            change = self._clock.first_change(second, due, offset)
            if change is None:
                return due
            second, offset = change - 1, self._clock.offset(change)

    def _last_shown(self, second: int) -> int:
        """The last instant up to `second` at which the clock shows a reading that matches."""
        while True:
            offset = self._clock.offset(second)
            due = self._last_match(second + offset) - offset
            change = self._clock.last_change(due, second)
            if change is None:
                return due
            second = change - 1

    def _next_match(self, reading: int) -> int:
        return _reading(next(CronSim(self.expression, _shown(reading))))

    def _last_match(self, reading: int) -> int:
        # In reverse, the first match is before the given time.
        return _reading(next(CronSim(self.expression, _shown(reading + 1), reverse=True)))


def _shown(reading: int) -> datetime:
    return EPOCH + timedelta(seconds=reading)


def _reading(shown: datetime) -> int:
    return (shown - EPOCH) // SECOND


def _at_fixed_times(expression: str) -> bool:
    """Whether it is one of the jobs that cron runs once, however the clock is changed."""
    fields = expression.split()
    return len(fields) == WITHOUT_SECONDS and not any(each.startswith("*") for each in fields[:2])


def _zone(zone: str | tzinfo) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":  # needs no database
        return UTC
    try:
        return ZoneInfo(zone)
    except TypeError:
        kind = type(zone).__name__
        raise TypeError(f"tz must be the name of a time zone or a tzinfo, not {kind}") from None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if not available_timezones():
            raise ValueError(
                f"tz {zone!r} cannot be looked up: this machine has no time zone database. Install"
                " one (pip install tzdata), or leave tz out for UTC"
            ) from None
        raise ValueError(
            f"tz must be the name of a time zone, such as 'Europe/Berlin', not {zone!r}"
        ) from None
