"""incumbent.printable: what others wrote is shown, and does nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent.printable import LONGEST, is_printable, printable

INVISIBLE = "\u034f\u115f\u1160\u180b\u2800\u3164\ufe0f\uffa0\U000e0100"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("nightly", "nightly"),
        ("größer 日本 e\u0301 ♥", "größer 日本 e\u0301 ♥"),
        (r"C:\new", r"C:\new"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\x9b2J", r"a\x9b2J"),
        ("a\r\n\tb\x7f\x00", r"a\r\n\tb\x7f\x00"),
        ("a\u2028b\u00a0c", r"a\u2028b\xa0c"),
        ("gpj\u202etxt", r"gpj\u202etxt"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\ud800b\udc80", r"a\ud800b\udc80"),
        *((f"a{each}", "a" + ascii(each)[1:-1]) for each in INVISIBLE),
    ],
)
def test_what_acts_or_hides_is_spelled_out(written: str, shown: str) -> None:
    """And what shows as it is stays as it is."""
    assert printable(written) == shown
    assert is_printable(written) == (written == shown)


def test_a_text_has_no_more_than_a_few_hundred_characters() -> None:
    """No name of ours is longer; without a bound nothing is cut."""
    assert printable("n" * LONGEST) == "n" * LONGEST
    assert printable("n" * 10_000) == "n" * (LONGEST - 3) + "..."
    assert printable("abcdef", 5) == "ab..."
    assert printable("n" * 10_000, None) == "n" * 10_000


@given(st.text(st.characters(), max_size=20))
def test_any_text_is_one_line_without_controls(text: str) -> None:
    """Whatever its categories are, surrogates among them; shown twice it is the same."""
    shown = printable(text)
    assert shown.isprintable()
    assert "Cf" not in map(unicodedata.category, shown)
    assert printable(shown, None) == shown
    assert shown.encode().decode() == shown
