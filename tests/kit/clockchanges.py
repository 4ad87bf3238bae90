"""Checks periods of cron wherever a zone's clock changes: ``python -m kit.clockchanges --help``.

For each change of the clock in each zone, and each expression, the periods of instants around the
change are compared with ticks that are found by going through the minutes (or seconds) one by one.
Ends with 1 when a period is wrong. A sample of the same is among the tests.
"""

import argparse
import sys
import zoneinfo
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from incumbent.cron import Ticks
from incumbent.periods import Period
from incumbent.wallclock import WallClock

HOUR = 3600
ASIDE = 5 * HOUR
"""Seconds before and after a change for which all ticks are found."""
EXPRESSIONS = (
    # Once a day, in and around the hours that are skipped and repeated.
    *(f"{minute} {hour} * * *" for hour in range(5) for minute in (0, 1, 15, 30, 45, 59)),
    *("0 12 * * *", "30 22 * * *", "30 23 * * *", "59 23 * * *"),
    # Several times a day.
    *("5 1-4 * * *", "0 1-3 * * *", "30 0-23 * * *", "45 1,13 * * *", "0,30 2 * * *"),
    *("0-59 2 * * *", "0-59/7 1-3 * * *", "10,20,50 2,3 * * *", "59 0-4/2 * * *"),
    # Every so many minutes or hours.
    *("* * * * *", "*/2 * * * *", "*/5 * * * *", "*/7 * * * *", "*/15 * * * *", "*/30 * * * *"),
    *("0 * * * *", "1 * * * *", "30 * * * *", "45 * * * *", "59 * * * *", "0,30 * * * *"),
    *("0 */2 * * *", "0 */3 * * *", "0 */6 * * *", "15 */3 * * *", "30 */2 * * *"),
    *("*/30 1-5 * * *", "*/10 2 * * *", "*/20 3 * * *", "* 2 * * *", "* 3 * * *", "*/59 * * * *"),
    # On some days and in some months.
    *("30 2 * * 0", "0 0 * * *", "0 0 * * 1-5", "0 4 1 * *", "0 3 29 2 *", "0 * 29 2 *"),
    *("30 2 L * *", "30 2 LW * *", "30 2 * * 0L", "30 2 * * SUN#1", "30 2 1-7 * SUN"),
    *("0 2 * MAR,OCT *", "0 2 8-14 3 0", "30 1 1-7 11 *", "*/10 * * 10 0", "0 */2 25-31 * 0"),
    *("30 1 * 3,4,9-11 *", "0 0 1 1 *", "0 2 13 * 5", "* 1-3 * * 0,1", "15 2 */2 * *"),
    # With seconds, which are no jobs at fixed times.
    *("0 30 2 * * *", "*/20 * * * * *", "30 59 1-3 * * *", "59 59 * * * *", "0 0 */2 * * *"),
    *("15 0 3 * * *", "1 0-59/15 2 * * *", "0 0 2 * * 0"),
)


class Change(NamedTuple):
    """A clock that is put forward or back."""

    at: int
    """The first instant with the new offset: seconds since the epoch."""
    before: int
    after: int
    """The offset from UTC before and since, in seconds."""


def offset(zone: ZoneInfo, instant: int) -> int:
    """Seconds that the clock is ahead of UTC."""
    delta = datetime.fromtimestamp(instant, zone).utcoffset()
    assert delta is not None
    return int(delta.total_seconds())


def changes(name: str, first: int, last: int, step: int = HOUR) -> Iterator[Change]:
    """The changes in a zone from the year `first` to `last`; `step` is what no two are within."""
    zone = ZoneInfo(name)
    begins = int(datetime(first, 1, 1, tzinfo=UTC).timestamp())
    ends = int(datetime(last + 1, 1, 1, tzinfo=UTC).timestamp())
    old = offset(zone, begins)
    for instant in range(begins + step, ends + 1, step):
        new = offset(zone, instant)
        if new != old:
            span = range(instant - step, instant + 1)
            found = bisect_left(span, True, key=lambda each: offset(zone, each) != old)
            yield Change(span[found], old, new)
        old = new


def ticks(expression: str, zone: ZoneInfo, begins: int, ends: int, step: int) -> list[int]:
    """All ticks from `begins` to `ends`, found by going through them in steps.

    By the rules of `OncePer`, with no cleverness: a job at fixed times is due at the first instant
    at which its time has come or was skipped, any other whenever the clock shows its time.
    """
    fields = expression.split()
    fixed = len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*")
    rule = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - it is asked of no zone
    shown = _shown(zone.key, begins - ASIDE, ends, step)
    due: list[int] = []
    highest = shown[0]
    for instant, reading in zip(range(begins - ASIDE, ends + 1, step), shown, strict=True):
        if not fixed:
            if _matches(rule, reading):
                due.append(instant)
            continue
        if any(_matches(rule, each) for each in _between(highest, reading)):
            due.append(instant)
        highest = max(highest, reading)
    return [each for each in due if each >= begins]


@lru_cache(maxsize=4)
def _shown(key: str, begins: int, ends: int, step: int) -> list[datetime]:
    zone = ZoneInfo(key)
    instants = range(begins, ends + 1, step)
    return [datetime.fromtimestamp(each, zone).replace(tzinfo=None, fold=0) for each in instants]


def _between(highest: datetime, reading: datetime) -> Iterator[datetime]:
    """The minutes after `highest` up to `reading`."""
    while highest < reading:
        highest += timedelta(minutes=1)
        yield highest


def _matches(rule: CronSim, reading: datetime) -> bool:
    return (
        reading.second in rule.seconds
        and reading.minute in rule.minutes
        and reading.hour in rule.hours
        and reading.month in rule.months
        and rule.match_day(reading.date())
    )


class _Remembering(WallClock):
    """A clock that is asked the same again and again, and says the same each time."""

    def __init__(self, zone: ZoneInfo) -> None:
        super().__init__(zone)
        self._offsets: dict[int, int] = {}
        self._reached: dict[int, int] = {}

    def offset(self, instant: int) -> int:
        if instant not in self._offsets:
            self._offsets[instant] = super().offset(instant)
        return self._offsets[instant]

    def reaches(self, reading: int) -> int:
        if reading not in self._reached:
            self._reached[reading] = super().reaches(reading)
        return self._reached[reading]


def wrong(expression: str, name: str, change: Change) -> tuple[int, list[str]]:
    """How many instants around `change` were looked at, and what is wrong about their periods."""
    step = 1 if len(expression.split()) == 6 else 60
    aside = abs(change.after - change.before) + (HOUR if step == 1 else ASIDE)
    begins, ends = change.at - aside, change.at + aside
    due = ticks(expression, ZoneInfo(name), begins, ends, step)
    rule = Ticks(expression, name)
    rule._clock = _Remembering(ZoneInfo(name))
    found: list[str] = []
    latest = (0, 0)
    instants = sorted({*_grid(change, aside), *_borders(due)})
    for now in instants:
        period = _period(rule, now)
        place = bisect_right(due, now // 1000)
        fine = period.begins <= now < period.ends and latest <= period
        # Where no tick was found on a side, the period must reach beyond what was gone through.
        fine = fine and (
            period.begins == 1000 * due[place - 1] if place else period.begins < begins * 1000
        )
        fine = fine and (
            period.ends == 1000 * due[place] if place < len(due) else period.ends > 1000 * ends
        )
        if abs(now - change.at * 1000) <= 1000:
            fine = fine and _period(rule, period.ends).begins == period.ends
            fine = fine and _period(rule, period.ends - 1) == _period(rule, period.begins) == period
            fine = fine and _period(rule, period.begins - 1).ends == period.begins
        if not fine:
            found.append(f"{expression!r} in {name}, {_utc(now)}: {list(map(_utc, period))}")
        latest = period
    return len(instants), found


def _period(rule: Ticks, now: int) -> Period:
    """As `OncePer` has it, which keeps the last one."""
    begins, ends = _around(rule, now // 1000)
    return Period(1000 * begins, 1000 * ends)


@lru_cache(maxsize=1000)
def _around(rule: Ticks, second: int) -> tuple[int, int]:
    return rule.around(second)


def _grid(change: Change, aside: int) -> Iterator[int]:
    """Milliseconds: every twenty minutes, and next to the change and the hours around it."""
    for second in range(change.at - aside, change.at + aside, HOUR // 3):
        yield 1000 * second
    jump = abs(change.after - change.before)
    for second in (change.at - jump, change.at, change.at + jump):
        yield from (1000 * second + each for each in (-1000, -1, 0, 1, 999))


def _borders(due: Sequence[int]) -> Iterator[int]:
    """Next to some of the ticks."""
    for second in due[:: max(1, len(due) // 4)]:
        yield from (1000 * second - 1, 1000 * second)


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _found(name: str, first: int, last: int) -> list[Change]:
    return list(changes(name, first, last))


def _all_wrong(name: str, change: Change) -> tuple[int, list[str]]:
    told = [wrong(each, name, change) for each in EXPRESSIONS]
    return sum(count for count, _ in told), [line for _, lines in told for line in lines]


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise argparse.ArgumentTypeError(f"K/N with K from 1 to N, not {text}")
    return int(part), int(parts)


def main() -> int:
    """Check them all, or those of some zones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("zones", nargs="*", help="default: all zones that there are")
    parser.add_argument("--first", type=int, default=2020, metavar="YEAR")
    parser.add_argument("--last", type=int, default=2040, metavar="YEAR")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="K/N",
        help="every N-th way in which clocks change, from the K-th; default: 1/1, which is all",
    )
    asked = parser.parse_args()
    names = asked.zones or sorted(zoneinfo.available_timezones())
    count = instants = 0
    kinds: dict[Change, str] = {}
    found: list[str] = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        years = ([year] * len(names) for year in (asked.first, asked.last))
        for name, its in zip(names, pool.map(_found, names, *years), strict=True):
            count += len(its)
            for change in its:
                kinds.setdefault(change, name)
        print(
            f"{len(names)} zones change their clocks {count} times from {asked.first} to "
            f"{asked.last}, in {len(kinds)} ways; {len(EXPRESSIONS)} expressions",
            flush=True,
        )
        part, parts = asked.part
        chosen = list(kinds)[part - 1 :: parts]
        its_zones = [kinds[change] for change in chosen]
        for looked, lines in pool.map(_all_wrong, its_zones, chosen, chunksize=4):
            instants += looked
            found += lines
            for line in lines:
                print(line, flush=True)
    print(f"{len(chosen)} ways, {instants} instants: {len(found)} in a wrong period")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
