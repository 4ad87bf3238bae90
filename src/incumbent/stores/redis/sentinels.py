"""Which server is the primary now: what half of the Sentinels say, not waiting for who is gone.

The caller's own client asks one after the other, each for as long as its own timeouts and retries
are, so that the first one's death may outlast a lease. It also believes the first that answers,
which may be behind the others, and one that is about to replace the primary that it names: such a
primary, back from the dead or not told yet, grants leases that nobody else will know of.
"""

import copy
from functools import partial
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from incumbent.shield import finish
from incumbent.stores.redis.canvass import PATIENCE, canvass
from incumbent.stores.redis.replies import text
from incumbent.stores.redis.slots import Address


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
        await finish(partial(known.disconnect, inuse_connections=False))
    await cast(Any, connection).connect_to(address)


async def primary_of(manager: Sentinel, service: str) -> Address:
    """Where the primary of `service` is: at least half of the Sentinels say so.

    Not more than half: of two, one may be gone.

    Raises:
        redis.exceptions.ConnectionError: too few know one, or they replace it just now.
    """
    asks = [partial(_ask, manager, sentinel, service) for sentinel in manager.sentinels]
    nobody = f"there is no Sentinel to ask for {service!r}"
    return await canvass(asks, PATIENCE, nobody, enough=(len(asks) + 1) // 2)


async def _ask(manager: Sentinel, sentinel: Redis, service: str) -> Address:
    options = dict(sentinel.connection_pool.connection_kwargs)
    options["retry"] = Retry(NoBackoff(), 0)
    kind = sentinel.connection_pool.connection_class
    impatient = Redis(connection_pool=ConnectionPool(connection_class=kind, **options))
    cast(Any, impatient).sentinel_masters = partial(_masters, impatient, service)
    alone: Any = copy.copy(manager)  # so that whatever the caller's does with an answer is done
    alone.sentinels = [impatient]
    try:
        address: Address = await alone.discover_master(service)
    finally:
        # Which itself, if it is cancelled at its start, leaves them open.
        await finish(impatient.connection_pool.disconnect)
    return address


async def _masters(sentinel: Redis, service: str) -> Any:
    """What `sentinel` says of its primaries, but of one that is being replaced the truth.

    Until the fail-over is over it goes on describing the old one there, and if that is back, as
    healthy. By the command that is made for clients it names the new one, once that is promoted;
    before that nobody is the primary: what the old one grants now may be forgotten.
    Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
    """
    masters: Any = await Redis.sentinel_masters(sentinel)
    state = masters.get(service)
    if state and "failover_in_progress" in state["flags"]:
        command = "SENTINEL GET-MASTER-ADDR-BY-NAME"
        host, port = await cast(Any, sentinel).execute_command(command, service)
        promoted = text(host), int(port)
        state["is_master"] = promoted != (state["ip"], state["port"])
        state.update(ip=promoted[0], port=promoted[1], is_sdown=False, is_odown=False)
    return masters
