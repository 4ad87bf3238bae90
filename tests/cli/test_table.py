"""incumbent.cli.elections.table: what a terminal shows, by size, state, filter and page."""

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from incumbent import LeaderInfo, LeaderState, Outage
from incumbent.cli.elections import table
from incumbent.cli.elections.keys import View
from incumbent.cli.elections.table import Known, layout

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIZE = (80, 24)


def leader(name: str, *, seat: int = 0, since: float = 60, retained: bool = False) -> LeaderInfo:
    return LeaderInfo(
        leader_id=name,
        seat=seat,
        fence=1796110315175240,
        since=NOW - timedelta(seconds=since),
        remaining=20,
        retained=retained,
    )


def led(name: str, *leaders: LeaderInfo, waiting: int = 0) -> Known:
    return Known(name, LeaderState(name, leaders, waiting))


def silent(name: str, *leaders: LeaderInfo, seconds: float = 15) -> Known:
    outage = Outage(NOW - timedelta(seconds=seconds), ConnectionError("refused"))
    return Known(name, LeaderState(name, leaders), outage=outage)


def shown(
    *known: Known, view: View | None = None, size: tuple[int, int] = SIZE, trouble: str = ""
) -> list[str]:
    """The lines that are not blank."""
    page = layout(known, view or View(), size, NOW, trouble=trouble)
    return [line.plain for line in page.lines if line.plain]


def test_a_row_says_who_leads_and_for_how_long() -> None:
    """Within 80 columns; the last line says which keys there are."""
    assert shown(
        led("job", leader("web-1", since=192), waiting=2), led("tick", leader("web-2"))
    ) == [
        "2 elections",
        "election  seat  leader                                              for  in line",
        "job          0  web-1                                             3m12s        2",
        "tick         0  web-2                                                1m        0",
        "1-2 of 2  space next, b back, / filter, q quit",
    ]


def test_what_is_wrong_comes_first() -> None:
    """By weight, then by name; and the first line counts it."""
    known = [
        led("a", leader("web-1")),
        led("b"),
        led("c", waiting=1),
        silent("d", leader("web-1")),
        Known("e", error="wrong type: seat:0"),
        Known("f"),
        led("g", leader("web-2", retained=True)),
        led("h", leader("web-3"), leader("web-4", seat=1, retained=True)),
    ]
    for order in (known, known[::-1]):
        first, _, *rows, _ = shown(*order)
        assert first == "8 elections, 1 cannot be read, 1 not heard of, 3 without a leader"
        assert [re.split(" {2,}", row.strip()) for row in rows] == [
            ["e", "cannot be read: wrong type: seat:0"],
            ["d", "no word for 15s, was web-1"],
            ["c", "nobody", "1"],
            ["b", "nobody", "0"],
            ["g", "0", "nobody, kept after web-2", "1m", "0"],
            ["a", "0", "web-1", "1m", "0"],
            ["f", "..."],
            ["h", "0", "web-3", "1m", "0"],
            ["1", "nobody, kept after web-4", "1m"],
        ]


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ([], "was nobody"),
        (["web-1"], "was web-1"),
        (["web-1", "web-2"], "was web-1, web-2"),
        (["1", "2", "3", "4"], "was 4 leaders"),
    ],
)
def test_p10_nobody_who_was_not_heard_of_is_shown_as_a_leader(
    leaders: list[str], said: str
) -> None:
    """Only as who it was, in one row; and it is said for how long."""
    infos = [leader(name, seat=seat) for seat, name in enumerate(leaders)]
    _, trouble, _, row, foot = shown(silent("job", *infos, seconds=75), trouble="No word: refused")
    assert trouble == "No word: refused"
    assert row == f"job             no word for 1m15s, {said}"
    assert foot.startswith("1-1 of 1 ")
    assert "was" not in shown(Known("job", outage=silent("job").outage))[2]


@pytest.mark.parametrize(
    ("top", "first", "last", "foot"),
    [
        (0, "job-000", "job-020", "1-21 of 100"),
        (21, "job-021", "job-041", "22-42 of 100"),
        (999, "job-079", "job-099", "80-100 of 100"),
    ],
)
def test_a_page_of_many(top: int, first: str, last: str, foot: str) -> None:
    """As many as fit; a view that is beyond the end shows the last page, and is moved there."""
    known = [led(f"job-{number:03}", leader("web-1")) for number in range(100)]
    page = layout(known, View(top), SIZE, NOW)
    rows = [line.plain.split()[0] for line in page.lines[2:-1]]
    assert (rows[0], rows[-1], len(rows)) == (first, last, page.page)
    assert page.lines[-1].plain.startswith(foot + "  ")
    assert len(page.lines) == 24
    assert page.view.top == min(top, 79)


def test_only_what_is_on_the_screen_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    made: list[str] = []
    row = table._row

    def counted(known: Known, number: int, now: datetime) -> table._Row:
        made.append(known.name)
        return row(known, number, now)

    monkeypatch.setattr(table, "_row", counted)
    known = [led(f"job-{number:04}", leader("web-1")) for number in range(1000)]
    layout(known, View(500), SIZE, NOW)
    assert made == [f"job-{number:04}" for number in range(500, 521)]


def test_a_group_has_a_row_for_each_seat() -> None:
    """Named in the first of them, and in the first of a page."""
    group = led("group", *(leader(f"web-{seat}", seat=seat) for seat in range(30)), waiting=3)
    _, _, *rows, foot = shown(group)
    assert rows[0].split() == ["group", "0", "web-0", "1m", "3"]
    assert rows[1].split() == ["1", "web-1", "1m"]
    assert foot.startswith("1-21 of 30 ")
    _, _, *rows, _ = shown(group, view=View(9))
    assert rows[0].split() == ["group", "9", "web-9", "1m"]
    assert rows[1].split() == ["10", "web-10", "1m"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [("", ["a-1", "b-2", "c-3"]), ("B-2", ["b-2"]), ("WEB-3", ["c-3"]), ("x", [])],
)
def test_a_filter_leaves_what_has_it_in_a_name(wanted: str, names: list[str]) -> None:
    """Of the election, or of a leader; the first line still counts all."""
    known = [led("a-1", leader("web-1")), led("b-2"), led("c-3", leader("web-3"))]
    first, _, *rows, foot = shown(*known, view=View(0, wanted))
    assert first == "3 elections, 1 without a leader"
    assert sorted(row.split()[0] for row in rows) == names
    counted = f"1-{len(names)} of {len(names)}" if names else "nothing to show"
    assert foot.startswith(counted + (f" with {wanted!r}  " if wanted else "  "))


def test_a_filter_that_is_being_typed_is_shown() -> None:
    """In the last line, with what ends it."""
    *_, foot = shown(led("job"), view=View(0, "jo\u202e", typing=True))
    assert foot == r"/jo\u202e_  Enter keeps it, Esc shows all"
    page = layout([], View(), SIZE, NOW, keys=False)
    assert page.lines[-1].plain == "nothing to show  Ctrl-C ends"


def test_what_others_wrote_is_spelled_out() -> None:
    """Names of elections and leaders, and what a server says."""
    nasty = "a\x1b[2J\n\u202eb"
    known = [led(nasty, leader(nasty)), silent(nasty, leader(nasty)), Known(nasty, error=nasty)]
    text = "".join(shown(*known, view=View(0, "", typing=False)))
    assert text.isprintable()
    assert text.count(r"a\x1b[2J\n\u202eb") == 6


def test_columns_give_way_to_names() -> None:
    """The fence is there where there is room; the narrowest terminal has names alone."""
    known = led("an-election-with-a-long-name", leader("host-with-a-long-name:12345:deadbeef"))
    headings = {width: shown(known, size=(width, 24))[1].split() for width in (120, 80, 60, 40)}
    assert headings == {
        120: ["election", "seat", "leader", "for", "in", "line", "fence"],
        80: ["election", "seat", "leader", "for", "in", "line"],
        60: ["election", "leader", "for"],
        40: ["election", "leader"],
    }
    row = shown(known, size=(80, 24))[2]
    assert row.startswith("an-election-with-a-long-...     0  host-with-a-long-name:123...")
    assert shown(known, size=(120, 24))[2].endswith("1m        0  1796110315175240")


NAMES = ["job", "x" * 255, "日次レポート" * 20, "🎉", ""]


@pytest.mark.parametrize("height", [1, 2, 3, 4, 5, 24])
@pytest.mark.parametrize("width", [1, 2, 5, 10, 20, 37, 54, 80, 200])
def test_every_page_fits_its_terminal(width: int, height: int) -> None:
    """Line by line, also with letters that are two columns wide."""
    known = [
        *(led(name, leader(other)) for name, other in itertools.product(NAMES, NAMES)),
        *(Known(name, error=other) for name, other in itertools.product(NAMES, NAMES)),
        *(silent(name, leader(other)) for name, other in itertools.product(NAMES, NAMES)),
        *(led(name, waiting=10**9) for name in NAMES),
    ]
    for top, trouble, typing in itertools.product((0, 30, 60), ("", "x" * 300), (False, True)):
        view = View(top, "", typing=typing)
        page = layout(known, view, (width, height), NOW, trouble=trouble)
        assert len(page.lines) <= height
        assert max(cell_len(line.plain) for line in page.lines) <= width
        assert page.page >= 1
