"""Where `watch` shows what it hears: lines for people or programs, or a table on a terminal."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

from incumbent.cli.elections import news
from incumbent.cli.elections.keys import View, after
from incumbent.cli.elections.table import Known, layout
from incumbent.cli.elections.terminal import Terminal
from incumbent.cli.elections.words import clock_time
from incumbent.cli.output import say, tell, tell_json

AGEING: Final = 1.0
"""Seconds after which a page is drawn anew, because times go on."""

SOON: Final = 0.5
"""Seconds until a change is drawn, with all that changed meanwhile; keys do not wait."""

Knowing = Callable[[], tuple[Sequence[Known], str]]
"""Gives what is known of all elections, and what is the matter with the server, in words."""


class Screen(Protocol):
    """Where it is shown what happens."""

    def show(self, happened: news.News) -> None:
        """It has just happened."""
        ...

    def remark(self, sentences: Sequence[str]) -> None:
        """People should know, though nothing has happened."""
        ...


class JsonLines:
    """A line of JSON for each election that something happens to."""

    def show(self, happened: news.News) -> None:
        """Print it."""
        for value in news.values(happened):
            tell_json({"at": datetime.now(UTC), **value})

    def remark(self, sentences: Sequence[str]) -> None:
        """A program has no use for it."""


class PlainLines:
    """A line for each thing that happens."""

    def show(self, happened: news.News) -> None:
        """Print it."""
        now = datetime.now(UTC)
        for line in news.lines(happened, now):
            tell(f"{clock_time(now)} {line}")

    def remark(self, sentences: Sequence[str]) -> None:
        """Print it, but not among the lines."""
        for sentence in sentences:
            say(sentence)


class Table:
    """All that is known, page by page, until somebody wants to leave."""

    def __init__(self) -> None:
        self._terminal: Terminal | None = None
        self._soon: asyncio.TimerHandle | None = None

    def show(self, happened: news.News) -> None:
        """Draw it soon."""
        self._draw_soon()

    def remark(self, sentences: Sequence[str]) -> None:
        """The page has it in short."""
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._terminal is not None and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(SOON, self._terminal.wake)

    async def run(self, knowing: Knowing) -> None:
        """Draw what is known, again and again. Returns when ``q`` was pressed."""
        view: View | None = View()
        with Terminal() as self._terminal:
            while view is not None:
                view = await self._page(self._terminal, view, *knowing())

    async def _page(
        self, terminal: Terminal, view: View, known: Sequence[Known], trouble: str
    ) -> View | None:
        """Show a page until something has to change. Returns the next view, None to leave."""
        now = datetime.now(UTC)
        page = layout(known, view, terminal.size, now, trouble=trouble, keys=terminal.listens)
        terminal.show(page.lines)
        self._soon = None
        chosen: View | None = page.view
        for key in await terminal.keys(AGEING):
            if chosen is not None:
                chosen = after(chosen, key, page=page.page, rows=page.rows)
        return chosen
