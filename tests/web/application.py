"""An application as users write it, for real uvicorn workers: a schedule behind the lifespan hook.

``URL`` names the server. Each tick is pushed to the list ``ticks`` as ``period pid``.
"""

import os

from fastapi import FastAPI
from redis.asyncio import Redis

from incumbent import LeaderElector, LeaderOptions, current_lease
from incumbent.fastapi import LeadershipDep, leadership, status_router

redis = Redis.from_url(os.environ["URL"])
lease_time = float(os.environ.get("LEASE", "1"))
elector = LeaderElector(redis, LeaderOptions(lease_time=lease_time, request_timeout=1))


async def tick() -> None:
    lease = current_lease("tick")
    assert lease is not None
    period = int(lease.acquired_at.timestamp())  # by the server's clock
    await redis.rpush("ticks", f"{period} {os.getpid()}")
    await redis.pexpire("ticks", 600_000)


async def serve() -> None:
    await elector.schedule("tick", every=1, action=tick)


app = FastAPI(lifespan=leadership(elector, "scheduler", serve))
app.include_router(status_router(elector))


@app.get("/work")
async def work(leadership: LeadershipDep) -> dict[str, object]:
    return {"pid": os.getpid(), "leading": leadership.leading}
