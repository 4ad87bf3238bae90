"""Who has the newest software, or the oldest, leads: versions in the metadata, compared as such.

Pure. Reads what people write, "1.10.2", "v2.0-rc.1", "3.0b2+linux", by the common rules: numbers
compare as numbers, a pre-release comes before the release, and what follows "+" is ignored.
Source: https://semver.org/#spec-item-11
"""

import re
from dataclasses import dataclass
from math import inf
from typing import Final, TypeAlias

from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.metadata import MetaValue
from incumbent.strategy.result import ElectionResult

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)*)([^+]*)(?:\+.*)?", re.IGNORECASE | re.ASCII)
_TOKEN: Final = re.compile(r"\d+|[a-z]+", re.IGNORECASE | re.ASCII)
_AFTER: Final = frozenset({"post", "rev", "r"})
"""What marks something that comes after the release, not before it."""

_Token: TypeAlias = tuple[int, int, str]
Version: TypeAlias = tuple[tuple[int, ...], int, tuple[_Token, ...]]
"""The numbers of the release; before, at or after it (-1, 0, 1); what tells those apart."""


@dataclass(frozen=True, slots=True)
class NewestVersion:
    """The newest version `key` in the metadata leads; who has none comes last.

    Scores count the versions that are older, so equal versions have the same.
    """

    key: str = "version"

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By version, newest first."""
        return _by_version(snapshot, self.key, newest=True)


@dataclass(frozen=True, slots=True)
class OldestVersion:
    """The oldest version `key` in the metadata leads; who has none comes last.

    Scores count the versions that are newer, so equal versions have the same.
    """

    key: str = "version"

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """By version, oldest first."""
        return _by_version(snapshot, self.key, newest=False)


def version(text: MetaValue | None) -> Version | None:
    """What can be compared of a version; None when it is none."""
    found = _VERSION.fullmatch(str(text).strip()) if text is not None else None
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:  # 1.0 is 1
        numbers.pop()
    tokens = tuple([_token(part) for part in _TOKEN.findall(found[2])])
    side = 0
    if tokens:
        side = 1 if tokens[0][2] in _AFTER else -1
    return tuple(numbers), side, tokens


def _token(part: str) -> _Token:
    """Numbers before words, as in semantic versions, and "dev" before both, as in Python's."""
    if part.isdigit():
        return 0, int(part), ""
    word = part.lower()
    return (-1 if word == "dev" else 1), 0, word


def _by_version(snapshot: Snapshot, key: str, *, newest: bool) -> ElectionResult:
    found = {each.node_id: version(each.metadata.get(key)) for each in snapshot.candidates}
    order = sorted({each for each in found.values() if each is not None}, reverse=not newest)
    places = {each: float(place) for place, each in enumerate(order)}

    def say(each: Candidate) -> str:
        if found[each.node_id] is None:
            return f"has no {key!r} that is a version"
        return f"has {key} {each.metadata[key]}"

    return ElectionResult.by_scores(
        snapshot,
        {node: -inf if each is None else places[each] for node, each in found.items()},
        say,
        problems={
            node: f"has no {key!r} that is a version" for node in found if found[node] is None
        },
    )
