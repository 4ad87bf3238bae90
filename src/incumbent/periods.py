"""Stretches of time in which a job runs at most once: of a length, or between two ticks of cron.

Pure: the time is given, as milliseconds since the epoch by the server's clock.
"""

from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from incumbent.durations import Duration, parse, seconds, shown
from incumbent.kinds import flag

if TYPE_CHECKING:
    from incumbent.cron import Ticks

SHORTEST: Final = 0.1
LONGEST: Final = 366 * 86_400.0
"""Seconds that a period may have."""

MOST_TOLERANCE: Final = 60.0
"""Seconds: clocks that differ by more are to be set."""
TOLERATED_PART: Final = 4
"""A start may be early by this part of a period, so that one that is late still counts for its
own."""


class Period(NamedTuple):
    """From `begins`, included, to `ends`, excluded: milliseconds since the epoch."""

    begins: int
    ends: int


class Window(NamedTuple):
    """A period, and when a start counts for it: from `opens`, included, to `closes`, excluded."""

    period: Period
    opens: int
    closes: int


class OncePer:
    """How often something may run: once in each period of the server's clock.

    ::

        OncePer(3600)  # each hour, counted from the epoch; also "1h" or timedelta(hours=1)
        OncePer("0 3 * * 1-5", tz="Europe/Berlin")  # from one tick to the next
        OncePer("*/5 * * * *", retry_failed=True)

    Where the clock of a time zone is changed, a cron expression means what Debian's cron does:

    - A job at fixed times (neither the minute nor the hour begins with ``*``) runs once for each of
      its times. If its time is skipped, it is due in the moment of the change, and several skipped
      times are one tick. If its time comes twice, it is due the first time only.
    - Any other job, and one whose expression has a field for seconds, goes by what the clock shows:
      it is not due at a time that is skipped, and due twice at a time that comes twice.

    A period is always from one tick to the next, without gap and overlap.

    Use `tolerance` if each replica starts the work by its own clock, as a crontab does. Otherwise a
    replica whose clock is a second ahead starts a second before the tick, which counts for the
    period before; and the next replica, which is on time, may run the work again.
    """

    __slots__ = ("_length", "_present", "_ticks", "_window", "every", "retry_failed", "tolerance")

    def __init__(
        self,
        every: "Duration | str",
        *,
        tz: str | tzinfo | None = None,
        retry_failed: bool = False,
        tolerance: Duration = 0,
    ) -> None:
        """Say how often.

        Args:
            every: seconds, a `timedelta`, a text such as ``"90s"``, ``"1h30m"``, ``"1d"`` or
                ``"2w"``, or a cron expression (needs ``incumbent[cron]``).
            tz: the time zone of a cron expression, by name or as a `tzinfo`. Default: UTC.
            retry_failed: let the next candidate try in the same period when the action raised. A
                run whose process died, or whose lease was lost, counts all the same.
            tolerance: seconds or a `timedelta`, up to 60 s. A start that comes so early, before a
                period begins, counts for that period; at most a quarter of a period early. Not for
                `schedule`, which goes by the server's clock.

        Raises:
            TypeError, ValueError: an argument is not usable.
            ImportError: a cron expression, and cronsim is not installed.
        """
        self.every: float | str
        self.retry_failed: bool = flag("retry_failed", retry_failed)
        self._length = 0
        self._ticks: Ticks | None = None
        self._present = Period(0, 0)
        self._window = Window(self._present, 0, 0)
        self.tolerance: float = seconds("tolerance", tolerance)
        if self.tolerance > MOST_TOLERANCE:
            raise ValueError(
                f"tolerance must be at most {shown(MOST_TOLERANCE)}, not {shown(self.tolerance)}"
            )
        every = _length_or_expression("every", every)
        if isinstance(every, str):
            from incumbent import cron  # noqa: PLC0415 - only who needs it loads it

            self.every, self._ticks = every, cron.Ticks(every, "UTC" if tz is None else tz)
        elif tz is not None:
            raise ValueError(
                "tz is for a cron expression: leave it out, a period of"
                f" {shown(every)} is counted in UTC"
            )
        else:
            self.every, self._length = every, round(every * 1000)

    @classmethod
    def of(cls, every: "Every", what: str) -> "OncePer":
        """`every` as it is, or as a period; `what` names it in errors."""
        if isinstance(every, OncePer):
            return every
        return cls(_length_or_expression(what, every))

    def period(self, now: int) -> Period:
        """The period in which `now` lies."""
        if self._ticks is None:
            begins = now - now % self._length
            return Period(begins, begins + self._length)
        present = self._present  # it is asked for again and again
        if not present.begins <= now < present.ends:
            last, following = self._ticks.around(now // 1000)
            present = self._present = Period(1000 * last, 1000 * following)
        return present

    def window(self, now: int) -> Window:
        """The period for which a start at `now` counts, and when else a start counts for it."""
        if not self.tolerance:
            period = self.period(now)
            return Window(period, *period)
        if not self._window.opens <= now < self._window.closes:
            period = self.period(now)
            if now >= self._next_opens(period):
                period = self.period(period.ends)
            opens = self._next_opens(self.period(period.begins - 1))
            self._window = Window(period, opens, self._next_opens(period))
        return self._window

    def _next_opens(self, period: Period) -> int:
        """When starts begin to count for the period after `period`."""
        early = min(round(self.tolerance * 1000), (period.ends - period.begins) // TOLERATED_PART)
        return period.ends - early

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OncePer) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        zone = "" if self._ticks is None else f", tz={str(self._ticks.zone)!r}"
        retry = ", retry_failed=True" if self.retry_failed else ""
        early = f", tolerance={self.tolerance!r}" if self.tolerance else ""
        return f"OncePer({self.every!r}{zone}{retry}{early})"

    @property
    def _content(self) -> tuple[object, ...]:
        zone = self._ticks and str(self._ticks.zone)
        return self.every, zone, self.retry_failed, self.tolerance


Every: TypeAlias = Duration | str | OncePer
"""How often: seconds, a `timedelta`, a text such as ``"1d"``, a cron expression, or `OncePer`."""


def _length_or_expression(what: str, every: Duration | str) -> float | str:
    """Seconds, checked, or a cron expression; `what` names the value in errors."""
    if not isinstance(every, int | float | timedelta | str):
        raise TypeError(
            f"{what} must be seconds, a timedelta, a text such as '1d', a cron expression, or"
            f" OncePer, not {type(every).__name__}"
        )
    given: Duration
    if isinstance(every, str):
        if len(every.split()) > 1:
            return every
        try:
            given = parse(every)
        except ValueError:
            raise ValueError(
                f"{what} must be a duration such as '90s', '15m' or '1d', or a cron expression of"
                f" five fields such as '0 3 * * *', not {every!r}"
            ) from None
    else:
        given = every
    length = seconds(what, given)
    if not SHORTEST <= length <= LONGEST:
        raise ValueError(
            f"{what} must be from {shown(SHORTEST)} to {shown(LONGEST)}, not {shown(length)}"
        )
    return length
