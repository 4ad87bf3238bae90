"""What `watch` does: elections are followed, each by a task, and what changes is shown."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from incumbent import LeaderState
from incumbent.cli.asking import Asker, Where, ask, asking
from incumbent.cli.elections.screens import Screen, open_screen
from incumbent.cli.elections.words import change_lines, clock_time, state_value
from incumbent.cli.output import tell, tell_json
from incumbent.cli.terminating import until_terminated

NEW_ONES: Final = 10.0
"""Seconds between two looks for elections that are new."""


class JsonScreen:
    """A line of JSON for each change."""

    def show(self, name: str, old: LeaderState | None, new: LeaderState) -> None:
        """Print it."""
        tell_json({"at": datetime.now(UTC), **state_value(name, new)})


class PlainScreen:
    """A line for each change."""

    def show(self, name: str, old: LeaderState | None, new: LeaderState) -> None:
        """Print it."""
        now = clock_time(datetime.now(UTC))
        for line in change_lines(name, old, new):
            tell(f"{now} {line}")


def watch(where: Where, names: Sequence[str], *, as_json: bool) -> None:
    """Show some elections, or all, until a signal ends it."""

    async def question(where: Where) -> None:
        async with asking(where) as asker:
            # So that the terminal is left as it was.
            await until_terminated(_follow_all(asker, names, screen))

    if as_json or not sys.stdout.isatty():
        screen: Screen = JsonScreen() if as_json else PlainScreen()
        ask(where, question)
        return
    with open_screen() as screen:
        ask(where, question)


async def _follow_all(asker: Asker, names: Sequence[str], screen: Screen) -> None:
    tasks: dict[str, asyncio.Task[None]] = {}
    for name in names:
        await asker.state(name)  # so that a mistake, or a server that is not there, is said now
    try:
        while True:
            for name in dict.fromkeys(names or await asker.names()):
                if name not in tasks:
                    tasks[name] = asyncio.ensure_future(_follow(asker, name, screen))
            # Without names, elections that are new are followed as well.
            pause = None if names else NEW_ONES
            if not tasks:
                await asyncio.sleep(NEW_ONES)
                continue
            done, _ = await asyncio.wait(
                tasks.values(), timeout=pause, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _follow(asker: Asker, name: str, screen: Screen) -> None:
    elector, its_name = asker.election(name)
    last: LeaderState | None = None
    async with aclosing(elector.watch(its_name)) as states:
        async for state in states:
            screen.show(name, last, state)
            last = state
