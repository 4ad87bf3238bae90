"""Names that the server does not know, and those that are like them."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from incumbent.cli.asking import Where, ask, names_within

WITHIN: Final = 1.0
"""Seconds for looking at all names: on a very large server it is not said what is missing."""

COMPARED: Final = 10_000
"""How many names are compared with one, at most: some tenths of a second."""


def absent(where: Where, names: Iterable[str]) -> dict[str, str]:
    """Those of `names` that no election has, with a sentence for each that says so."""
    asked = list(names)
    if not asked:
        return {}
    known, complete = ask(where, lambda where: names_within(where, WITHIN))
    missing = [name for name in asked if complete and name not in known]
    return {name: sentence(name, known, where.prefix) for name in missing}


def sentence(name: str, known: Sequence[str], prefix: str) -> str:
    """That election `name` is none of all that are `known`, and what may have been meant."""
    if not known:
        return (
            f"no elections under the prefix {prefix!r}:"
            " look whether this is the right server, database and --prefix"
        )
    like = get_close_matches(name, known[:COMPARED], n=1)
    meant = f"; did you mean {like[0]!r}?" if like else ""
    return f"no election {name!r}: nobody has led it for a day, and nobody waits for it{meant}"
