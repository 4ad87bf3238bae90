"""Electors and `incumbent.asgi` on Starlette and Litestar: unchanged, with views of their own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar import Request as LitestarRequest
from litestar import get as litestar_get
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from incumbent import LeaderElector
from incumbent.asgi import leadership, leadership_in, leading, reachable, status
from incumbent.asgi.lifespan import services_of
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Work, cancel, quick, token_of

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
View = dict[str, object]


async def look(elector: LeaderElector, app: Any) -> View:
    """What each framework's view answers."""
    serves = bool(services_of(app))
    state = await elector.state("one")
    return {
        "leading": elector.is_leading("one"),
        "leaders": [leader.leader_id for leader in state.leaders],
        "elected": await elector.run_if_leader("job", asyncio.sleep, 0, "done"),
        "status": await status(elector, "job", app=app),
        "seen": leadership_in(app).leading if serves else None,
        "ready": await reachable(elector),
    }


def starlette(elector: LeaderElector, lifespan: Lifespan) -> tuple[Any, Any]:
    """An application, and its life."""

    async def page(request: Request) -> JSONResponse:
        return JSONResponse(await look(elector, request.app))

    app = Starlette(routes=[Route("/", page)], lifespan=lifespan)
    return app, app.router.lifespan_context(app)


def litestar(elector: LeaderElector, lifespan: Lifespan) -> tuple[Any, Any]:
    """An application, and its life."""

    @litestar_get("/")
    async def page(request: LitestarRequest[Any, Any, Any]) -> View:
        return await look(elector, request.app)

    app = Litestar([page], lifespan=[lifespan], openapi_config=None)
    return app, app.lifespan()


Framework = Callable[[LeaderElector, Lifespan], tuple[Any, Any]]
frameworks = pytest.mark.parametrize("framework", [starlette, litestar])


@asynccontextmanager
async def running(app: Any, life: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application between its start-up and its shutdown, and a client of it."""
    transport = httpx.ASGITransport(app)
    async with life, httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        yield client


@frameworks
async def test_the_hook_serves_while_the_application_lives(
    framework: Framework, elector: LeaderElector, valkey: Server
) -> None:
    """Views see who leads; at shutdown the action has cleaned up and the seat is free."""
    work = Work()
    app, life = framework(elector, leadership(elector, "one", work))
    async with running(app, life) as client:
        await work.began.wait()
        seen = (await client.get("/")).json()
        told = seen.pop("status")
        assert seen == {
            "leading": True,
            "leaders": [elector.leader_id],
            "elected": "done",
            "seen": True,
            "ready": True,
        }
        assert told["leader_id"] == elector.leader_id
        assert [each["name"] for each in told["elections"]] == ["job", "one"]
        assert told["elections"][1]["service"]["phase"] == "leading"
        assert services_of(app)["one"].facts()["phase"] == "leading"
    assert (work.runs, work.cleaned) == (1, 1)
    assert token_of(valkey, "one") is None
    assert services_of(app) == {}


@frameworks
async def test_start_up_does_not_wait_for_victory(
    framework: Framework, elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """It answers while another leads, and leads when that has gone."""
    work = Work()
    async with elector.using(lease_time=20).lead("one") as lease:
        rival = LeaderElector(make_client(valkey), quick(), leader_id="rival")
        async with rival:
            app, life = framework(rival, leadership(rival, "one", work))
            async with running(app, life) as client:
                assert (await client.get("/")).json()["leaders"] == [elector.leader_id]
                await lease.release()
                await wait_until(lambda: rival.is_leading("one"))
            assert work.cleaned == 1


@frameworks
async def test_an_elector_alone_needs_no_hook(
    framework: Framework, elector: LeaderElector, valkey: Server
) -> None:
    """A task of one's own that campaigns, in a lifespan of one's own."""
    work = Work()

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(elector.campaign("one", work))
        try:
            yield
        finally:
            await cancel(task)

    app, life = framework(elector, lifespan)
    async with running(app, life) as client:
        await work.began.wait()
        assert (await client.get("/")).json()["leading"] is True
    assert work.cleaned == 1
    assert token_of(valkey, "one") is None


@frameworks
async def test_blocks_in_a_lifespan_of_one_s_own(
    framework: Framework, elector: LeaderElector, valkey: Server
) -> None:
    """As many as are needed; each ends with the application."""
    works = {"one": Work(), "two": Work()}

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with (
            leading(app, elector, "one", works["one"]),
            leading(app, elector, "two", works["two"]),
        ):
            yield

    app, life = framework(elector, lifespan)
    async with life:
        for work in works.values():
            await work.began.wait()
        assert {name for name in works if leadership_in(app, name).leading} == {"one", "two"}
    assert [work.cleaned for work in works.values()] == [1, 1]
    assert [token_of(valkey, name) for name in works] == [None, None]


WITHOUT_FASTAPI = """
import asyncio, os, sys
sys.modules["fastapi"] = None
import httpx
from redis.asyncio import Redis
from incumbent import LeaderElector
from incumbent.asgi import leadership, leadership_in, status
assert "starlette" not in sys.modules and "litestar" not in sys.modules
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def who(request):
    return JSONResponse(await status(elector, app=request.app))

async def main():
    global elector
    async with Redis.from_url(os.environ["URL"]) as redis, LeaderElector(redis) as elector:
        app = Starlette(lifespan=leadership(elector, "one", serve), routes=[Route("/", who)])
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app):
            await began.wait()
            async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
                print((await client.get("/")).json()["elections"][0]["leading"])

async def serve():
    began.set()
    await asyncio.Event().wait()

began = asyncio.Event()
asyncio.run(main())
"""


def test_no_framework_is_needed_but_one_s_own(valkey: Server) -> None:
    """Where FastAPI is not installed a Starlette application leads; nothing else is loaded."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_FASTAPI],
        env=os.environ | {"URL": valkey.url},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (run.stdout, run.stderr) == ("True\n", "")
    assert token_of(valkey, "one") is None
