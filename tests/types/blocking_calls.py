"""The types of the calls of threads. Never run: mypy and pyright check each `assert_type`."""

import threading
from datetime import datetime
from typing import Any, Never, assert_type

from redis import Redis

from incumbent import (
    LeaderInfo,
    LeaderOptions,
    LeaderState,
    LossReason,
    MemoryStore,
    Outage,
    Outcome,
)
from incumbent.blocking import GroupElector, LeaderElector, Lease, current_lease
from incumbent.fencing.blocking import fenced_eval, guard


def count(of: str, *, size: int = 1) -> int:
    return size * len(of)


def tick() -> None: ...


def made(redis: "Redis") -> None:
    assert_type(LeaderElector(redis, LeaderOptions(), leader_id="me"), LeaderElector)
    assert_type(LeaderElector("redis://localhost", hooks=[print]), LeaderElector)
    assert_type(LeaderElector(MemoryStore()), LeaderElector)
    assert_type(GroupElector(redis, seats=4), GroupElector)
    GroupElector(redis)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def called(elector: LeaderElector) -> None:
    assert_type(elector.run_if_leader("one", count, "x", size=2), int | None)
    assert_type(elector.attempt("one", count, "x"), Outcome[int])
    assert_type(elector.campaign("one", count, "x"), int)
    assert_type(elector.state("one"), LeaderState)
    assert_type(elector.request_step_down("one"), int)
    assert_type(elector.force_release("one", seat=0), LeaderInfo | None)
    assert_type(elector.is_leading("one"), bool)
    assert_type(elector.options, LeaderOptions)
    assert_type(elector.leader_id, str)
    assert_type(elector.closed, bool)
    assert_type(elector.leases, tuple[Lease, ...])
    assert_type(elector.using(wait_time=1), LeaderElector)
    assert_type(elector.for_tenant("acme"), LeaderElector)
    with elector as entered:
        assert_type(entered, LeaderElector)
    with elector.lead("one") as lease:
        assert_type(lease, Lease)
    with elector.try_lead("one") as maybe:
        assert_type(maybe, Lease | None)
    for state in elector.watch("one"):
        assert_type(state, LeaderState)
    assert_type(elector.watch("one").state, LeaderState | None)
    assert_type(elector.watch("one").outage, Outage | None)
    elector.watch("one").close()
    elector.close()
    elector.run_if_leader("one", count, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def decorated(elector: LeaderElector) -> None:
    @elector.leader_only("tenant-{tenant}")
    def tidy(tenant: str, *, size: int = 1) -> str:
        return tenant * size

    assert_type(tidy("acme", size=2), str | None)
    tidy(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def scheduled(elector: LeaderElector) -> None:
    assert_type(elector.schedule("one", every=60, action=tick), Never)


def grouped(group: GroupElector) -> None:
    assert_type(group.seats, int)
    assert_type(group.for_tenant("acme"), GroupElector)
    assert_type(group.using(wait_time=None), GroupElector)


def fenced(lease: Lease, redis: "Redis") -> None:
    with lease.transaction(redis) as pipe:
        assert_type(pipe.execute(), list[Any])
    guard(object(), "reports", lease.fence, paramstyle="format")
    fenced_eval(redis, "fence", lease.fence, "return 1", keys=["a"], args=[1])
    lease.transaction("redis://localhost")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def held(lease: Lease) -> None:
    assert_type(lease.name, str)
    assert_type(lease.leader_id, str)
    assert_type(lease.seat, int)
    assert_type(lease.fence, int)
    assert_type(lease.acquired_at, datetime)
    assert_type(lease.held, bool)
    assert_type(lease.remaining, float)
    assert_type(lease.loss_reason, LossReason | None)
    assert_type(lease.lost, threading.Event)
    assert_type(lease.extend(1), bool)
    lease.ensure_held(5)
    lease.step_down()
    lease.release()
    assert_type(current_lease(), Lease | None)
    assert_type(current_lease("one"), Lease | None)
