"""A page that shows who leads, and one that says whether the server can be reached, if asked for.

Readiness never depends on who leads: a roll-out that waits for each new replica to be ready would
wait for ever.
"""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from incumbent.asgi.pages import reachable, status
from incumbent.asgi.service import AnyElector
from incumbent.printable import printable_json


class _PrintableResponse(JSONResponse):
    """JSON that may be shown on a terminal, whatever others have chosen to be called."""

    def render(self, content: Any) -> bytes:
        return printable_json(content).encode("ascii")


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
        return await status(elector, *names, app=request.app)

    async def ready(response: Response) -> dict[str, bool]:
        is_reachable = await reachable(elector)
        if not is_reachable:
            response.status_code = 503
        return {"ready": is_reachable}

    router.add_api_route(
        path,
        show,
        methods=["GET"],
        response_class=_PrintableResponse,
        summary="Who leads",
        tags=["leadership"],
    )
    if ready_path is not None:
        router.add_api_route(
            ready_path, ready, methods=["GET"], summary="Is Redis in reach", tags=["leadership"]
        )
    return router
