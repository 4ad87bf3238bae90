"""`campaign`: stands by for ever, survives outages and losses, raises what does not pass."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from incumbent import LeaderElector, current_lease
from incumbent.events import ActionRaised, AttemptDelayed, TermEnded, TermLost, TermStarted
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    at_most,
    cancel,
    forever,
    here,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
    ttl_of,
)


@pytest.fixture
async def outlast(
    own_server: Server, make_client: MakeClient, journal: Journal
) -> AsyncIterator[LeaderElector]:
    """An elector on a server that a test may kill."""
    async with LeaderElector(
        make_client(own_server), quick(request_timeout=0.8), hooks=[journal]
    ) as elector:
        yield elector


async def test_it_returns_what_the_action_returns(elector: LeaderElector) -> None:
    """With arguments for the action, under a lease."""

    async def add(a: int, *, b: int) -> int:
        assert here().name == "one"
        return a + b

    assert await elector.campaign("one", add, 1, b=2) == 3
    assert current_lease() is None


async def test_it_stands_by_until_the_seat_is_free(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Whatever `wait_time` says; it leads as soon as the leader has left."""
    work = Work()
    async with LeaderElector(make_client(valkey), quick(wait_time=0)) as other:
        async with elector.lead("one"):
            campaigning = asyncio.create_task(other.campaign("one", work))
            await asyncio.wait([campaigning], timeout=0.3)
            assert work.runs == 0
        await work.began.wait()
        work.finish.set()
        assert await campaigning == "done"


async def test_it_stands_by_again_after_each_loss(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Lost three times, in three ways; led again each time, the action cancelled each time."""
    work = Work()
    campaigning = asyncio.create_task(elector.campaign("one", work))
    for turn in range(3):
        await wait_until(lambda turn=turn: work.runs == turn + 1)  # type: ignore[misc]
        steal(valkey, "one")
        await journal.has(TermLost, turn + 1)
        valkey.cli("DEL", seat_key("one"))
    await wait_until(lambda: work.runs == 4)
    assert work.cancelled == work.cleaned == 3
    work.finish.set()
    assert await campaigning == "done"
    assert journal.story().count("TermStarted") == 4


async def test_it_leads_again_after_max_hold_time(elector: LeaderElector) -> None:
    """The most one term may last ends a term, not the campaign."""
    work = Work()
    campaigning = asyncio.create_task(elector.using(max_hold_time=0.1).campaign("one", work))
    await wait_until(lambda: work.runs >= 3)
    work.finish.set()
    assert await campaigning == "done"
    assert work.cancelled >= 2


async def test_an_error_while_cleaning_up_after_a_loss_is_logged(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """It goes to the hooks, and the campaign goes on."""
    errors = [ValueError("while cleaning up")]

    async def serve() -> str:
        if not errors:
            return "done"
        steal(valkey, "one")
        try:
            await forever()
        finally:
            valkey.cli("DEL", seat_key("one"))
            raise errors.pop()

    assert await elector.campaign("one", serve) == "done"
    assert [str(each.error) for each in journal.of(ActionRaised)] == ["while cleaning up"]


async def test_it_raises_what_the_action_raises(elector: LeaderElector, valkey: Server) -> None:
    """An error of the action ends it, and the seat is free."""

    async def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await elector.campaign("one", fail)
    assert ttl_of(valkey, "one") == -2


async def test_it_survives_an_outage_while_standing_by(
    outlast: LeaderElector, own_server: Server, journal: Journal
) -> None:
    """The server is killed and comes back without data: it leads then, having told of the delay."""
    async with outlast.using(on_loss="notify").lead("one"):
        campaigning = asyncio.create_task(outlast.campaign("one", nothing))
        await asyncio.wait([campaigning], timeout=0.1)
        own_server.kill()
        delayed = await journal.has(AttemptDelayed)
        assert delayed.retry_in > 0
        own_server.start()
        assert await campaigning == "done"


async def test_it_survives_an_outage_while_leading(
    outlast: LeaderElector, own_server: Server, journal: Journal
) -> None:
    """Killed for longer than the lease: lost in time, and led again when the server is back."""
    work = Work()
    campaigning = asyncio.create_task(outlast.campaign("one", work))
    await work.began.wait()
    own_server.kill()
    lost = await journal.has(TermLost)
    assert lost.reason == "unreachable"
    await wait_until(lambda: work.cleaned == 1)
    own_server.start()
    await wait_until(lambda: work.runs == 2)
    work.finish.set()
    assert await campaigning == "done"
    assert token_of(own_server, "one") is None


async def test_it_survives_a_frozen_server(
    outlast: LeaderElector, own_server: Server, journal: Journal
) -> None:
    """SIGSTOP before the first election and for longer than a request may take."""
    own_server.pause()
    campaigning = asyncio.create_task(outlast.campaign("one", nothing))
    await journal.has(AttemptDelayed, 2)
    own_server.resume()
    assert await campaigning == "done"


async def test_it_starts_before_the_server_does(
    outlast: LeaderElector, own_server: Server, journal: Journal
) -> None:
    """Nobody listens yet: no error, and elected when somebody does."""
    own_server.kill()
    campaigning = asyncio.create_task(outlast.campaign("one", nothing))
    await journal.has(AttemptDelayed)
    own_server.start()
    assert await campaigning == "done"


@pytest.mark.parametrize("kind", ["valkey-9", "redis-8", "redis-6"])
@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_it_waits_for_a_server_that_refuses_writes_for_a_while(
    start_server: StartServer,
    make_client: MakeClient,
    journal: Journal,
    kind: str,
    trouble: str,
) -> None:
    """A full server, or one that is a replica for now, may be well again: elected then."""
    server = start_server(kind)
    options = quick(request_timeout=0.8)
    async with LeaderElector(make_client(server), options, hooks=[journal]) as elector:
        if trouble == "full":
            server.cli("CONFIG", "SET", "maxmemory", 1)
        else:
            server.cli("REPLICAOF", "127.0.0.1", 1)
        campaigning = asyncio.create_task(elector.campaign("one", nothing))
        await wait_until(lambda: campaigning.done() or journal.of(AttemptDelayed))
        if trouble == "full":
            server.cli("CONFIG", "SET", "maxmemory", 0)
        else:
            server.cli("REPLICAOF", "NO", "ONE")
        assert await campaigning == "done"


async def test_it_survives_a_clean_up_that_failed(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """A grant came too late, and giving it back fails: that is an outage like any other."""
    proxy = await make_proxy(valkey)
    options = quick(lease_time=0.3, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        await elector.run_if_leader("warm", nothing)  # the server knows the scripts
        proxy.hold_replies("EVALSHA", "EVAL")
        campaigning = asyncio.create_task(elector.campaign("one", nothing))
        await wait_until(lambda: ttl_of(valkey, "one") > 0)
        await wait_until(lambda: ttl_of(valkey, "one") == -2)
        proxy.hold_requests("EVALSHA", "EVAL")  # the clean-up's
        proxy._holds.pop("replies").gate.set()
        await journal.has(AttemptDelayed)
        proxy.release()
        assert await campaigning == "done"


async def test_it_raises_for_a_wrong_password(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """Credentials do not heal by themselves."""
    server = start_server(password="sesame")
    async with LeaderElector(make_client(f"redis://{server.host}:{server.port}")) as elector:
        with at_most(1), pytest.raises(AuthenticationError):
            await elector.campaign("one", forever)


async def test_it_raises_for_a_missing_right(own_server: Server, make_client: MakeClient) -> None:
    """Nor do rights."""
    own_server.cli("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-evalsha")
    client = make_client(own_server, username="u", password="p")
    async with LeaderElector(client) as elector:
        with at_most(1), pytest.raises(NoPermissionError):
            await elector.campaign("one", forever)


async def test_it_raises_for_a_key_of_the_wrong_type(
    server: Server, make_client: MakeClient
) -> None:
    """Nor does a key of somebody else's where the seat should be."""
    server.cli("SET", seat_key("one"), "mine", "PX", 60_000)
    async with LeaderElector(make_client(server)) as elector:
        with at_most(1), pytest.raises(ResponseError, match="wrong kind of value"):
            await elector.campaign("one", forever)


async def test_restart_goes_on_after_a_return_and_after_an_error(
    elector: LeaderElector, journal: Journal
) -> None:
    """With ``restart=True`` it never returns; the pauses between quick ends grow."""
    times: list[float] = []

    async def serve() -> None:
        times.append(time.monotonic())  # uvloop counts whole milliseconds
        if len(times) % 2:
            raise ValueError("bad")

    campaigning = asyncio.create_task(elector.using(restart=True).campaign("one", serve))
    await journal.has(TermEnded, 4)
    await cancel(campaigning)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    # 0.1 s, doubled each time, of which jitter takes half at most.
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True))
    assert len(journal.of(ActionRaised)) == 2
    assert [each.ending for each in journal.of(TermEnded)] == ["released"] * 4


async def test_restart_frees_the_seat_between_two_terms(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """During the back-off another may lead: no seat is kept by who does nothing."""
    campaigning = asyncio.create_task(elector.using(restart=True).campaign("one", nothing))
    async with LeaderElector(make_client(valkey), quick(wait_time=5)) as other:
        assert await other.run_if_leader("one", nothing) == "done"
    await cancel(campaigning)


async def test_a_cancelled_campaign_leaves_at_once(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """While standing by and while leading: the cancellation comes out, the seat is free."""
    work = Work()
    campaigning = asyncio.create_task(elector.using(lease_time=60).campaign("one", work))
    await work.began.wait()
    standing = asyncio.create_task(elector.campaign("one", forever))
    await asyncio.wait([standing], timeout=0.2)
    with at_most(0.2):
        await cancel(standing)
        assert work.lease.held
        await cancel(campaigning)
    assert ttl_of(valkey, "one") == -2
    assert journal.story() == ["TermStarted", "TermEnded"]
    assert len(journal.of(TermStarted)) == 1
