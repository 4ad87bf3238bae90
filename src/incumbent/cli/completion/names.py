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

QUOTED: Final = frozenset({"bash", "zsh", "fish"})
"""Shells in which nothing of a name is run. click knows more, and puts names there as they are."""

WITHIN: Final = 1.0
"""Seconds, for connecting and looking."""


def elections(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The elections that begin so, but those that are on the line already; for `shell_complete`."""
    shell, _, _ = os.environ.get("_INCUMBENT_COMPLETE", "").partition("_")
    if shell not in QUOTED:
        return []
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
    from incumbent.cli.asking import Where, names_within

    found: list[str] = []
    with suppress(Exception):  # whatever it is, it must not be written into the user's line
        where = Where(url=url, prefix=prefix, timeout=WITHIN)
        found, _ = asyncio.run(names_within(where, WITHIN))
    return found
