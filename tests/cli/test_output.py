"""incumbent.cli.output and .durations: what a command writes, for people and for programs."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent import durations
from incumbent.cli.output import LONGEST_SENTENCE, say, tell, tell_json

NASTY = "a\x1b[2J\x9b\r\n\tb\x7f\u202etxt\u200b\ud800"


def test_lines_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout and on stderr, for people and for programs."""
    tell(NASTY)
    say(NASTY)
    tell_json({"name": NASTY})
    out, err = capsys.readouterr()
    plain, in_json, nothing = out.split("\n")
    assert plain == r"a\x1b[2J\x9b\r\n\tb\x7f\u202etxt\u200b\ud800"
    assert err == "incumbent: a\\x1b[2J\\x9b b\\x7f\\u202etxt\\u200b\\ud800\n"
    assert in_json.isascii()
    assert in_json.isprintable()
    assert json.loads(in_json) == {"name": NASTY}
    assert nothing == ""


def test_a_sentence_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a server says; what was asked for is written whole."""
    say("x" * 10_000)
    tell("x" * 10_000)
    out, err = capsys.readouterr()
    assert len(err) == len("incumbent: \n") + LONGEST_SENTENCE
    assert len(out) == 10_001


def test_nobody_hears_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command goes on when its stderr is closed."""
    heard = io.StringIO()
    monkeypatch.setattr(sys, "stderr", heard)
    say("x")
    assert heard.getvalue() == "incumbent: x\n"
    heard.close()
    say("y")
    assert heard.closed


def test_times_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """In UTC, as ISO 8601 has them."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    tell_json({"at": at})
    assert capsys.readouterr().out == '{"at": "2026-01-01T00:00:00Z"}\n'
    with pytest.raises(TypeError, match="no JSON for object"):
        tell_json(object())


@pytest.mark.parametrize(
    ("seconds", "about", "exact"),
    [
        (0, "0s", "0s"),
        (0.0004, "0.4ms", "0.4ms"),
        (0.00000858, "0.01ms", "0.00858ms"),
        (0.25, "250ms", "250ms"),
        (0.7734, "773ms", "773.4ms"),
        (0.99999, "1s", "999.99ms"),
        (4.25, "4.2s", "4.25s"),
        (30, "30s", "30s"),
        (59.96, "1m", "59.96s"),
        (60, "1m", "1m"),
        (192.4, "3m12s", "3m12.4s"),
        (3599.6, "1h", "59m59.6s"),
        (7501, "2h5m", "2h5m1s"),
        (86_399, "1d", "23h59m59s"),
        (86_401, "1d", "1d1s"),
        (183_000, "2d3h", "2d2h50m"),
        (2_592_001, "30d", "30d1s"),
    ],
)
def test_durations_for_people(seconds: float, about: str, exact: str) -> None:
    """At a glance in two units at most; exact where the value is the point."""
    assert durations.about(seconds) == about
    assert durations.exact(seconds) == exact


@given(st.integers(0, 10**11).map(lambda milliseconds: milliseconds / 1000))
def test_what_is_written_can_be_typed(seconds: float) -> None:
    """The command line takes a duration as it was shown."""
    assert durations.parse(durations.exact(seconds)) == pytest.approx(seconds, abs=1e-5)
    near = durations.parse(durations.about(seconds))
    assert near == pytest.approx(seconds, rel=0.05, abs=0.0006)


def test_ages() -> None:
    """Whole seconds, never below zero."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert durations.age(now - timedelta(seconds=42.9), now) == "42s"
    assert durations.age(now - timedelta(hours=3, minutes=20), now) == "3h20m"
    assert durations.age(now + timedelta(seconds=5), now) == "0s"
