"""Handing over: a leader that steps down by itself, on request, or because its process ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from incumbent import (
    Elected,
    GroupElector,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
    Lease,
    MemoryStore,
    current_lease,
)
from incumbent.events import TermLost
from kit.crew import Crew
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    at_most,
    cancel,
    here,
    is_held,
    nothing,
    quick,
    token_of,
)


async def test_stepping_down_in_the_action_is_where_it_is_cancelled(
    elector: LeaderElector, journal: Journal
) -> None:
    """The await of `step_down` ends in the cancellation, once; what comes after does not run."""
    after: list[str] = []

    async def act() -> None:
        try:
            await here().step_down()
            after.append("went on")
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # clean-up is awaited, the lease still there
            after.append("held" if is_held(here()) else "not held")
            raise

    assert await elector.attempt("one", act) == LeadershipLost("stepped_down")
    assert after == ["held"]
    assert [each.reason for each in journal.of(TermLost)] == ["stepped_down"]
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"]


async def test_another_task_waits_until_the_seat_is_free(
    elector: LeaderElector, valkey: Server
) -> None:
    """When `step_down` returns there, the clean-up is over and the seat given back."""

    async def cleanup() -> None:
        assert token_of(valkey, "one") is not None, "still ours"
        await asyncio.sleep(0.05)

    work = Work(cleanup=cleanup)
    # So long that its end is not what is waited for.
    running = asyncio.create_task(elector.using(lease_time=600).attempt("one", work))
    await work.began.wait()
    async with asyncio.timeout(30):
        await work.lease.step_down()
    assert work.cleaned == 1
    assert token_of(valkey, "one") is None
    assert await running == LeadershipLost("stepped_down")
    await work.lease.step_down()  # once more changes nothing


async def only(child: Coroutine[Any, Any, None]) -> None:
    """Nothing but the child, in a task group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(child)


async def beside(child: Coroutine[Any, Any, None]) -> None:
    """The child, and work beside it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(child)
        group.create_task(asyncio.sleep(1.0))


async def gathered(child: Coroutine[Any, Any, None]) -> None:
    """The same, by `asyncio.gather`."""
    await asyncio.gather(child, asyncio.sleep(1.0))


async def awaited(child: Coroutine[Any, Any, None]) -> None:
    """A task that the action waits for."""
    await asyncio.create_task(child)


async def awaited_in_the_end(child: Coroutine[Any, Any, None]) -> None:
    """A task that the clean-up waits for, though it was not cancelled with the action."""
    task = asyncio.create_task(child)
    try:
        await asyncio.shield(task)
    finally:
        await task


CHILDREN = [only, beside, gathered, awaited, awaited_in_the_end]


@pytest.mark.parametrize("on_loss", ["cancel", "notify"])
@pytest.mark.parametrize("limit", [None, 0.5])
@pytest.mark.parametrize("have", CHILDREN)
async def test_a_child_of_the_action_may_step_down(
    elector: LeaderElector,
    on_loss: Literal["cancel", "notify"],
    limit: float | None,
    have: Callable[[Coroutine[Any, Any, None]], Awaitable[None]],
) -> None:
    """Neither waits for the other: the action's cancellation reaches the child, or it is told."""

    async def step_down(lease: Lease) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await lease.step_down()
                # Who is only told is not kept waiting until the lease has run out.
                assert on_loss == "cancel" or lease.held

    async def act() -> None:
        await have(step_down(here()))

    elector = elector.using(on_loss=on_loss)
    async with asyncio.timeout(30):
        assert await elector.attempt("one", act) == LeadershipLost("stepped_down")


@pytest.mark.parametrize("on_loss", ["cancel", "notify"])
async def test_p9_who_waits_for_a_step_down_can_be_cancelled(
    elector: LeaderElector, on_loss: Literal["cancel", "notify"]
) -> None:
    """A timeout around it ends the wait, not the clean-up; the seat is kept for that as agreed."""
    finish = asyncio.Event()

    async def act() -> None:
        begun.set_result(here())
        try:
            await finish.wait()
        finally:
            await finish.wait()

    begun: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(elector.using(on_loss=on_loss).attempt("one", act))
    lease = await begun
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await lease.step_down()
    assert not running.done()
    assert is_held(lease)
    finish.set()
    assert await running == LeadershipLost("stepped_down")


async def test_p9_a_step_down_is_waited_for_until_the_lease_has_run_out(
    elector: LeaderElector, valkey: Server
) -> None:
    """An action that does not end keeps the seat for so long, and its caller no longer."""
    work = Work()
    running = asyncio.create_task(elector.using(on_loss="notify").attempt("one", work))
    await work.began.wait()
    async with asyncio.timeout(30):
        await work.lease.step_down()
    assert not is_held(work.lease)
    assert not running.done()
    work.finish.set()
    assert await running == LeadershipLost("stepped_down", value="done")


async def test_p9_who_waits_for_another_s_release_can_be_cancelled(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Two give the seat back at once: only the first has something to finish."""
    proxy = await make_proxy(valkey)
    async with (
        LeaderElector(make_client(proxy), quick(lease_time=20)) as elector,
        elector.lead("one") as lease,
    ):
        proxy.hold_replies("EVALSHA", "EVAL")
        first = asyncio.create_task(lease.release())
        await wait_until(lambda: token_of(valkey, "one") is None)
        second = asyncio.create_task(lease.release())
        await asyncio.sleep(0)
        await cancel(second)
        assert second.cancelled()
        assert not first.done()
        await proxy.restore()
        await first


async def test_a_block_that_stepped_down_says_so(elector: LeaderElector) -> None:
    """`lead()` raises, as after any loss; with ``notify`` the block is only told."""
    with pytest.raises(LeadershipLostError, match="stepped_down"):
        async with elector.lead("one") as lease:
            await lease.step_down()
    async with elector.using(on_loss="notify").lead("one") as lease:
        await lease.step_down()
        assert lease.lost.is_set()
        assert lease.loss_reason == "stepped_down"
        assert is_held(lease), "until the block is left"


async def test_the_next_in_line_leads_when_one_steps_down(
    elector: LeaderElector, make_client: MakeClient, valkey: Server
) -> None:
    """The one that stepped down comes after those that wait."""
    order: list[str] = []
    async with LeaderElector(make_client(valkey), quick()) as other:

        async def lead(who: str) -> None:
            order.append(who)
            if len(order) < 4:
                lease = current_lease()
                assert lease is not None
                await wait_until(lambda: valkey.cli("ZCARD", "incumbent:{one}:queue") == 1)
                await lease.step_down()

        await asyncio.wait_for(
            asyncio.gather(
                elector.campaign("one", lead, "a"),
                other.campaign("one", lead, "b"),
            ),
            15,
        )
    assert order[:4] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])


async def test_a_remote_holder_is_asked(
    elector: LeaderElector, make_client: MakeClient, valkey: Server
) -> None:
    """It learns it with its next renewal, cleans up and releases; nobody else is disturbed."""
    async with LeaderElector(make_client(valkey), quick(wait_time=10)) as other:
        work = Work()
        running = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        waiting = asyncio.create_task(other.attempt("one", nothing))
        assert await other.request_step_down("two") == 0
        with at_most(elector.options.lease_time / 3):
            assert await other.request_step_down("one") == 1
            assert await running == LeadershipLost("stepped_down")
        assert work.cleaned == 1
        await waiting
        # The next term begins without the request.
        assert await elector.run_if_leader("one", nothing) == "done"


@pytest.mark.parametrize("kind", ["valkey", "memory"])
async def test_one_seat_of_a_group_is_asked(
    kind: str, valkey: Server, make_client: MakeClient
) -> None:
    """By its number; without one, all that are held."""
    store = MemoryStore() if kind == "memory" else make_client(valkey)
    async with GroupElector(store, quick(), seats=3) as group:
        works = [Work() for _ in range(3)]
        running = []
        for work in works:
            running.append(asyncio.create_task(group.attempt("shard", work)))
            await work.began.wait()
        assert await group.request_step_down("shard", seat=1) == 1
        assert await running[1] == LeadershipLost("stepped_down")
        assert [work.running for work in works] == [1, 0, 1]
        assert await group.request_step_down("shard") == 2
        assert await running[0] == await running[2] == LeadershipLost("stepped_down")
        for wrong in (3, -1):
            with pytest.raises(ValueError, match="seat must be from 0 to 2"):
                await group.request_step_down("shard", seat=wrong)
        with pytest.raises(TypeError, match="seat must be an int, not str"):
            await group.request_step_down("shard", seat="0")  # type: ignore[arg-type]


async def alone(before: Work) -> None:
    """Runs when `before` has stopped."""
    assert before.running == 0


async def test_p1_a_seat_that_is_forced_is_nobodys_until_its_holder_has_stopped(
    elector: LeaderElector, make_client: MakeClient, valkey: Server
) -> None:
    """The holder loses it as `taken`; then only who waits leads, with a greater fence."""
    async with LeaderElector(make_client(valkey), quick(wait_time=10)) as other:
        work = Work()
        running = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        waiting = asyncio.create_task(other.attempt("one", alone, work))
        held = (await other.state("one")).leaders[0]
        assert await other.force_release("one", fence=held.fence - 1) is None
        taken = await other.force_release("one", fence=held.fence)
        assert taken is not None
        assert (taken.leader_id, taken.fence, taken.retained) == (
            elector.leader_id,
            held.fence,
            True,
        )
        assert await other.force_release("one") is None
        assert await running == LeadershipLost("taken")
        outcome = await waiting
        assert isinstance(outcome, Elected)
        assert outcome.fence > held.fence
        with pytest.raises(ValueError, match="seat must be from 0 to 0"):
            await other.force_release("one", seat=1)


async def test_a_retained_seat_is_not_asked(elector: LeaderElector) -> None:
    """Nobody leads on it."""
    await elector.using(min_hold_time=0.8).run_if_leader("one", nothing)
    assert await elector.request_step_down("one") == 0


async def test_on_sigterm_the_next_one_leads_at_once(valkey: Server, tmp_path: Path) -> None:
    """A process with a lease of a minute is told to end: nobody waits for the lease."""
    plan = {"options": {"lease_time": 60.0}, "hold": (60.0, 60.0)}
    async with Crew(valkey, tmp_path, size=3, plan=plan) as crew:
        await crew.all_standing()
        first = await wait_until(crew.leader, within=30)
        await wait_until(lambda: valkey.cli("ZCARD", "incumbent:{crew}:queue") == 2, within=30)
        began = time.monotonic()
        ending = asyncio.create_task(crew.terminate(first))
        await wait_until(lambda: crew.leader() not in (None, first), within=30)
        took = time.monotonic() - began
        assert await ending == 0
    assert took < 10
