"""One uncontended election after another, against redis-py's Lock and against two bare EVALSHA."""

from redis.asyncio import Redis

from bench.counts import Counts
from bench.figures import Figure
from bench.race import race
from bench.raw import RawCycle, check, nothing
from incumbent import LeaderElector

NAME = "lone"


async def measure(client: Redis, raw: RawCycle, counts: Counts) -> list[Figure]:
    """All three on one client, in turns."""
    cycles = counts.lone_cycles
    acquire, release = raw.acquire(NAME), raw.release(NAME)

    async def elections() -> None:
        for _ in range(cycles):
            if not await elector.run_if_leader(NAME, nothing):
                raise RuntimeError("an uncontended election was not won")

    async def locks() -> None:
        for _ in range(cycles):
            async with client.lock("bench:lone", timeout=30):
                await nothing()

    async def evalshas() -> None:
        for _ in range(cycles):
            check(await client.evalsha(*acquire), b"granted")
            await nothing()
            check(await client.evalsha(*release), b"released")

    async with LeaderElector(client) as elector:
        laps = await race(
            {"elections": elections, "Locks": locks, "raw cycles": evalshas}, counts.lone_rounds
        )
    ours = laps["elections"].wall
    part = "One uncontended run_if_leader after another"
    return [
        Figure(
            part=part,
            what="rate, as a multiple of redis-py's Lock",
            value=laps["Locks"].wall / ours,
            at_least=1.0,
            stretch=1.2,
        ),
        Figure(
            part=part,
            what="rate, as a multiple of two raw EVALSHA",
            value=laps["raw cycles"].wall / ours,
            at_least=0.8,
        ),
        *(
            Figure(part=part, what=name, value=cycles / lap.wall, unit="/s")
            for name, lap in laps.items()
        ),
        *(
            Figure(part=part, what=f"own CPU time, {name}", value=1e6 * lap.cpu / cycles, unit="us")
            for name, lap in laps.items()
        ),
    ]
