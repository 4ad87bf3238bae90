"""The names of an election's keys, packed for the scripts that use them.

Pure. All begin with the prefix, and share one hash slot: the braces make the election's name the
hash tag of a cluster.
Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from incumbent.stores.redis.scripts import PackedKeys

FEW: Final = 64
"""The most seats of a group that is not large."""


class Keys:
    """The keys that each script is given, in the order of its header; packed when first needed."""

    def __init__(self, prefix: str, election: str, seats: int) -> None:
        self.root: bytes = f"{prefix}:{{{election}}}:".encode()
        """What the names of the election's keys begin with."""
        self._seats = seats
        self._of_seat: dict[int, PackedKeys] = {}

    @cached_property
    def acquire(self) -> PackedKeys:
        """For acquire, release and leave."""
        return self._of("fence", "gone", "queue", "alive", "tick")

    @cached_property
    def touch(self) -> PackedKeys:
        """For touch and state."""
        return self._of("fence", "queue", "alive")

    @property
    def step_down(self) -> PackedKeys:
        """Not kept: hardly ever needed."""
        return self._of()

    def seat(self, number: int) -> PackedKeys:
        """For extend and force."""
        packed = self._of_seat.get(number)
        if packed is None:
            names = self.root + b"fence", self.root + b"seat:%d" % number
            packed = self._of_seat[number] = PackedKeys.of(*names)
        return packed

    def _of(self, *names: str) -> PackedKeys:
        root = self.root
        seats = [root + b"seat:%d" % number for number in range(self._seats)]
        return PackedKeys.of(*(root + name.encode() for name in names), *seats)


def keys_of(prefix: str, election: str, seats: int) -> Keys:
    """The keys of `election` with that many `seats`.

    They are kept for the elections that were used last: for fewer if groups are large, so that all
    together take some megabytes at most.
    """
    return (_few if seats <= FEW else _many)(prefix, election, seats)


_few = lru_cache(maxsize=1024)(Keys)
_many = lru_cache(maxsize=32)(Keys)


def channels_of(prefix: str, election: str, database: bytes) -> bytes:
    """What the names of the election's channels begin with.

    The database is in it because channels do not belong to one: a message that is published in one
    is received in all.
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
