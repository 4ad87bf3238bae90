"""How the demo looks while it runs: a live table below a growing story, or the story alone.

The story has one line per event and reads the same in both. Colours follow NO_COLOR.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from incumbent import LeaderState, clock
from incumbent.cli.demo import wording
from incumbent.cli.demo.node import Node
from incumbent.cli.output import draws, tell
from incumbent.printable import printable

STYLES: Final = {"killed": "red", "stopped": "yellow"}
COLUMNS: Final = (("process", 7), ("pid", 8), ("its own view", 37), ("its lease", 15))


class Screen(Protocol):
    """Where the demo shows what happens. Times are seconds since its start."""

    def print(self, text: str, style: str = "") -> None:
        """One line of its own; `style` as rich has it, where styles can be shown."""
        ...

    def say(self, at: float, text: str) -> None:
        """What is done, or what has come of it."""
        ...

    def note(self, at: float, text: str) -> None:
        """What a process or the server says."""
        ...

    def show(self, state: LeaderState, nodes: Sequence[Node]) -> None:
        """How things are now."""
        ...


class PlainScreen:
    """The story, line by line: for pipes, files and terminals that cannot do more."""

    def print(self, text: str, style: str = "") -> None:
        """Print it."""
        tell(text)

    def say(self, at: float, text: str) -> None:
        """Print it with its time."""
        self.print(f"{at:5.1f} s  {text}")

    def note(self, at: float, text: str) -> None:
        """Print it with its time, set in."""
        self.say(at, f"  {text}")

    def show(self, state: LeaderState, nodes: Sequence[Node]) -> None:
        """Nothing: what changes is told by notes."""


class LiveScreen:
    """The story, and below it a table that follows what happens."""

    def __init__(self, live: Live, lease_time: float) -> None:
        self._live = live
        self._lease_time = lease_time

    def print(self, text: str, style: str = "") -> None:
        """Print it above the table."""
        self._live.console.print(Text(printable(text, longest=None), style), soft_wrap=True)

    def say(self, at: float, text: str) -> None:
        """Print it with its time above the table."""
        self.print(f"{at:5.1f} s  {text}", "bold")

    def note(self, at: float, text: str) -> None:
        """Print it with its time, set in and paler, above the table."""
        self.print(f"{at:5.1f} s    {text}", "dim")

    def show(self, state: LeaderState, nodes: Sequence[Node]) -> None:
        """Draw the table anew."""
        now = clock.now()
        table = Table(box=box.ROUNDED)
        for heading, width in COLUMNS:
            table.add_column(heading, width=width, no_wrap=True)
        for node in nodes:
            last = node.last if node.condition in ("running", "stopped") else None
            leading = last is not None and last.kind == "leading"
            style = STYLES.get(node.condition, "green" if leading else "")
            left = last.until - now if last is not None and leading else None
            table.add_row(
                node.name, str(node.pid or ""), wording.view(node), self._bar(left), style=style
            )
        self._live.update(Group("", self._server_line(state), table), refresh=True)

    def _server_line(self, state: LeaderState) -> Table:
        line = Table.grid(padding=(0, 1))
        for width in (60, COLUMNS[-1][1]):
            line.add_column(width=width, no_wrap=True)
        left = state.leaders[0].remaining if state.leaders else None
        line.add_row(Text(f"  the server: {wording.server(state)}", "bold"), self._bar(left))
        return line

    def _bar(self, left: float | None) -> Table | str:
        """What is left of a lease, as a bar and in seconds."""
        if left is None:
            return ""
        left = max(0.0, left)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=self._lease_time, completed=left, width=8), f"{left:4.1f} s")
        return bar


@contextmanager
def open_screen(lease_time: float) -> Generator[Screen]:
    """The screen that suits stdout; leaves the terminal as it was.

    What FORCE_COLOR and its like say does not make a terminal of a pipe.
    """
    if not draws():
        yield PlainScreen()
        return
    console = Console(force_terminal=True, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveScreen(live, lease_time)
