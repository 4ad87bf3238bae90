"""The names of an election's keys, packed for the scripts that use them.

Pure. All begin with the prefix, and share one hash slot: the braces make the election's name the
hash tag of a cluster.
Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from functools import lru_cache
from typing import NamedTuple

from incumbent.stores.redis.scripts import PackedKeys


class Keys(NamedTuple):
    """The keys that each script is given, in the order of its header."""

    acquire: PackedKeys
    extend: tuple[PackedKeys, ...]
    """By seat."""
    release: tuple[PackedKeys, ...]
    """By seat."""
    leave: PackedKeys
    state: PackedKeys


@lru_cache(maxsize=1024)
def keys_of(prefix: str, election: str, seats: int) -> Keys:
    """The keys of `election` with that many `seats`."""
    root = f"{prefix}:{{{election}}}:".encode()
    fence, gone = root + b"fence", root + b"gone"
    numbered = [root + b"seat:%d" % number for number in range(seats)]
    return Keys(
        acquire=PackedKeys.of(fence, gone, *numbered),
        extend=tuple([PackedKeys.of(fence, seat) for seat in numbered]),
        release=tuple([PackedKeys.of(gone, seat) for seat in numbered]),
        leave=PackedKeys.of(gone, *numbered),
        state=PackedKeys.of(*numbered),
    )


class RegistryKeys(NamedTuple):
    """The keys of the scripts about candidates, in the order of their headers."""

    change: PackedKeys
    """Of enrol, withdraw and result."""
    snapshot: PackedKeys


@lru_cache(maxsize=1024)
def registry_keys_of(prefix: str, election: str) -> RegistryKeys:
    """The keys of the candidates of `election`, which has one seat."""
    root = f"{prefix}:{{{election}}}:".encode()
    candidates = root + b"candidates"
    return RegistryKeys(
        change=PackedKeys.of(candidates, root + b"gone"),
        snapshot=PackedKeys.of(candidates, root + b"fence", root + b"seat:0"),
    )
