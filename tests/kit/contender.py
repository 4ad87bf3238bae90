"""A process that stands for elections and works while it holds: ``python -m kit.contender PLAN``.

It uses only the public API of `incumbent`. While it holds, it writes work records and register
writes as fast as every few milliseconds, asking nobody but its own lease whether it still may:
if the library is wrong about that, the records or the register show it.

The plan is JSON (see `kit.plan`). SIGTERM ends the process in order, with exit code 0.
"""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import redis.asyncio

from incumbent import (
    Durability,
    GroupElector,
    LeaderElector,
    LeaderOptions,
    Lease,
    StrategicElector,
    current_lease,
)
from incumbent.stores.redis.urls import client_of
from incumbent.strategy import LeastLoaded, Sticky
from kit import register
from kit.ledger import Ledger
from kit.mill import Mill
from kit.orders import Orders
from kit.plan import Plan
from kit.records import Kind, Record, Recorder, now

__all__ = ["Plan", "contend"]

Client: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"
AnyElector: TypeAlias = LeaderElector | GroupElector | StrategicElector

REGISTER_WITHIN = 1.0


class Contender:
    """One life in one election: stand, work, rest, stand again."""

    def __init__(self, plan: Plan, elector: AnyElector, recorder: Recorder, orders: Orders) -> None:
        self.plan = plan
        self.elector = elector
        self.recorder = recorder
        self.orders = orders
        self.random = random.Random(f"{plan.seed}:{plan.process}:{plan.election}")
        self.register = redis.asyncio.Redis.from_url(plan.register_url)
        self.writing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until the time is up."""
        try:
            async with asyncio.timeout(self.plan.run_for):
                if isinstance(self.elector, StrategicElector):
                    await self._run_as_candidate(self.elector)
                await self._run()
        except TimeoutError:
            pass
        finally:
            self._write("away")
            if self.writing is not None:
                await asyncio.wait({self.writing})
            await self.register.aclose()

    async def _run(self) -> NoReturn:
        while True:
            await self._stand()
            await asyncio.sleep(self.random.uniform(*self.plan.rest))

    async def _run_as_candidate(self, elector: StrategicElector) -> NoReturn:
        """With a load that changes by its jitter; the server may be away now and then."""
        while True:
            with contextlib.suppress(redis.RedisError):
                async with elector.candidate(
                    self.plan.election, {"load": self._load()}, ttl=self.plan.candidate_ttl
                ) as me:
                    changing = asyncio.create_task(self._change(me.update))
                    try:
                        await self._run()
                    finally:
                        changing.cancel()
                        await asyncio.wait({changing})
            await asyncio.sleep(0.05)

    async def _change(self, update: Callable[..., Awaitable[None]]) -> None:
        while self.plan.jitter:
            await asyncio.sleep(self.random.uniform(*self.plan.change))
            with contextlib.suppress(redis.RedisError):
                await update(load=self._load())

    def _load(self) -> float:
        drift = self.random.uniform(-self.plan.jitter, self.plan.jitter)
        return ord(self.plan.process[0]) - ord("a") + drift

    async def _stand(self) -> None:
        """Once, in a task that may be cancelled on order."""
        self._write("standing")
        call = asyncio.create_task(self._call(), name=self.plan.election)
        self.orders.cancellable.add(call)
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait({call})
            raise
        finally:
            self.orders.cancellable.discard(call)
            if self.plan.way == "schedule":
                self._write("away")  # the next one begins with the next period only
        if not call.cancelled():
            call.result()

    async def _call(self) -> None:
        name = self.plan.election
        if self.plan.way == "schedule":
            await self.elector.schedule(name, every=self.plan.tick, action=self.run_tick)
        elif self.plan.way == "campaign":
            await self.elector.campaign(name, self.work)
        elif (await self.elector.attempt(name, self.work)).__class__.__name__ == "Skipped":
            self._write("skipped")

    async def run_tick(self) -> None:
        """The action of a schedule: its fence tells in which period the server elected it."""
        lease = current_lease(self.plan.election)
        assert lease is not None
        self._write("ran", lease)

    async def work(self) -> None:
        """The action: as long as it is drawn, and as long as the lease is held."""
        lease = current_lease(self.plan.election)
        assert lease is not None
        self._write("elected", lease)
        try:
            await self._work_until(now() + self.random.uniform(*self.plan.hold), lease)
        finally:
            lost = lease.loss_reason is not None or not lease.held
            self._write("lost" if lost else "stopped", lease, detail=lease.loss_reason or "")
            if lost and self.plan.way == "campaign":
                self._write("standing")  # a campaign goes on by itself

    async def _work_until(self, end: float, lease: Lease) -> None:
        while now() < end and self._work_once(lease):
            await self._write_register(lease)
            await asyncio.sleep(self.plan.work_every)

    def _work_once(self, lease: Lease) -> bool:
        at = now()
        if not lease.held:
            return False
        self._write("work", lease, at=at)
        return True

    async def _write_register(self, lease: Lease) -> None:
        sent = register.wall()
        if not lease.held:
            return
        # In a task of its own: redis-py on Python 3.11 may swallow a cancellation that was meant
        # for the action, and here it is the library that is on trial.
        self.writing = asyncio.create_task(self._send(lease, sent))
        await asyncio.wait({self.writing})

    async def _send(self, lease: Lease, sent: int) -> None:
        with contextlib.suppress(redis.RedisError, TimeoutError):  # the server may be the victim
            async with asyncio.timeout(REGISTER_WITHIN):
                await register.write(
                    self.register,
                    register.of_seat(self.plan.election, lease.seat),
                    lease.fence,
                    self.plan.process,
                    sent,
                )

    def _write(
        self, kind: Kind, lease: Lease | None = None, *, at: float | None = None, detail: str = ""
    ) -> None:
        at = now() if at is None else at
        term: dict[str, Any] = {}
        if lease is not None:
            # Read after the clock: a pause in between makes the claim smaller, never larger.
            remaining = lease.remaining
            term = {"seat": lease.seat, "fence": lease.fence}
            term["valid_until"] = at + remaining if remaining > 0 else None
        election = self.plan.election
        process = self.plan.process
        self.recorder.write(
            Record(process=process, kind=kind, at=at, election=election, detail=detail, **term)
        )


async def contend(plan: Plan) -> None:
    """Live one life by this plan; a cancellation (SIGTERM) ends it in order."""
    async with AsyncExitStack() as stack:
        recorder = stack.enter_context(Recorder(Path(plan.records)))
        orders = Orders(
            Path(plan.records).with_suffix(".orders"),
            lambda kind: recorder.write(Record(process=plan.process, kind=kind, at=now())),
            f"{plan.seed}:{plan.process}",
        )
        orders.listen()
        client = await stack.enter_async_context(aclosing(_client(plan.url, plan)))
        stack.callback(_check_pool, plan, client)
        async with asyncio.TaskGroup() as group:
            for each in (plan, *(replace(plan, **fields) for fields in plan.beside)):
                group.create_task(_contend(each, client, recorder, orders))
            if plan.mill is not None:
                group.create_task(_mill(plan))


async def _contend(plan: Plan, client: Client, recorder: Recorder, orders: Orders) -> None:
    async with _elector(client, plan) as elector:
        await Contender(plan, elector, recorder, orders).run()


async def _mill(plan: Plan) -> None:
    async with (
        aclosing(_client(plan.mill_url or plan.register_url, plan)) as client,
        redis.asyncio.Redis.from_url(plan.register_url) as registry,
    ):
        with Ledger(Path(plan.records).with_suffix(".ledger")) as ledger:
            try:
                await Mill(plan, client, registry, ledger).run()
            finally:
                _check_pool(plan, client)


def _client(url: str, plan: Plan) -> Client:
    if url.startswith("redis://"):
        return redis.asyncio.Redis.from_url(url, **plan.client)
    return client_of(url)


def _elector(client: Client, plan: Plan) -> AnyElector:
    durability = Durability(**plan.durability) if plan.durability else None
    options = LeaderOptions(**plan.options, durability=durability)
    names: Any = {"prefix": plan.prefix, "leader_id": plan.process}
    if plan.candidate_ttl:
        strategy = Sticky(LeastLoaded("load"), margin=0.5)
        return StrategicElector(
            client, options, strategy=strategy, prefix=plan.prefix, node_id=plan.process
        )
    if plan.seats == 1:
        return LeaderElector(client, options, **names)
    return GroupElector(client, options, seats=plan.seats, **names)


async def _main(plan: Plan) -> None:
    life = asyncio.create_task(contend(plan))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, life.cancel)
    loop.add_signal_handler(signal.SIGUSR2, _tell_tasks)
    with contextlib.suppress(asyncio.CancelledError):
        await life
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        _leaked(plan, f"task {task!r}")


def _tell_tasks() -> None:
    """For whoever wonders why this process does not end."""
    for task in asyncio.all_tasks():
        task.print_stack()


def _check_pool(plan: Plan, client: Client) -> None:
    """All electors are closed: what they had taken of the pool is back."""
    if not isinstance(client, redis.asyncio.Redis):
        return  # a cluster's nodes keep theirs to themselves
    taken = client.connection_pool._in_use_connections  # there is no public way to ask
    if taken:
        _leaked(plan, f"connections in use: {taken}")


def _leaked(plan: Plan, what: str) -> None:
    with Recorder(Path(plan.records)) as recorder:
        recorder.write(Record(process=plan.process, kind="leak", at=now(), detail=what))


if __name__ == "__main__":
    asyncio.run(_main(Plan.of(sys.argv[1])))
