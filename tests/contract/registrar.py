"""What the tests of registries stand on: a registry, its seats, and a hand on its records.

Knows where each registry keeps its records, so that the tests themselves need not.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from contract.bench import BUDGET, claim, key
from incumbent.stores.base import Grant, Store
from incumbent.stores.memory_registry import MemoryRegistry
from incumbent.stores.redis import Client, RedisStore
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.registry import RedisRegistry
from incumbent.stores.registry import Enrolled, Enrolment, Registry
from incumbent.strategy import Candidate, Metadata, Snapshot
from kit.servers import Server

TTL = 30.0


def stand(election: str, node: str = "a", *, ttl: float = TTL, **metadata: Any) -> Enrolment:
    """A node's stand; the same names make the same token."""
    return Enrolment(
        election=election,
        node_id=node,
        ttl=ttl,
        metadata=Metadata(metadata),
        strategy="5a5a5a",
        token=f"0{node.encode().hex()}",
    )


@dataclass(frozen=True)
class Registrar:
    """A registry under test; `server` and `caller` are None for the one in memory."""

    registry: Registry
    store: Store
    server: Server | None = None
    caller: Caller | None = None

    async def enrol(self, wanted: Enrolment) -> Enrolled:
        """Enrol, which has to succeed."""
        enrolled = await self.registry.enrol(wanted, BUDGET)
        assert isinstance(enrolled, Enrolled)
        return enrolled

    async def look(self, election: str) -> Snapshot:
        """The snapshot of an election."""
        return await self.registry.snapshot(election, BUDGET)

    async def nodes(self, election: str) -> list[str]:
        """Who stands."""
        return [each.node_id for each in (await self.look(election)).candidates]

    async def candidate(self, election: str, node: str = "a") -> Candidate:
        """One that must stand."""
        found = (await self.look(election)).candidate(node)
        assert found is not None
        return found

    async def elect(self, election: str, node: str) -> Grant:
        """Give the seat to a node, under its own name."""
        grant = await self.store.acquire(claim(election, node)._replace(leader_id=node), BUDGET)
        assert isinstance(grant, Grant), grant
        return grant

    @property
    def on_server(self) -> Server:
        """The server, which there must be."""
        assert self.server is not None
        return self.server

    def stored(self, election: str, node: str = "a") -> list[Any]:
        """A record as the server has it."""
        found = self.on_server.cli("HGET", key(election, "candidates"), node)
        parts: list[Any] = json.loads(found)
        return parts

    def put(self, election: str, node: str, record: str | bytes) -> None:
        """Write a record by hand, into a hash that is there."""
        self.on_server.cli("HSET", key(election, "candidates"), node, record)

    def expire(self, election: str, node: str = "a") -> None:
        """Let a record be over now."""
        if self.server is None:
            assert isinstance(self.registry, MemoryRegistry)
            self.registry._records[election][node].ends_at = 0.0
            return
        assert isinstance(self.registry, RedisRegistry)
        _, *rest = self.stored(election, node)
        self.put(election, node, json.dumps([1, *rest], separators=(",", ":")))

    def postpone(self, election: str, node: str, by: float) -> None:
        """The server's clock was ahead by so many seconds when the record was written."""

        def later(time: int) -> int:
            return time + round(by * 1e6) if time else 0

        record = self.stored(election, node)
        record[0], record[2:6] = later(record[0]), map(later, record[2:6])
        for part in record[11:]:
            part[3] = later(part[3])
            part[4] = re.sub("=([0-9]+)=", lambda found: f"={later(int(found[1]))}=", part[4])
        self.put(election, node, json.dumps(record, separators=(",", ":")))


@asynccontextmanager
async def registrar_on(server: Server, client: Client) -> AsyncIterator[Registrar]:
    """A registry and a store on `server`, each with a connection of its own."""
    caller, store = Caller(client), RedisStore(client, "incumbent")
    try:
        yield Registrar(RedisRegistry(caller, "incumbent"), store, server, caller)
    finally:
        await caller.aclose()
        await store.aclose()
