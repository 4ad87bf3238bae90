"""Names that the server does not know, and those that are like them."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from incumbent import LeaderState
from incumbent.cli.asking import Unreadable, Where, ask, names_within

WITHIN: Final = 1.0
"""Seconds for looking at all names: on a very large server it is not said what is missing."""

COMPARED: Final = 10_000
"""How many names are compared with one, at most: some tenths of a second."""


def unknown(state: LeaderState | Unreadable) -> bool:
    """Whether there may be no such election: nobody leads it, and nobody waits for it."""
    return isinstance(state, LeaderState) and not state.leaders and not state.waiting


def absent(where: Where, names: Iterable[str]) -> dict[str, str]:
    """Those of `names` that no election has, with a sentence for each that says so."""
    asked = list(names)
    found = ask(where, lambda where: missing(where, asked)) if asked else Missing((), {})
    return {name: sentence(name, found, where.prefix) for name in found.meant}


class Missing(NamedTuple):
    """Which names no election has."""

    known: Sequence[str]
    """Those that elections have."""
    meant: Mapping[str, str]
    """What may have been meant by each of those that none has; '' where nothing is like it."""


async def missing(where: Where, names: Iterable[str]) -> Missing:
    """Those of `names` that no election has; none of them where not all could be looked at."""
    known, complete = await names_within(where, WITHIN)
    none = [name for name in names if complete and name not in known]
    return Missing(known, {name: _like(name, known) for name in none})


def sentence(name: str, found: Missing, prefix: str) -> str:
    """That there is no election `name`, and what may have been meant."""
    if not found.known:
        return none_at_all(prefix)
    nobody = "nobody has led it for a day, and nobody waits for it"
    return f"no election {name!r}: {nobody}{_question(found.meant[name])}"


def in_short(name: str, found: Missing) -> str:
    """The same where there is little room, beside the name."""
    return f"no such election yet{_question(found.meant[name])}"


def none_at_all(prefix: str) -> str:
    """That there are no elections."""
    return (
        f"no elections under the prefix {prefix!r}:"
        " look whether this is the right server, database and --prefix"
    )


def _question(meant: str) -> str:
    return f"; did you mean {meant!r}?" if meant else ""


def _like(name: str, known: Sequence[str]) -> str:
    return next(iter(get_close_matches(name, known[:COMPARED], n=1)), "")
