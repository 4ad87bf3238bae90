"""incumbent.periods and incumbent.cron: which stretch of time an instant belongs to."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent import LeaderOptions, OncePer
from incumbent.periods import LONGEST, SHORTEST, Period

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


def test_the_zone_counts() -> None:
    """Midnight in Berlin is not midnight in Greenwich, which is the default."""
    now = ms(2026, 7, 1, 23, 0)
    assert OncePer("0 0 * * *").period(now).begins == ms(2026, 7, 1)
    assert OncePer("0 0 * * *", tz="Europe/Berlin").period(now).begins == ms(2026, 7, 1, 22)


@pytest.mark.parametrize(
    ("every", "options", "error", "words"),
    [
        (0, {}, ValueError, "from 0.1 s"),
        (-1, {}, ValueError, "not negative"),
        (0.05, {}, ValueError, "not 0.05 s"),
        (400 * 86_400, {}, ValueError, "to 3.16224e"),
        (float("nan"), {}, ValueError, "finite"),
        (True, {}, TypeError, "bool"),
        (None, {}, TypeError, "NoneType"),
        ("every day", {}, ValueError, "not a cron expression: 'every day'"),
        ("61 * * * *", {}, ValueError, "Bad minute"),
        ("0 0 31 2 *", {}, ValueError, "cron expression"),
        ("* * * * *", {"tz": "Europe/Atlantis"}, ValueError, "not 'Europe/Atlantis'"),
        ("* * * * *", {"tz": "../etc/passwd"}, ValueError, "time zone"),
        ("* * * * *", {"tz": 3}, TypeError, "int"),
        (60, {"tz": "UTC"}, ValueError, "tz is for a cron expression"),
        (60, {"retry_failed": 1}, TypeError, "retry_failed"),
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
    assert OncePer(60) != 60
    assert repr(OncePer(60)) == "OncePer(60.0)"
    shown = repr(OncePer("0 0 * * *", tz="Europe/Berlin", retry_failed=True))
    assert shown == "OncePer('0 0 * * *', tz='Europe/Berlin', retry_failed=True)"


def test_who_has_no_cronsim_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: the error names it."""
    monkeypatch.setitem(sys.modules, "cronsim", None)
    monkeypatch.delitem(sys.modules, "incumbent.cron", raising=False)
    monkeypatch.delattr("incumbent.cron", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'incumbent\[cron\]'"):
        OncePer("0 0 * * *")
    assert OncePer(60).every == 60
