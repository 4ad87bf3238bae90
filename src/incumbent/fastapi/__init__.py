"""Leadership in FastAPI applications: serve while leading, ask who leads, show it.

::

    app = FastAPI(lifespan=leadership(elector, "scheduler", serve))


    @app.post("/jobs", dependencies=[Depends(require_leader)])
    async def add(job: Job, leadership: LeadershipDep) -> None: ...


    app.include_router(status_router(elector))

Start-up never waits for victory, and nothing that happens in an election ends the application.
Applications of Starlette and Litestar find the same in `incumbent.asgi`, which needs no FastAPI.
"""

from incumbent.asgi.leaders import Leadership
from incumbent.asgi.lifespan import leadership, leading
from incumbent.asgi.service import Service
from incumbent.fastapi.dependencies import (
    LeadershipDep,
    RequireLeader,
    leadership_of,
    require_leader,
)
from incumbent.fastapi.status import status_router

__all__ = [
    "Leadership",
    "LeadershipDep",
    "RequireLeader",
    "Service",
    "leadership",
    "leadership_of",
    "leading",
    "require_leader",
    "status_router",
]
