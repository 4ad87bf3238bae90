"""A page that shows who leads, and one that says whether the server can be reached, if asked for.

Readiness never depends on who leads: a roll-out that waits for each new replica to be ready would
wait for ever.
"""

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from incumbent import LeaderState
from incumbent.fastapi.lifespan import services_of
from incumbent.fastapi.service import AnyElector

LOOK_WITHIN: Final = 2.0
"""Seconds that the server has to answer."""


def status_router(
    elector: AnyElector, *names: str, path: str = "/leadership", ready_path: str | None = None
) -> APIRouter:
    """``GET /leadership``: the elections `names`, and those that the application serves, as JSON.

    Args:
        elector: asks the server.
        names: elections to show besides those of `leading` and `leadership`.
        path: where.
        ready_path: where to answer 200 when the server can be reached and 503 when not. Default:
            nowhere. The answer never depends on who leads.
    """
    router = APIRouter()

    async def show(request: Request) -> dict[str, Any]:
        services = services_of(request.app)
        electors = dict.fromkeys(names, elector)
        electors |= {name: service.elector for name, service in services.items()}
        shown = await asyncio.gather(*(_election(each, name) for name, each in electors.items()))
        for election in shown:
            if (service := services.get(election["name"])) is not None:
                election["service"] = service.facts()
        return {"leader_id": elector.leader_id, "elections": shown}

    async def ready(response: Response) -> dict[str, bool]:
        reachable = await _state(elector, "readiness") is not None
        if not reachable:
            response.status_code = 503
        return {"ready": reachable}

    router.add_api_route(path, show, methods=["GET"], summary="Who leads", tags=["leadership"])
    if ready_path is not None:
        router.add_api_route(
            ready_path, ready, methods=["GET"], summary="Is Redis in reach", tags=["leadership"]
        )
    return router


async def _election(elector: AnyElector, name: str) -> dict[str, Any]:
    state = await _state(elector, name)
    return {
        "name": name,
        "leading": elector.is_leading(name),
        "reachable": state is not None,
        "waiting": None if state is None else state.waiting,
        "leaders": [
            {
                "leader_id": leader.leader_id,
                "seat": leader.seat,
                "fence": leader.fence,
                "since": leader.since.isoformat(),
                "remaining": leader.remaining,
                "retained": leader.retained,
            }
            for leader in (() if state is None else state.leaders)
        ],
    }


async def _state(elector: AnyElector, name: str) -> LeaderState | None:
    """None when the server does not answer, or says no: its words may hold addresses."""
    try:
        async with asyncio.timeout(LOOK_WITHIN):
            return await elector.state(name)
    except Exception:  # noqa: BLE001 - whatever it is, the page is shown
        return None
