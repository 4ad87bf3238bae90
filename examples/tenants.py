"""One election per tenant: each quarter of an hour one replica adds up each tenant's totals.

The tenants do not wait for each other.

Run several of it: ``REDIS_URL=redis://localhost:6379 python examples/tenants.py``
"""

import asyncio
import os

from redis.asyncio import Redis

from incumbent import ActionFailed, Elected, LeaderElector, LeaderOptions, LeadershipLost, Skipped

TENANTS = {"acme": [1, 2, 3], "globex": [4, 5], "broken": None}


async def add_up(tenant: str) -> int:
    numbers = TENANTS[tenant]
    if numbers is None:
        raise ValueError(f"no numbers for {tenant}")
    return sum(numbers)


async def serve(elector: LeaderElector, tenant: str) -> None:
    # What fails for one tenant disturbs no other.
    match await elector.for_tenant(tenant).attempt("totals", add_up, tenant):
        case Elected(total):
            print(f"{tenant}: {total}")
        case Skipped():
            print(f"{tenant}: another replica has done it, or is on it")
        case ActionFailed(error):
            print(f"{tenant}: failed, {error}")
        case LeadershipLost(reason):
            print(f"{tenant}: had to stop, {reason}")


async def main() -> None:
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    options = LeaderOptions(once_per="15m")
    async with Redis.from_url(url) as redis, LeaderElector(redis, options) as elector:
        await asyncio.gather(*(serve(elector, tenant) for tenant in TENANTS))


if __name__ == "__main__":
    asyncio.run(main())
