"""Electors and the lifespan hook on Starlette and Litestar: unchanged, with views of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar import get as litestar_get
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from incumbent import LeaderElector
from incumbent.fastapi import leadership
from incumbent.fastapi.lifespan import services_of
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Work, cancel, quick, token_of

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
View = dict[str, object]


async def look(elector: LeaderElector) -> View:
    """What each framework's view answers."""
    state = await elector.state("one")
    return {
        "leading": elector.is_leading("one"),
        "leaders": [leader.leader_id for leader in state.leaders],
        "elected": await elector.run_if_leader("job", asyncio.sleep, 0, "done"),
    }


def starlette(elector: LeaderElector, lifespan: Lifespan) -> tuple[Any, Any]:
    """An application, and its life."""

    async def page(_: Request) -> JSONResponse:
        return JSONResponse(await look(elector))

    app = Starlette(routes=[Route("/", page)], lifespan=lifespan)
    return app, app.router.lifespan_context(app)


def litestar(elector: LeaderElector, lifespan: Lifespan) -> tuple[Any, Any]:
    """An application, and its life."""

    @litestar_get("/")
    async def page() -> View:
        return await look(elector)

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
        assert (await client.get("/")).json() == {
            "leading": True,
            "leaders": [elector.leader_id],
            "elected": "done",
        }
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
