"""Many held leases renewed by one process: its share of a core, its memory, its punctuality."""

import asyncio
import gc
import math
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time

from redis.asyncio import Redis

from bench.counts import Counts
from bench.figures import Figure
from incumbent import LeaderElector, LeaderOptions, clock, events, lease
from incumbent.observability.logging import LoggingHook
from kit.servers import Server
from kit.waiting import wait_until

STEPS = 200
"""In so many steps the leases are taken, over one renewal period, so that they are due evenly."""


async def measure(server: Server, counts: Counts) -> list[Figure]:
    """CPU first, then memory: tracing it slows everything down."""
    return [*await _measure_cpu(server, counts), *await _measure_memory(server, counts)]


async def _measure_cpu(server: Server, counts: Counts) -> list[Figure]:
    options = LeaderOptions(lease_time=counts.lease_time)
    watch = Watch(options)
    async with Redis.from_url(server.url) as client:
        elector = LeaderElector(client, options, hooks=(LoggingHook(), watch))
        async with _holding(elector, counts.held, over=options.renewal_period):
            await asyncio.sleep(options.renewal_period)  # each has been renewed once
            watch.start()
            before, cpu, began = _traffic(server), process_time(), perf_counter()
            await asyncio.sleep(counts.periods * options.renewal_period)
            cpu, wall = process_time() - cpu, perf_counter() - began
            evals, reads = (now - then for now, then in zip(_traffic(server), before, strict=True))
            late, renewed = watch.latest, watch.renewed
        await elector.aclose()
    if not renewed:
        raise RuntimeError("nothing was renewed")
    part = _part(counts)
    return [
        Figure(part=part, what="share of one core", value=100 * cpu / wall, unit="%", below=10),
        Figure(part=part, what="renewals", value=renewed / wall, unit="/s"),
        Figure(part=part, what="CPU time per renewal", value=1e6 * cpu / renewed, unit="us"),
        Figure(part=part, what="scripts run by the server", value=evals / wall, unit="/s"),
        Figure(part=part, what="scripts per read of the server", value=evals / max(1, reads)),
        Figure(part=part, what="latest renewal, after it was due", value=1000 * late, unit="ms"),
    ]


async def _measure_memory(server: Server, counts: Counts) -> list[Figure]:
    """What the leases take, less what as many tasks take that only wait."""
    options = LeaderOptions(lease_time=counts.lease_time)
    async with Redis.from_url(server.url) as client, LeaderElector(client, options) as elector:
        await elector.run_if_leader("warm-up", client.ping)
        tracemalloc.start()
        try:
            async with _waiting(counts.held):
                tasks, _ = _traced()
            tracemalloc.clear_traces()
            async with _holding(elector, counts.held):
                tracemalloc.reset_peak()
                # Between two renewals: the first leaves its traces, and none is under way.
                await asyncio.sleep(1.5 * options.renewal_period)
                leases, peak = _traced()
        finally:
            tracemalloc.stop()
    part = _part(counts)
    each = [(size - tasks) / counts.held / 1024 for size in (leases, peak)]
    return [
        Figure(part=part, what="memory per lease", value=each[0], unit="KB", below=4),
        Figure(part=part, what="memory per lease, at the worst moment", value=each[1], unit="KB"),
        Figure(
            part=part,
            what="memory per waiting task, not counted above",
            value=tasks / counts.held / 1024,
            unit="KB",
        ),
    ]


@dataclass(slots=True)
class Watch:
    """A hook that notes how late each renewal is confirmed, after the instant it was due."""

    options: LeaderOptions
    latest: float = 0.0
    renewed: int = 0
    _due: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """Count from here on."""
        self.latest, self.renewed = 0.0, 0

    def __call__(self, event: events.Event) -> None:
        """Take note of a renewal."""
        if not isinstance(event, events.TermRenewed):
            return
        now = clock.now()
        self.renewed += 1
        self.latest = max(self.latest, now - self._due.get(event.election, now))
        age = lease.valid_until(now, self.options.lease_time) - now - event.remaining
        due = now - age + self.options.renewal_period
        self._due[event.election] = math.floor(due / lease.GRID) * lease.GRID


@asynccontextmanager
async def _holding(elector: LeaderElector, count: int, *, over: float = 0.0) -> AsyncIterator[None]:
    """Hold `count` leases for the block, taken evenly `over` some seconds."""
    end = asyncio.Event()
    tasks: list[asyncio.Task[bool | None]] = []
    names = [f"held-{number}" for number in range(count)]
    for step in range(STEPS):
        tasks += [
            asyncio.create_task(elector.run_if_leader(name, end.wait))
            for name in names[step::STEPS]
        ]
        await asyncio.sleep(over / STEPS)
    await wait_until(lambda: len(elector.leases) == count, within=60, every=0.05)
    yield
    end.set()
    if not all(await asyncio.gather(*tasks)):
        raise RuntimeError("an uncontended election was not won")


@asynccontextmanager
async def _waiting(count: int) -> AsyncIterator[None]:
    """Have `count` tasks for the block that only wait."""
    end = asyncio.Event()
    tasks = [asyncio.create_task(end.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    yield
    end.set()
    await asyncio.gather(*tasks)


def _traced() -> tuple[int, int]:
    """Bytes of Python memory, now and at the worst moment."""
    gc.collect()
    return tracemalloc.get_traced_memory()


def _traffic(server: Server) -> tuple[int, int]:
    """How many scripts the server has run by digest, and how often it has read from a socket."""
    calls = server.admin.info("commandstats")["cmdstat_evalsha"]["calls"]
    return calls, server.admin.info("stats")["total_reads_processed"]


def _part(counts: Counts) -> str:
    return f"{counts.held:,} leases of {counts.lease_time:g} s, held and renewed by one process"
