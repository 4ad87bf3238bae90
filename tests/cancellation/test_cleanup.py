"""P3, P6: the action's own cleanup, when the lease is lost or somebody cancels.

One cancellation, at one await; the awaits that follow complete. A second one comes only when the
lease's end has come and the action still runs. A lease that is still ours is renewed meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

from cancellation.stage import count_after, lose
from incumbent import (
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    LeadershipLostError,
    Lease,
    clock,
    current_lease,
    events,
)
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server

LEASE = 1.0
LONG = 3.0
"""Of a lease that is to be renewed in time, also when the machine stands still for a second."""
SLACK = 1.5
"""By how much a machine that is busy with other things may be late."""


class Diary:
    """Works for a while, whatever comes, and notes each cancellation with its time."""

    def __init__(self) -> None:
        self.cancelled_at: list[float] = []
        self.completed = 0
        self.held = True
        self.renewals = 0
        self.lease: Lease | None = None

    async def work(self, seconds: float, renewals: int = 0) -> str:
        """Await in steps of a hundredth of a second for so long, and for so many renewals."""
        end = clock.now() + seconds
        while clock.now() < end or self.renewals < renewals:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled_at.append(clock.now())
            else:
                self.completed += 1
            self.lease = current_lease()
            self.held = self.held and self.lease is not None and self.lease.held
        return "done"

    def hear(self, event: events.Event) -> None:
        """A hook."""
        self.renewals += isinstance(event, events.TermRenewed)


def new_elector(client: redis.asyncio.Redis, diary: Diary, **options: Any) -> LeaderElector:
    """An elector of short leases whose events go to `diary`."""
    options = {"lease_time": LEASE} | options
    return LeaderElector(client, LeaderOptions(**options), hooks=(diary.hear,))


def later(seconds: float, deed: Callable[[], object]) -> None:
    """Do it in so many seconds."""
    asyncio.get_running_loop().call_later(seconds, deed)


async def test_p3_one_cancellation_and_the_cleanup_completes(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """A lost lease cancels the action once; its handlers, with awaits in them, run to their end."""
    steps: list[str] = []

    async def action() -> None:
        try:
            lose(valkey, current_lease())
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            for number in range(3):
                await asyncio.sleep(0.01)
                steps.append(f"except {number}")
            raise
        finally:
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0.01))
            steps.append("finally")

    async with new_elector(client, Diary()) as elector:
        came_out, count = await count_after(elector.run_if_leader("once", action))
    assert isinstance(came_out, LeadershipLostError)
    assert steps == ["except 0", "except 1", "except 2", "finally"]
    assert count == 0


@pytest.mark.parametrize("entry", ["attempt", "lead"])
async def test_p3_a_loss_in_the_middle_of_a_cleanup(
    valkey: Server, client: redis.asyncio.Redis, entry: str
) -> None:
    """An action that is in its `finally` already is cancelled there, once, and goes on."""
    diary = Diary()

    async def action() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            later(0.02, lambda: lose(valkey, elector.leases[0]))
            await diary.work(0.1)

    async def block() -> None:
        async with elector.lead("middle"):
            await action()

    async with new_elector(client, diary) as elector:
        work = elector.attempt("middle", action) if entry == "attempt" else block()
        came_out, count = await count_after(work)
    assert isinstance(came_out, LeadershipLost if entry == "attempt" else LeadershipLostError)
    assert len(diary.cancelled_at) == 1
    assert diary.completed >= 2
    assert count == 0


async def test_p3_cancelled_once_more_at_the_end_of_the_lease(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """Who cleans up beyond the lease's end is cancelled a second time then, and never again."""
    diary = Diary()

    async def action() -> str:
        lease = current_lease()
        assert lease is not None
        ends_at.append(clock.now() + lease.remaining)
        lose(valkey, lease)
        return await diary.work(2 * LEASE)

    ends_at: list[float] = []
    async with new_elector(client, diary) as elector:
        came_out, count = await count_after(elector.attempt("slow", action))
    assert came_out == LeadershipLost("taken", value="done")
    assert len(diary.cancelled_at) == 2
    assert -0.01 <= diary.cancelled_at[1] - ends_at[0] < SLACK
    assert count == 0


async def test_p3_unreachable_leaves_the_grace_and_then_cancels_again(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """Without an answer the action is cancelled `stop_grace` before the lease ends, then at it."""
    diary = Diary()

    async def action() -> str:
        proxy.silence()
        lease = current_lease()
        assert lease is not None
        ends_at.append(clock.now() + lease.remaining)
        return await diary.work(3 * LEASE)

    ends_at: list[float] = []
    elector = new_elector(make_client(proxy), diary, lease_time=2 * LEASE, request_timeout=2)
    came_out, count = await count_after(elector.attempt("silent", action))
    assert came_out == LeadershipLost("unreachable", value="done")
    first, second = diary.cancelled_at
    assert -0.01 <= first - (ends_at[0] - LEASE / 3) < SLACK
    assert -0.01 <= second - ends_at[0] < SLACK
    assert count == 0
    await elector.aclose()


async def test_p3_max_hold_time_keeps_the_lease_for_the_cleanup(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """After `max_hold_time` the lease is held and renewed until the cleanup has ended."""
    diary = Diary()
    async with new_elector(client, diary, lease_time=LONG, max_hold_time=0.05) as elector:
        came_out, count = await count_after(elector.attempt("long", diary.work, 0.1, 2))
    assert came_out == LeadershipLost("max_hold_time", value="done")
    assert len(diary.cancelled_at) == 1
    assert diary.held
    assert not valkey.cli("EXISTS", "incumbent:{long}:seat:0")
    assert count == 0


async def test_p3_max_hold_time_renews_for_one_lease_time_at_most(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """A cleanup without end is not given more than one lease time, and the rest of the lease."""
    diary = Diary()
    async with new_elector(client, diary, max_hold_time=0.05) as elector:
        await count_after(elector.attempt("endless", diary.work, 3 * LEASE))
    first, second = diary.cancelled_at
    assert LEASE - 0.01 <= second - first < 2 * LEASE + SLACK
    assert not diary.held


@pytest.mark.parametrize("by", ["task.cancel", "asyncio.timeout"])
async def test_p4_a_cancelled_action_cleans_up_under_its_lease(
    client: redis.asyncio.Redis, by: str
) -> None:
    """The caller's own cancellation leaves the lease held, and renewed, until the cleanup ends."""
    diary = Diary()
    limit = asyncio.timeout(None)

    async def action() -> None:
        try:
            if by == "asyncio.timeout":
                limit.reschedule(0)
            else:
                task.cancel()
            await asyncio.Event().wait()
        finally:
            await diary.work(1.2 * LONG, 2)  # beyond the lease that it had when it was cancelled

    async def limited() -> None:
        async with limit:
            await elector.run_if_leader("tidy", action)

    async with new_elector(client, diary, lease_time=LONG) as elector:
        task = asyncio.create_task(count_after(limited()))
        came_out, count = await task
    expected = TimeoutError if by == "asyncio.timeout" else asyncio.CancelledError
    assert isinstance(came_out, expected)
    assert diary.held
    assert not diary.cancelled_at
    assert count == (by == "task.cancel")


async def test_p4_a_cancelled_action_has_one_lease_time_to_clean_up(
    client: redis.asyncio.Redis,
) -> None:
    """Then the lease is renewed no more; the cleanup is told, the caller's word holds."""
    diary = Diary()
    limit = asyncio.timeout(None)
    began: list[float] = []

    async def action() -> None:
        try:
            limit.reschedule(0)
            await asyncio.Event().wait()
        finally:
            began.append(clock.now())
            await diary.work(3 * LEASE)

    async def limited() -> None:
        async with limit:
            await elector.run_if_leader("untidy", action)

    async with new_elector(client, diary) as elector:
        came_out, count = await count_after(limited())
    assert isinstance(came_out, TimeoutError)
    assert 1 <= len(diary.cancelled_at) <= 2
    assert LEASE - 0.01 <= diary.cancelled_at[0] - began[0] < 2 * LEASE + SLACK
    assert not diary.held
    assert count == 0


async def test_p4_a_loss_while_a_cancelled_action_cleans_up(
    valkey: Server, client: redis.asyncio.Redis
) -> None:
    """The caller's cancellation comes out, though the lease was lost meanwhile: it was first."""
    diary = Diary()
    limit = asyncio.timeout(None)

    async def action() -> None:
        try:
            limit.reschedule(0)
            await asyncio.Event().wait()
        finally:
            later(0.02, lambda: lose(valkey, elector.leases[0]))
            await diary.work(0.1)

    async def limited() -> None:
        async with limit:
            await elector.run_if_leader("both", action)

    async with new_elector(client, diary) as elector:
        came_out, count = await count_after(limited())
    assert isinstance(came_out, TimeoutError)
    assert len(diary.cancelled_at) == 1
    assert count == 0


async def test_p3_notify_never_cancels(valkey: Server, client: redis.asyncio.Redis) -> None:
    """With ``on_loss="notify"`` the action runs on, also beyond the end of the lease."""
    diary = Diary()

    async def action() -> str:
        lose(valkey, current_lease())
        return await diary.work(1.5 * LEASE)

    async with new_elector(client, diary, on_loss="notify") as elector:
        came_out, count = await count_after(elector.attempt("told", action))
    assert came_out == LeadershipLost("taken", value="done")
    assert not diary.cancelled_at
    assert count == 0


@pytest.mark.parametrize("released", [False, True], ids=["kept", "released by the handler"])
async def test_p6_a_handler_that_releases_the_lost_lease(
    valkey: Server, client: redis.asyncio.Redis, released: bool
) -> None:
    """A cleanup that calls `lease.release()` after a loss does not hide the loss."""

    async def action() -> None:
        lease = current_lease()
        assert lease is not None
        lose(valkey, lease)
        try:
            await asyncio.Event().wait()
        finally:
            if released:
                await lease.release()

    async with new_elector(client, Diary()) as elector:
        came_out, count = await count_after(elector.run_if_leader("given", action))
    assert isinstance(came_out, LeadershipLostError)
    assert count == 0
