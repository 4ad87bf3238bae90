"""What is the matter with a server, as facts, for who runs it. What they mean is not known here.

Changes nothing: what might need a right is asked for in a way that fails for another reason.
"""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from os import urandom
from typing import Any, Final, TypeVar, cast

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from incumbent.stores.base import Budget
from incumbent.stores.redis.caller import database_of
from incumbent.stores.redis.keys import channels_of, keys_of
from incumbent.stores.redis.replies import text
from incumbent.stores.redis.store import Client, RedisStore
from incumbent.stores.redis.survey import Named, answer, impatient, keys_under, named

T = TypeVar("T")

TYPES: Final = {
    "fence": "string",
    "tick": "string",
    "candidates": "hash",
    "history": "stream",
    "queue": "zset",
    "alive": "zset",
    "gone": "zset",
    "seat": "hash",
}
"""What each part of an election is."""

SETTINGS: Final = ("min-replicas-*", "save", "appendfsync")
"""What is asked of CONFIG, one by one: Redis 6.2 takes one pattern at a time."""

LISTENING: Final = 2.0
"""Seconds for a message to come back."""

WATCHED: Final = 1.0
"""Seconds between two looks at the clocks."""

NEARLY_NOW: Final = 1.0
"""Seconds by which a period may seem to be in the future: clocks are not compared better."""

KEY: Final = b"K"
CHANNEL: Final = b"C"
TRIES: Final[dict[str, tuple[bytes, ...]]] = {
    "DEL": (KEY,),
    "EVAL": (b"return 1", b"1", KEY),
    "EVALSHA": (b"0" * 40, b"1", KEY),
    "EXISTS": (KEY,),
    "GET": (KEY,),
    "HDEL": (KEY, b"x"),
    "HGET": (KEY, b"x"),
    "HGETALL": (KEY,),
    "HMGET": (KEY, b"x"),
    "HSET": (KEY, b"x", b"y", b"odd"),
    "PEXPIRE": (KEY, b"1"),
    "PTTL": (KEY,),
    "PUBLISH": (CHANNEL, b""),
    "SET": (KEY, b"", b"PX", b"0"),
    "TIME": (),
    "ZADD": (KEY, b"no-number", b"x"),
    "ZCARD": (KEY,),
    "ZRANGE": (KEY, b"0", b"1"),
    "ZRANGEBYSCORE": (KEY, b"0", b"1"),
    "ZREM": (KEY, b"x"),
    "ZREMRANGEBYSCORE": (KEY, b"0", b"1"),
    "ZSCORE": (KEY, b"x"),
}
"""The commands that are needed, with arguments that change nothing, whoever has the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One look at a server."""

    info: dict[str, Any]
    """What INFO says; empty without the right to ask."""
    config: dict[str, str]
    """Some of what CONFIG says; empty likewise."""
    round_trip: float
    """Seconds."""
    ahead: float
    """Seconds by which the server's clock is ahead of ours."""
    strayed: float
    """Seconds by which the two went apart in the time of `watched`."""
    watched: float
    refused: tuple[str, ...]
    """Needed commands that the server refuses to this user."""
    heard: bool
    """Whether a published message came back."""
    keys: int = 0
    lasting: tuple[str, ...] = ()
    """Keys that would stay for ever."""
    corrupt: tuple[str, ...] = field(default=())
    """Keys, and candidates' records, that are not as they should be."""
    ahead_of_time: tuple[str, ...] = ()
    """Seats that live longer than was asked for, and marks of periods in the future, in words. They
    are left when the server's clock was ahead and is set back."""
    scanned: bool = True
    names: int = 0
    """Elections that have a fence, so that they had a leader within a day."""
    waiting: int = 0
    """Places in the longest line."""
    candidates: int = 0
    """Records in the election that has the most."""


async def facts_of(client: Client, prefix: str, within: float) -> Facts:
    """Look at the server. Each request may take so many seconds.

    Raises:
        ValueError: this is the client of a cluster.
        redis.exceptions.RedisError: it cannot be reached, or refuses the log-in.
    """
    if not isinstance(client, Redis):
        raise ValueError(  # noqa: TRY004 - the mistake is in the URL
            "one server at a time: give the redis:// URL of each primary of the cluster"
        )
    look = _Look(impatient(client), prefix, within)
    began, first = await look.clock()
    refused = await look.refused()
    heard = await look.heard()
    info, config = await look.info(), await look.config()
    await asyncio.sleep(max(0.0, WATCHED - (time.monotonic() - began[0])))
    ended, second = await look.clock()
    found = await look.keys(second)
    return Facts(
        info=info,
        config=config,
        round_trip=min(began[1], ended[1]),
        ahead=first,
        strayed=abs(second - first - (time.time() - time.monotonic() - began[2])),
        watched=ended[0] - began[0],
        refused=refused,
        heard=heard,
        keys=found.count,
        lasting=tuple(sorted(found.lasting)),
        corrupt=tuple(sorted(found.corrupt)),
        ahead_of_time=tuple(sorted(found.ahead_of_time)),
        scanned=found.scanned,
        names=found.names,
        waiting=found.waiting,
        candidates=found.candidates,
    )


@dataclass(slots=True)
class _Keys:
    count: int = 0
    lasting: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    ahead_of_time: list[str] = field(default_factory=list)
    scanned: bool = True
    names: int = 0
    waiting: int = 0
    candidates: int = 0


class _Look:
    def __init__(self, client: Redis, prefix: str, within: float) -> None:
        self._client = client
        self._prefix = prefix
        self._within = within
        election = f"doctor-{urandom(8).hex()}"
        self._key = keys_of(prefix, election, 1).root + b"x"
        self._channel = channels_of(prefix, election, database_of(client)) + b"events"

    async def clock(self) -> tuple[tuple[float, float, float], float]:
        """When it was looked at, the round trip, our clocks' distance; how far it is ahead."""
        await self._ask(self._client.ping())
        began = time.monotonic()
        apart = time.time() - began
        seconds, micros = await self._ask(self._client.time())
        took = time.monotonic() - began
        ahead = int(seconds) + int(micros) / 1e6 - (apart + began + took / 2)
        return (began, took, apart), ahead

    async def info(self) -> dict[str, Any]:
        try:
            return dict(await self._ask(self._client.info("all")))
        except redis_errors.NoPermissionError:
            return {}

    async def config(self) -> dict[str, str]:
        known: dict[str, str] = {}
        try:
            for setting in SETTINGS:
                found = await self._ask(self._client.config_get(setting))
                known |= {text(name): text(value) for name, value in found.items()}
        except redis_errors.ResponseError:  # not allowed, or renamed away, as by those who host
            return {}
        return known

    async def refused(self) -> tuple[str, ...]:
        names = {KEY: self._key, CHANNEL: self._channel}
        refused: list[str] = []
        for command, arguments in TRIES.items():
            sent = [names.get(argument, argument) for argument in arguments]
            try:
                # redis-py has left it without types.
                reply = self._client.execute_command(command, *sent)  # type: ignore[no-untyped-call]
                await self._ask(reply)
            except redis_errors.NoPermissionError:
                refused.append(command)
            except redis_errors.ResponseError:
                pass  # another complaint, so it is not the right that is missing
        try:
            async with self._client.pubsub() as listener:
                await self._ask(listener.subscribe(self._channel))
        except redis_errors.NoPermissionError:
            refused.append("SUBSCRIBE")
        except redis_errors.ResponseError:
            pass
        return tuple(refused)

    async def heard(self) -> bool:
        try:
            return await self._listen()
        except redis_errors.ResponseError:
            return False

    async def _listen(self) -> bool:
        async with self._client.pubsub() as listener:
            await self._ask(listener.subscribe(self._channel))
            deadline = time.monotonic() + min(LISTENING, self._within)
            asked = False
            while (left := deadline - time.monotonic()) > 0:
                said = await listener.get_message(timeout=left)
                if said is not None and said["type"] == "message":
                    return True
                if said is not None and not asked:
                    asked = True
                    await self._ask(self._client.publish(self._channel, "doctor"))
        return False

    async def keys(self, ahead: float) -> _Keys:
        """What is the matter with the keys; `ahead`: seconds that the server's clock is ahead."""
        found = _Keys()
        try:
            async for key in keys_under(self._client, self._prefix, self._within):
                found.count += 1
                ttl = await self._ask(self._client.pttl(key))
                if ttl == -1:
                    found.lasting.append(text(key))
                its = named(key, self._prefix)
                if its is not None:
                    complaints = await self._complaints(key, its)
                    found.corrupt += complaints
                    if not complaints:
                        await self._measure(key, its, found)
                        found.ahead_of_time += await self._ahead_of_time(key, its, ttl, ahead)
        except redis_errors.NoPermissionError:
            found.scanned = False
        return found

    async def _measure(self, key: bytes, its: Named, found: _Keys) -> None:
        if its.part == "fence":
            found.names += 1
        elif its.part == "queue":
            found.waiting = max(found.waiting, await self._ask(self._client.zcard(text(key))))
        elif its.part == "candidates":
            with suppress(redis_errors.NoPermissionError):  # elections do without HLEN
                count = await self._ask(self._client.hlen(text(key)))
                found.candidates = max(found.candidates, count)

    async def _ahead_of_time(self, key: bytes, its: Named, ttl: int, ahead: float) -> list[str]:
        part = its.part.partition(":")[0]
        if part == "seat":
            wish = cast("Awaitable[Any]", self._client.hget(text(key), "longest"))
            longest = await self._ask(wish)
            if longest is not None and _number(longest) and ttl > int(longest):
                most = int(longest) / 1000
                return [
                    f"{text(key)} lives for {ttl / 1000:.0f} s, {most:g} s at most were asked for"
                ]
        elif part == "tick":
            tick = await self._ask(self._client.get(key))
            begins = "" if tick is None else text(tick).partition(" ")[0]
            if _number(begins):
                early = int(begins) / 1000 - (time.time() + ahead)
                if early > NEARLY_NOW:
                    return [f"{text(key)} is of a period that begins in {early:.0f} s"]
        return []

    async def _complaints(self, key: bytes, its: Named) -> list[str]:
        part = its.part.partition(":")[0]
        kind = text(await self._ask(self._client.type(key)))
        wanted, shown = TYPES.get(part), text(key)
        if wanted is None or kind == "none":
            return []  # a later release's, or gone since
        if kind != wanted:
            return [f"{shown} is a {kind}, not a {wanted}"]
        if part == "seat":
            wish = cast("Awaitable[list[Any]]", self._client.hmget(shown, ["token", "fence"]))
            token, fence = await self._ask(wish)
            gone = token is None and fence is None
            return [] if gone or (token and _number(fence)) else [f"{shown} is no seat"]
        if part == "fence":
            value = await self._ask(self._client.get(key))
            good = value is None or all(map(_number, text(value).split(" ", 1)))
            return [] if good else [f"{shown} is no fence"]
        if part == "candidates":
            store = RedisStore(self._client, self._prefix)
            try:
                budget = Budget(self._within, self._within)
                snapshot = await store.registry.snapshot(its.election, budget)
            finally:
                await store.aclose()
            return [f"{shown}: the record of {node!r}" for node in snapshot.corrupt]
        return []

    async def _ask(self, request: Awaitable[T]) -> T:
        return await answer(request, self._within)


def _number(value: Any) -> bool:
    digits = text(value)
    return digits.isascii() and digits.isdigit() and int(digits[:20]) < 2**53
