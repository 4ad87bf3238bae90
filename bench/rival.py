"""A process that contends with others for one lock, and notes when it had it: ``-m bench.rival``.

The locks are those that people use today, as their documentation shows them, and ours. The times
are of the machine's one monotonic clock, so those of several processes can be compared.
"""

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass

import redis
from redis.asyncio import BlockingConnectionPool, Redis

from incumbent import GroupElector, LeaderElector, LeaderOptions

LEASE = 30
HELD_FOR = 0.01
"""Seconds for which it has the lock each time: long enough for the others to stand in line."""
OURS = "elections"
LOCK = "redis-py's Lock"
REDIS_LOCK = "python-redis-lock"
FIFO_LOCK = "redis-fifo-lock"
MODULES = {REDIS_LOCK: "redis_lock", FIFO_LOCK: "redis_fifo_lock"}
"""What has to be installed for it."""

Take = Callable[[], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a rival is to do."""

    kind: str
    url: str
    name: str
    turns: int
    """How often it takes the lock, one time after another."""
    waiters: int = 1
    """How many of it want the lock at once."""
    seats: int = 1
    hold: float = HELD_FOR

    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, "-m", "bench.rival", json.dumps(asdict(self))]


@dataclass(frozen=True, slots=True)
class Turn:
    """When it had the lock (its first line), and when it began to give it back."""

    had: float
    gave: float


def installed(kind: str) -> bool:
    """Whether this lock can be raced against."""
    return kind not in MODULES or importlib.util.find_spec(MODULES[kind]) is not None


async def take_turns(plan: Plan, take: Take) -> list[Turn]:
    """All turns of all waiters of this process."""
    turns: list[Turn] = []

    async def wait_and_take() -> None:
        for _ in range(plan.turns):
            async with take():
                had = time.monotonic()
                if plan.hold:
                    await asyncio.sleep(plan.hold)
                gave = time.monotonic()
            turns.append(Turn(had, gave))

    await asyncio.gather(*(wait_and_take() for _ in range(plan.waiters)))
    return turns


@asynccontextmanager
async def taker(plan: Plan) -> AsyncIterator[Take]:
    """What takes the lock of this kind, once each time it is called."""
    if plan.kind == OURS:
        options = LeaderOptions(lease_time=LEASE, wait_time=None)
        async with Redis.from_url(plan.url) as client:
            elector = (
                LeaderElector(client, options)
                if plan.seats == 1
                else GroupElector(client, options, seats=plan.seats)
            )
            async with elector:
                yield lambda: elector.lead(plan.name)
    elif plan.kind == LOCK:
        pool = BlockingConnectionPool.from_url(plan.url, max_connections=50, timeout=None)
        async with Redis.from_pool(pool) as client:
            yield lambda: client.lock(plan.name, timeout=LEASE)
    elif plan.kind == FIFO_LOCK:
        from redis_fifo_lock import FifoLock  # noqa: PLC0415 - may not be there

        async with Redis.from_url(plan.url) as client:
            yield lambda: FifoLock(client, plan.name).hold()
    else:
        raise ValueError(f"no such lock: {plan.kind!r}")


async def compete(plan: Plan) -> list[Turn]:
    """Wait and take as the plan says."""
    async with taker(plan) as take:
        return await take_turns(plan, take)


def compete_in_a_thread(plan: Plan) -> list[Turn]:
    """The same for the lock that knows no asyncio."""
    from redis_lock import Lock  # noqa: PLC0415 - may not be there

    turns: list[Turn] = []
    with redis.Redis.from_url(plan.url) as client:
        for _ in range(plan.turns):
            lock = Lock(client, plan.name, expire=LEASE)
            lock.acquire()
            had = time.monotonic()
            time.sleep(plan.hold)
            gave = time.monotonic()
            lock.release()
            turns.append(Turn(had, gave))
    return turns


def main() -> None:
    """Compete, and print the turns."""
    plan = Plan(**json.loads(sys.argv[1]))
    in_a_thread = plan.kind == REDIS_LOCK
    turns = compete_in_a_thread(plan) if in_a_thread else asyncio.run(compete(plan))
    print(json.dumps([asdict(turn) for turn in turns]), flush=True)


if __name__ == "__main__":
    main()
