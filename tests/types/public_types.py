"""The types of the public calls, as mypy and pyright see them. Never run: both check this file."""

import threading
from contextlib import AbstractAsyncContextManager
from typing import assert_type

from fastapi import FastAPI

from incumbent import (
    GroupElector,
    LeaderElector,
    LeaderInfo,
    LeaderState,
    Lease,
    Outcome,
    blocking,
)
from incumbent.fastapi import Leadership, leadership


async def count(of: str, *, size: int = 1) -> int:
    return size * len(of)


def count_now(of: str, *, size: int = 1) -> int:
    return size * len(of)


async def with_asyncio(elector: LeaderElector, group: GroupElector) -> None:
    assert_type(await elector.run_if_leader("one", count, "x", size=2), int | None)
    assert_type(await elector.attempt("one", count, "x"), Outcome[int])
    assert_type(await elector.campaign("one", count, "x"), int)
    assert_type(elector.lead("one"), AbstractAsyncContextManager[Lease, None])
    assert_type(elector.try_lead("one"), AbstractAsyncContextManager[Lease | None, None])
    assert_type(await elector.state("one"), LeaderState)
    assert_type(await elector.request_step_down("one"), int)
    assert_type(await elector.force_release("one", seat=0), LeaderInfo | None)
    assert_type(elector.using(wait_time=1), LeaderElector)
    assert_type(group.for_tenant("acme"), GroupElector)
    async for state in elector.watch("one"):
        assert_type(state, LeaderState)

    @elector.leader_only("tenant-{tenant}")
    async def tidy(tenant: str, *, size: int = 1) -> str:
        return tenant * size

    assert_type(await tidy("acme", size=2), str | None)
    await tidy(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def with_threads(elector: blocking.LeaderElector, group: blocking.GroupElector) -> None:
    assert_type(elector.run_if_leader("one", count_now, "x", size=2), int | None)
    assert_type(elector.attempt("one", count_now, "x"), Outcome[int])
    assert_type(elector.campaign("one", count_now, "x"), int)
    assert_type(elector.state("one"), LeaderState)
    assert_type(elector.request_step_down("one"), int)
    assert_type(elector.force_release("one", seat=0), LeaderInfo | None)
    assert_type(elector.using(wait_time=1), blocking.LeaderElector)
    assert_type(group.for_tenant("acme"), blocking.GroupElector)
    assert_type(elector.leases, tuple[blocking.Lease, ...])
    with elector.lead("one") as lease:
        assert_type(lease, blocking.Lease)
        assert_type(lease.lost, threading.Event)
        assert_type(lease.extend(1), bool)
    with elector.try_lead("one") as maybe:
        assert_type(maybe, blocking.Lease | None)
    for state in elector.watch("one"):
        assert_type(state, LeaderState)

    @elector.leader_only("tenant-{tenant}")
    def tidy(tenant: str, *, size: int = 1) -> str:
        return tenant * size

    assert_type(tidy("acme", size=2), str | None)
    tidy(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def with_fastapi(elector: LeaderElector, view: Leadership) -> None:
    async def serve() -> None: ...

    FastAPI(lifespan=leadership(elector, "one", serve))
    assert_type(view.leading, bool)
    assert_type(await view.state(), LeaderState)
