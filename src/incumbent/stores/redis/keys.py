"""The names of an election's keys, packed for the scripts that use them.

Pure. All begin with the prefix, and share one hash slot: the braces make the election's name the
hash tag of a cluster.
Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from functools import lru_cache
from typing import NamedTuple

from incumbent.stores.redis.scripts import PackedKeys, pack


class Release:
    """The keys of a release, by seat; put together when asked for, since each names all seats."""

    def __init__(self, line: tuple[bytes, ...], seats: list[bytes]) -> None:
        self._parts: int = 1 + len(line) + 1 + len(seats)
        self._head: bytes = pack((b"%d" % (self._parts - 1), *line))
        self._tail: bytes = pack(seats)
        self._seats: list[bytes] = seats

    def __getitem__(self, seat: int) -> PackedKeys:
        return PackedKeys(self._parts, self._head + pack((self._seats[seat],)) + self._tail)


class Keys(NamedTuple):
    """The keys that each script is given, in the order of its header."""

    root: bytes
    """What the names of the election's keys and channels begin with."""
    acquire: PackedKeys
    extend: tuple[PackedKeys, ...]
    """By seat."""
    release: Release
    """By seat."""
    leave: PackedKeys
    touch: PackedKeys
    state: PackedKeys
    step_down: PackedKeys


@lru_cache(maxsize=1024)
def keys_of(prefix: str, election: str, seats: int) -> Keys:
    """The keys of `election` with that many `seats`."""
    root = f"{prefix}:{{{election}}}:".encode()
    line = fence, _, queue, alive, _ = (
        root + b"fence",
        root + b"gone",
        root + b"queue",
        root + b"alive",
        root + b"tick",
    )
    numbered = [root + b"seat:%d" % number for number in range(seats)]
    acquire = PackedKeys.of(*line, *numbered)
    return Keys(
        root=root,
        acquire=acquire,
        extend=tuple([PackedKeys.of(fence, seat) for seat in numbered]),
        release=Release(line, numbered),
        leave=acquire,
        touch=PackedKeys.of(fence, queue, alive, *numbered),
        state=PackedKeys.of(fence, queue, *numbered),
        step_down=PackedKeys.of(*numbered),
    )
