"""`incumbent.fastapi` in one process: lifespan, dependencies and the status page."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI

from incumbent import IncumbentError, LeaderElector
from incumbent.asgi.lifespan import services_of
from incumbent.fastapi import (
    Leadership,
    LeadershipDep,
    RequireLeader,
    leadership,
    leadership_of,
    leading,
    require_leader,
    status_router,
)
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Work, at_most, forever, nothing, quick, seat_key, steal, token_of


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application between its start-up and its shutdown, and a client of it."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        yield client


@pytest.fixture
async def other(valkey: Server, make_client: MakeClient) -> AsyncIterator[LeaderElector]:
    """Another process's elector."""
    async with LeaderElector(make_client(valkey), quick(), leader_id="node-2:8000") as ready:
        yield ready


def facts(app: Any, name: str = "one") -> dict[str, Any]:
    """What the service says of itself."""
    return services_of(app)[name].facts()


async def test_it_serves_while_the_application_lives(
    elector: LeaderElector, valkey: Server
) -> None:
    """At shutdown the action is cancelled, cleans up, and the seat is free."""
    work = Work()
    app = FastAPI(lifespan=leadership(elector, "one", work))
    async with running(app):
        await work.began.wait()
        assert elector.is_leading("one")
        assert facts(app)["phase"] == "leading"
    assert (work.runs, work.cleaned) == (1, 1)
    assert token_of(valkey, "one") is None
    assert services_of(app) == {}


async def test_start_up_does_not_wait_for_victory(
    elector: LeaderElector, other: LeaderElector
) -> None:
    """Another leads: the application is up, and leads when the other has gone."""
    work = Work()
    app = FastAPI(lifespan=leadership(elector, "one", work))
    async with other.lead("one") as lease:
        with at_most(1):
            async with running(app):
                assert not work.began.is_set()
        async with running(app):
            await lease.release()
            await work.began.wait()


async def test_start_up_does_not_wait_for_the_server(
    own_server: Server, make_client: MakeClient
) -> None:
    """It is down: requests are served, and when it is back the application leads."""
    own_server.kill()
    work = Work()
    async with LeaderElector(make_client(own_server), quick(request_timeout=0.8)) as elector:
        app = FastAPI(lifespan=leadership(elector, "one", work))
        app.include_router(status_router(elector))
        async with running(app) as client:
            page = (await client.get("/leadership")).json()
            assert page["elections"][0]["reachable"] is False
            assert not work.began.is_set()
            own_server.start()
            await asyncio.wait_for(work.began.wait(), 50)
    assert work.cleaned == 1


async def test_shutdown_ends_within_its_deadline(
    elector: LeaderElector, caplog: pytest.LogCaptureFixture
) -> None:
    """A cleanup that takes longer is reported, and left behind; the lease would free the seat."""
    go_on = asyncio.Event()
    work = Work(cleanup=go_on.wait)
    app = FastAPI(lifespan=leadership(elector, "one", work, deadline=0.2))
    with at_most(0.5):
        async with running(app):
            await work.began.wait()
            service = services_of(app)["one"]
    assert "did not end within the deadline" in caplog.text
    go_on.set()
    await wait_until(lambda: service.phase == "stopped", within=60)
    assert not elector.is_leading("one")


async def test_an_error_in_serve_is_logged_counted_and_tried_again(
    elector: LeaderElector, caplog: pytest.LogCaptureFixture
) -> None:
    """The application lives on; its page says what happened, but not the error's words."""
    work = Work()

    async def serve() -> None:
        if facts(app)["errors"] < 2:
            raise ValueError("secret")
        await work()

    app = FastAPI(lifespan=leadership(elector, "one", serve))
    app.include_router(status_router(elector))
    async with running(app) as client:
        await asyncio.wait_for(work.began.wait(), 20)
        page = (await client.get("/leadership")).json()
        service = page["elections"][0]["service"]
        assert service | {"phase": ""} == {
            "phase": "",
            "terms": 3,
            "losses": 0,
            "errors": 2,
            "last_error": "ValueError",
        }
        assert "secret" not in str(page)
    assert "serve failed" in caplog.text


@pytest.mark.parametrize("restart", [False, True])
async def test_errors_are_counted_also_when_the_campaign_restarts_by_itself(
    elector: LeaderElector, restart: bool
) -> None:
    """`restart=True` makes `campaign` go on by itself; nothing is counted twice."""
    runs: list[int] = []

    async def serve() -> None:
        runs.append(facts(app)["errors"])
        if len(runs) == 1:
            raise ValueError
        await forever()

    app = FastAPI(lifespan=leadership(elector.using(restart=restart), "one", serve))
    async with running(app):
        await wait_until(lambda: len(runs) == 2, within=120)
    assert runs == [0, 1]


async def test_a_serve_that_cancels_itself_has_failed(elector: LeaderElector) -> None:
    """It neither ends the service nor looks like a shutdown."""
    runs: list[int] = []

    async def serve() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise asyncio.CancelledError
        await forever()

    app = FastAPI(lifespan=leadership(elector, "one", serve))
    async with running(app):
        await wait_until(lambda: len(runs) == 2, within=120)
        assert facts(app)["last_error"] == "RuntimeError"


@pytest.mark.parametrize("leads", [True, False])
async def test_an_elector_that_is_closed_stops_its_service(
    elector: LeaderElector, other: LeaderElector, valkey: Server, leads: bool
) -> None:
    """A term runs to its end, and nothing is tried again; closing is no error of `serve`."""
    work = Work()
    app = FastAPI(lifespan=leadership(elector, "one", work))
    async with other.try_lead("other" if leads else "one"), running(app):
        if leads:
            await work.began.wait()
        else:
            await wait_until(lambda: facts(app)["phase"] == "standing by", what="it stands by")
            await asyncio.sleep(0.1)
        await elector.aclose()
        if leads:
            assert facts(app)["phase"] == "leading"
            steal(valkey, "one")
        await wait_until(lambda: facts(app)["phase"] == "stopped", what="it has stopped")
        assert facts(app)["errors"] == 0
    assert work.runs == int(leads)


async def test_a_loss_is_counted_and_campaigned_away(
    elector: LeaderElector, valkey: Server
) -> None:
    """It stands by again, and serves again."""
    work = Work()
    app = FastAPI(lifespan=leadership(elector, "one", work))
    async with running(app):
        await work.began.wait()
        steal(valkey, "one")
        await wait_until(lambda: work.cleaned)
        valkey.cli("DEL", "incumbent:{one}:seat:0")
        await wait_until(lambda: work.runs == 2, within=120)
        assert (facts(app)["losses"], facts(app)["errors"]) == (1, 0)


async def test_a_serve_that_returns_has_finished(elector: LeaderElector) -> None:
    """It is not called again, and the application lives on."""
    app = FastAPI(lifespan=leadership(elector, "one", nothing))
    async with running(app):
        await wait_until(lambda: facts(app)["phase"] == "finished")


async def test_several_services_also_on_routers(elector: LeaderElector) -> None:
    """Own lifespans of application and router; a name can be served once."""
    first, second, third = Work(), Work(), Work()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with leading(app, elector, "one", first), leading(app, elector, "two", second):
            with pytest.raises(ValueError, match="already"):
                async with leading(app, elector, "one", first):
                    raise AssertionError("a second one")
            yield

    app = FastAPI(lifespan=lifespan)
    app.include_router(APIRouter(lifespan=leadership(elector, "three", third)))
    async with running(app):
        for work in (first, second, third):
            await work.began.wait()
        assert sorted(services_of(app)) == ["one", "three", "two"]
    assert [work.cleaned for work in (first, second, third)] == [1, 1, 1]


async def test_views_ask_who_leads(elector: LeaderElector, other: LeaderElector) -> None:
    """By the annotation alone, or by name when there are several."""
    app = FastAPI(lifespan=leadership(elector, "one", forever))

    @app.get("/who")
    async def who(
        only: LeadershipDep, named: Annotated[Leadership, Depends(leadership_of("one"))]
    ) -> dict[str, object]:
        leader = await only.leader()
        assert only.elector is elector
        return {"name": named.name, "me": only.leading, "who": leader and leader.leader_id}

    async with other.lead("one") as lease, running(app) as client:
        assert (await client.get("/who")).json() == {
            "name": "one",
            "me": False,
            "who": "node-2:8000",
        }
        await lease.release()
        await wait_until(lambda: elector.is_leading("one"))
        answer = (await client.get("/who")).json()
        assert answer == {"name": "one", "me": True, "who": elector.leader_id}


async def test_only_the_leader_passes(elector: LeaderElector, other: LeaderElector) -> None:
    """The others answer 503, when to come again, and who leads."""
    app = FastAPI(lifespan=leadership(elector, "one", forever))

    @app.post("/jobs", dependencies=[Depends(require_leader)])
    async def add() -> str:
        return "added"

    @app.post("/named", dependencies=[Depends(RequireLeader("one"))])
    async def named() -> str:
        return "added"

    async with other.using(lease_time=20).lead("one") as lease, running(app) as client:
        for path in ("/jobs", "/named"):
            answer = await client.post(path)
            assert answer.status_code == 503
            assert 1 <= int(answer.headers["Retry-After"]) <= 20
            assert answer.headers["X-Leader"] == "node-2:8000"
        await lease.release()
        await wait_until(lambda: elector.is_leading("one"))
        assert (await client.post("/jobs")).json() == "added"


@pytest.mark.parametrize("written", ["nöde", "node\r\nSet-Cookie: a=b"])
async def test_an_id_that_can_be_no_header_is_left_out(
    elector: LeaderElector, valkey: Server, written: str
) -> None:
    """Whatever stands in the server's record: the answer is the 503, without the address."""
    valkey.cli("HSET", seat_key("one"), "token", "x", "leader", written, "fence", 1, "since", 1)
    valkey.cli("PEXPIRE", seat_key("one"), 60_000)
    app = FastAPI(lifespan=leadership(elector, "one", forever))

    @app.post("/jobs", dependencies=[Depends(require_leader)])
    async def add() -> str:
        return "added"

    async with running(app) as client:
        answer = await client.post("/jobs")
        assert (await client.get("/jobs")).status_code == 405, "the application lives"
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 1
    assert "X-Leader" not in answer.headers  # compared as headers are, whatever their case


async def test_nobody_leads_and_nobody_answers(own_server: Server, make_client: MakeClient) -> None:
    """Without the server it is still a 503; the page is shown; readiness fails, if asked for."""
    async with LeaderElector(make_client(own_server), quick(request_timeout=0.8)) as elector:
        app = FastAPI(lifespan=leadership(elector, "one", forever))
        app.include_router(status_router(elector, "extra", ready_path="/ready"))

        @app.get("/jobs", dependencies=[Depends(require_leader)])
        async def jobs() -> str:
            return "mine"

        async with running(app) as client:
            assert (await client.get("/ready")).json() == {"ready": True}
            await wait_until(lambda: elector.is_leading("one"))
            own_server.kill()
            await wait_until(lambda: not elector.is_leading("one"))
            answer = await client.get("/jobs")
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "X-Leader" not in answer.headers
            page = (await client.get("/leadership")).json()
            assert [each["reachable"] for each in page["elections"]] == [False, False]
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()) == (503, {"ready": False})


async def test_readiness_does_not_depend_on_who_leads(
    elector: LeaderElector, other: LeaderElector
) -> None:
    """A roll-out that waits for the new replica would hang otherwise."""
    app = FastAPI(lifespan=leadership(elector, "one", forever))
    app.include_router(status_router(elector, ready_path="/ready"))
    async with other.lead("one"), running(app) as client:
        assert (await client.get("/ready")).status_code == 200
        page = (await client.get("/leadership")).json()
        assert page["leader_id"] == elector.leader_id
        election = page["elections"][0]
        assert (election["name"], election["leading"]) == ("one", False)
        assert election["leaders"][0]["leader_id"] == "node-2:8000"


async def test_what_is_not_usable_is_said_when_the_module_is_loaded(
    elector: LeaderElector,
) -> None:
    """Not when the application starts; a view that asks for what is not served says so."""
    with pytest.raises(ValueError, match="blank"):
        leadership(elector, " ", forever)
    with pytest.raises(TypeError, match="serve"):
        leadership(elector, "one", 3)  # type: ignore[arg-type]
    app = FastAPI()

    @app.get("/one")
    async def one(leadership: LeadershipDep) -> None: ...

    async with running(app) as client:
        with pytest.raises(IncumbentError, match="serves no election"):
            await client.get("/one")


def test_without_fastapi_a_friendly_line_says_what_to_install() -> None:
    """Instead of a module that is not found."""
    code = "import sys; sys.modules['fastapi'] = None; import incumbent.fastapi"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150)
    assert run.returncode == 1
    assert "pip install 'incumbent[fastapi]'" in run.stderr.splitlines()[-1]


async def test_the_page_does_nothing_on_a_terminal(elector: LeaderElector, valkey: Server) -> None:
    """Ids of leaders come from whoever may write to the server, and pages are read with curl."""
    harmful = "a\x1b[2J\x9b2J\x7f\u202etxt\u200b\n"
    valkey.cli("HSET", seat_key("one"), "token", "t", "leader", harmful, "fence", "9", "since", "1")
    valkey.cli("PEXPIRE", seat_key("one"), 60_000)
    app = FastAPI()
    app.include_router(status_router(elector, "one"))
    async with running(app) as client:
        page = await client.get("/leadership")
    assert page.headers["content-type"] == "application/json"
    assert page.text.isascii()
    assert page.text.isprintable()
    (leader,) = page.json()["elections"][0]["leaders"]
    assert leader["leader_id"] == harmful
