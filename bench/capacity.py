"""What grows with the length of a line, the seats of a group and the number of names.

Calls the scripts by themselves where it is the server that is measured: a process for each of ten
thousand waiters would measure the machine.
"""

import asyncio
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any, Self

import redis
import redis.asyncio

from bench import candidates
from bench.candidates import BUDGET, KEY, stand_of
from bench.counts import Counts
from bench.figures import Figure
from incumbent import LeaderElector, LeaderOptions
from incumbent.stores.redis import RedisStore, keys, scripts
from kit.servers import Server
from kit.waiting import wait_until

NAME = "capacity"
ROOT = f"incumbent:{{{NAME}}}:"
LINE = ("fence", "gone", "queue", "alive", "tick")
SEATS = 1024
LEASE = STALE = 30_000
HELD = "the-holder"


async def measure(server: Server, counts: Counts) -> list[Figure]:
    """The line, groups and names on the server, then what this process sends and keeps."""
    return [
        *_line(server, counts),
        *_group(server),
        *_names(server, counts),
        *await _waiters(server, counts),
        *await _candidates(server, counts),
        _keys_here(counts),
    ]


# -- scripts ----------------------------------------------------------------------------------


class Election:
    """One election on the server, by raw scripts."""

    def __init__(self, server: Server, *, name: str = NAME, seats: int = 1) -> None:
        self._server = server
        root = f"incumbent:{{{name}}}:"
        self._seats = [f"{root}seat:{number}" for number in range(seats)]
        self.fence, self._gone, self.queue, self.alive, self._tick = (root + part for part in LINE)

    def stand(self, processes: list[str]) -> None:
        """All seats are held, and before them stands such a line."""
        self._server.flush()
        pipe = self._server.admin.pipeline(transaction=False)
        for seat in self._seats:
            pipe.hset(seat, mapping={"token": HELD, "leader": "x", "fence": "1", "since": "1"})
            pipe.pexpire(seat, 20 * STALE)
        until = int(self._server.cli("TIME")[0]) * 1000 + 10 * STALE
        for number, process in enumerate(processes):
            pipe.zadd(self.queue, {place(process, number): 1e6 + number})
            pipe.zadd(self.alive, {f"p:{process}": until})
        for name in (self.queue, self.alive):
            pipe.pexpire(name, 20 * STALE)
        pipe.execute()

    def acquire(self, *stand: str | int) -> float:
        """The server's milliseconds for one claim; with a place and such, in line."""
        return self._run("acquire", self._all, "a-token", "x", LEASE, 0, *stand)

    def touch(self, process: str, number: int) -> float:
        """The same for a touch."""
        return self._run("touch", self._few, process, place(process, number), STALE, 0, 1)

    def release(self) -> float:
        """The same for the release of the first seat."""
        return self._run("release", self._all, HELD, 0, 0, 0, 0, 0)

    def state(self) -> float:
        """The same for a look."""
        return self._run("state", self._few)

    @property
    def _all(self) -> list[str]:
        return [self.fence, self._gone, self.queue, self.alive, self._tick, *self._seats]

    @property
    def _few(self) -> list[str]:
        return [self.fence, self.queue, self.alive, *self._seats]

    def _run(self, name: str, names: list[str], *args: str | int) -> float:
        script: scripts.Script = getattr(scripts, name.upper())
        self._server.cli("SCRIPT", "LOAD", script.text)
        self._server.cli("CONFIG", "RESETSTAT")
        self._server.cli("EVALSHA", script.sha, len(names), *names, *args)
        stats: dict[str, Any] = self._server.admin.info("commandstats")
        return float(stats["cmdstat_evalsha"]["usec"]) / 1000


def place(process: str, number: int) -> str:
    """Where a waiter stands."""
    return f"1:{process}:1000:{number}"


# -- the server's time ------------------------------------------------------------------------


def _line(server: Server, counts: Counts) -> Iterator[Figure]:
    size = counts.long_line
    part = f"A line of {size:,} waiters, the server's time"
    one, here, dead = Election(server), ["here"] * size, ["dead"] * size
    client = redis.Redis.from_url(server.url)
    listener = client.pubsub()  # type: ignore[no-untyped-call] # redis-py leaves it so
    listener.subscribe(f"{ROOT}db0:inbox:here", f"{ROOT}db0:inbox:last")

    def figure(what: str, value: float) -> Figure:
        return Figure(part=part, what=what, value=value, unit="ms")

    one.stand(here)
    yield figure("one more asks", one.acquire(place("here", size), 0, STALE))
    yield figure("a touch", one.touch("here", 0))
    yield figure("state()", one.state())
    yield figure("a release", one.release())
    one.stand([*here[1:], "late"])
    server.cli("ZADD", one.alive, 1, "p:late")
    yield figure("state(), a process has died", one.state())
    yield figure("a touch, a process has died", one.touch("here", 0))
    one.stand([*dead[1:], "last"])
    last = place("last", size - 1)
    spent = [one.release()]
    while server.cli("ZSCORE", one.alive, f"w:{last}") is None:
        spent.append(one.touch("last", size - 1))
    yield figure("all but the last were killed: the longest script", max(spent))
    yield figure("the same: all scripts until the last is called", sum(spent))
    listener.close()
    client.close()
    server.flush()


def _group(server: Server) -> Iterator[Figure]:
    part = f"A group of {SEATS:,} seats, the server's time"
    group = Election(server, seats=SEATS)
    group.stand(["here"])
    for what, milliseconds in (
        ("a claim that finds all taken", group.acquire()),
        ("a touch", group.touch("here", 0)),
        ("state()", group.state()),
        ("a release with one in line", group.release()),
    ):
        yield Figure(part=part, what=what, value=milliseconds, unit="ms")
    server.flush()


# -- what is kept, and sent -------------------------------------------------------------------


class Memory:
    """What the server's memory grows by in a block."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = 0

    def __enter__(self) -> Self:
        self._server.flush()
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.flush()

    @property
    def used(self) -> int:
        """Bytes, so far."""
        return self._now() - self._before

    def _now(self) -> int:
        return int(self._server.admin.info("memory")["used_memory"])


def _names(server: Server, counts: Counts) -> Iterator[Figure]:
    """One term of each of many names, ended: what is left is the fence."""
    with Memory(server) as memory:
        pipe = server.admin.pipeline(transaction=False)
        for number in range(counts.names):
            pipe.set(f"incumbent:{{report-{number:07}}}:fence", 10**15 + number, px=86_400_000)
        pipe.execute()
        each = memory.used / counts.names
    part = f"{counts.names:,} names, each led once"
    yield Figure(part=part, what="server's memory of each, for a day", value=each, unit="bytes")


async def _waiters(server: Server, counts: Counts) -> list[Figure]:
    """What waiters of one process take, and send when they are cancelled at once."""
    part = f"{counts.waiters:,} waiters of one process"
    client = redis.asyncio.Redis.from_url(server.url)
    elector = LeaderElector(client, LeaderOptions(wait_time=None))
    async with elector, elector.lead(NAME):
        tracemalloc.start()
        waiters = [
            asyncio.create_task(elector.run_if_leader(NAME, asyncio.sleep, 0))
            for _ in range(counts.waiters)
        ]
        await wait_until(lambda: server.cli("ZCARD", ROOT + "queue") == counts.waiters)
        here = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        used = [server.cli("MEMORY", "USAGE", ROOT + name) for name in ("queue", "alive")]
        before = _received(server)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        sent = _received(server) - before
    await client.aclose()
    return [
        Figure(part=part, what=what, value=total / counts.waiters, unit="bytes")
        for what, total in (
            ("server's memory of each", sum(used)),
            ("memory of each, with its task", here),
            ("sent by each, cancelled at once", sent),
        )
    ]


async def _candidates(server: Server, counts: Counts) -> list[Figure]:
    """What candidates take, and how long a look at all of them keeps the loop from turning."""
    part = f"{counts.long_line:,} candidates"
    client = redis.asyncio.Redis.from_url(server.url)
    store = RedisStore(client, "incumbent")
    await store.registry.enrol(stand_of(0), BUDGET)
    (record,) = (await client.hgetall(KEY)).values()
    for first in range(0, counts.long_line, 1000):
        some = range(first, min(first + 1000, counts.long_line))
        await client.hset(KEY, mapping={f"node-{number:05}": record for number in some})
    server.cli("CONFIG", "RESETSTAT")
    await store.registry.enrol(stand_of(counts.long_line), BUDGET)
    newcomer = float(server.admin.info("commandstats")["cmdstat_evalsha"]["usec"])
    used: int = server.cli("MEMORY", "USAGE", KEY, "SAMPLES", 0)
    longest, began = 0.0, time.perf_counter()
    look = asyncio.create_task(store.registry.snapshot(candidates.NAME, BUDGET))
    while not look.done():
        turn = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - turn)
    took = time.perf_counter() - began
    await store.aclose()
    await client.aclose()
    server.flush()
    each = used / counts.long_line
    return [
        Figure(part=part, what="server's memory of each", value=each, unit="bytes"),
        Figure(part=part, what="a newcomer, the server's time", value=newcomer / 1000, unit="ms"),
        Figure(part=part, what="one look at all", value=1000 * took, unit="ms"),
        Figure(part=part, what="the loop stood still for", value=1000 * longest, unit="ms"),
    ]


def _received(server: Server) -> int:
    return int(server.admin.info("stats")["total_net_input_bytes"])


def _keys_here(counts: Counts) -> Figure:
    """The names of keys that a process keeps, however many elections it has."""
    tracemalloc.start()
    for number in range(counts.groups):
        made = keys.keys_of("incumbent", f"group-{number}", SEATS)
        assert made.acquire.parts > made.touch.parts
        for seat in range(0, SEATS, 8):
            made.seat(seat)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    part = f"{counts.groups:,} groups of {SEATS:,} seats in one process"
    return Figure(part=part, what="memory of the names of keys", value=kept / 1e6, unit="MB")
