"""Which server is the primary now: asked of all Sentinels, without waiting for those that are gone.

The caller's own client asks one after the other, each for as long as its own timeouts and retries
are, so that the first one's death may outlast a lease.
"""

import copy
from functools import partial
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from incumbent.stores.redis.canvass import canvass
from incumbent.stores.redis.slots import Address

PATIENCE: Final = 0.2
"""Seconds after which the next Sentinel is asked as well."""


async def connect(connection: AbstractConnection, pool: SentinelConnectionPool) -> None:
    """Connect `connection`, which is one of `pool`, to who is the primary now.

    Raises:
        redis.exceptions.ConnectionError: no Sentinel knows one, or it cannot be reached.
    """
    known = cast(Any, pool)  # redis-py left it without types
    address = await primary_of(known.sentinel_manager, known.service_name)
    if known.master_address != address:
        # As the pool itself does it: what is idle may lead to the old primary.
        known.master_address = address
        await known.disconnect(inuse_connections=False)
    await cast(Any, connection).connect_to(address)


async def primary_of(manager: Sentinel, service: str) -> Address:
    """Where the primary of `service` is, by the first Sentinel that knows it."""
    asks = [partial(_ask, manager, sentinel, service) for sentinel in manager.sentinels]
    return await canvass(asks, PATIENCE, f"there is no Sentinel to ask for {service!r}")


async def _ask(manager: Sentinel, sentinel: Redis, service: str) -> Address:
    options = dict(sentinel.connection_pool.connection_kwargs)
    options["retry"] = Retry(NoBackoff(), 0)
    kind = sentinel.connection_pool.connection_class
    impatient = Redis(connection_pool=ConnectionPool(connection_class=kind, **options))
    alone = copy.copy(manager)  # so that whatever the caller's does with an answer is done
    alone.sentinels = [impatient]
    try:
        address: Address = await cast(Any, alone).discover_master(service)
    finally:
        await impatient.connection_pool.disconnect()
    return address
