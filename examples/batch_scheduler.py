"""A nightly job on one of N replicas, and a heartbeat each second, also on one.

Run several of it: ``REDIS_URL=redis://localhost:6379 python examples/batch_scheduler.py``
"""

import asyncio
import os
import signal

from redis.asyncio import Redis

from incumbent import LeaderElector, current_lease


async def report() -> None:
    lease = current_lease()
    assert lease is not None
    print("report, under fence", lease.fence, flush=True)


async def heartbeat() -> None:
    print("heartbeat from process", os.getpid(), flush=True)


async def main() -> None:
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Redis.from_url(url) as redis, LeaderElector(redis) as elector:
        # Each is answered once per period in the whole fleet; a failed run does not end it.
        schedules = [
            asyncio.create_task(elector.schedule("nightly", every=86_400, action=report)),
            asyncio.create_task(elector.schedule("heartbeat", every=1, action=heartbeat)),
        ]
        await stop.wait()
        for schedule in schedules:
            schedule.cancel()  # what runs is cancelled, cleans up, and frees its seat
        await asyncio.wait(schedules)


if __name__ == "__main__":
    asyncio.run(main())
