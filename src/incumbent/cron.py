"""Ticks of a cron expression in a time zone, by cronsim, which is loaded for this alone.

Pure. Daylight saving is treated as Debian's cron does: see cronsim.
Source: https://github.com/cuu508/cronsim
"""

from datetime import datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

try:
    from cronsim import CronSim, CronSimError
except ImportError as _error:
    raise ImportError(
        "a cron expression needs cronsim: pip install 'incumbent[cron]'", name="cronsim"
    ) from _error

SOME_TIME: Final = 1_700_000_000


class Ticks:
    """The instants at which `expression` is due, by the wall clock of `zone`."""

    def __init__(self, expression: str, zone: str | tzinfo) -> None:
        self.expression: str = expression
        self.zone: tzinfo = _zone(zone)
        try:
            self.around(SOME_TIME)
        except CronSimError as error:
            raise ValueError(f"not a cron expression: {expression!r}: {error}") from None
        except StopIteration:
            raise ValueError(f"a cron expression that never comes: {expression!r}") from None

    def around(self, second: int) -> tuple[int, int]:
        """The last tick at or before `second` and the next one after it, since the epoch."""
        # Each begins beyond the time that it is given, in its direction.
        last = next(CronSim(self.expression, self._at(second + 1), reverse=True))
        following = next(CronSim(self.expression, self._at(second)))
        return round(last.timestamp()), round(following.timestamp())

    def _at(self, second: int) -> datetime:
        return datetime.fromtimestamp(second, self.zone)


def _zone(zone: str | tzinfo) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(zone)
    except TypeError:
        kind = type(zone).__name__
        raise TypeError(f"tz must be the name of a time zone or a tzinfo, not {kind}") from None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"tz must be the name of a time zone, not {zone!r}") from None
