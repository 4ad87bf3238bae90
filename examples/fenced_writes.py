"""A leader that was away for too long tries to write; each storage refuses it.

The first one's lease is not renewed here, as if its process were frozen; the second leads when that
has run out. ``REDIS_URL=redis://localhost:6379 python examples/fenced_writes.py``
"""

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

from incumbent import LeaderElector, Lease, StaleFenceError
from incumbent.fencing import CREATE_TABLE, fenced_eval
from incumbent.fencing.blocking import guard

APPEND = "return redis.call('RPUSH', KEYS[1], ARGV[1])"


def to_database(lease: Lease, database: sqlite3.Connection, text: str) -> None:
    with database:
        guard(database, "reports", lease.fence)  # first: it locks the row of the fence
        database.execute("INSERT INTO reports VALUES (?)", (text,))


async def to_keys(lease: Lease, redis: Redis, text: str) -> None:
    async with lease.transaction(redis) as pipe:  # on the election's own server
        await pipe.rpush("example:reports", text)
        await pipe.expire("example:reports", 60)


async def to_keys_elsewhere(lease: Lease, redis: Redis, text: str) -> None:
    await fenced_eval(
        redis, "example:fence", lease.fence, APPEND, keys=["example:elsewhere"], args=[text]
    )


async def write(lease: Lease, redis: Redis, database: sqlite3.Connection, text: str) -> None:
    """One report to each storage."""
    await asyncio.to_thread(to_database, lease, database, text)
    await to_keys(lease, redis, text)
    await to_keys_elsewhere(lease, redis, text)


async def show_refusals(lease: Lease, redis: Redis, database: sqlite3.Connection) -> None:
    attempts: dict[str, Callable[[], Awaitable[None]]] = {
        "database": lambda: asyncio.to_thread(to_database, lease, database, "stale"),
        "transaction": lambda: to_keys(lease, redis, "stale"),
        "script": lambda: to_keys_elsewhere(lease, redis, "stale"),
    }
    for storage, attempt in attempts.items():
        try:
            await attempt()
        except StaleFenceError:
            print(f"{storage}: the stale write is refused")
        else:
            print(f"{storage}: the stale write went through")


async def main() -> None:
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute(CREATE_TABLE)
    database.execute("CREATE TABLE reports (body TEXT)")
    async with Redis.from_url(url) as redis:
        elector = LeaderElector(redis, hooks=[])
        frozen = elector.using(lease_time=2, auto_extend=False, on_loss="notify")
        async with frozen.lead("reports") as old:
            await write(old, redis, database, "first")
            async with elector.using(wait_time=30).lead("reports") as new:
                await write(new, redis, database, "second")
                await show_refusals(old, redis, database)
        await elector.aclose()
        print([body for (body,) in database.execute("SELECT body FROM reports")])
        await redis.delete("example:reports", "example:elsewhere", "example:fence")
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
