"""What the tests of strategic elections share: a town of nodes, on one store or another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from incumbent import LeaderOptions, StrategicElector, current_lease
from incumbent.strategy import Priority, Strategy
from kit.waiting import wait_until
from promises.scene import Journal, cancel

LEASE = 1.2
GRACE = LEASE / 6
BY_PRIORITY = Priority()


class Town:
    """Nodes of one election; each has a connection, an elector and a journal of its own."""

    def __init__(self, store: Callable[[], Any]) -> None:
        self._store = store
        self.journals: dict[str, Journal] = {}
        self.electors: dict[str, StrategicElector] = {}

    def node(
        self, name: str, strategy: Strategy = BY_PRIORITY, *, store: Any = None, **options: Any
    ) -> StrategicElector:
        """An elector with short leases; by default the highest `priority` is best."""
        journal = self.journals[name] = Journal()
        elector = self.electors[name] = StrategicElector(
            self._store() if store is None else store,
            LeaderOptions(**({"lease_time": LEASE, "request_timeout": 5.0} | options)),
            strategy=strategy,
            node_id=name,
            hooks=[journal],
        )
        return elector

    async def leader(self, election: str = "job") -> str | None:
        """Who leads, as the store sees it."""
        leaders = (await next(iter(self.electors.values())).state(election)).leaders
        return leaders[0].leader_id if leaders else None

    async def leads(self, name: str, election: str = "job", within: float = 60.0) -> None:
        """Wait until that node leads."""

        async def so() -> bool:
            return await self.leader(election) == name

        await wait_until(so, within=within, what=f"{name} leads", every=0.02)

    async def aclose(self) -> None:
        """Close all electors."""
        for elector in self.electors.values():
            await elector.aclose()


class Log:
    """An action that writes down who leads when, and that there is never more than one."""

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.running: list[str] = []
        self.cleaned: list[str] = []

    async def reaches(self, *names: str) -> None:
        """Wait until these, in this order, have been at work: who is elected begins later."""
        await wait_until(
            lambda: self.terms[: len(names)] == list(names), within=60.0, what=f"{names} at work"
        )
        assert self.terms == list(names)

    async def __call__(self, seconds: float = 60.0) -> str:
        """Lead for so long, or until cancelled, with a clean-up that takes a moment."""
        lease = current_lease()
        assert lease is not None
        assert not self.running, f"{lease.leader_id} and {self.running} at once"
        self.terms.append(lease.leader_id)
        self.running.append(lease.leader_id)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.sleep(0.02)
            self.cleaned.append(lease.leader_id)
            self.running.remove(lease.leader_id)
        return lease.leader_id


async def fail() -> None:
    """An action that fails."""
    raise ValueError("no good")


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list["asyncio.Task[Any]"]]:
    """Tasks for the time of the block; what they raise comes out."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            await cancel(task)
