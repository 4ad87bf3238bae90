"""Views of applications that are mounted in others, behind a real uvicorn: they know who leads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import APIRouter, Depends, FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Host, Mount, Route, Router

from incumbent import IncumbentError, LeaderElector
from incumbent.asgi import leadership_in, status
from incumbent.asgi.lifespan import services_of
from incumbent.asgi.mounts import depth_of
from incumbent.fastapi import (
    LeadershipDep,
    leadership,
    leading,
    require_leader,
    status_router,
)
from kit.ports import free_port
from kit.waiting import wait_until
from promises.scene import forever


class Uvicorn(uvicorn.Server):
    """A real one in the test's loop; signals are pytest's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def served(app: Any, *, lifespan: Any = "on") -> AsyncIterator[httpx.AsyncClient]:
    """The application behind uvicorn, and a client of it."""
    port = free_port()
    server = Uvicorn(uvicorn.Config(app, port=port, log_config=None, lifespan=lifespan))
    task = asyncio.create_task(server.serve())
    try:
        await wait_until(lambda: server.started or task.done(), within=120, what="it is up")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await task


def views(elector: LeaderElector, app: FastAPI) -> FastAPI:
    """The application with each kind of view."""

    @app.get("/who")
    async def who(leadership: LeadershipDep) -> bool:
        return leadership.leading

    @app.get("/jobs", dependencies=[Depends(require_leader)])
    async def jobs() -> str:
        return "added"

    app.include_router(status_router(elector))
    return app


def starlette_views(elector: LeaderElector) -> list[Route]:
    """The same without FastAPI."""

    async def who(request: Request) -> JSONResponse:
        return JSONResponse(leadership_in(request.app, "one").leading)

    async def page(request: Request) -> JSONResponse:
        return JSONResponse(await status(elector, app=request.app))

    return [Route("/who", who), Route("/leadership", page)]


Place = Callable[[LeaderElector, FastAPI], None]


def mounted(elector: LeaderElector, outer: FastAPI) -> None:
    """As the documentation of FastAPI has it."""
    outer.mount("/api", views(elector, FastAPI()))


def nested(elector: LeaderElector, outer: FastAPI) -> None:
    """One in one in one."""
    inner = FastAPI()
    inner.mount("/inner", views(elector, FastAPI()))
    outer.mount("/api", Starlette(routes=[Mount("/middle", inner)]))


def wrapped(elector: LeaderElector, outer: FastAPI) -> None:
    """Behind a middleware."""
    outer.mount("/api", GZipMiddleware(views(elector, FastAPI())))


def included(elector: LeaderElector, outer: FastAPI) -> None:
    """A router of FastAPI is no application of its own."""
    router = APIRouter()
    for route in starlette_views(elector):
        router.add_route(route.path, route.endpoint)
    outer.include_router(router, prefix="/api")


def starlettes_router(elector: LeaderElector, outer: FastAPI) -> None:
    """Nor is one of Starlette."""
    outer.mount("/api", Router(starlette_views(elector)))


def starlette(elector: LeaderElector, outer: FastAPI) -> None:
    """Another framework inside."""
    outer.mount("/api", Starlette(routes=starlette_views(elector)))


def host(elector: LeaderElector, outer: FastAPI) -> None:
    """By the name of the host."""
    app = FastAPI()
    app.mount("/api", views(elector, FastAPI()))
    outer.router.routes.append(Host("127.0.0.1", app))


PLACES: list[Place] = [mounted, nested, wrapped, included, starlettes_router, starlette, host]


@pytest.mark.parametrize("place", PLACES)
async def test_views_find_the_election_where_its_lifespan_runs(
    elector: LeaderElector, place: Place
) -> None:
    """However the application that has them is put into the one that serves."""
    outer = FastAPI(lifespan=leadership(elector, "one", forever))
    place(elector, outer)
    prefix = "/api/middle/inner" if place is nested else "/api"
    async with served(outer) as client:
        await wait_until(lambda: elector.is_leading("one"), within=60)
        who, page = [await client.get(prefix + path) for path in ("/who", "/leadership")]
        assert (who.status_code, who.json()) == (200, True)
        assert [each["name"] for each in page.json()["elections"]] == ["one"]
        if place in (mounted, nested, wrapped, host):
            jobs = await client.get(f"{prefix}/jobs")
            assert (jobs.status_code, jobs.json()) == (200, "added")


def never_run(elector: LeaderElector) -> dict[str, tuple[FastAPI, str]]:
    """Applications whose lifespan does not run, and where their views are."""
    lifespan = leadership(elector, "one", forever)
    inner = views(elector, FastAPI(lifespan=lifespan))
    outer, outermost, routed = FastAPI(), FastAPI(), FastAPI()
    outer.mount("/api", inner)
    outermost.mount("/outer", outer)
    routed.mount("/api", Router(starlette_views(elector), lifespan=lifespan))
    return {
        "mounted": (outer, "/api"),
        "nested": (outermost, "/outer/api"),
        "a router": (routed, "/api"),
        "off": (inner, ""),
    }


@pytest.mark.parametrize("kind", ["mounted", "nested", "a router", "off"])
async def test_a_lifespan_that_never_ran_is_told_at_first_use(
    elector: LeaderElector, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """An error 500, and in the log the cause and what to do; also on the page that shows it."""
    app, prefix = never_run(elector)[kind]
    async with served(app, lifespan="off" if kind == "off" else "on") as client:
        for path in ("/who", "/leadership"):
            caplog.clear()
            assert (await client.get(prefix + path)).status_code == 500
            assert "A server runs the lifespan of the outermost application only" in caplog.text
            assert "lifespan=leadership(...)" in caplog.text
            assert "TestClient" in caplog.text


async def test_a_page_of_named_elections_needs_no_lifespan(elector: LeaderElector) -> None:
    """An application that serves nothing may show who leads elsewhere."""
    app = FastAPI()
    app.include_router(status_router(elector, "one"))
    async with served(app) as client:
        page = (await client.get("/leadership")).json()
    assert [each["name"] for each in page["elections"]] == ["one"]


async def test_two_applications_on_one_elector(elector: LeaderElector) -> None:
    """Each sees its own election; what is mounted in both has to name one."""
    shared = views(elector, FastAPI())
    apps: list[FastAPI] = []
    for name in ("one", "two"):
        app = views(elector, FastAPI(lifespan=leadership(elector, name, forever)))
        app.mount("/shared", shared)
        apps.append(app)
    async with served(apps[0]) as first, served(apps[1]) as second:
        for client, name in ((first, "one"), (second, "two")):
            page = (await client.get("/leadership")).json()
            assert [each["name"] for each in page["elections"]] == [name]
        with pytest.raises(IncumbentError, match="several elections: name one of 'one', 'two'"):
            leadership_in(shared)
        assert leadership_in(shared, "two").name == "two"
        with pytest.raises(IncumbentError, match="no election 'three', only 'one'"):
            leadership_in(apps[0], "three")
    assert [services_of(app) for app in apps] == [{}, {}]


async def test_the_nearest_application_that_serves_is_asked(elector: LeaderElector) -> None:
    """The outer one's lifespan may run the inner one's; by name, both can be found."""
    inner = views(elector, FastAPI(lifespan=leadership(elector, "inner", forever)))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            leading(app, elector, "outer", forever),
            inner.router.lifespan_context(inner),
        ):
            yield

    outer = views(elector, FastAPI(lifespan=lifespan))
    outer.mount("/api", inner)
    async with served(outer) as client:
        pages = [(await client.get(path)).json() for path in ("/leadership", "/api/leadership")]
        names = [[each["name"] for each in page["elections"]] for page in pages]
        assert names == [["outer"], ["inner"]]
        assert leadership_in(inner, "outer").name == "outer"


def test_applications_that_hold_each_other_are_walked_once() -> None:
    """Some keep the one that they are mounted in as `app`."""

    class Admin:
        routes = None

        def __init__(self, app: FastAPI) -> None:
            self.app = app

    outer = FastAPI()
    outer.mount("/admin", Admin(outer))  # type: ignore[arg-type]
    assert depth_of(FastAPI(), outer) is None
    assert depth_of(outer, outer) == 0
