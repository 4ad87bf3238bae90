"""Which server is the primary now: what half of the Sentinels say, not waiting for who is gone.

The caller's own client asks one after the other, each for as long as its own timeouts and retries
are, so that the first one's death may outlast a lease. It also believes the first that answers,
which may be behind the others, and one that is about to replace the primary that it names: such a
primary, back from the dead or not told yet, grants leases that nobody else will know of. And it
asks only those that the user named, all of which may have been replaced by others meanwhile.
"""

import copy
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from incumbent import clock
from incumbent.shield import finish
from incumbent.stores.redis import faults
from incumbent.stores.redis.canvass import PATIENCE, canvass
from incumbent.stores.redis.discretion import discreet
from incumbent.stores.redis.replies import text
from incumbent.stores.redis.slots import Address

LEARN_EVERY: Final = 30.0
"""Seconds after which Sentinels are asked which others there are, when they are asked anything."""


class Known:
    """The Sentinels that one client knows of, for one service."""

    def __init__(self, manager: Sentinel) -> None:
        models = [(each.connection_pool, _options(each)) for each in manager.sentinels]
        self.models: dict[Address, tuple[type[AbstractConnection], dict[str, Any]]] = {
            (its["host"], int(its["port"])): (pool.connection_class, its) for pool, its in models
        }
        """Those that the user named, and how they are connected to."""
        self.enough: int = (len(models) + 1) // 2
        self.told: frozenset[Address] = frozenset()
        """Those that other Sentinels have named, and the user has not."""
        self._answered: dict[Address, float] = {}
        self._learned_at = float("-inf")

    def order(self) -> list[Address]:
        """The addresses to ask: first those that answered last and were believed."""
        places = (*self.models, *sorted(self.told))
        return sorted(places, key=lambda each: -self._answered.get(each, 0.0))

    def client(self, place: Address) -> Redis:
        """A client of the Sentinel at `place`, which tries once. Its pool is to be disconnected."""
        kind, options = self.models.get(place) or next(iter(self.models.values()))
        its: dict[str, Any] = {**options, "host": place[0], "port": place[1]}
        its["retry"] = Retry(NoBackoff(), 0)
        return Redis(connection_pool=ConnectionPool(connection_class=kind, **its))

    def due(self, now: float) -> bool:
        """Whether it is time to ask which others there are."""
        return now - self._learned_at >= LEARN_EVERY

    def believed(self, round_: "Round", primary: Address, now: float) -> None:
        """Enough of them agree on `primary`: what those say of other Sentinels is believed, too."""
        agreed = [each for each, said in round_.said.items() if said == primary]
        self._answered |= dict.fromkeys(agreed, now)
        others = [round_.others[each] for each in agreed if each in round_.others]
        if others:
            self.told = frozenset(agreed).union(*others) - self.models.keys()
            self._learned_at = now
            known = self.told.union(self.models)
            self._answered = {each: at for each, at in self._answered.items() if each in known}


class Round:
    """What was heard when Sentinels were asked once."""

    def __init__(self, known: Known) -> None:
        self.said: dict[Address, Address] = {}
        """The primary that each one names."""
        self.others: dict[Address, frozenset[Address]] = {}
        """The other Sentinels that each one names, if it was asked for them."""
        self._told = known.told
        self._voices: dict[str, Address] = {}

    def hear(self, place: Address, name: str | None) -> None:
        """The Sentinel with the id `name` has voted at `place`: once, however it is reached.

        The user may have given the name of its host, and other Sentinels its IP address.

        Raises:
            redis.exceptions.ConnectionError: it has voted already, or may have.
        """
        before = place if name is None else self._voices.setdefault(name, place)
        twice = before != place and not self._told.isdisjoint({place, before})
        if twice or (name is None and place in self._told):
            raise redis_errors.ConnectionError("this Sentinel may have been asked already")


_KNOWN: Final[WeakKeyDictionary[Sentinel, dict[str, Known]]] = WeakKeyDictionary()


def known_to(manager: Sentinel, service: str) -> Known:
    """The Sentinels that the client with this `manager` knows of."""
    services = _KNOWN.setdefault(manager, {})
    if service not in services:
        services[service] = Known(manager)
    return services[service]


async def connect(connection: AbstractConnection, pool: SentinelConnectionPool) -> Address:
    """Connect `connection`, which is one of `pool`, to who is the primary now; where that is.

    Raises:
        redis.exceptions.ConnectionError: no Sentinel knows one, or it cannot be reached.
    """
    address = await address_for(pool)
    await cast(Any, connection).connect_to(address)
    return address


async def address_for(pool: SentinelConnectionPool) -> Address:
    """The address for connections of `pool` now; idle ones to another address are cut.

    Raises:
        redis.exceptions.ConnectionError: too few Sentinels know it.
        redis.exceptions.AuthenticationError: they refuse the log-in.
    """
    known = cast(Any, pool)  # redis-py left it without types
    address = await primary_of(known.sentinel_manager, known.service_name)
    if known.master_address != address:
        # As the pool itself does it: what is idle may lead to the old primary.
        known.master_address = address
        await finish(partial(known.disconnect, inuse_connections=False))
    return address


async def primary_of(manager: Sentinel, service: str) -> Address:
    """Where the primary of `service` is, by the votes of half as many Sentinels as were given.

    Not of more than half: of two, one may be gone. Sentinels that were learned of vote as well.

    Raises:
        redis.exceptions.ConnectionError: too few know one, or they replace it just now.
        redis.exceptions.AuthenticationError: they refuse the log-in.
    """
    known = known_to(manager, service)
    round_ = Round(known)
    asks = [partial(_ask, manager, service, place, round_) for place in known.order()]
    nobody = f"there is no Sentinel to ask for {service!r}"
    primary = await canvass(asks, PATIENCE, nobody, enough=known.enough)
    known.believed(round_, primary, clock.now())
    return primary


async def _ask(manager: Sentinel, service: str, place: Address, round_: Round) -> Address:
    known, heard = known_to(manager, service), list[redis_errors.RedisError]()
    impatient = known.client(place)
    cast(Any, impatient).sentinel_masters = partial(_masters, impatient, service, heard)
    alone: Any = copy.copy(manager)  # so that whatever the caller's does with an answer is done
    alone.sentinels = [impatient]
    try:
        address = await _discover(alone, service)
        if address is None:
            raise _why(heard, place, service)
        await _listen(impatient, known, place, service, round_)
    except redis_errors.RedisError as error:
        raise discreet(error, impatient) from None
    finally:
        # Which itself, if it is cancelled at its start, leaves them open.
        await finish(impatient.connection_pool.disconnect)
    round_.said[place] = address
    return address


async def _discover(manager: Any, service: str) -> Address | None:
    """The primary that the one Sentinel of `manager` names.

    None in place of redis-py's own error, whose text may have passwords in it.
    """
    try:
        address: Address = await manager.discover_master(service)
    except MasterNotFoundError:
        return None
    return address


def _why(
    heard: list[redis_errors.RedisError], place: Address, service: str
) -> redis_errors.RedisError:
    """Why a Sentinel has named no primary."""
    where = f"the Sentinel at {place[0]}:{place[1]}"
    if not heard:
        return MasterNotFoundError(f"{where} knows no healthy primary of {service!r}")
    error = heard[-1]
    if not faults.passing(error):
        return redis_errors.AuthenticationError(f"{where} refuses the log-in: {error}")
    late = isinstance(error, redis_errors.TimeoutError)
    kind = redis_errors.TimeoutError if late else redis_errors.ConnectionError
    return kind(f"{where} does not answer: {error}")


async def _masters(sentinel: Redis, service: str, heard: list[redis_errors.RedisError]) -> Any:
    """What `sentinel` says of its primaries, but of one that is being replaced the truth.

    Until the fail-over is over it goes on describing the old one there, and if that is back, as
    healthy. By the command that is made for clients it names the new one, once that is promoted;
    before that nobody is the primary: what the old one grants now may be forgotten.
    Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
    """
    try:
        masters: Any = await Redis.sentinel_masters(sentinel)
    except (redis_errors.ConnectionError, redis_errors.TimeoutError) as error:
        heard.append(error)  # redis-py keeps only its text
        raise
    state = masters.get(service)
    if state and "failover_in_progress" in state["flags"]:
        command = "SENTINEL GET-MASTER-ADDR-BY-NAME"
        host, port = await cast(Any, sentinel).execute_command(command, service)
        promoted = text(host), int(port)
        state["is_master"] = promoted != (state["ip"], state["port"])
        state.update(ip=promoted[0], port=promoted[1], is_sdown=False, is_odown=False)
    return masters


async def _listen(sentinel: Any, known: Known, place: Address, service: str, round_: Round) -> None:
    """Ask a Sentinel for its id and, now and then, for the other Sentinels."""
    if known.told:
        name: str | None = None
        with suppress(redis_errors.ResponseError):  # we may have no right to ask
            name = text(await sentinel.execute_command("SENTINEL MYID"))
        round_.hear(place, name)
    if known.due(clock.now()):
        try:
            # Not by redis-py's own method: that of 6.4 cannot be called.
            others = await sentinel.execute_command("SENTINEL SENTINELS", service)
        except redis_errors.ResponseError:
            others = []
        round_.others[place] = frozenset((text(each["ip"]), int(each["port"])) for each in others)


def _options(sentinel: Redis) -> dict[str, Any]:
    return dict(sentinel.connection_pool.connection_kwargs)
