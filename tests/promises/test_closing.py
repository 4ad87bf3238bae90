"""`aclose`: whatever waits to be elected ends, in words, and its place goes to the next."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from incumbent import Elected, ElectorClosedError, LeaderElector, MemoryStore, OncePer
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import LEASE, Work, at_most, forever, nothing, quick

Electors = tuple[LeaderElector, LeaderElector, LeaderElector]
Wait = Callable[[LeaderElector], Awaitable[object]]


async def lead(elector: LeaderElector) -> None:
    """A block that is never entered."""
    async with elector.lead("one"):
        pytest.fail("it was elected")


async def try_lead(elector: LeaderElector) -> None:
    """The same by the other way."""
    async with elector.try_lead("one"):
        pytest.fail("it was let in")


WAITS: dict[str, Wait] = {
    "run_if_leader": lambda elector: elector.run_if_leader("one", forever),
    "attempt": lambda elector: elector.attempt("one", forever),
    "lead": lead,
    "try_lead": try_lead,
    "campaign": lambda elector: elector.campaign("one", forever),
}


@pytest.fixture(params=["memory", "server"])
async def electors(
    request: pytest.FixtureRequest, valkey: Server, make_client: MakeClient
) -> AsyncIterator[Electors]:
    """Who holds the seat, who waits first, and who waits behind."""
    memory = MemoryStore()
    a, b, c = (
        LeaderElector(
            memory if request.param == "memory" else make_client(valkey),
            quick(lease_time=10, wait_time=60),
            leader_id=name,
            hooks=(),
        )
        for name in "abc"
    )
    yield a, b, c
    for each in (a, b, c):
        await each.aclose()


async def in_line(elector: LeaderElector, count: int) -> None:
    """Wait until so many wait."""

    async def so() -> bool:
        return (await elector.state("one")).waiting == count

    await wait_until(so, what=f"{count} in line", every=0.01)


async def ended(waiting: "asyncio.Task[Any]") -> None:
    """It ends at once, by the close, and its task is as it was."""
    async with asyncio.timeout(10):
        with pytest.raises(ElectorClosedError, match="this elector is closed"):
            await waiting


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_closing_ends_a_wait_and_the_place_goes_to_the_next(
    electors: Electors, wait: Wait
) -> None:
    """Long before the time is up; its place in line is gone."""
    a, b, c = electors
    async with a.lead("one"):
        waiting = asyncio.ensure_future(wait(b))
        await in_line(a, 1)
        behind = asyncio.create_task(c.attempt("one", nothing))
        await in_line(a, 2)
        await b.aclose()
        assert waiting.done()
        await ended(asyncio.ensure_future(waiting))
        await in_line(a, 1)
    with at_most(LEASE):
        assert isinstance(await behind, Elected)


@pytest.mark.parametrize("turns", range(12))
async def test_closing_in_any_turn_after_the_wake_up_leaves_the_seat_to_the_next(
    electors: Electors, turns: int
) -> None:
    """Either its term had begun, or it gives back what it was granted; the next one is elected."""
    a, b, c = electors
    async with a.lead("one"):
        waiting = asyncio.create_task(b.attempt("one", nothing))
        await in_line(a, 1)
        behind = asyncio.create_task(c.attempt("one", nothing))
        await in_line(a, 2)
    for _ in range(turns):
        await asyncio.sleep(0)
    await b.aclose()
    with at_most(3):  # far less than the lease
        assert isinstance(await behind, Elected)
    outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
    assert isinstance(outcome, Elected | ElectorClosedError)
    assert (await a.state("one")).leaders == ()


async def test_a_term_that_runs_outlives_the_close_and_its_campaign_ends_with_it(
    electors: Electors,
) -> None:
    """Also one that would go on after its action: there is no next term, and no pause before."""
    a, b, _ = electors
    work = Work()
    campaign = asyncio.create_task(b.using(restart=True).campaign("one", work))
    await work.began.wait()
    await b.aclose()
    assert b.closed
    assert not campaign.done()
    assert (await a.state("one")).leaders[0].leader_id == "b"
    work.finish.set()
    campaign.cancel()
    await asyncio.wait([campaign])


async def test_a_campaign_in_its_pause_ends(electors: Electors) -> None:
    """After an action that fails at once the pauses grow to half a minute."""
    failures = 0

    async def fail() -> None:
        nonlocal failures
        failures += 1
        raise ValueError("no good")

    elector = electors[1].using(restart=True)
    campaign = asyncio.create_task(elector.campaign("one", fail))
    await wait_until(lambda: failures == 4, what="four failures")
    await asyncio.sleep(0.05)
    await elector.aclose()
    assert campaign.done(), "it does not sleep on"
    await ended(campaign)


async def test_a_schedule_between_two_ticks_ends(electors: Electors) -> None:
    """Whose next tick is an hour away; and one that waits for its turn."""
    sleeping = electors[1].using(wait_time=0)
    task = asyncio.create_task(sleeping.schedule("one", every=OncePer("0 0 1 1 *"), action=nothing))
    await asyncio.sleep(0.05)
    await sleeping.aclose()
    await ended(task)


async def test_closing_ends_a_watch_quietly_and_a_wait_in_words(electors: Electors) -> None:
    """Both at once."""
    a, b, _ = electors
    states: list[object] = []

    async def look() -> None:
        states.extend([state async for state in b.watch("one")])

    async with a.lead("one"):
        waiting = asyncio.create_task(b.attempt("one", nothing))
        watching = asyncio.create_task(look())
        await in_line(a, 1)
        await b.aclose()
        await ended(waiting)
        await watching


async def test_a_sibling_that_is_closed_ends_its_own_waits_only(electors: Electors) -> None:
    """Its maker waits on, and so do the other siblings, as also when the maker is closed."""
    a, b, _ = electors
    sibling, tenant = b.using(wait_time=30), b.for_tenant("acme").using(wait_time=60)
    async with a.lead("one"):
        async with a.for_tenant("acme").lead("one"):
            first = asyncio.create_task(sibling.attempt("one", nothing))
            second = asyncio.create_task(b.attempt("one", nothing))
            third = asyncio.create_task(tenant.attempt("one", nothing))
            await in_line(a, 2)
            await in_line(a.for_tenant("acme"), 1)
            await sibling.aclose()
            await ended(first)
            await in_line(a, 1)
            await b.aclose()
            await ended(second)
            assert not third.done()
        assert isinstance(await third, Elected)


async def test_who_is_cancelled_and_closed_at_once_is_cancelled(electors: Electors) -> None:
    """The caller's own cancellation is never replaced."""
    a, b, _ = electors
    async with a.lead("one"):
        waiting = asyncio.create_task(b.attempt("one", nothing))
        await in_line(a, 1)
        waiting.cancel()
        await b.aclose()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_an_action_may_close_its_own_elector(electors: Electors) -> None:
    """Its term runs on; nothing waits for itself."""
    b = electors[1]

    async def close() -> str:
        await b.aclose()
        return "closed"

    async with asyncio.timeout(10):
        assert await b.run_if_leader("one", close) == "closed"


async def test_p9_closing_waits_for_a_silent_server_no_longer_than_half_a_request(
    proxy: Proxy, make_client: MakeClient, elector: LeaderElector
) -> None:
    """Those who leave its line have that long."""
    far = LeaderElector(make_client(proxy), quick(wait_time=60, request_timeout=2.0), hooks=())
    async with elector.lead("one"):
        waiting = asyncio.create_task(far.attempt("one", nothing))
        await in_line(elector, 1)
        proxy.silence()
        with at_most(1.0):
            await far.aclose()
        await ended(waiting)
        await proxy.restore()


async def test_a_block_that_is_entered_after_the_close_is_refused(
    client: "redis.asyncio.Redis",
) -> None:
    """Though it was made before; and so is a watch that was not begun: that ends quietly."""
    elector = LeaderElector(client, quick())
    block = elector.lead("one")
    await elector.aclose()
    with pytest.raises(ElectorClosedError):
        async with block:
            pytest.fail("it was entered")
