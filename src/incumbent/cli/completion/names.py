"""The names of elections, from which a shell completes.

The server is asked for them, for a moment; where it does not answer there is nothing to choose
from, and nothing is said. Not offered are names that a terminal must not show as they are, and to
those who have not typed ``-`` names that begin so, which would be taken for options.
"""

import asyncio
import os
from contextlib import suppress
from typing import Final, cast

import click

from incumbent.cli.connection import DEFAULT_URL
from incumbent.cli.serving import EMBEDDED
from incumbent.printable import is_printable

WITHIN: Final = 1.0
"""Seconds, for connecting and looking."""


def elections(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The elections that begin so, but those that are on the line already; for `shell_complete`."""
    url = str(context.params.get("url") or os.environ.get("INCUMBENT_URL") or DEFAULT_URL)
    if url.startswith(EMBEDDED):
        return []  # there is no such server yet
    given = context.params.get(parameter.name or "")
    others = cast("tuple[str, ...]", given if isinstance(given, tuple) else ())
    prefix = str(context.params.get("prefix") or "incumbent")
    return [
        name
        for name in _names(url, prefix)
        if name.startswith(incomplete)
        and (incomplete or not name.startswith("-"))
        and name not in others
        and is_printable(name)
    ]


def _names(url: str, prefix: str) -> list[str]:
    found: list[str] = []
    with suppress(Exception):  # whatever it is, it must not be written into the user's line
        asyncio.run(_find(url, prefix, found))
    return sorted(found)


async def _find(url: str, prefix: str, found: list[str]) -> None:
    from incumbent.cli.asking import Where, asking

    async with (
        asyncio.timeout(WITHIN),
        asking(Where(url=url, prefix=prefix, timeout=WITHIN)) as asker,
    ):
        # One by one: where there are too many keys, some names are better than none.
        async for name in asker.names_one_by_one():
            found.append(name)  # noqa: PERF401 - as the comment above says
