"""An application as users write it, for real uvicorn workers: a schedule behind the lifespan hook.

``URL`` names the server, by whose clock all goes. Each tick is pushed to the list ``ticks`` as
``period pid when``; each worker's life to ``starts`` and ``ends``; to ``stalls`` each look at the
clock that came too late, and by how much.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from redis.asyncio import Redis
from redis.exceptions import RedisError

from incumbent import LeaderElector, LeaderOptions, current_lease
from incumbent.fastapi import LeadershipDep, leadership, status_router

redis = Redis.from_url(os.environ["URL"])
lease_time = float(os.environ.get("LEASE", "1"))
elector = LeaderElector(redis, LeaderOptions(lease_time=lease_time, request_timeout=1))


async def now() -> float:
    seconds, micros = await redis.time()
    return int(seconds) + int(micros) / 1e6


async def note(key: str, *values: object) -> None:
    await redis.rpush(key, " ".join(map(str, values)))
    await redis.pexpire(key, 600_000)


async def tick() -> None:
    lease = current_lease("tick")
    assert lease is not None
    period = int(lease.acquired_at.timestamp())  # by the server's clock
    await note("ticks", period, os.getpid(), await now())


async def serve() -> None:
    await elector.schedule("tick", every=1, action=tick)


async def look_at_the_clock() -> None:
    """Note when this worker begins, and whenever it, the server or the machine stood still."""
    known, began = False, time.monotonic()
    while True:
        await asyncio.sleep(0.1)
        with suppress(RedisError):
            seen, late = await now(), time.monotonic() - began - 0.1
            if not known:
                await note("starts", seen - late - 0.1, os.getpid())
            elif late > 0.1:
                await note("stalls", seen, late)
            known, began = True, time.monotonic()


serving = leadership(elector, "scheduler", serve)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    clock = asyncio.create_task(look_at_the_clock())
    async with serving(app):
        yield
        with suppress(RedisError):
            await note("ends", await now(), os.getpid())
    clock.cancel()


app = FastAPI(lifespan=lifespan)
app.include_router(status_router(elector))


@app.get("/work")
async def work(leadership: LeadershipDep) -> dict[str, object]:
    return {"pid": os.getpid(), "leading": leadership.leading}
