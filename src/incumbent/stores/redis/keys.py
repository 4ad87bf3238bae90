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

    root: bytes
    """What the names of the election's keys and channels begin with."""
    acquire: PackedKeys
    extend: tuple[PackedKeys, ...]
    """By seat."""
    release: PackedKeys
    leave: PackedKeys
    touch: PackedKeys
    state: PackedKeys
    step_down: PackedKeys
    force: tuple[PackedKeys, ...]
    """By seat."""


@lru_cache(maxsize=1024)
def keys_of(prefix: str, election: str, seats: int) -> Keys:
    """The keys of `election` with that many `seats`."""
    root = f"{prefix}:{{{election}}}:".encode()
    fence, queue, alive = root + b"fence", root + b"queue", root + b"alive"
    line = (fence, root + b"gone", queue, alive, root + b"tick")
    numbered = [root + b"seat:%d" % number for number in range(seats)]
    everything = PackedKeys.of(*line, *numbered)
    one_by_one = tuple([PackedKeys.of(fence, seat) for seat in numbered])
    return Keys(
        root=root,
        acquire=everything,
        extend=one_by_one,
        release=everything,
        leave=everything,
        touch=PackedKeys.of(fence, queue, alive, *numbered),
        state=PackedKeys.of(fence, queue, *numbered),
        step_down=PackedKeys.of(*numbered),
        force=one_by_one,
    )


def channels_of(prefix: str, election: str, database: bytes) -> bytes:
    """What the names of the election's channels begin with.

    The database is in it because channels belong to none: what is published in one is heard in all.
    Source: https://redis.io/docs/latest/develop/pubsub/#database--scoping
    """
    return f"{prefix}:{{{election}}}:db".encode() + database + b":"


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
