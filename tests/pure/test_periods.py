"""incumbent.periods and incumbent.cron: which stretch of time an instant belongs to."""

import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent import LeaderOptions, OncePer
from incumbent.periods import LONGEST, SHORTEST, Period
from kit import clockchanges

BERLIN = ZoneInfo("Europe/Berlin")
MILLISECONDS = st.integers(0, 4_000_000_000_000)


def ms(*when: int, zone: Any = UTC) -> int:
    """An instant as milliseconds since the epoch."""
    return round(datetime(*when, tzinfo=zone).timestamp() * 1000)  # type: ignore[misc,arg-type]


@given(st.floats(SHORTEST, LONGEST), MILLISECONDS)
def test_periods_of_a_length_are_counted_from_the_epoch(length: float, now: int) -> None:
    """They hold the instant, have that length, and begin at a multiple of it, on any machine."""
    period = OncePer(length).period(now)
    assert period.begins <= now < period.ends
    assert period.ends - period.begins == round(length * 1000)
    assert period.begins % round(length * 1000) == 0


@given(
    st.sampled_from(["*/5 * * * *", "0 3 * * *", "30 2 * * *", "0 9 * * 1-5", "15 */6 1 * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.integers(ms(2026, 1, 1), ms(2028, 1, 1)),
)
def test_periods_of_cron_leave_no_gap(expression: str, zone: str, now: int) -> None:
    """From one tick to the next, also where the clocks are put forward or back."""
    once = OncePer(expression, tz=zone)
    period = once.period(now)
    assert period.begins <= now < period.ends
    assert once.period(period.begins) == period
    assert once.period(period.ends - 1) == period
    assert once.period(period.ends).begins == period.ends
    assert once.period(period.begins - 1).ends == period.begins


def test_a_tick_belongs_to_the_period_that_it_begins() -> None:
    """At three o'clock sharp it is the new day; a millisecond earlier it is not."""
    once = OncePer("0 3 * * *", tz=BERLIN)
    three = ms(2026, 3, 1, 3, zone=BERLIN)
    day = 86_400_000
    assert once.period(three) == Period(three, three + day)
    assert once.period(three - 1) == Period(three - day, three)


@pytest.mark.parametrize(
    ("expression", "at", "counts_for", "opens", "closes"),
    [
        ("0 3 * * *", (2, 59, 29.999), (1, 3, 0), (1, 2, 59, 30), (2, 2, 59, 30)),
        ("0 3 * * *", (2, 59, 30), (2, 3, 0), (2, 2, 59, 30), (3, 2, 59, 30)),
        ("0 3 * * *", (3, 0, 0), (2, 3, 0), (2, 2, 59, 30), (3, 2, 59, 30)),
        ("* * * * *", (3, 0, 44.999), (2, 3, 0), (2, 2, 59, 45), (2, 3, 0, 45)),
        ("* * * * *", (3, 0, 45), (2, 3, 1), (2, 3, 0, 45), (2, 3, 1, 45)),
        # From five to ten hours is 5 h, from ten to five is 19 h; both are long enough.
        ("0 5,10 * * *", (9, 59, 40), (2, 10, 0), (2, 9, 59, 30), (3, 4, 59, 30)),
        # A minute before the tick, but a quarter of it: 15 s; then there is an hour.
        ("0,1 3 * * *", (3, 0, 44), (2, 3, 0), (2, 2, 59, 30), (2, 3, 0, 45)),
        ("0,1 3 * * *", (3, 0, 45), (2, 3, 1), (2, 3, 0, 45), (3, 2, 59, 30)),
    ],
)
def test_a_start_may_be_a_little_early(
    expression: str,
    at: tuple[int, int, float],
    counts_for: tuple[int, ...],
    opens: tuple[int, ...],
    closes: tuple[int, ...],
) -> None:
    """By the tolerance, or a quarter of the period before, if that is less."""
    once = OncePer(expression, tolerance=30)
    now = ms(2026, 3, 2, *at[:2]) + round(1000 * at[2])
    window = once.window(now)
    assert window.period.begins == ms(2026, 3, *counts_for)
    assert window.period == OncePer(expression).period(window.period.begins)
    assert (window.opens, window.closes) == (ms(2026, 3, *opens), ms(2026, 3, *closes))


@given(
    st.sampled_from([0.1, 7, 60, 3600, "*/5 * * * *", "30 2 * * *", "0,1 3 * * *"]),
    st.sampled_from([0, 0.05, 20, 60]),
    st.integers(ms(2026, 1, 1), ms(2028, 1, 1)),
)
def test_windows_leave_no_gap(every: float | str, tolerance: float, now: int) -> None:
    """Each instant counts for one period: that in which it lies, or one that is about to begin."""
    once = OncePer(every, tolerance=tolerance)
    window = once.window(now)
    period, opens, closes = window
    assert opens <= now < closes
    assert period.begins - 1000 * tolerance <= opens <= period.begins < closes <= period.ends
    assert once.window(opens) == once.window(closes - 1) == window
    following = once.window(closes)
    assert (following.opens, following.period.begins) == (closes, period.ends)
    assert once.window(opens - 1).period.ends == period.begins
    if not tolerance:
        assert (opens, closes) == period


def test_the_zone_counts() -> None:
    """Midnight in Berlin is not midnight in Greenwich, which is the default."""
    now = ms(2026, 7, 1, 23, 0)
    assert OncePer("0 0 * * *").period(now).begins == ms(2026, 7, 1)
    assert OncePer("0 0 * * *", tz="Europe/Berlin").period(now).begins == ms(2026, 7, 1, 22)


@pytest.mark.parametrize(
    ("zone", "year", "count"),
    [
        ("Europe/Berlin", 2026, 2),
        ("America/New_York", 2026, 2),
        ("Pacific/Chatham", 2027, 2),  # 45 minutes off, and changed at a quarter to
        ("Australia/Lord_Howe", 2026, 2),  # by half an hour
        ("Antarctica/Troll", 2026, 2),  # by two hours
        ("Africa/Casablanca", 2026, 2),  # forward and back within five weeks
        ("Africa/Cairo", 2027, 2),  # at midnight: a day begins at one o'clock
        ("Asia/Kolkata", 2026, 0),
        ("Pacific/Apia", 2011, 3),  # a day was left out
    ],
)
def test_each_change_of_the_clock_is_in_a_period_of_the_right_ticks(
    zone: str, year: int, count: int
) -> None:
    """A sample of what `scripts/clocks` does for all zones."""
    changes = list(clockchanges.changes(zone, year, year))
    assert len(changes) == count
    for number, change in enumerate(changes):
        for expression in clockchanges.EXPRESSIONS[number::4]:
            looked, wrong = clockchanges.wrong(expression, zone, change)
            assert looked > 20
            assert not wrong


@pytest.mark.parametrize(
    ("expression", "ticks"),
    [
        ("30 2 * * *", [(24, 0, 30), (25, 0, 30), (26, 1, 30)]),
        ("0,30 2 * * *", [(25, 0, 0), (25, 0, 30), (26, 1, 0)]),
        ("30 * * * *", [(24, 23, 30), (25, 0, 30), (25, 1, 30), (25, 2, 30)]),
        ("*/30 2 * * *", [(25, 0, 0), (25, 0, 30), (25, 1, 0), (25, 1, 30), (26, 1, 0)]),
        ("0 30 2 * * *", [(25, 0, 30), (25, 1, 30), (26, 1, 30)]),
    ],
)
def test_a_repeated_hour_counts_once_for_a_job_at_fixed_times(
    expression: str, ticks: list[tuple[int, ...]]
) -> None:
    """On 25 October, the hour from 00:00 to 01:00 UTC is shown again from 01:00 to 02:00."""
    once = OncePer(expression, tz="Europe/Berlin")
    for begins, ends in pairwise(ms(2026, 10, *tick) for tick in ticks):
        for now in (begins, (begins + ends) // 2, ends - 1):
            assert once.period(now) == Period(begins, ends)


@pytest.mark.parametrize(
    ("expression", "ticks"),
    [
        ("30 2 * * *", [(28, 1, 30), (29, 1, 0), (30, 0, 30)]),
        ("0,30 2 * * *", [(28, 1, 0), (28, 1, 30), (29, 1, 0), (30, 0, 0)]),
        ("30 1-3 * * *", [(29, 0, 30), (29, 1, 0), (29, 1, 30), (29, 23, 30)]),
        ("*/30 2 * * *", [(28, 1, 0), (28, 1, 30), (30, 0, 0)]),
        ("0 */2 * * *", [(28, 23, 0), (29, 2, 0), (29, 4, 0)]),
    ],
)
def test_a_skipped_hour_is_made_up_for_a_job_at_fixed_times(
    expression: str, ticks: list[tuple[int, ...]]
) -> None:
    """On 29 March at 01:00 UTC the clock goes from two to three."""
    once = OncePer(expression, tz="Europe/Berlin")
    for begins, ends in pairwise(ms(2026, 3, *tick) for tick in ticks):
        for now in (begins, (begins + ends) // 2, ends - 1):
            assert once.period(now) == Period(begins, ends)


def test_every_two_hours_on_chatham_has_an_end() -> None:
    """Around a change at a quarter to four, this one was never found."""
    once = OncePer("0 */2 * * *", tz="Pacific/Chatham")
    for change in clockchanges.changes("Pacific/Chatham", 2026, 2028):
        for minutes in range(-300, 301):
            now = 1000 * (change.at + 60 * minutes)
            period = once.period(now)
            assert period.begins <= now < period.ends <= period.begins + 3 * 3_600_000


def test_a_zone_need_not_be_one_of_zoneinfo() -> None:
    """A fixed offset, and a class that knows no `fold`, are asked about instants only."""

    class Old(tzinfo):
        def utcoffset(self, when: datetime | None) -> timedelta:
            summer = when is not None and (when.month, when.day, when.hour) >= (3, 29, 2)
            return timedelta(hours=2 if summer else 1)

        def dst(self, when: datetime | None) -> timedelta:
            return self.utcoffset(when) - timedelta(hours=1)

        def tzname(self, when: datetime | None) -> str:
            return "old"

    for zone in (timezone(timedelta(hours=5, minutes=30)), Old()):
        once = OncePer("30 2 * * *", tz=zone)
        for minutes in range(0, 3 * 24 * 60, 7):
            now = ms(2026, 3, 28) + 60_000 * minutes
            period = once.period(now)
            assert period.begins <= now < period.ends
            assert once.period(period.ends).begins == period.ends


@pytest.mark.parametrize(
    ("every", "options", "error", "words"),
    [
        (0, {}, ValueError, "from 0.1 s"),
        (-1, {}, ValueError, "not negative"),
        (0.05, {}, ValueError, "not 0.05 s"),
        (400 * 86_400, {}, ValueError, "to 31622400 s"),
        (float("nan"), {}, ValueError, "finite"),
        (True, {}, TypeError, "bool"),
        (None, {}, TypeError, "NoneType"),
        ("every day", {}, ValueError, "'every day' is no cron expression"),
        ("61 * * * *", {}, ValueError, "Bad minute"),
        ("0 0 31 2 *", {}, ValueError, "cron expression"),
        ("* * * * *", {"tz": "Europe/Atlantis"}, ValueError, "not 'Europe/Atlantis'"),
        ("* * * * *", {"tz": "../etc/passwd"}, ValueError, "time zone"),
        ("* * * * *", {"tz": 3}, TypeError, "int"),
        (60, {"tz": "UTC"}, ValueError, "tz is for a cron expression"),
        (60, {"retry_failed": 1}, TypeError, "retry_failed"),
        (60, {"tolerance": 61}, ValueError, "tolerance must be at most 60 s, not 61 s"),
        (60, {"tolerance": -1}, ValueError, "tolerance must be finite and not negative"),
        (60, {"tolerance": "1s"}, TypeError, "tolerance must be seconds"),
    ],
)
def test_what_is_no_period_is_refused(
    every: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """With the rule and the value in the message."""
    with pytest.raises(error, match=words):
        OncePer(every, **options)


def test_options_take_every_way_to_say_it() -> None:
    """Seconds, a `timedelta`, an expression and `OncePer` itself; anything else is refused."""
    assert LeaderOptions(once_per=60).once_per == OncePer(timedelta(minutes=1))
    assert LeaderOptions(once_per="0 * * * *").once_per == OncePer("0 * * * *", tz="UTC")
    ready = OncePer(60, retry_failed=True)
    options = LeaderOptions(once_per=ready)
    assert options.once_per is ready
    assert options.changed(wait_time=3).once_per == ready
    assert options.changed(once_per=None).once_per is None
    with pytest.raises(TypeError, match=r"once_per must be seconds.*not list"):
        LeaderOptions(once_per=[60])  # type: ignore[arg-type]


def test_it_is_a_value_that_shows_what_it_is() -> None:
    """Equal by what it says; the repr can be read."""
    assert OncePer(60) == OncePer(60.0)
    assert hash(OncePer(60)) == hash(OncePer(60.0))
    assert OncePer(60) != OncePer(60, retry_failed=True)
    assert OncePer("0 0 * * *") != OncePer("0 0 * * *", tz=BERLIN)
    assert OncePer(60) != OncePer(60, tolerance=1)
    assert OncePer(60) != 60
    assert repr(OncePer(60)) == "OncePer(60.0)"
    shown = repr(OncePer("0 0 * * *", tz="Europe/Berlin", retry_failed=True, tolerance=5))
    assert shown == "OncePer('0 0 * * *', tz='Europe/Berlin', retry_failed=True, tolerance=5.0)"


def test_who_has_no_cronsim_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: the error names it."""
    monkeypatch.setitem(sys.modules, "cronsim", None)
    monkeypatch.delitem(sys.modules, "incumbent.cron", raising=False)
    monkeypatch.delattr("incumbent.cron", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'incumbent\[cron\]'"):
        OncePer("0 0 * * *")
    assert OncePer(60).every == 60
