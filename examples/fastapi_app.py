"""A web service of which one replica runs the scheduler, while all of them answer requests.

``pip install 'incumbent[fastapi]' uvicorn``, then
``REDIS_URL=redis://localhost:6379 uvicorn --workers 4 --app-dir examples fastapi_app:app``
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from redis.asyncio import Redis

from incumbent import LeaderElector
from incumbent.fastapi import LeadershipDep, leading, require_leader, status_router

redis = Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
elector = LeaderElector(redis)


async def tick() -> None:
    print("tick, from process", os.getpid())


async def serve() -> None:
    await elector.schedule("tick", every=1, action=tick)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with redis, elector, leading(app, elector, "scheduler", serve):
        yield


app = FastAPI(lifespan=lifespan)
app.include_router(status_router(elector, ready_path="/ready"))  # GET /leadership, GET /ready


@app.get("/")
async def home(leadership: LeadershipDep) -> dict[str, object]:
    return {"process": os.getpid(), "leading": leadership.leading}


@app.post("/jobs", dependencies=[Depends(require_leader)])
async def add_job() -> dict[str, bool]:
    return {"added": True}  # everybody but the leader has answered 503
