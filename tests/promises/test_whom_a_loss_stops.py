"""P3: a loss stops the task that has the block; if there is no task to stop, an event says so.

And a cancellation that is not ours: one that the action swallowed ends neither a term's story nor a
campaign.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Literal

import pytest

from incumbent import LeaderElector, LeadershipLost, LeadershipLostError, Lease
from incumbent.events import CancellationIgnored, NobodyToStop, TermLost, TermRenewed
from kit.servers import Server
from promises.scene import Journal, cancel, here, is_held, nothing, steal

Block = AbstractAsyncContextManager[Lease | None, None]


async def by_wait_for(block: Block) -> Lease | None:
    """On Python 3.11 in a task of its own."""
    return await asyncio.wait_for(block.__aenter__(), 30)


async def by_a_task(block: Block) -> Lease | None:
    """In a task of its own on every Python."""
    return await asyncio.create_task(block.__aenter__())


@pytest.mark.parametrize("method", ["lead", "try_lead"])
@pytest.mark.parametrize("enter", [by_wait_for, by_a_task])
async def test_p3_who_calls_aenter_is_stopped(
    elector: LeaderElector,
    valkey: Server,
    journal: Journal,
    enter: Callable[[Block], Awaitable[Lease | None]],
    method: Literal["lead", "try_lead"],
) -> None:
    """Also when the coroutine runs in a task of its own: the block belongs to the calling task."""
    block: Block = getattr(elector, method)("one")
    lease = await enter(block)
    assert lease is not None
    steal(valkey, "one")
    with pytest.raises(asyncio.CancelledError) as stopped:
        await asyncio.sleep(30)
    assert not is_held(lease)
    with pytest.raises(LeadershipLostError, match="taken"):
        await block.__aexit__(asyncio.CancelledError, stopped.value, None)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert not journal.of(NobodyToStop)


async def test_p3_a_block_that_a_finished_task_has_entered_stops_nobody_and_says_so(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The event comes when that task ends, not only with the loss."""
    async with AsyncExitStack() as stack:
        entering = stack.enter_async_context(elector.lead("one"))
        lease = await asyncio.create_task(entering)
        told = await journal.has(NobodyToStop)
        assert (told.election, told.fence) == ("one", lease.fence)
        assert is_held(lease)
        await asyncio.wait_for(lease.step_down(), 30)
        assert is_held(lease), "it waits for nobody, and so not until the lease has run out"
        assert lease.loss_reason == "stepped_down"
        with pytest.raises(LeadershipLostError, match="stepped_down"):
            await stack.aclose()
    assert journal.story() == ["TermStarted", "NobodyToStop", "TermLost", "TermEnded"]


async def test_p3_a_fixture_s_block_stops_nobody_and_says_so(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Set up, used and torn down in three tasks, as by pytest-asyncio: only the event tells it."""

    async def fixture() -> AsyncIterator[Lease]:
        async with elector.lead("one") as lease:
            yield lease

    async def used(lease: Lease) -> str:
        steal(valkey, "one")
        await asyncio.wait_for(lease.lost.wait(), 30)
        await asyncio.sleep(0.05)
        return "not stopped"

    generator = fixture()

    async def advance() -> Lease:
        return await anext(generator)

    lease = await asyncio.create_task(advance())
    await journal.has(NobodyToStop)
    assert await asyncio.create_task(used(lease)) == "not stopped"
    with pytest.raises(LeadershipLostError, match="taken"):
        await asyncio.create_task(advance())
    assert len(journal.of(NobodyToStop)) == 1


async def test_p3_a_generator_in_one_task_is_stopped_where_it_stands(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """A lifespan, or a dependency with `yield`: its task is there, so it is stopped."""

    @asynccontextmanager
    async def leading() -> AsyncIterator[None]:
        async with elector.lead("one"):
            yield

    async def application() -> None:
        async with leading():
            steal(valkey, "one")
            await asyncio.sleep(30)

    with pytest.raises(LeadershipLostError, match="taken"):
        await asyncio.create_task(application())
    assert not journal.of(NobodyToStop)


async def test_nothing_is_said_where_nobody_is_to_be_stopped(
    elector: LeaderElector, journal: Journal
) -> None:
    """A block that was left, a lease that was given back, and ``on_loss="notify"``."""

    async def leaves() -> None:
        async with elector.lead("one"):
            pass

    async def releases(stack: AsyncExitStack) -> None:
        lease = await stack.enter_async_context(elector.lead("two"))
        await lease.release()

    async def is_told(stack: AsyncExitStack) -> None:
        await stack.enter_async_context(elector.using(on_loss="notify").lead("three"))

    async with AsyncExitStack() as stack:
        for coroutine in (leaves(), releases(stack), is_told(stack)):
            await asyncio.create_task(coroutine)
        await asyncio.sleep(0.01)
    assert not journal.of(NobodyToStop)


async def test_p3_another_task_s_own_cancellation_is_not_ours(
    elector: LeaderElector, valkey: Server
) -> None:
    """A task that leaves a lost block which another task entered can still be cancelled itself."""
    block = elector.lead("one")
    lease = await block.__aenter__()
    steal(valkey, "one")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(30)
    assert lease.loss_reason == "taken"

    async def leaves() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as error:
            await block.__aexit__(type(error), error, None)
            raise

    leaving = asyncio.create_task(leaves())
    await asyncio.sleep(0)
    await cancel(leaving)
    assert leaving.cancelled()


# -- a cancellation that the action swallows -------------------------------------------------


async def old_timeout(seconds: float) -> None:
    """A timeout as it was made before Python 3.11: cancels its own task, and never `uncancel`s."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise TimeoutError from None


async def swallow() -> None:
    """Have a timeout of that kind, and be done with it."""
    try:
        await old_timeout(0.01)
    except TimeoutError:
        return


async def test_p10_a_campaign_stands_again_after_a_swallowed_cancellation(
    elector: LeaderElector, journal: Journal
) -> None:
    """The term ends as a loss, whose cause is told; the campaign goes on, and can be cancelled."""
    terms: list[Lease] = []
    two = asyncio.Event()

    async def serve() -> None:
        terms.append(here())
        if len(terms) == 2:
            two.set()
        await swallow()
        await asyncio.sleep(60)

    standing = asyncio.create_task(elector.campaign("one", serve))
    await asyncio.wait_for(two.wait(), 60)
    assert [each.reason for each in journal.of(TermLost)] == ["expired"]
    assert journal.story()[:3] == ["TermStarted", "CancellationIgnored", "TermLost"]
    assert journal.of(CancellationIgnored)[0].fence == terms[0].fence
    await asyncio.sleep(0.05)  # the second one is swallowed as well
    await cancel(standing)
    assert standing.cancelled(), "the caller's own is not swallowed"


@pytest.mark.parametrize("entry", ["attempt", "lead"])
async def test_p10_a_loss_after_a_swallowed_cancellation_is_a_loss(
    elector: LeaderElector, valkey: Server, entry: str
) -> None:
    """What was swallowed before does not turn the loss into a cancellation of the caller."""

    async def act() -> None:
        await swallow()
        steal(valkey, "one")
        await asyncio.sleep(60)

    async def run() -> object:
        if entry == "attempt":
            return await elector.attempt("one", act)
        async with elector.lead("one"):
            await act()
        return None

    running = asyncio.create_task(run())
    if entry == "attempt":
        assert await running == LeadershipLost("taken")
    else:
        with pytest.raises(LeadershipLostError, match="taken"):
            await running


async def test_p10_a_term_goes_on_as_long_as_nothing_else_happens(
    elector: LeaderElector, journal: Journal
) -> None:
    """A swallowed cancellation alone takes nothing away from an action that ends soon."""

    async def act() -> str:
        await swallow()
        return await nothing()

    assert await elector.run_if_leader("one", act) == "done"
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_p10_a_timeout_that_the_action_handles_costs_no_lease(
    elector: LeaderElector, journal: Journal
) -> None:
    """Renewals come by while it cleans up: to them it looks as if somebody had cancelled it."""

    async def act() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                try:
                    await asyncio.sleep(60)
                finally:
                    await journal.has_another(TermRenewed)
        for _ in range(9):  # of which there are three in a lease time
            await journal.has_another(TermRenewed)
        return "done"

    assert await elector.run_if_leader("one", act) == "done"
    assert journal.story() == ["TermStarted", "TermEnded"]


@pytest.mark.parametrize("handler", ["finally", "error"])
async def test_p10_a_caller_s_cancellation_in_a_long_clean_up_is_handed_on(
    elector: LeaderElector, journal: Journal, handler: str
) -> None:
    """The lease runs out meanwhile, and the clean-up is cut: the caller's word was first."""

    async def act() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            if handler == "error":
                try:
                    raise OSError("the clean-up fails as well")  # noqa: TRY301 - on purpose
                except OSError:
                    await asyncio.sleep(60)
            await asyncio.sleep(60)

    began = asyncio.Event()
    running = asyncio.create_task(elector.attempt("one", act))
    await began.wait()
    await cancel(running)
    assert running.cancelled()
    assert [each.reason for each in journal.of(TermLost)] == ["expired"]
    assert len(journal.of(CancellationIgnored)) == 1
