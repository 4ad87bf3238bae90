"""P6: what the body raises comes out as itself; neither a loss nor a failed release replaces it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.exceptions import RedisError

from incumbent import (
    ActionFailed,
    Elected,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
)
from incumbent.events import ActionRaised, Event, ReleaseFailed, TermEnded, TermStarted
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.servers import Server
from promises.scene import Journal, here, quick, steal, token_of, ttl_of


class BodyError(Exception):
    """What the user's code raises."""


class Abort(BaseException):
    """What ends a program, like KeyboardInterrupt, but not this one."""


@pytest.fixture
async def proxy(valkey: Server, make_proxy: MakeProxy) -> Proxy:
    """The way to the server, which a test may cut."""
    return await make_proxy(valkey)


@pytest.fixture
async def cut_off(
    proxy: Proxy, make_client: MakeClient, journal: Journal
) -> AsyncIterator[LeaderElector]:
    """An elector behind `proxy`."""
    options = quick(lease_time=3, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        yield elector


Run = Callable[[LeaderElector, BaseException], Awaitable[object]]


async def by_run_if_leader(elector: LeaderElector, error: BaseException) -> object:
    """`run_if_leader`."""

    async def body() -> None:
        raise error

    return await elector.run_if_leader("one", body)


async def by_campaign(elector: LeaderElector, error: BaseException) -> object:
    """`campaign`."""

    async def body() -> None:
        raise error

    await elector.campaign("one", body)
    return None


async def by_lead(elector: LeaderElector, error: BaseException) -> object:
    """`lead`."""
    async with elector.lead("one"):
        raise error


async def by_try_lead(elector: LeaderElector, error: BaseException) -> object:
    """`try_lead`."""
    async with elector.try_lead("one"):
        raise error


ALL = [by_run_if_leader, by_campaign, by_lead, by_try_lead]
NAMES = ["run_if_leader", "campaign", "lead", "try_lead"]


@pytest.mark.parametrize("run", ALL, ids=NAMES)
@pytest.mark.parametrize("kind", [BodyError, ExceptionGroup, Abort, SystemExit, TimeoutError])
async def test_p6_the_error_comes_out_as_itself(
    elector: LeaderElector,
    valkey: Server,
    journal: Journal,
    run: Run,
    kind: type[BaseException],
) -> None:
    """The very object, in no group, by each way to run under a lease; and the seat is free."""
    error = kind("bad", [ValueError()]) if kind is ExceptionGroup else kind("bad")
    with pytest.raises(kind) as caught:
        await run(elector, error)
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert error.__context__ is None
    assert ttl_of(valkey, "one") == -2
    told = [error] if isinstance(error, Exception) else []
    assert [each.error for each in journal.of(ActionRaised)] == told
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]


async def test_p6_attempt_returns_the_error_that_it_kept(elector: LeaderElector) -> None:
    """`attempt` gives an `Exception` as a result, and lets other errors through."""
    error = BodyError("bad")

    async def body(what: BaseException) -> None:
        raise what

    assert await elector.attempt("one", body, error) == ActionFailed(error)
    with pytest.raises(Abort):
        await elector.attempt("one", body, Abort())


async def test_p6_a_cancellation_that_the_action_raised_itself_comes_out(
    elector: LeaderElector, valkey: Server
) -> None:
    """Nobody cancelled anybody; the action's own `CancelledError` is not taken for a loss."""

    async def body() -> None:
        raise asyncio.CancelledError("mine")

    for run in (elector.run_if_leader, elector.attempt, elector.campaign):
        with pytest.raises(asyncio.CancelledError, match="mine"):
            await run("one", body)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert ttl_of(valkey, "one") == -2


async def test_p6_after_a_loss_the_error_wins_and_the_loss_is_a_note(
    elector: LeaderElector, valkey: Server
) -> None:
    """The action turned its cancellation into an error of its own: that is what the caller gets."""
    error = BodyError("bad")

    async def body() -> None:
        steal(valkey, "one")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None

    with pytest.raises(BodyError) as caught:
        await elector.run_if_leader("one", body)
    assert caught.value is error
    assert error.__notes__ == [str(LeadershipLostError("one", "taken"))]


async def test_p6_after_a_loss_the_block_s_error_wins(
    elector: LeaderElector, valkey: Server
) -> None:
    """The same for `lead()`."""
    error = BodyError("bad")

    async def block() -> None:
        async with elector.lead("one") as lease:
            steal(valkey, "one")
            assert not await lease.extend(1)
            raise error

    with pytest.raises(BodyError) as caught:
        await block()
    assert caught.value is error
    assert error.__notes__ == [str(LeadershipLostError("one", "taken"))]


async def test_p6_attempt_keeps_what_the_action_gave_after_a_loss(
    elector: LeaderElector, valkey: Server
) -> None:
    """Value and error are kept beside the loss, which is what is reported."""
    error = BodyError("bad")

    async def body(what: Exception | None) -> str:
        steal(valkey, "one")
        assert not await here().extend(1)
        if what is not None:
            raise what
        return "value"

    assert await elector.attempt("one", body, error) == LeadershipLost("taken", error=error)
    valkey.flush()
    assert await elector.attempt("one", body, None) == LeadershipLost("taken", value="value")


async def test_p6_a_failed_release_replaces_no_value(
    cut_off: LeaderElector, proxy: Proxy, journal: Journal, valkey: Server
) -> None:
    """The server is out of reach when the action ends: its value comes out, hooks are told."""

    async def body() -> str:
        proxy.cut(refuse=True)
        return "value"

    outcome = await cut_off.attempt("one", body)
    assert isinstance(outcome, Elected)
    assert outcome.value == "value"
    (ended,) = journal.of(TermEnded)
    assert ended.ending == "unknown"
    (failed,) = journal.of(ReleaseFailed)
    assert isinstance(failed.error, RedisError)
    assert ttl_of(valkey, "one") > 0


@pytest.mark.parametrize("run", ALL, ids=NAMES)
async def test_p6_a_failed_release_replaces_no_error(
    valkey: Server, make_client: MakeClient, proxy: Proxy, run: Run
) -> None:
    """And an error comes out as itself, without a trace of the release's."""
    error, journal = BodyError("bad"), Journal()

    def cut(event: Event) -> None:
        if isinstance(event, TermStarted):
            proxy.cut(refuse=True)

    options = quick(lease_time=3, request_timeout=0.8)
    client = make_client(proxy)
    async with LeaderElector(client, options, hooks=[cut, journal]) as elector:
        with pytest.raises(BodyError) as caught:
            await run(elector, error)
    assert caught.value is error
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")
    assert journal.of(TermEnded)[-1].ending == "unknown"


async def test_p6_a_loss_without_an_error_is_the_loss(
    elector: LeaderElector, valkey: Server
) -> None:
    """The action returned a value, but too late: `run_if_leader` and `lead` raise."""

    async def body() -> str:
        steal(valkey, "one")
        assert not await here().extend(1)
        return "value"

    with pytest.raises(LeadershipLostError):
        await elector.run_if_leader("one", body)
    valkey.flush()

    async def block() -> None:
        async with elector.lead("one") as lease:
            steal(valkey, "one")
            assert not await lease.extend(1)

    with pytest.raises(LeadershipLostError):
        await block()


async def test_p6_an_error_of_the_election_is_not_the_body_s(
    cut_off: LeaderElector, proxy: Proxy, valkey: Server
) -> None:
    """An election that fails raises redis-py's error and runs nothing."""
    ran: list[int] = []

    async def body() -> None:
        ran.append(1)

    proxy.cut(refuse=True)
    for run in (cut_off.run_if_leader, cut_off.attempt):
        with pytest.raises(RedisError):
            await run("one", body)
    assert not ran
    assert token_of(valkey, "one") is None
