"""Leadership in applications of Starlette, Litestar and their like: whatever has a lifespan.

::

    app = Starlette(lifespan=leadership(elector, "scheduler", serve), routes=[Route("/who", who)])


    async def who(request: Request) -> JSONResponse:
        return JSONResponse(await status(elector, app=request.app))

No framework is imported here; what is FastAPI's own stands in `incumbent.fastapi`. Start-up never
waits for victory, and nothing that happens in an election ends the application.
"""

from incumbent.asgi.leaders import Leadership, leadership_in
from incumbent.asgi.lifespan import leadership, leading
from incumbent.asgi.pages import reachable, status
from incumbent.asgi.service import Service

__all__ = [
    "Leadership",
    "Service",
    "leadership",
    "leadership_in",
    "leading",
    "reachable",
    "status",
]
