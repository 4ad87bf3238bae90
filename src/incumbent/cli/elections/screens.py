"""How `watch` looks on a terminal: a table that follows what happens."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from incumbent import LeaderInfo, LeaderState
from incumbent.cli.elections.words import clock_time
from incumbent.printable import printable

HEADINGS: Final = ("election", "seat", "leader", "since", "fence", "in line")


class Screen(Protocol):
    """Where changes are shown."""

    def show(self, name: str, old: LeaderState | None, new: LeaderState) -> None:
        """Election `name` was `old`, and is `new` now."""
        ...


class TableScreen:
    """All that is known, drawn anew with each change."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._states: dict[str, LeaderState] = {}
        self._draw()

    def show(self, name: str, old: LeaderState | None, new: LeaderState) -> None:
        """Draw it."""
        self._states[name] = new
        self._draw()

    def _draw(self) -> None:
        table = Table(box=box.SIMPLE_HEAD, expand=False)
        for heading in HEADINGS:
            table.add_column(heading, overflow="fold", no_wrap=heading in {"seat", "since"})
        for name in sorted(self._states):
            state = self._states[name]
            rows: list[tuple[str, ...]] = [_row(leader) for leader in state.leaders]
            for number, row in enumerate(rows or [("", "nobody", "", "")]):
                first, waiting = ("", "") if number else (printable(name), str(state.waiting))
                style = "" if rows and not state.leaders[number].retained else "dim"
                table.add_row(*map(Text, (first, *row, waiting)), style=style)
        self._live.update(table, refresh=True)


def _row(leader: LeaderInfo) -> tuple[str, ...]:
    name = printable(leader.leader_id)
    who = f"{name} (was; kept)" if leader.retained else name
    return str(leader.seat), who, clock_time(leader.since), str(leader.fence)


@contextmanager
def open_screen() -> Generator[Screen]:
    """The table; what it last showed stays on the terminal."""
    console = Console(file=sys.stdout, highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        yield TableScreen(live)
