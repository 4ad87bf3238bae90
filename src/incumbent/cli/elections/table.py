"""The table of `watch`: what is known of elections becomes lines that fit a terminal. Pure.

What is wrong comes first, and only what is on the screen is laid out. In an outage nobody is shown
as a leader.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import IntEnum, auto
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from incumbent import LeaderInfo, LeaderState, Outage
from incumbent.cli.elections.keys import View, within
from incumbent.durations import age
from incumbent.printable import printable

GAP: Final = 2
"""Blanks between two columns."""

NARROWEST: Final = 24
"""Cells that the names of elections and leaders have, each, before other columns are shown."""

AROUND: Final = 3
"""Lines that are no rows: what there is in all, the headings, and the keys."""

MANY: Final = 3
"""Leaders of one election that are all named where they share a line."""

DOTS: Final = "..."


class Known(NamedTuple):
    """What is known of one election."""

    name: str
    state: LeaderState | None = None
    """None as long as nothing is known."""
    error: str = ""
    """Why it cannot be read, in words."""
    outage: Outage | None = None
    """Since when the server has not been heard: `state` is from before that."""
    note: str = ""
    """What is to be said as long as nobody leads and nobody waits."""


class Layout(NamedTuple):
    """What a terminal shows."""

    lines: list[Text]
    view: View
    """The view that it is of: perhaps another one than was asked for, as there are fewer rows."""
    page: int
    """How many rows fit."""
    rows: int
    """How many rows there are in all."""


class _State(IntEnum):
    """What is wrong comes first, by weight."""

    UNREADABLE = auto()
    UNHEARD = auto()
    WAITED_FOR = auto()
    UNLED = auto()
    WELL = auto()


class _Row(NamedTuple):
    election: str
    seat: str = ""
    leader: str = ""
    age: str = ""
    waiting: str = ""
    fence: str = ""
    style: str = ""
    wide: bool = False
    """Whether the leader's text goes on over the columns behind it."""


class _Column(NamedTuple):
    heading: str
    cells: int
    right: bool = False


_COLUMNS: Final = {
    "age": _Column("for", 6, right=True),
    "seat": _Column("seat", 4, right=True),
    "waiting": _Column("in line", 7, right=True),
    "fence": _Column("fence", 16, right=True),
}
"""Those that are left out first where there is little room stand last."""

_ORDER: Final = ("election", "seat", "leader", "age", "waiting", "fence")


def layout(
    known: Sequence[Known],
    view: View,
    size: tuple[int, int],
    now: datetime,
    *,
    trouble: str = "",
    keys: bool = True,
) -> Layout:
    """What a terminal of `size`, columns and lines, shows at `now`.

    `trouble` says in words what is the matter with the server. With `keys` there is somebody who
    can press them.
    """
    width, height = size
    chosen = sorted(
        filter(lambda each: _wanted(each, view.wanted), known),
        key=lambda each: (_state_of(each), each.name),
    )
    places = [(each, number) for each in chosen for number in range(_rows_of(each))]
    page = max(1, height - AROUND - bool(trouble))
    view = within(view, page=page, rows=len(places))
    shown = places[view.top : view.top + page]
    rows = [_row(each, number, now) for each, number in shown]
    for place, (row, (_, number)) in enumerate(zip(rows, shown, strict=True)):
        if number and place:  # the first row of a page says which election it is of
            rows[place] = row._replace(election="")
    widths = _widths(rows, width)
    lines = [Text(_fit(summary(known), width), "bold")]
    if trouble:
        lines.append(Text(_fit(trouble, width), "bold red"))
    lines.append(_line(_headings(), widths, width, "bold"))
    lines += [_line(row, widths, width, row.style) for row in rows]
    blank = page - len(rows)
    lines += [Text("")] * blank
    lines.append(_foot(view, len(rows), len(places), width, keys=keys))
    return Layout(lines[:height], view, page, len(places))


def summary(known: Sequence[Known]) -> str:
    """How many there are, and how many of them are not as they should be."""
    counts = Counter(_state_of(each) for each in known)
    parts = [
        f"{len(known)} election{'s' * (len(known) != 1)}",
        f"{counts[_State.UNREADABLE]} cannot be read",
        f"{counts[_State.UNHEARD]} not heard of",
        f"{counts[_State.WAITED_FOR] + counts[_State.UNLED]} without a leader",
    ]
    return ", ".join([parts[0], *(part for part in parts[1:] if not part.startswith("0 "))])


def _wanted(known: Known, words: str) -> bool:
    if not words:
        return True
    leaders = () if known.state is None else known.state.leaders
    texts = known.name, *(each.leader_id for each in leaders)
    return any(words.casefold() in text.casefold() for text in texts)


def _state_of(known: Known) -> _State:
    if known.error:
        return _State.UNREADABLE
    if known.outage is not None:
        return _State.UNHEARD
    if known.state is None or not all(each.retained for each in known.state.leaders):
        return _State.WELL
    return _State.WAITED_FOR if known.state.waiting else _State.UNLED


def _rows_of(known: Known) -> int:
    if known.error or known.outage is not None or known.state is None:
        return 1
    return max(1, len(known.state.leaders))


def _row(known: Known, number: int, now: datetime) -> _Row:
    name = printable(known.name)
    if known.error:
        said = f"cannot be read: {printable(known.error)}"
        return _Row(name, leader=said, style="red", wide=True)
    if known.outage is not None:
        said = f"no word for {age(known.outage.since, now)}{_before(known.state)}"
        return _Row(name, leader=said, style="yellow", wide=True)
    if known.state is None:
        return _Row(name, leader=DOTS, style="dim")
    if known.note and not (known.state.leaders or known.state.waiting):
        return _Row(name, leader=printable(known.note), style="yellow", wide=True)
    waiting = str(known.state.waiting)
    if not known.state.leaders:
        style = "yellow" if known.state.waiting else "dim"
        return _Row(name, leader="nobody", waiting=waiting, style=style)
    return _led(name, known.state.leaders[number], now)._replace(waiting="" if number else waiting)


def _led(name: str, leader: LeaderInfo, now: datetime) -> _Row:
    who = printable(leader.leader_id)
    return _Row(
        name,
        str(leader.seat),
        f"nobody, kept after {who}" if leader.retained else who,
        age(leader.since, now),
        fence=str(leader.fence),
        style="dim" if leader.retained else "",
    )


def _before(state: LeaderState | None) -> str:
    """Who led before nothing was heard any more."""
    if state is None:
        return ""
    names = [printable(each.leader_id) for each in state.leaders if not each.retained]
    if len(names) > MANY:
        return f", was {len(names)} leaders"
    return f", was {', '.join(names) or 'nobody'}"


def _widths(rows: Iterable[_Row], width: int) -> dict[str, int]:
    """How many cells each column has that is shown."""
    left = width - 2 * NARROWEST - GAP
    widths: dict[str, int] = {}
    for name, column in _COLUMNS.items():
        if left < column.cells + GAP:
            break
        widths[name] = column.cells
        left -= column.cells + GAP
    left += 2 * NARROWEST
    headed = [_headings(), *rows]
    election = max(cell_len(row.election) for row in headed)
    behind = sum(widths.get(name, -GAP) + GAP for name in ("age", "waiting", "fence"))
    leader = max(cell_len(row.leader) - behind * row.wide for row in headed)
    half = left // 2
    if election > half:
        election = max(half, left - leader)
    widths["election"] = max(0, min(election, left))
    widths["leader"] = max(0, left - widths["election"])
    return widths


def _headings() -> _Row:
    seat, age, waiting, fence = (
        _COLUMNS[name].heading for name in ("seat", "age", "waiting", "fence")
    )
    return _Row("election", seat, "leader", age, waiting, fence)


def _line(row: _Row, widths: dict[str, int], width: int, style: str) -> Text:
    cells: list[str] = []
    for name in _ORDER:
        if name not in widths:
            continue
        text: str = getattr(row, name)
        if row.wide and name == "leader":
            cells.append(text)
            break
        column = _COLUMNS.get(name)
        fitted = _fit(text, widths[name])
        blank = " " * (widths[name] - cell_len(fitted))
        cells.append(blank + fitted if column is not None and column.right else fitted + blank)
    return Text(_fit((" " * GAP).join(cells).rstrip(), width), style)


def _foot(view: View, shown: int, rows: int, width: int, *, keys: bool) -> Text:
    if view.typing:
        return Text(
            _fit(f"/{printable(view.wanted)}_  Enter keeps it, Esc shows all", width), "bold"
        )
    part = f"{view.top + 1}-{view.top + shown} of {rows}" if shown else "nothing to show"
    if view.wanted:
        part += f" with {printable(view.wanted)!r}"
    told = "space next, b back, / filter, q quit" if keys else "Ctrl-C ends"
    return Text(_fit(f"{part}  {told}", width), "dim")


def _fit(text: str, cells: int) -> str:
    """`text` in so many cells at most; one that is cut ends in dots."""
    if cell_len(text) <= cells:
        return text
    dots = DOTS[:cells]
    return set_cell_size(text, cells - len(dots)).rstrip() + dots if cells > len(dots) else dots
