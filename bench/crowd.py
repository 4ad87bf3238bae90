"""Many elections at once through one default client, against Locks on a pool of 50 connections."""

import asyncio

from redis.asyncio import BlockingConnectionPool, Redis

from bench.counts import Counts
from bench.figures import Figure
from bench.race import race
from bench.raw import RawCycle, check, nothing
from incumbent import LeaderElector
from kit.servers import Server

OURS = "bench-crowd"


async def measure(server: Server, raw: RawCycle, counts: Counts) -> list[Figure]:
    """The three in turns: elections, Locks, and the bare pipeline that is the limit."""
    names = [f"crowd-{number}" for number in range(counts.crowd)]
    acquires, releases = (
        [raw.acquire(name) for name in names],
        [raw.release(name) for name in names],
    )
    client = Redis.from_url(server.url, client_name=OURS)
    pool = BlockingConnectionPool.from_url(server.url, max_connections=50, timeout=None)
    lock_client = Redis.from_pool(pool)
    connections = 0

    async def elections() -> None:
        nonlocal connections
        won = await asyncio.gather(*(elector.run_if_leader(name, nothing) for name in names))
        if not all(won):
            raise RuntimeError("an uncontended election was not won")
        connections = max(connections, _count(server))

    async def lock(name: str) -> None:
        async with lock_client.lock(name, timeout=30):
            await nothing()

    async def locks() -> None:
        await asyncio.gather(*(lock(f"bench:{name}") for name in names))

    async def pipelines() -> None:
        for commands, expected in ((acquires, b"granted"), (releases, b"released")):
            pipeline = lock_client.pipeline(transaction=False)
            for command in commands:
                pipeline.evalsha(*command)  # type: ignore[unused-awaitable] # only queued
            for reply in await pipeline.execute():
                check(reply, expected)

    async with client, lock_client, LeaderElector(client) as elector:
        laps = await race(
            {"elections": elections, "Locks": locks, "two raw pipelines (the limit)": pipelines},
            counts.crowd_rounds,
        )
    ours = laps["elections"].wall
    part = f"{counts.crowd:,} elections at once through one default client"
    return [
        Figure(
            part=part,
            what="rate, as a multiple of Locks on BlockingConnectionPool(50)",
            value=laps["Locks"].wall / ours,
            at_least=4.0,
        ),
        Figure(part=part, what="connections", value=connections, below=3),
        *(
            Figure(part=part, what=name, value=counts.crowd / lap.wall, unit="/s")
            for name, lap in laps.items()
        ),
        *(
            Figure(
                part=part,
                what=f"own CPU time, {name}",
                value=1e6 * lap.cpu / counts.crowd,
                unit="us",
            )
            for name, lap in laps.items()
        ),
    ]


def _count(server: Server) -> int:
    return sum(client["name"] == OURS for client in server.admin.client_list())
