"""Which node of a cluster has which slot, as its nodes tell it.

Pure. A slot is one of 16,384 parts of all keys; all keys and channels of an election share one.
Source: https://redis.io/docs/latest/commands/cluster-slots/
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from redis.crc import key_slot

Address: TypeAlias = tuple[str, int]
"""Host and port of a node."""

Remap: TypeAlias = Callable[[str, int], Address]
"""From where a node says that it is to where it can be reached."""

_UNKNOWN: Final = ("", "?")
"""What stands for a host that the node does not know: reach it as the one that says so."""

slot_of: Callable[[bytes], int] = lru_cache(maxsize=4096)(key_slot)
"""The slot of a key or a channel."""


class Range(NamedTuple):
    """Slots from `first` to `last`, both included."""

    first: int
    last: int
    owner: Address


class SlotMap:
    """Who has what; what is learned later about single slots goes in front."""

    def __init__(self, ranges: Sequence[Range], nodes: frozenset[Address]) -> None:
        self.nodes: frozenset[Address] = nodes
        """All that were named, replicas among them."""
        self.owners: frozenset[Address] = frozenset(each.owner for each in ranges)
        """Those that have slots."""
        self._ranges = sorted(ranges)
        self._owners: dict[int, Address] = {}

    def owner(self, slot: int) -> Address | None:
        """Who has `slot`; None when nobody does."""
        owner = self._owners.get(slot)
        if owner is not None:
            return owner
        at = bisect_right(self._ranges, slot, key=lambda each: each.first) - 1
        if at < 0 or slot > self._ranges[at].last:
            return None
        owner = self._owners[slot] = self._ranges[at].owner
        return owner

    def move(self, slot: int, owner: Address) -> None:
        """`owner` has `slot` now."""
        self._owners[slot] = owner
        self.nodes |= {owner}
        self.owners |= {owner}


def read(reply: Any, asked: Address, remap: Remap) -> SlotMap:
    """What `asked` answered to CLUSTER SLOTS."""
    ranges, nodes = list[Range](), set[Address]()
    for first, last, *places in reply:
        addresses = [address_of(place[0], int(place[1]), asked, remap) for place in places]
        ranges.append(Range(int(first), int(last), addresses[0]))
        nodes.update(addresses)
    return SlotMap(ranges, frozenset(nodes))


def address_of(host: bytes | str | None, port: int, asked: Address, remap: Remap) -> Address:
    """Where to reach the node that `asked` calls by this host and port."""
    name = host.decode() if isinstance(host, bytes) else host or ""
    return remap(asked[0] if name in _UNKNOWN else name, port)
