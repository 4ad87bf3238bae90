"""A process that stands for an election and works while it holds: ``python -m kit.contender PLAN``.

It uses only the public API of `incumbent`. While it holds, it writes work records and register
writes as fast as every few milliseconds, asking nobody but its own lease whether it still may:
if the library is wrong about that, the records or the register show it.

The plan is JSON (see `Plan`). SIGTERM ends the process in order, with exit code 0.
"""

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import redis.asyncio

from incumbent import (
    Durability,
    GroupElector,
    LeaderOptions,
    Lease,
    StrategicElector,
    current_lease,
)
from incumbent.strategy import LeastLoaded, Sticky
from kit import register
from kit.records import Kind, Record, Recorder, now

AnyElector: TypeAlias = GroupElector | StrategicElector

WORK_EVERY = 0.005
REGISTER_WITHIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a contender is to do. Durations are seconds; random ones are drawn from [low, high]."""

    process: str
    url: str  # of the election, perhaps through a proxy
    register_url: str  # of the register, straight
    records: str  # the file for its records
    election: str
    seats: int = 1
    prefix: str = "incumbent"
    options: dict[str, Any] = field(default_factory=dict)  # of LeaderOptions
    durability: dict[str, Any] = field(default_factory=dict)  # of Durability; none when empty
    client: dict[str, Any] = field(default_factory=dict)  # of redis.asyncio.Redis.from_url
    way: Literal["campaign", "run_if_leader"] = "campaign"
    hold: tuple[float, float] = (0.05, 0.8)
    rest: tuple[float, float] = (0.0, 0.02)
    run_for: float = 3600.0
    candidate_ttl: float = 0.0  # above 0: it stands in a strategic election, the least loaded leads
    jitter: float = 0.0  # of its load, which without one is 0 for place "a", 1 for "b", ...
    seed: int = 0

    def argument(self) -> str:
        """As it is given on the command line."""
        return json.dumps(asdict(self))


class Contender:
    """One life: stand, work, rest, stand again."""

    def __init__(self, plan: Plan, elector: AnyElector, recorder: Recorder) -> None:
        self.plan = plan
        self.elector = elector
        self.recorder = recorder
        self.random = random.Random(f"{plan.seed}:{plan.process}")
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
            await asyncio.sleep(self.random.uniform(0.1, 0.5))
            with contextlib.suppress(redis.RedisError):
                await update(load=self._load())

    def _load(self) -> float:
        drift = self.random.uniform(-self.plan.jitter, self.plan.jitter)
        return ord(self.plan.process[0]) - ord("a") + drift

    async def _stand(self) -> None:
        self._write("standing")
        if self.plan.way == "campaign":
            await self.elector.campaign(self.plan.election, self.work)
        elif (
            await self.elector.attempt(self.plan.election, self.work)
        ).__class__.__name__ == "Skipped":
            self._write("skipped")

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
            await asyncio.sleep(WORK_EVERY)

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
    client = redis.asyncio.Redis.from_url(plan.url, **plan.client)
    try:
        with Recorder(Path(plan.records)) as recorder:
            async with _elector(client, plan) as elector:
                await Contender(plan, elector, recorder).run()
    finally:
        await client.aclose()


def _elector(client: "redis.asyncio.Redis", plan: Plan) -> AnyElector:
    durability = Durability(**plan.durability) if plan.durability else None
    options = LeaderOptions(**plan.options, durability=durability)
    if not plan.candidate_ttl:
        return GroupElector(
            client, options, seats=plan.seats, prefix=plan.prefix, leader_id=plan.process
        )
    return StrategicElector(
        client,
        options,
        strategy=Sticky(LeastLoaded("load"), margin=0.5),
        prefix=plan.prefix,
        node_id=plan.process,
    )


async def _main(plan: Plan) -> None:
    life = asyncio.create_task(contend(plan))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, life.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await life


if __name__ == "__main__":
    asyncio.run(_main(Plan(**json.loads(sys.argv[1]))))
