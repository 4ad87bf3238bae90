"""The types of `incumbent.asgi`. Never run: mypy and pyright check each `assert_type`."""

from typing import Any, assert_type

from starlette.applications import Starlette

from incumbent import GroupElector, LeaderElector, LeaderInfo, StrategicElector
from incumbent.asgi import (
    Leadership,
    Service,
    leadership,
    leadership_in,
    leading,
    reachable,
    status,
)


async def serve() -> None: ...


async def tied(elector: LeaderElector, group: GroupElector, best: StrategicElector) -> None:
    app = Starlette(lifespan=leadership(elector, "one", serve, deadline=5))
    async with leading(app, group, "two", serve) as service:
        assert_type(service, Service)
    assert_type(leadership_in(app, "two"), Leadership)
    assert_type(await leadership_in(app).leader(), LeaderInfo | None)
    assert_type(await status(best, "three", app=app), dict[str, Any])
    assert_type(await reachable(elector), bool)
    leadership(elector, "one", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
