"""An election among many candidates: one snapshot against the same records by HGETALL, and scoring.

Beside it stands the way of the ancestor, a key per candidate found by SCAN and read by MGET, in a
database that has other keys as well.
"""

import asyncio
import time
from collections.abc import Iterable

from redis.asyncio import Redis

from bench.counts import Counts
from bench.figures import Figure
from bench.race import race
from incumbent.stores.base import Budget
from incumbent.stores.redis import RedisStore
from incumbent.stores.registry import Enrolment
from incumbent.strategy import (
    Fifo,
    IdleTime,
    Metadata,
    RecentSuccess,
    Scored,
    Snapshot,
    SuccessRate,
    Weighted,
)
from kit.servers import Server

NAME = "candidates"
KEY = f"incumbent:{{{NAME}}}:candidates"
TTL = 600
BUDGET = Budget(10.0, 10.0)
WEIGHTED = Scored(Weighted([(SuccessRate(), 0.5), (IdleTime(), 0.3), (RecentSuccess(), 0.2)]))


async def measure(server: Server, counts: Counts) -> list[Figure]:
    """All on one client, in turns."""
    async with Redis.from_url(server.url) as client:
        store = RedisStore(client, "incumbent")
        registry = store.registry
        await asyncio.gather(
            *(registry.enrol(stand_of(number), BUDGET) for number in range(counts.candidates))
        )
        records = await client.hgetall(KEY)
        await _fill(client, (f"other:{number}" for number in range(counts.other_keys)), b"x")
        await _fill(client, (f"old:{NAME}:{node.decode()}" for node in records), b"x" * 150)

        async def snapshots() -> None:
            await registry.snapshot(NAME, BUDGET)

        async def raw() -> None:
            await client.hgetall(KEY)

        async def scan_and_mget() -> None:
            keys = [key async for key in client.scan_iter(match=f"old:{NAME}:*", count=10)]
            await client.mget(keys)

        laps = await race({"snapshots": snapshots, "raw": raw}, counts.candidate_rounds)
        old = await race({"old": scan_and_mget}, 3)
        scoring = _scoring(await registry.snapshot(NAME, BUDGET), counts)
        await client.flushdb()
        await store.aclose()
    part = f"An election among {counts.candidates} candidates, {counts.other_keys} other keys"
    return [
        Figure(
            part=part,
            what="one snapshot, as a multiple of a raw HGETALL",
            value=laps["snapshots"].wall / laps["raw"].wall,
            below=2.0,
        ),
        Figure(part=part, what="one snapshot", value=1e3 * laps["snapshots"].wall, unit="ms"),
        Figure(part=part, what="raw HGETALL", value=1e3 * laps["raw"].wall, unit="ms"),
        Figure(part=part, what="by SCAN and MGET", value=1e3 * old["old"].wall, unit="ms"),
        *scoring,
    ]


def stand_of(number: int) -> Enrolment:
    """What a candidate says of itself."""
    said = Metadata({"load": number / 7, "version": "1.2.3", "zone": "north"})
    return Enrolment(election=NAME, node_id=f"node-{number:05}", ttl=TTL, metadata=said)


def _scoring(snapshot: Snapshot, counts: Counts) -> list[Figure]:
    figures: list[Figure] = []
    for what, strategy in (("Fifo", Fifo()), ("three scorers, weighted", WEIGHTED)):
        times: list[float] = []
        for _ in range(max(3, counts.candidate_rounds // 5)):
            began = time.perf_counter()
            strategy(snapshot)
            times.append(time.perf_counter() - began)
        each = 1e6 * sorted(times)[len(times) // 2] / counts.candidates
        figures.append(Figure(part="Scoring", what=f"per candidate, {what}", value=each, unit="us"))
    return figures


async def _fill(client: Redis, keys: Iterable[str], value: bytes) -> None:
    pipeline = client.pipeline(transaction=False)
    for number, key in enumerate(keys, 1):
        pipeline.set(key, value, ex=TTL)
        if number % 1000 == 0:
            await pipeline.execute()
    await pipeline.execute()
