"""The types of `incumbent.fastapi`. Never run: mypy and pyright check each `assert_type`."""

from typing import Annotated, assert_type

from fastapi import APIRouter, Depends, FastAPI

from incumbent import GroupElector, LeaderElector, LeaderInfo, LeaderState, StrategicElector
from incumbent.fastapi import (
    Leadership,
    LeadershipDep,
    RequireLeader,
    Service,
    leadership,
    leadership_of,
    leading,
    require_leader,
    status_router,
)

Named = Annotated[Leadership, Depends(leadership_of("one"))]


async def serve() -> None: ...


async def tied(elector: LeaderElector, group: GroupElector, best: StrategicElector) -> None:
    app = FastAPI(lifespan=leadership(elector, "one", serve, deadline=5))
    FastAPI(lifespan=leadership(group, "one", serve))
    assert_type(status_router(elector, "one", ready_path="/ready"), APIRouter)
    app.include_router(status_router(best), dependencies=[Depends(require_leader)])
    app.include_router(APIRouter(dependencies=[Depends(RequireLeader("one"))]))
    async with leading(app, best, "best", serve) as service:
        assert_type(service, Service)
        assert_type(service.leading, bool)
        assert_type(await service.state(), LeaderState)
    leadership(elector, "one", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def viewed(view: LeadershipDep, named: Named) -> None:
    assert_type(view, Leadership)
    assert_type(named, Leadership)
    assert_type(view.name, str)
    assert_type(view.leading, bool)
    assert_type(await view.state(), LeaderState)
    assert_type(await view.leader(), LeaderInfo | None)
    assert_type(view.elector.leader_id, str)
