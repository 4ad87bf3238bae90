"""incumbent.cli.elections.keys: what a terminal sends, and what it does to the view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent.cli.elections.keys import View, after, pressed, within


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"", []),
        (b" bq", [" ", "b", "q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\x1bOB\x1bOH\x1bOF", ["up", "down", "home", "end"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[7~\x1b[8~", ["home", "end"] * 3),
        (b"\x1b[5~\x1b[6~", ["back", "next"]),
        (b"\x1b[1;5A\x1b[15~\x1bOPx", ["x"]),
        (b"\x1b", ["escape"]),
        (b"\x1bx", ["escape", "x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\r\n\x7f\x08\x15", ["enter", "enter", "erase", "erase", "clear"]),
        (b"\x00\x01\x09\x1fx", ["x"]),
        ("ä日🎉".encode(), ["ä", "日", "🎉"]),
        (b"\xff\xffabcd", ["a", "b", "c", "d"]),
        ("\u200b\u202ex".encode(), ["x"]),
    ],
)
def test_keys_are_known_by_what_terminals_send(sent: bytes, keys: list[str]) -> None:
    """Cursor keys in both modes, editing keys, letters of any alphabet; the rest does nothing."""
    assert pressed(sent) == (keys, b"")


@pytest.mark.parametrize(
    "sent", [b"\x1b[5~", b"\x1b[1;2A", b"\x1bOB", "日".encode(), "🎉".encode()]
)
def test_what_has_only_begun_is_kept(sent: bytes) -> None:
    """A slow line may deliver a sequence in parts."""
    whole, _ = pressed(sent)
    for cut in range(2 if sent.startswith(b"\x1b") else 1, len(sent)):
        first, rest = pressed(b"x" + sent[:cut])
        assert first == ["x"]
        assert pressed(rest + sent[cut:]) == (whole, b"")


@given(st.lists(st.binary(max_size=6), max_size=6))
def test_nothing_that_is_sent_fails_or_is_kept_for_ever(parts: list[bytes]) -> None:
    """Whatever somebody pastes."""
    rest = b""
    for part in parts:
        _, rest = pressed(rest + part)
    assert all(key.isprintable() for key in pressed(b"".join(parts))[0])
    assert len(pressed(rest + b"    ")[1]) == 0


@pytest.mark.parametrize(
    ("top", "key", "expected"),
    [
        *[(0, " ", 20), (0, "f", 20), (0, "next", 20), (75, " ", 80), (80, " ", 80)],
        *[(80, "b", 60), (80, "back", 60), (5, "b", 0), (0, "back", 0)],
        *[(3, "down", 4), (3, "j", 4), (3, "up", 2), (3, "k", 2), (0, "up", 0), (80, "down", 80)],
        *[(30, "home", 0), (30, "g", 0), (30, "end", 80), (30, "G", 80)],
        *[(30, "x", 30), (30, "enter", 30), (95, "x", 80)],
    ],
)
def test_keys_move_the_view_within_the_table(top: int, key: str, expected: int) -> None:
    """By pages, by rows, to both ends; 20 of 100 rows fit."""
    assert after(View(top, "x"), key, page=20, rows=100) == View(expected, "x")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["/"], View(0, "", typing=True)),
        ([*"/job"], View(0, "job", typing=True)),
        ([*"/q b", "enter"], View(0, "q b")),
        ([*"/job", "erase", "erase"], View(0, "j", typing=True)),
        ([*"/job", "clear", "x", "enter"], View(0, "x")),
        ([*"/job", "escape"], View()),
        ([*"/job", "enter", "escape"], View()),
        ([*"/job", "enter", *"/s", "enter"], View(0, "jobs")),
        ([*"/job", "up", "next", "enter"], View(0, "job")),
        (["q"], None),
        ([*"/job", "enter", "q"], None),
    ],
)
def test_a_filter_is_typed(keys: list[str], expected: View | None) -> None:
    """Letters go into it until Enter, ``q`` as well; Escape shows all."""
    view: View | None = View(7)
    for key in keys:
        assert view is not None
        view = after(view, key, page=20, rows=100)
    assert (view and within(view, page=20, rows=0)) == expected


def test_a_view_of_fewer_rows_is_not_empty() -> None:
    """Rows may go while somebody looks at the last page."""
    assert within(View(80), page=20, rows=50).top == 30
    assert within(View(80), page=20, rows=5).top == 0
