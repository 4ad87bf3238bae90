"""The types of the calls with asyncio. Never run: mypy and pyright check each `assert_type`."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Never, assert_never, assert_type

from redis.asyncio import Redis

from incumbent import (
    ActionFailed,
    Durability,
    Elected,
    GroupElector,
    LeaderElector,
    LeaderInfo,
    LeaderOptions,
    LeadershipLost,
    LeaderState,
    Lease,
    LoggingHook,
    LossReason,
    MemoryStore,
    OncePer,
    Outage,
    Outcome,
    Skipped,
    SkipReason,
    current_lease,
)
from incumbent.fencing import fenced_eval, guard


async def count(of: str, *, size: int = 1) -> int:
    return size * len(of)


async def tick() -> None: ...


def made(redis: "Redis") -> None:
    options = LeaderOptions(lease_time=timedelta(seconds=3), once_per="0 3 * * *")
    assert_type(options, LeaderOptions)
    assert_type(options.changed(wait_time=None), LeaderOptions)
    durability = Durability(replicas=2, timeout=timedelta(milliseconds=100))
    assert_type(durability.timeout, float)
    assert_type(options.changed(durability=durability).durability, Durability | None)
    assert_type(LeaderElector(redis, options, prefix="app", leader_id="me"), LeaderElector)
    assert_type(LeaderElector(MemoryStore(), hooks=[print]), LeaderElector)
    assert_type(LeaderElector(MemoryStore(), hooks=[LoggingHook(), print]), LeaderElector)
    assert_type(GroupElector(redis, seats=4), GroupElector)
    GroupElector(redis)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    LeaderElector(redis, options, "app")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def called(elector: LeaderElector) -> None:
    assert_type(await elector.run_if_leader("one", count, "x", size=2), int | None)
    assert_type(await elector.attempt("one", count, "x"), Outcome[int])
    assert_type(await elector.campaign("one", count, "x"), int)
    assert_type(elector.lead("one"), AbstractAsyncContextManager[Lease, None])
    assert_type(elector.try_lead("one"), AbstractAsyncContextManager[Lease | None, None])
    assert_type(await elector.state("one"), LeaderState)
    assert_type(await elector.request_step_down("one", seat=0), int)
    assert_type(await elector.force_release("one", seat=0), LeaderInfo | None)
    assert_type(elector.is_leading("one"), bool)
    assert_type(elector.options, LeaderOptions)
    assert_type(elector.leader_id, str)
    assert_type(elector.closed, bool)
    assert_type(elector.leases, tuple[Lease, ...])
    assert_type(elector.using(wait_time=1), LeaderElector)
    assert_type(elector.for_tenant("acme"), LeaderElector)
    async with elector as entered:
        assert_type(entered, LeaderElector)
    async with elector.lead("one") as lease:
        assert_type(lease, Lease)
    async with elector.try_lead("one") as maybe:
        assert_type(maybe, Lease | None)
    async for state in elector.watch("one"):
        assert_type(state, LeaderState)
    assert_type(elector.watch("one").state, LeaderState | None)
    assert_type(elector.watch("one").outage, Outage | None)
    await elector.aclose()
    await elector.run_if_leader("one", count, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await elector.run_if_leader("one", len, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    elector.using(wait=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    elector.using(lease_time="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def decorated(elector: LeaderElector) -> None:
    @elector.leader_only("tenant-{tenant}")
    async def tidy(tenant: str, *, size: int = 1) -> str:
        return tenant * size

    assert_type(await tidy("acme", size=2), str | None)
    await tidy(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    @elector.leader_only("one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    def plain() -> int:
        return 1


async def scheduled(elector: LeaderElector) -> None:
    assert_type(await elector.schedule("one", every=OncePer(60), action=tick), Never)


async def grouped(group: GroupElector) -> None:
    assert_type(group.seats, int)
    assert_type(group.for_tenant("acme"), GroupElector)
    assert_type(group.using(wait_time=None), GroupElector)


async def fenced(lease: Lease, redis: "Redis") -> None:
    async with lease.transaction(redis) as pipe:
        assert_type(await pipe.execute(), list[Any])
    await fenced_eval(redis, "fence", lease.fence, "return 1", keys=["a", b"b"], args=[1, "x"])
    lease.transaction("redis://localhost")  # type: ignore[arg-type, unused-awaitable]  # pyright: ignore[reportArgumentType]


async def held(lease: Lease) -> None:
    assert_type(lease.name, str)
    assert_type(lease.leader_id, str)
    assert_type(lease.seat, int)
    assert_type(lease.fence, int)
    assert_type(lease.acquired_at, datetime)
    assert_type(lease.held, bool)
    assert_type(lease.remaining, float)
    assert_type(lease.loss_reason, LossReason | None)
    assert_type(lease.lost, asyncio.Event)
    assert_type(await lease.extend(timedelta(minutes=1)), bool)
    lease.ensure_held(5)
    await guard(object(), "reports", lease.fence)
    await guard(object(), "reports", "1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await lease.step_down()
    await lease.release()
    assert_type(current_lease(), Lease | None)
    assert_type(current_lease("one"), Lease | None)


def told(outcome: Outcome[int]) -> None:
    """Each kind of outcome is told apart by its class, and there is no other."""
    if isinstance(outcome, Elected):
        assert_type(outcome, Elected[int])
        assert_type(outcome.value, int)
        assert_type((outcome.leader_id, outcome.seat, outcome.fence), tuple[str, int, int])
    elif isinstance(outcome, Skipped):
        assert_type(outcome.reason, SkipReason)
        assert_type(outcome.holder, LeaderInfo | None)
    elif isinstance(outcome, ActionFailed):
        assert_type(outcome.error, Exception)
    elif isinstance(outcome, LeadershipLost):
        assert_type(outcome, LeadershipLost[int])
        assert_type(outcome.reason, LossReason)
        assert_type(outcome.value, int | None)
        assert_type(outcome.error, Exception | None)
    else:
        assert_never(outcome)


def matched(outcome: Outcome[int]) -> int:
    match outcome:
        case Elected(value):
            return assert_type(value, int)
        case Skipped(reason):
            assert_type(reason, SkipReason)
        case ActionFailed(error):
            assert_type(error, Exception)
        case LeadershipLost(reason=why):
            assert_type(why, LossReason)
    return 0


def shown(state: LeaderState) -> None:
    assert_type((state.name, state.waiting), tuple[str, int])
    assert_type(state.leaders, tuple[LeaderInfo, ...])
    for leader in state.leaders:
        assert_type((leader.leader_id, leader.seat, leader.fence), tuple[str, int, int])
        assert_type((leader.since, leader.remaining), tuple[datetime, float])
        assert_type(leader.retained, bool)
