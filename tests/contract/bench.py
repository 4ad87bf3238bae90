"""What the contract's tests stand on: a store, and a look behind it where its interface has none.

Knows where each store keeps its seats, so that the tests themselves need not.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from incumbent.results import LeaderInfo
from incumbent.stores.base import Budget, Busy, Claim, Grant, Ran, Store
from incumbent.stores.memory import MemoryStore
from incumbent.stores.redis import scripts
from incumbent.stores.redis.scripts import Script
from kit.servers import Server

MEMORY = "memory"
BUDGET = Budget(8.0, 4.0)
"""Longer than any healthy call takes on a busy machine."""

LEASE = 30.0
SCRIPTS = {script.name: script for script in vars(scripts).values() if isinstance(script, Script)}


def claim(election: str, who: str = "a", *, seats: int = 1, lease_time: float = LEASE) -> Claim:
    """The claim of one candidate; the same names make the same token."""
    return Claim(election, seats, f"token-of-{who}", f"leader-{who}", lease_time, 0.0)


def holder_of(answer: Grant | Busy | Ran) -> LeaderInfo:
    """Who has the seat that frees first; the answer has to be a refusal that says so."""
    assert isinstance(answer, Busy), answer
    assert answer.holder is not None
    return answer.holder


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
class Run:
    """One run of a script, as the server saw it."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str, ...]


class Watch:
    """What the server does meanwhile, by MONITOR; names and arguments must have no spaces."""

    def __init__(self, server: Server) -> None:
        self.runs: list[Run] = []
        self.touched: list[tuple[str, str]] = []
        """Command and key of each call that a script made."""
        self._server = server

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Watch for the time of a ``with`` block."""
        with redis.Redis.from_url(self._server.url) as client, client.monitor() as monitor:
            yield
            self._server.cli("ECHO", "the-end")
            while True:
                entry = monitor.next_command()
                word, _, rest = entry["command"].partition(" ")
                if word == "ECHO":
                    return
                if entry["client_type"] == "lua":
                    self.touched.append((word, rest.partition(" ")[0]))
                elif word in {"EVAL", "EVALSHA"}:
                    self.runs.append(_run(rest))


def _run(parts: str) -> Run:
    """What follows EVAL or EVALSHA: the script, how many keys, the keys, the arguments."""
    for name, script in SCRIPTS.items():
        text = script.text.decode().replace("\n", "\\n")
        for head in (script.sha.decode(), text):
            if parts.startswith(head):
                number, *rest = parts.removeprefix(head)[1:].split(" ")
                count = int(number)
                return Run(name, tuple(rest[:count]), tuple(rest[count:]))
    raise AssertionError(f"no script of ours: {parts[:200]}")


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
            self.store._seats[election][seat].ends_at = 0.0

    def now(self) -> float:
        """The wall clock that the store goes by."""
        if self.server is None:
            return time.time()
        seconds, microseconds = self.server.cli("TIME")
        return float(seconds) + float(microseconds) / 1e6
