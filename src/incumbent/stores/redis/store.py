"""The store on a server: claims become scripts, answers become grants, the abandoned is undone.

Knows which keys and arguments a script takes, and what its answer means.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from redis import exceptions as redis_errors
from redis.asyncio import Redis, RedisCluster

from incumbent import clock
from incumbent.lease import valid_until
from incumbent.results import LeaderInfo, LeaderState
from incumbent.shield import finish
from incumbent.stores.base import Budget, Busy, Claim, Extended, Grant, NotYours, Released, instant
from incumbent.stores.redis import faults, scripts
from incumbent.stores.redis.caller import Call, Caller
from incumbent.stores.redis.keys import keys_of

Client: TypeAlias = Redis
"""The clients that an elector can be given."""

_GRACE = b"1000"
"""Milliseconds that a woken waiter has to take its seat."""


class RedisStore:
    """Leases on the server of `client`, which stays the caller's and is never closed."""

    def __init__(self, client: Client, prefix: str) -> None:
        _check(client)
        self._prefix = prefix
        self._caller = Caller(client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} prefix={self._prefix!r}>"

    async def acquire(self, claim: Claim, budget: Budget) -> Grant | Busy:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        args = (claim.token.encode(), claim.leader_id.encode(), _ms(claim.lease_time), _GRACE)
        call = Call()
        # A quarter of the time is kept for the clean-up, so that both together stay within the
        # budget.
        trying, cleaning = (
            Budget(budget.total * 0.75, budget.each),
            Budget(budget.total * 0.25, budget.total * 0.25),
        )
        try:
            reply = await self._caller.run(scripts.ACQUIRE, keys.acquire, args, trying, call)
            if reply[0] == b"granted":
                return _grant(claim, reply, call)
        except BaseException as error:
            # Whatever was read by somebody, only what was refused to *us* is known to be nothing.
            refused = isinstance(error, redis_errors.ResponseError) and not call.doubtful
            if call.sent and not refused:
                await finish(partial(self._leave_quietly, claim, cleaning))
            raise
        if reply[0] == b"busy":
            if call.doubtful:  # a copy that arrives when the seat is free must not take it
                await finish(partial(self._leave_quietly, claim, cleaning))
            return Busy(_info(reply[1:7]))
        raise redis_errors.ResponseError(
            f"a claim of election {claim.election!r} was given up and then used again"
        )

    async def extend(
        self, claim: Claim, seat: int, duration: float, budget: Budget
    ) -> Extended | NotYours:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        call = Call()
        args = (claim.token.encode(), _ms(duration))
        reply = await self._caller.run(scripts.EXTEND, keys.extend[seat], args, budget, call)
        if reply[0] == b"held":
            return Extended(ttl=int(reply[1]) / 1000, sent_at=call.sent_at)
        return "taken" if reply[0] == b"taken" else "gone"

    async def release(self, claim: Claim, grant: Grant, keep: float, budget: Budget) -> Released:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        call = Call()
        doubtful = b"1" if grant.doubtful else b"0"
        args = (claim.token.encode(), _ms(keep), doubtful, _GRACE, b"0")
        reply = await self._caller.run(
            scripts.RELEASE, keys.release[grant.seat], args, budget, call
        )
        if reply[0] == b"released" or call.doubtful:
            return "released"
        return "taken" if reply[0] == b"taken" else "gone"

    async def leave(self, claim: Claim, budget: Budget) -> None:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        args = (claim.token.encode(), b"", _GRACE)
        await self._caller.run(scripts.LEAVE, keys.leave, args, budget)

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        keys = keys_of(self._prefix, election, seats)
        reply = await self._caller.run(scripts.STATE, keys.state, (), budget)
        return LeaderState(election, tuple(_info(seat) for seat in reply[1:]))

    def passing(self, error: Exception) -> bool:
        return faults.passing(error)

    async def aclose(self) -> None:
        await self._caller.aclose()

    async def _leave_quietly(self, claim: Claim, budget: Budget) -> None:
        # The claim's own error is on its way; what was taken frees itself after the lease time.
        with suppress(Exception):
            await self.leave(claim, budget)


def _grant(claim: Claim, reply: Sequence[Any], call: Call) -> Grant:
    _, seat, fence, since, ttl = reply
    if clock.now() + claim.margin >= valid_until(call.sent_at, int(ttl) / 1000):
        raise redis_errors.TimeoutError(
            f"a seat of {claim.election!r} was granted too late: the server is slow for lease_time"
        )
    return Grant(
        seat=int(seat),
        fence=int(fence),
        since=instant(int(since)),
        ttl=int(ttl) / 1000,
        sent_at=call.sent_at,
        doubtful=call.doubtful,
    )


def _check(client: Any) -> None:
    if isinstance(client, RedisCluster):
        raise TypeError("a RedisCluster client is not supported yet: give a redis.asyncio.Redis")
    if not isinstance(client, Redis):
        kind = type(client)
        raise TypeError(
            "redis must be a redis.asyncio.Redis client or a Store, "
            f"not {kind.__module__}.{kind.__qualname__}; "
            "from a URL: redis.asyncio.Redis.from_url(...)"
        )


def _info(seat: Sequence[Any]) -> LeaderInfo:
    number, leader, fence, since, ttl, retained = seat
    return LeaderInfo(
        leader_id=bytes(leader).decode(errors="replace"),
        seat=int(number),
        fence=int(fence),
        since=instant(int(since)),
        remaining=max(0, int(ttl)) / 1000,
        retained=bool(retained),
    )


def _ms(duration: float) -> bytes:
    return b"%d" % round(duration * 1000)
