"""The names of an election's keys, as bytes: all begin with the prefix, all share one hash slot.

Pure. The braces make the election's name the hash tag of a cluster.
Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from functools import lru_cache
from typing import NamedTuple


class Keys(NamedTuple):
    """The keys of one election."""

    fence: bytes
    gone: bytes
    seats: tuple[bytes, ...]


@lru_cache(maxsize=4096)
def keys_of(prefix: str, election: str, seats: int) -> Keys:
    """The keys of `election` with that many `seats`."""
    root = f"{prefix}:{{{election}}}:"
    return Keys(
        fence=f"{root}fence".encode(),
        gone=f"{root}gone".encode(),
        seats=tuple(f"{root}seat:{number}".encode() for number in range(seats)),
    )
