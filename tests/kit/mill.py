"""Short elections, as many as a process gets done, beside its long ones.

Some names are its place's own: there the elector is alone. For each of the others half of the
processes stand in line, so that nearly every election is handed over. A share of the calls is
cancelled soon after it began, at whatever await it has come to. What happened goes to a ledger,
and a share of the terms writes to a fenced register as well.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import NoReturn

import redis.asyncio

from incumbent import (
    GroupElector,
    LeaderElector,
    LeaderOptions,
    LeadershipLostError,
    NotElectedError,
    current_lease,
)
from kit import register
from kit.ledger import Ledger
from kit.plan import MillPlan, Plan
from kit.records import now

SOON = 0.004  # seconds within which a call is cancelled that is to be cancelled
WRITE_WITHIN = 1.0
OWN = 1000  # names of places are counted from here
PER_PLACE = 100


def shared_name(number: int) -> str:
    """An election for which many stand."""
    return f"mill-{number}"


class Mill:
    """Runs until it is cancelled. Its clients are made and closed by the caller."""

    def __init__(
        self,
        plan: Plan,
        client: "redis.asyncio.Redis | redis.asyncio.RedisCluster",
        register_client: "redis.asyncio.Redis",
        ledger: Ledger,
    ) -> None:
        self.plan = plan
        self.mill = MillPlan(**plan.mill or {})
        self.ledger = ledger
        self.random = random.Random(f"mill:{plan.seed}:{plan.process}")
        self.register = register_client
        self.writing: set[asyncio.Task[None]] = set()
        options = LeaderOptions(lease_time=self.mill.lease_time, wait_time=self.mill.wait)
        self.single = LeaderElector(client, options, leader_id=plan.process)
        self.double = GroupElector(client, options, seats=2, leader_id=plan.process)

    async def run(self) -> None:
        """Until it is cancelled; all its calls are over then."""
        place = ord(self.plan.process[0]) - ord("a")
        first = OWN + PER_PLACE * place
        names = [(number, shared_name(number)) for number in range(place % 2, self.mill.shared, 2)]
        names += [(first + number, f"own-{first + number}") for number in range(self.mill.own)]
        try:
            async with self.single, self.double, asyncio.TaskGroup() as group:
                for number, name in names:
                    group.create_task(self._again_and_again(number, name))
        finally:
            if self.writing:
                await asyncio.wait(self.writing)

    async def _again_and_again(self, number: int, name: str) -> NoReturn:
        elector = self.double if number < self.mill.grouped else self.single
        rest = self.mill.rest if number < OWN else self.mill.own_rest
        while True:
            await self._once(elector.run_if_leader, number, name)
            await asyncio.sleep(self.random.uniform(*rest))

    async def _once(
        self, run_if_leader: Callable[..., Awaitable[object]], number: int, name: str
    ) -> None:
        call = run_if_leader(name, self._action, number, name, now())
        try:
            if self.random.random() >= self.mill.cancelled:
                await call
            else:
                await self._cancel_soon(asyncio.ensure_future(call))
        except (redis.RedisError, LeadershipLostError, NotElectedError):
            await asyncio.sleep(0.05)

    async def _cancel_soon(self, call: "asyncio.Future[object]") -> None:
        timer = asyncio.get_running_loop().call_later(self.random.uniform(0, SOON), call.cancel)
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait({call})
            raise
        finally:
            timer.cancel()
        if not call.cancelled():
            call.result()

    async def _action(self, number: int, name: str, asked: float) -> None:
        lease = current_lease(name)
        assert lease is not None
        sent = register.wall()
        at = now()
        valid = at + lease.remaining  # read after the clock, so never too large
        self.ledger.elected(number, lease.seat, lease.fence, at=at, valid_until=valid, asked=asked)
        try:
            if self.random.random() < self.mill.fenced and lease.held:
                await self._write(name, lease.seat, lease.fence, sent)
        finally:
            self.ledger.ended(number, lease.seat, lease.fence, at=now(), lost=not lease.held)

    async def _write(self, name: str, seat: int, fence: int, sent: int) -> None:
        # In a task of its own: redis-py on Python 3.11 may swallow a cancellation.
        writing = asyncio.create_task(self._send(register.of_seat(name, seat), fence, sent))
        self.writing.add(writing)
        writing.add_done_callback(self.writing.discard)
        await asyncio.wait({writing})

    async def _send(self, name: str, fence: int, sent: int) -> None:
        with contextlib.suppress(redis.RedisError, TimeoutError):
            async with asyncio.timeout(WRITE_WITHIN):
                await register.write(self.register, name, fence, self.plan.process, sent)
