"""What is the matter with a server, as facts, for who runs it. What they mean is not known here.

Changes nothing: what might need a right is asked for in a way that fails for another reason. Each
question may be refused, cut off, or left without an answer. That is a fact as well, and the next
question follows.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import urandom
from typing import Any, Final, NamedTuple, TypeVar, cast

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from incumbent.durations import about
from incumbent.periods import MOST_TOLERANCE
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.stores.redis.caller import database_of
from incumbent.stores.redis.connection import KeptConnection
from incumbent.stores.redis.discretion import discreet
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

NEARLY_NOW: Final = MOST_TOLERANCE + 1.0
"""Seconds by which a period may be in the future: it may have been run early, and clocks are not
compared better than to a second."""

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


CONNECTING: Final = "connecting"
"""What stands for a command where the server refuses already while it is connected to."""

SAYS_WHY: Final = frozenset({"NOPERM", "LOADING", "MISCONF", "BUSY", "MASTERDOWN", "UNKNOWN"})
"""What a server may say to a client that connects, which is more than that it is not reached."""

NO_ANSWER: Final = frozenset({"silent", "cut", "unasked"})
"""The kinds of troubles in which the server has said nothing."""

ELSEWHERE: Final = frozenset({"MOVED", "ASK", "TRYAGAIN", "WRONGTYPE"})
"""What is said of a key that has gone to another node meanwhile, or become another."""

MOST_SILENT: Final = 3
"""How many questions may go without an answer before no more are asked: each takes its time."""

MOST_SLOTS: Final = 200
"""How many keys are tried to find one that a node of a cluster has."""


class Trouble(NamedTuple):
    """A question that had no proper answer."""

    command: str
    kind: str
    """The word of the server's error, as NOPERM or MISCONF (UNKNOWN for a command that it does not
    know, nothing for an error without such a word), or `silent`, `cut` or `unasked`."""
    said: str
    """The error in words, without secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One look at a server. What could not be found out is empty or None, for a trouble."""

    info: dict[str, Any]
    """What INFO says."""
    config: dict[str, str]
    """Some of what CONFIG says; empty also without the right to ask."""
    round_trip: float | None = None
    """Seconds."""
    ahead: float | None = None
    """Seconds by which the server's clock is ahead of ours."""
    strayed: float = 0.0
    """Seconds by which the two went apart in the time of `watched`."""
    watched: float = 0.0
    troubles: tuple[Trouble, ...] = ()
    """What had no proper answer, in the order in which it was asked."""
    heard: bool = False
    """Whether a published message came back."""
    keys: int = 0
    lasting: tuple[str, ...] = ()
    """Keys that would stay for ever."""
    corrupt: tuple[str, ...] = ()
    """Keys, and candidates' records, that are not as they should be."""
    ahead_of_time: tuple[str, ...] = ()
    """Seats that live longer than was asked for, and marks of periods in the future, in words. They
    are left when the server's clock was ahead and is set back."""
    unscanned: str = ""
    """Why not all keys were looked at, in words."""
    names: int = 0
    """Elections that have a fence, so that they had a leader within a day."""
    waiting: int = 0
    """Places in the longest line."""
    candidates: int = 0
    """Records in the election that has the most."""

    def trouble(self, command: str) -> Trouble | None:
        """What was wrong with the answer to `command`, if anything was."""
        return next((each for each in self.troubles if each.command == command), None)


async def facts_of(client: Client, prefix: str, within: float) -> Facts:
    """Look at the server. Each request may take so many seconds.

    Raises:
        ValueError: this is the client of a cluster.
        redis.exceptions.RedisError: it cannot be connected to, or refuses the log-in.
    """
    if not isinstance(client, Redis):
        raise ValueError(  # noqa: TRY004 - the mistake is in the URL
            "one server at a time: give the redis:// URL of each primary of the cluster"
        )
    look = _Look(impatient(client), prefix, within)
    try:
        await look.connect()
    except redis_errors.RedisError as error:
        trouble = trouble_of(CONNECTING, error, client)
        if trouble.kind not in SAYS_WHY:
            raise
        return Facts(info={}, config={}, troubles=(trouble,))
    pings = [await look.ping()]
    first = await look.clock()
    await look.try_all()
    heard = await look.heard()
    info, config = await look.info(), await look.config()
    if first is not None:
        await asyncio.sleep(max(0.0, WATCHED - (time.monotonic() - first.at)))
    pings.append(await look.ping())
    second = None if first is None else await look.clock()
    found = await look.keys(0.0 if second is None else second.ahead)
    return Facts(
        info=info,
        config=config,
        round_trip=min((took for took in pings if took is not None), default=None),
        ahead=None if first is None else first.ahead,
        strayed=0.0 if first is None or second is None else second.strayed_from(first),
        watched=0.0 if first is None or second is None else second.at - first.at,
        troubles=tuple(look.troubles),
        heard=heard,
        keys=found.count,
        lasting=tuple(sorted(found.lasting)),
        corrupt=tuple(sorted(found.corrupt)),
        ahead_of_time=tuple(sorted(found.ahead_of_time)),
        unscanned=found.unscanned,
        names=found.names,
        waiting=found.waiting,
        candidates=found.candidates,
    )


class _Reading(NamedTuple):
    """The server's clock, as it was read once."""

    at: float
    """When, by our monotonic clock."""
    apart: float
    """Our wall clock less our monotonic one."""
    ahead: float
    """The server's clock less our wall clock."""
    took: float
    """How long the question took: by half of that it may be wrong."""

    def strayed_from(self, earlier: "_Reading") -> float:
        """How far, at least, the server's clock went from our monotonic one since then."""
        strayed = abs(self.ahead + self.apart - earlier.ahead - earlier.apart)
        return max(0.0, strayed - (self.took + earlier.took) / 2)


@dataclass(slots=True)
class _Keys:
    count: int = 0
    lasting: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    ahead_of_time: list[str] = field(default_factory=list)
    unscanned: str = ""
    names: int = 0
    waiting: int = 0
    candidates: int = 0


class _TroubledError(Exception):
    """A question had no proper answer."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble


class _Look:
    def __init__(self, client: Redis, prefix: str, within: float) -> None:
        self.troubles: list[Trouble] = []
        self._client = client
        self._prefix = prefix
        self._within = within
        self._silent = 0
        self._name_trial()

    def _name_trial(self) -> None:
        """An election that nobody has, for what is tried."""
        election = f"doctor-{urandom(8).hex()}"
        self._key = keys_of(self._prefix, election, 1).root + b"x"
        self._channel = channels_of(self._prefix, election, database_of(self._client)) + b"events"

    # -- questions ---------------------------------------------------------------------------

    async def _ask(self, command: str, question: Callable[[], Awaitable[T]]) -> T:
        if self._silent >= MOST_SILENT:
            said = f"{MOST_SILENT} questions had no answer before"
            raise _TroubledError(Trouble(command, "unasked", said))
        try:
            return await answer(question(), self._within)
        except redis_errors.RedisError as error:
            self._silent += isinstance(error, redis_errors.TimeoutError)
            raise _TroubledError(trouble_of(command, error, self._client)) from None

    @contextmanager
    def _noting(self, command: str = "") -> Generator[None]:
        """A block that a trouble ends; `command` is what it sends beside the questions in it."""
        try:
            yield
        except _TroubledError as error:
            self.troubles.append(error.trouble)
        except redis_errors.RedisError as error:
            self.troubles.append(trouble_of(command, error, self._client))

    # -- the server --------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect, and leave the connection to the client."""
        kept = KeptConnection(self._client.connection_pool)
        try:
            await answer(kept.ready(), self._within)
        finally:
            await kept.give_back()

    async def ping(self) -> float | None:
        """Seconds for a round trip, with whatever answer."""
        began, before = time.monotonic(), len(self.troubles)
        with self._noting():
            await self._ask("PING", self._client.ping)
        answered = all(each.kind not in NO_ANSWER for each in self.troubles[before:])
        return time.monotonic() - began if answered else None

    async def clock(self) -> _Reading | None:
        """The server's clock."""
        began = time.monotonic()
        apart = time.time() - began
        try:
            seconds, micros = await self._ask("TIME", self._client.time)
        except _TroubledError as error:
            self.troubles.append(error.trouble)
            return None
        took = time.monotonic() - began
        ahead = int(seconds) + int(micros) / 1e6 - (apart + began + took / 2)
        return _Reading(began, apart, ahead, took)

    async def info(self) -> dict[str, Any]:
        """What INFO says."""
        known: dict[str, Any] = {}
        with self._noting():
            known |= await self._ask("INFO", partial(self._client.info, "all"))
        return known

    async def config(self) -> dict[str, str]:
        """Some of what CONFIG says."""
        known: dict[str, str] = {}
        with self._noting():
            for setting in SETTINGS:
                found = await self._ask("CONFIG", partial(self._client.config_get, setting))
                known |= {text(name): text(value) for name, value in found.items()}
        return known

    async def try_all(self) -> None:
        """Find out what the server refuses of what elections need."""
        await self._find_a_key_of_this_node()
        names = {KEY: self._key, CHANNEL: self._channel}
        for command, arguments in TRIES.items():
            with self._noting():
                await self._try(command, *(names.get(each, each) for each in arguments))

    async def _find_a_key_of_this_node(self) -> None:
        """A node of a cluster says MOVED for the keys of others, whatever else it would say."""
        for _ in range(MOST_SLOTS):
            try:
                await self._try("EXISTS", self._key)
            except _TroubledError as error:
                if error.trouble.kind != "MOVED":
                    return  # it is told when it is tried once more
                self._name_trial()
            else:
                return

    async def _try(self, command: str, *arguments: bytes) -> None:
        execute = cast(Any, self._client).execute_command  # redis-py has left it without types
        await self._ask(command, partial(execute, command, *arguments))

    async def heard(self) -> bool:
        """Whether a message comes back that is published."""
        heard = published = False
        with self._noting("SUBSCRIBE"):
            async with self._client.pubsub() as listener:
                await self._ask("SUBSCRIBE", partial(listener.subscribe, self._channel))
                deadline = time.monotonic() + min(LISTENING, self._within)
                while not heard and (left := deadline - time.monotonic()) > 0:
                    said = await listener.get_message(timeout=left)
                    heard = said is not None and said["type"] == "message"
                    if said is not None and not published:
                        published = True
                        with self._noting():
                            await self._try("PUBLISH", self._channel, b"doctor")
        return heard

    # -- keys --------------------------------------------------------------------------------

    async def keys(self, ahead: float) -> _Keys:
        """What is the matter with the keys; `ahead`: seconds that the server's clock is ahead."""
        found = _Keys()
        before = len(self.troubles)
        with self._noting("SCAN"):
            async for key in keys_under(self._client, self._prefix, self._within):
                found.count += 1
                try:
                    await self._examine(key, found, ahead)
                except _TroubledError as error:
                    if error.trouble.kind not in ELSEWHERE:
                        raise  # it would come back with each key
        for trouble in self.troubles[before:]:
            found.unscanned = f"{trouble.command}: {trouble.said}"
        return found

    async def _examine(self, key: bytes, found: _Keys, ahead: float) -> None:
        ttl = await self._ask("PTTL", partial(self._client.pttl, key))
        if ttl == -1:
            found.lasting.append(text(key))
        its = named(key, self._prefix)
        if its is not None:
            complaints = await self._complaints(key, its)
            found.corrupt += complaints
            if not complaints:
                await self._measure(key, its, found)
                found.ahead_of_time += await self._ahead_of_time(key, its, ttl, ahead)

    async def _measure(self, key: bytes, its: Named, found: _Keys) -> None:
        if its.part == "fence":
            found.names += 1
        elif its.part == "queue":
            count = await self._ask("ZCARD", partial(self._client.zcard, text(key)))
            found.waiting = max(found.waiting, count)
        elif its.part == "candidates":
            try:
                wish = partial(cast(Any, self._client).hlen, text(key))
                found.candidates = max(found.candidates, await self._ask("HLEN", wish))
            except _TroubledError as error:
                if error.trouble.kind != "NOPERM":  # elections do without HLEN
                    raise

    async def _ahead_of_time(self, key: bytes, its: Named, ttl: int, ahead: float) -> list[str]:
        part = its.part.partition(":")[0]
        if part == "seat":
            wish = partial(cast(Any, self._client).hget, text(key), "longest")
            longest = await self._ask("HGET", wish)
            if longest is not None and _number(longest) and ttl > int(longest):
                most = int(longest) / 1000
                lives = f"{text(key)} lives for {about(ttl / 1000)}"
                return [f"{lives}, {about(most)} at most were asked for"]
        elif part == "tick":
            tick = await self._ask("GET", partial(self._client.get, key))
            begins = "" if tick is None else text(tick).partition(" ")[0]
            if _number(begins):
                early = int(begins) / 1000 - (time.time() + ahead)
                if early > NEARLY_NOW:
                    return [f"{text(key)} is of a period that begins in {about(early)}"]
        return []

    async def _complaints(self, key: bytes, its: Named) -> list[str]:
        part = its.part.partition(":")[0]
        kind = text(await self._ask("TYPE", partial(self._client.type, key)))
        wanted, shown = TYPES.get(part), text(key)
        if wanted is None or kind == "none":
            return []  # a later release's, or gone since
        if kind != wanted:
            return [f"{shown} is a {kind}, not a {wanted}"]
        if part == "seat":
            wish = partial(cast(Any, self._client).hmget, shown, ["token", "fence"])
            token, fence = await self._ask("HMGET", wish)
            gone = token is None and fence is None
            return [] if gone or (token and _number(fence)) else [f"{shown} is no seat"]
        if part == "fence":
            value = await self._ask("GET", partial(self._client.get, key))
            good = value is None or all(map(_number, text(value).split(" ", 1)))
            return [] if good else [f"{shown} is no fence"]
        if part == "candidates":
            unread = await self._ask("a script", partial(self._unread, its.election))
            return [f"{shown}: the record of {node!r}" for node in unread]
        return []

    async def _unread(self, election: str) -> tuple[str, ...]:
        """The candidates whose records cannot be read."""
        store = RedisStore(self._client, self._prefix)
        try:
            budget = Budget(self._within, self._within)
            return (await store.registry.snapshot(election, budget)).corrupt
        finally:
            await store.aclose()


def trouble_of(command: str, error: redis_errors.RedisError, client: Redis) -> Trouble:
    """What the error means that `command` ended with."""
    said = " ".join(str(discreet(error, client)).split()) or type(error).__name__
    # A client of Sentinels takes READONLY for a lost connection, and raises an error of its own.
    kind = faults.kind(error) or (error.__context__ and faults.kind(error.__context__)) or ""
    if not kind and isinstance(error, redis_errors.TimeoutError):
        kind = "silent"
    elif not kind and isinstance(error, redis_errors.ConnectionError):
        kind = "cut"
    return Trouble(command, kind, said)


def _number(value: Any) -> bool:
    digits = text(value)
    return digits.isascii() and digits.isdigit() and int(digits[:20]) < 2**53
