"""The logging hook: its levels and fields; and that no record, error or repr shows a secret."""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from redis.exceptions import AuthenticationError, RedisError

import incumbent
from incumbent import (
    LeaderElector,
    LeaderInfo,
    LeadershipLost,
    LeadershipLostError,
    NotElectedError,
    StrategicElector,
)
from incumbent.events import AttemptDelayed, AttemptSkipped, Hook, TermEnded, TermRenewed
from incumbent.observability.logging import LoggingHook
from incumbent.strategy import LeastLoaded
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    cancel,
    forever,
    gone_key,
    here,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
)

PASSWORD = "the-password-of-the-server"


@pytest.fixture
async def logged(valkey: Server, make_client: MakeClient) -> AsyncIterator[LeaderElector]:
    """An elector with the hook that one gets without asking."""
    async with LeaderElector(make_client(valkey), quick()) as elector:
        yield elector


def ours(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Level and beginning of each record of the library's logger."""
    return [
        (each.levelno, each.message.split(" (")[0])
        for each in caplog.records
        if each.name == "incumbent"
    ]


async def test_a_term_is_info_its_renewals_debug(
    logged: LeaderElector, valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """What one wants to see in production is INFO; the rest is there for whoever looks closer."""
    caplog.set_level(logging.DEBUG, "incumbent")
    async with logged.lead("one"):
        await wait_until(lambda: (logging.DEBUG, "lease renewed") in ours(caplog))
        await logged.attempt("one", nothing)
    assert [each for each in ours(caplog) if each[1] != "lease renewed"] == [
        (logging.INFO, "elected"),
        (logging.DEBUG, "not elected"),
        (logging.INFO, "term ended"),
    ]


async def test_trouble_is_a_warning_an_error_of_the_action_an_error(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Loss, delay, a failed release: WARNING; what the action raised: ERROR."""
    proxy = await make_proxy(valkey)
    options = quick(request_timeout=0.8, wait_time=10, lease_time=2.5)

    async def fail() -> None:
        raise KeyError("mine")

    async def cut() -> None:
        proxy.cut(refuse=True)

    async with LeaderElector(make_client(proxy), options) as elector:
        with pytest.raises(KeyError):
            await elector.run_if_leader("one", fail)
        await elector.run_if_leader("one", cut)
        waiting = asyncio.create_task(elector.attempt("one", forever))
        await wait_until(lambda: (logging.WARNING, "election delayed") in ours(caplog))
        await proxy.restore()
        await wait_until(lambda: ours(caplog)[-1] == (logging.INFO, "elected"))
        proxy.cut(refuse=True)
        await wait_until(lambda: (logging.WARNING, "renewal delayed") in ours(caplog))
        await proxy.restore()
        steal(valkey, "one")
        assert await waiting == LeadershipLost("taken")
    told = ours(caplog)
    for expected in (
        (logging.ERROR, "action raised"),
        (logging.WARNING, "release failed"),
        (logging.WARNING, "leadership lost"),
    ):
        assert told.count(expected) == 1, told
    assert "KeyError: 'mine'" in caplog.text


async def test_the_fields_are_in_the_record(
    logged: LeaderElector, caplog: pytest.LogCaptureFixture
) -> None:
    """Each field of an event is an attribute of the record, under a name that meets nobody's."""
    async with logged.lead("one") as lease:
        pass
    elected, ended = (each for each in caplog.records if each.name == "incumbent")
    for record in (elected, ended):
        values = vars(record)
        assert values["incumbent_election"] == "one"
        assert values["incumbent_leader_id"] == logged.leader_id
        assert values["incumbent_seat"] == 0
        assert values["incumbent_fence"] == lease.fence
    assert vars(ended)["incumbent_ending"] == "released"
    assert vars(ended)["incumbent_duration"] >= 0
    assert "election='one'" in elected.message


def test_a_message_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever may write to the server, or stand in its place, forges no record."""
    caplog.set_level(logging.DEBUG, "incumbent")
    harmful = "a\x1b[2J\x9b\r\nWARNING forged\u202e\u200b\u3164\udc80"
    holder = LeaderInfo(
        leader_id=harmful, seat=0, fence=1, since=datetime(2026, 1, 1, tzinfo=UTC), remaining=1
    )
    hook = LoggingHook()
    hook(AttemptSkipped(election=harmful, leader_id=harmful, reason="held", holder=holder))
    hook(
        AttemptDelayed(
            election="one",
            leader_id="me",
            error=RedisError(f"ERR {harmful}"),
            retry_in=1,
            repeated=False,
        )
    )
    shown = r"a\x1b[2J\x9b\r\nWARNING forged\u202e\u200b\u3164\udc80"
    for record in caplog.records:
        assert record.message.isprintable()
        assert shown in record.message


async def test_a_logger_of_one_s_own(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The hook writes where it is told to, and not at all below the logger's level."""
    logger = logging.getLogger("mine.elections")
    logger.setLevel(logging.WARNING)
    hooks = [LoggingHook(logger)]
    async with LeaderElector(make_client(valkey), quick(), hooks=hooks) as elector:
        await elector.run_if_leader("one", nothing)
        assert ours(caplog) == []
        logger.setLevel(logging.INFO)
        await elector.run_if_leader("one", nothing)
    mine = [each for each in caplog.records if each.name == "mine.elections"]
    assert [each.levelno for each in mine] == [logging.INFO, logging.INFO]
    assert ours(caplog) == []


def shown(error: BaseException) -> str:
    """An error as text in every way that it is shown: str, repr, traceback with its causes."""
    return "\n".join((str(error), repr(error), *traceback.format_exception(error)))


async def test_no_token_is_ever_shown(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """In no log record (redis-py's and asyncio's included), error, result, event or repr.

    The tokens are read from the server: from the seat while it is held, and from the claims that
    were given up.
    """
    caplog.set_level(logging.DEBUG)
    proxy, journal, tokens = await make_proxy(valkey), Journal(), set[str]()
    said: list[str] = []
    hooks: list[Hook] = [LoggingHook(), journal]
    options = quick(request_timeout=0.8)

    def note() -> None:
        token = token_of(valkey, "one")
        assert token is not None
        tokens.add(token)

    async with LeaderElector(make_client(proxy), options, hooks=hooks) as elector:

        async def work() -> None:
            note()
            said.append(repr(here()))
            await journal.has_another(TermRenewed)
            proxy.cut()
            await here().extend(2)
            said.append(repr(await elector.attempt("one", nothing)))
            with pytest.raises(NotElectedError) as caught:
                async with elector.lead("one"):
                    pass
            said.append(shown(caught.value))
            said.append(repr(await elector.state("one")))
            raise KeyError

        with pytest.raises(KeyError) as caught:
            await elector.run_if_leader("one", work)
        said.append(shown(caught.value))

        async def lose() -> None:
            note()
            steal(valkey, "one")
            await forever()

        said.append(repr(await elector.attempt("one", lose)))
        valkey.cli("DEL", seat_key("one"))
        proxy.drop_replies(1, "EVALSHA", cut=True)  # a grant that is asked for twice
        await elector.run_if_leader("one", nothing)
        proxy.drop_replies(2, "EVALSHA")  # a claim that is given up
        with pytest.raises(RedisError) as failed:
            await elector.run_if_leader("one", nothing)
        said.append(shown(failed.value))
        valkey.cli("SET", seat_key("one"), "x", "PX", 5_000)
        with pytest.raises(RedisError) as failed:
            await elector.run_if_leader("one", nothing)
        said.append(shown(failed.value))
        said += [repr(elector), repr(elector._office), repr(elector._office.store)]
    tokens |= set(valkey.cli("ZRANGE", gone_key("one"), 0, -1))
    assert len(tokens) >= 3
    said += [repr(event) for event in journal.events]
    said += [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    text = "\n".join(said)
    assert "elected" in text
    assert not [token for token in tokens if token in text]


async def test_no_password_is_ever_shown(
    start_server: StartServer, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by the elector, nor by its errors, nor by its log, be it right or wrong."""
    caplog.set_level(logging.DEBUG)
    server = start_server(password=PASSWORD)
    said: list[str] = []
    wrong = f"redis://:{PASSWORD}x@{server.host}:{server.port}"
    for url, fails in ((server.url, False), (wrong, True)):
        async with LeaderElector(make_client(url), quick()) as elector:
            said += [repr(elector), str(elector), repr(elector._office.store)]
            if fails:
                with pytest.raises(AuthenticationError) as caught:
                    await elector.run_if_leader("one", nothing)
                said.append(shown(caught.value))
            else:
                async with elector.lead("one") as lease:
                    said += [repr(lease), repr(elector.leases)]
    server.kill()
    async with LeaderElector(make_client(server.url), quick(request_timeout=0.8)) as elector:
        with pytest.raises(RedisError) as failed:
            await elector.run_if_leader("one", nothing)
        said.append(shown(failed.value))
    said += [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    assert not [text for text in said if PASSWORD in text]


async def test_asyncio_s_debug_mode_shows_no_token(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records of slow callbacks show tasks and coroutines, whose arguments hold tokens."""
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0  # every callback is slow
    work = Work()
    async with LeaderElector(make_client(valkey), quick()) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        token = token_of(valkey, "one")
        await work.lease.extend(2)
        shown_tasks = [repr(task) for task in asyncio.all_tasks()]
        work.finish.set()
        await leading
    loop.set_debug(False)
    text = "\n".join([*(record.getMessage() for record in caplog.records), *shown_tasks])
    assert "Executing" in text
    assert token is not None
    assert token not in text


# -- orderly ends ----------------------------------------------------------------------------


@pytest.mark.parametrize("asked_by", ["the holder", "another process", "a better candidate"])
async def test_stepping_down_is_no_warning(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture, asked_by: str
) -> None:
    """It is what somebody asked for: INFO, from the first to the last record."""
    caplog.set_level(logging.INFO, "incumbent")
    best = LeastLoaded("load")
    client = make_client(valkey)
    elector = (
        StrategicElector(client, quick(), strategy=best, node_id="one")
        if asked_by == "a better candidate"
        else LeaderElector(client, quick())
    )
    work = Work()
    async with elector, AsyncExitStack() as stack:
        if isinstance(elector, StrategicElector):
            await stack.enter_async_context(elector.candidate("x", {"load": 0.5}))
        campaign = asyncio.create_task(elector.campaign("x", work))
        await work.began.wait()
        if asked_by == "the holder":
            await work.lease.step_down()
        elif asked_by == "another process":
            assert await elector.request_step_down("x") == 1
        else:
            other = StrategicElector(client, quick(), strategy=best, node_id="two", hooks=[])
            await stack.enter_async_context(other)
            await stack.enter_async_context(other.candidate("x", {"load": 0.1}))
            better = asyncio.create_task(other.campaign("x", Work()))
            stack.push_async_callback(cancel, better)
        await wait_until(lambda: (logging.INFO, "term ended") in ours(caplog), within=60)
        await cancel(campaign)
    records = ours(caplog)
    assert records[:3] == [
        (logging.INFO, "elected"),
        (logging.INFO, "stepping down"),
        (logging.INFO, "term ended"),
    ]
    assert {level for level, _ in records} == {logging.INFO}


async def test_a_term_that_lasted_too_long_is_a_warning(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The action was cut short by its limit, which nobody asked for."""
    async with LeaderElector(make_client(valkey), quick(max_hold_time=0.2)) as elector:
        assert isinstance(await elector.attempt("x", forever), LeadershipLost)
    assert (logging.WARNING, "leadership lost") in ours(caplog)


async def robbed(valkey: Server, name: str) -> None:
    """Somebody else has the seat; wait until the lease under which this runs knows it."""
    steal(valkey, name)
    await here().lost.wait()


async def test_who_wants_warnings_only_hears_of_losses_alone(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss is written, an orderly end is not."""
    caplog.set_level(logging.WARNING, "incumbent")
    async with LeaderElector(make_client(valkey), quick()) as elector:
        with pytest.raises(LeadershipLostError):
            async with elector.lead("x") as lease:
                await lease.step_down()
        assert ours(caplog) == []
        with pytest.raises(LeadershipLostError):
            async with elector.lead("x"):
                await robbed(valkey, "x")
    assert ours(caplog) == [(logging.WARNING, "leadership lost")]


async def test_a_hook_beside_the_log(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture, journal: Journal
) -> None:
    """Hooks replace the log; with `LoggingHook()` among them it is kept."""
    caplog.set_level(logging.INFO, "incumbent")
    client = make_client(valkey)
    alone: list[Hook] = [journal]
    for hooks, written in ((alone, 0), ([incumbent.LoggingHook(), *alone], 2)):
        caplog.clear()
        async with LeaderElector(client, quick(), hooks=hooks) as elector:
            await elector.run_if_leader("x", nothing)
        assert len(ours(caplog)) == written
    assert len(journal.of(TermEnded)) == 2
