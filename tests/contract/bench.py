"""What the contract's tests stand on: a store, and a look behind it where its interface has none.

Knows where each store keeps its seats, so that the tests themselves need not.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from incumbent.results import LeaderInfo
from incumbent.stores.base import Budget, Claim, Grant, Store
from incumbent.stores.memory import MemoryStore
from kit.servers import Server

MEMORY = "memory"
BUDGET = Budget(8.0, 4.0)
"""Longer than any healthy call takes on a busy machine."""

LEASE = 30.0


def claim(election: str, who: str = "a", *, seats: int = 1, lease_time: float = LEASE) -> Claim:
    """The claim of one candidate; the same names make the same token."""
    return Claim(election, seats, f"token-of-{who}", f"leader-{who}", lease_time, 0.0)


def key(election: str, name: str) -> str:
    """A key of an election: ``fence``, ``gone`` or ``seat:0``."""
    return f"incumbent:{{{election}}}:{name}"


def keys_of(server: Server, pattern: str = "*") -> list[str]:
    """The keys on a server, of a user's only ours."""
    return sorted(server.admin.scan_iter(match=f"incumbent:{pattern}", count=1000))


def content(server: Server) -> dict[str, Any]:
    """What each key holds, by the server's own serialisation."""
    return {name: (server.cli("TYPE", name), dumped(server, name)) for name in keys_of(server)}


def dumped(server: Server, name: str) -> Any:
    """A key's value, whatever its type."""
    kind = server.cli("TYPE", name)
    read: dict[str, tuple[str | int, ...]] = {
        "string": ("GET", name),
        "hash": ("HGETALL", name),
        "zset": ("ZRANGE", name, 0, -1, "WITHSCORES"),
        "list": ("LRANGE", name, 0, -1),
    }
    return server.cli(*read[kind])


@dataclass(frozen=True)
class Bench:
    """A store under test; `server` is None for the one in memory."""

    store: Store
    server: Server | None

    async def elect(self, wanted: Claim) -> Grant:
        """Acquire, which has to succeed."""
        grant = await self.store.acquire(wanted, BUDGET)
        assert isinstance(grant, Grant), grant
        return grant

    async def fill(self, election: str, candidates: Iterable[str], seats: int) -> list[Grant]:
        """Elect the candidates, one after another."""
        return [await self.elect(claim(election, who, seats=seats)) for who in candidates]

    async def leaders(self, election: str, seats: int = 1) -> tuple[LeaderInfo, ...]:
        """The taken seats, as the store itself tells."""
        return (await self.store.state(election, seats, BUDGET)).leaders

    async def names(self, election: str, seats: int = 1) -> list[tuple[int, str]]:
        """Seat and name of each leader."""
        return [(info.seat, info.leader_id) for info in await self.leaders(election, seats)]

    def expire(self, election: str, seat: int = 0) -> None:
        """Let the lease of a seat be over now."""
        if self.server is not None:
            assert self.server.cli("DEL", key(election, f"seat:{seat}")) == 1
        else:
            assert isinstance(self.store, MemoryStore)
            self.store._seats[election, seat].ends_at = 0.0

    def now(self) -> float:
        """The wall clock that the store goes by."""
        if self.server is None:
            return time.time()
        seconds, microseconds = self.server.cli("TIME")
        return float(seconds) + float(microseconds) / 1e6
