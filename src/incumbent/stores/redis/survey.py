"""Which elections there are: what the names of the keys on a server tell. For operators.

No elector needs it: it looks through all keys of the server, in steps that block nobody for long.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from os import urandom
from typing import Any, Final, NamedTuple, TypeVar, cast

from redis import exceptions as redis_errors
from redis.asyncio import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from incumbent.durations import exact
from incumbent.stores.redis import faults
from incumbent.stores.redis.keys import keys_of
from incumbent.stores.redis.store import Client

T = TypeVar("T")
AnyClient = TypeVar("AnyClient", bound=Client)

AT_ONCE: Final = 1000
"""How many keys the server looks at in one step."""

NO_WRITES: Final = frozenset({"MISCONF", "NOREPLICAS", "OOM", "READONLY"})
"""What a server says that can still be read."""

_SPECIAL: Final = re.compile(r"([*?\[\]\\^])")


class Named(NamedTuple):
    """A key that belongs to an election."""

    election: str
    part: str
    """Its last word: ``fence``, ``queue``, ``seat:0``."""


def impatient(client: AnyClient) -> AnyClient:
    """`client`, which from now on says at once what is wrong, instead of trying again."""
    client.set_retry(Retry(NoBackoff(), 0))
    return client


async def answer(request: Awaitable[T], within: float) -> T:
    """What the server answers, if it does `within` seconds."""
    try:
        async with asyncio.timeout(within):
            return await request
    except TimeoutError:
        raise redis_errors.TimeoutError(f"no answer within {exact(within)}") from None
    except redis_errors.RedisClusterException as error:  # which is no RedisError
        raise redis_errors.ConnectionError(str(error)) from None
    except redis_errors.RedisError:
        raise
    except Exception as error:
        if faults.garbled(error):
            raise faults.not_understood(error) from None
        raise


async def ping(client: Client, within: float) -> None:
    """Hear from the server, within so many seconds."""
    await answer(client.ping(), within)


async def refuses_writes(
    client: Client, prefix: str, within: float
) -> redis_errors.RedisError | None:
    """What the server says if it lets nobody write now: a full disk, a full memory, a replica.

    Nothing is written, because the command has a mistake, which is looked at last. Of a cluster it
    is one node that is asked.
    """
    key = keys_of(prefix, f"no-election-{urandom(8).hex()}", 1).root + b"x"
    execute = cast(Any, client).execute_command  # redis-py has left it without types
    try:
        await answer(execute("SET", key, b"", b"PX", b"0"), within)
    except redis_errors.ResponseError as error:
        return error if faults.kind(error) in NO_WRITES else None
    return None


async def keys_under(client: Client, prefix: str, within: float) -> AsyncGenerator[bytes]:
    """All keys that begin with `prefix` and a colon, each once; `within` is for one step."""
    pattern = _SPECIAL.sub(r"\\\1", prefix) + ":*"
    seen: set[bytes] = set()
    for scan in await _scans(client, within):
        cursor = -1
        while cursor:
            step = scan(max(cursor, 0), match=pattern, count=AT_ONCE)
            cursor, keys = await answer(step, within)
            if isinstance(cursor, dict):  # by node
                cursor = next(iter(cursor.values()))
            for key in keys:
                raw = key if isinstance(key, bytes) else str(key).encode()
                if raw not in seen:
                    seen.add(raw)
                    yield raw


async def _scans(client: Client, within: float) -> list[Callable[..., Awaitable[Any]]]:
    """SCAN, for each server that has keys."""
    if not isinstance(client, RedisCluster):
        return [client.scan]
    _ = await answer(client.initialize(), within)
    return [partial(client.scan, target_nodes=node) for node in client.get_primaries()]


def named(key: bytes, prefix: str) -> Named | None:
    """What the name of a key says; None when it is no name of ours."""
    text = key.decode(errors="replace")
    opening, closing = f"{prefix}:{{", "}:"
    if not text.startswith(opening) or closing not in text:
        return None
    election, _, part = text[len(opening) :].partition(closing)
    return Named(election, part) if election and part else None


async def elections(client: Client, prefix: str, within: float) -> AsyncGenerator[str]:
    """The names of all elections that have left a key, each once, in the order of the server.

    Who has led within a day has, and who stands in line or as a candidate.
    """
    found: set[str] = set()
    async for key in keys_under(client, prefix, within):
        its = named(key, prefix)
        if its is not None and its.election not in found:
            found.add(its.election)
            yield its.election
