"""A process whose waiters stand when they are told to: ``python standing.py URL NAME LEASE``.

It takes its orders from the list ``orders:NAME`` of the server: a number is one more waiter. Who is
elected writes its number to the list ``elected``, and gives the seat back at once.
"""

import asyncio
import sys

import redis.asyncio

from incumbent import LeaderElector, LeaderOptions

ELECTION = "one"


async def main(url: str, name: str, lease_time: float) -> None:
    """Follow the orders for ever."""
    client = redis.asyncio.Redis.from_url(url)
    orders = redis.asyncio.Redis.from_url(url, socket_timeout=None, decode_responses=True)
    options = LeaderOptions(lease_time=lease_time, wait_time=None)
    elector = LeaderElector(client, options, leader_id=name, hooks=())
    waiting: set[asyncio.Task[None]] = set()

    async def stand(number: str) -> None:
        async with elector.lead(ELECTION):
            await client.rpush("elected", number)

    while True:
        order = await orders.blpop([f"orders:{name}"])
        assert order is not None
        waiting.add(asyncio.create_task(stand(str(order[1]))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
