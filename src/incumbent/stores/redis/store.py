"""The store on a server: claims become scripts, answers become grants, the abandoned is undone.

Knows which keys and arguments a script takes, and what its answer means.
"""

import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from redis import Redis as BlockingRedis
from redis import RedisCluster as BlockingCluster
from redis import exceptions as redis_errors
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.sentinel import SentinelConnectionPool

from incumbent import clock
from incumbent.errors import NotDurableError
from incumbent.kinds import real
from incumbent.lease import valid_until
from incumbent.periods import OncePer
from incumbent.results import LeaderInfo, LeaderState
from incumbent.shield import finish
from incumbent.stores.base import (
    Budget,
    Busy,
    Claim,
    Extended,
    Grant,
    NotYours,
    Place,
    Ran,
    Released,
    Tenure,
)
from incumbent.stores.redis import faults, scripts
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.keys import channels_of, keys_of
from incumbent.stores.redis.lines import Lines
from incumbent.stores.redis.place import ServerPlace
from incumbent.stores.redis.replies import leader_of
from incumbent.stores.redis.scripts import ms
from incumbent.stores.redis.wire import Reply, Request

if TYPE_CHECKING:
    from incumbent.stores.mailbox import Mailbox
    from incumbent.stores.redis.durability import Confirmer
    from incumbent.stores.redis.registry import RedisRegistry
    from incumbent.stores.redis.transaction import BlockingTransaction, Transaction
    from incumbent.stores.redis.watching import Watching

AT_FIRST: Final = 16
"""How many seats a look asks for, until the server has said that the election has more."""

MOST_CLOCKS: Final = 3
"""How often a claim is sent because the server's clock said another period."""

Client: TypeAlias = Redis | RedisCluster
"""The clients that an elector can be given."""


class RedisStore:
    """Leases on the server of `client`, which stays the caller's and is never closed."""

    def __init__(self, client: Client, prefix: str) -> None:
        _check(client)
        self._client = client
        self._prefix = prefix
        self._caller = Caller(client)
        self._confirmer: Confirmer | None = None
        self._lines: Lines | None = None
        self._watching: Watching | None = None
        self._ahead = time.time() - clock.now()
        """Seconds by which the server's clock is ahead of ours, as far as is known."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} prefix={self._prefix!r}>"

    @property
    def registry(self) -> "RedisRegistry":
        """Who stands in strategic elections, asked for on the same connection."""
        # Here, because most programs never ask: a quarter of what this library costs to import.
        from incumbent.stores.redis.registry import RedisRegistry  # noqa: PLC0415 - see above

        return RedisRegistry(self._caller, self._prefix)

    @property
    def replicates(self) -> bool:
        return True

    async def acquire(
        self, claim: Claim, budget: Budget, place: Place | None = None, *, last: bool = False
    ) -> Grant | Busy | Ran:
        mine = _ours(place)
        request, granted = Request(), False
        trying, cleaning = _parts(budget, claim.lease_time)
        began = clock.now()
        try:
            reply = await self._ask(claim, mine, trying, request, last=last)
            granted = reply[0] == b"granted"
            if granted:
                doubts: tuple[str, ...] = ()
                if claim.durability is not None:
                    keys = keys_of(self._prefix, claim.election, claim.seats).seat(int(reply[1]))
                    left = Budget(trying.total - (clock.now() - began), trying.each)
                    doubts = await self._durably.confirm(claim, keys, left)
                grant = _grant(claim, reply, request, doubts)
                if mine is not None:
                    mine.close()
                return grant
        except BaseException as error:
            # Whatever was read by somebody, only what was refused to *us* is known to be nothing.
            said = isinstance(error, redis_errors.ResponseError)
            refused = said and not granted and not request.doubtful
            if request.sent and not refused:
                await finish(partial(self._leave_quietly, claim, cleaning, mine))
            raise
        if reply[0] == b"busy":
            return await self._refused(claim, reply, request, cleaning, mine, last=last)
        if reply[0] == b"ran":
            if mine is not None:
                await mine.leave(cleaning)
            return Ran(reply[3], int(reply[2]) / 1000)
        raise redis_errors.ResponseError(
            f"a claim of election {claim.election!r} was given up and then used again"
        )

    def _ask(
        self,
        claim: Claim,
        mine: ServerPlace | None,
        budget: Budget,
        request: Request,
        *,
        last: bool,
    ) -> Awaitable[Reply]:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        stand = _stand_of(claim.leader_id, claim.lease_time)
        args = (claim.token.encode(), *stand, self._caller.database)
        if mine is not None:
            mine.asking()
            stale = b"0" if last else ms(mine.stale_after)
            args += mine.name, b"%d" % mine.arrival, stale
        if claim.once_per is None:
            return self._caller.run(scripts.ACQUIRE, keys.acquire, args, budget, request)
        if mine is None:
            args += b"", b"0", b"0"
        return self._ask_in_time(claim, claim.once_per, args, budget, request)

    async def _ask_in_time(
        self,
        claim: Claim,
        once_per: OncePer,
        args: tuple[bytes, ...],
        budget: Budget,
        request: Request,
    ) -> Reply:
        """Send the claim for the period it counts for: again if the server's clock says another.

        The end of that period is appended to a reply ``ran``.
        """
        keys = keys_of(self._prefix, claim.election, claim.seats).acquire
        for _ in range(MOST_CLOCKS):
            period, *window = once_per.window(self.wall_clock())
            if period.begins <= claim.after:
                return [b"ran", 0, 0, period.ends]
            times = (*period, *window) if once_per.tolerance else period
            dated = (*args, *(b"%d" % time for time in times))
            reply = await self._caller.run(scripts.ACQUIRE, keys, dated, budget, request)
            if reply[0] == b"granted":
                # Not before: a grant that is repeated says when it was made.
                self._ahead = max(self._ahead, int(reply[3]) / 1000 - clock.now())
            elif reply[0] == b"when":
                self._ahead = int(reply[1]) / 1000 - clock.now()
            elif reply[0] == b"ran":
                # Said between question and answer, and no more is known: an answer that came late
                # must not set the clock back, or the next tick is answered as much too late.
                said = int(reply[1]) / 1000
                earliest, latest = said - clock.now(), said - request.last.sent_at
                self._ahead = min(max(self._ahead, earliest), latest)
                return [*reply, period.ends]
            if reply[0] != b"when":
                return reply
            request = request.last.renewed()
        raise redis_errors.TimeoutError(
            f"the server is too slow for the periods of {claim.election!r}"
        )

    async def _refused(
        self,
        claim: Claim,
        reply: Reply,
        request: Request,
        cleaning: Budget,
        mine: ServerPlace | None,
        *,
        last: bool,
    ) -> Busy:
        if request.doubtful:  # a copy that arrives when the seat is free must not take it
            leaving = mine if last else None
            await finish(partial(self._leave_quietly, claim, cleaning, leaving))
        if mine is not None:
            mine.refused(arrival=int(reply[7]), soonest=int(reply[5]) / 1000)
            if last:
                mine.close()
            elif request.doubtful:
                mine.call()  # such a copy may have taken it already, and with it the place
        return Busy(leader_of(reply[1:7]) if int(reply[1]) >= 0 else None, spent=request.doubtful)

    async def stand(self, claim: Claim, budget: Budget) -> Place:
        return await (await self._lines_here()).stand(claim, min(budget))

    async def extend(
        self, claim: Claim, seat: int, duration: float, budget: Budget
    ) -> Extended | NotYours:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        request = Request()
        if claim.durability is None:
            args = (claim.token.encode(), ms(duration))
            reply = await self._caller.run(scripts.EXTEND, keys.seat(seat), args, budget, request)
        else:
            reply = await self._durably.extend(claim, keys.seat(seat), duration, budget, request)
        if reply[0] == b"held":
            return Extended(int(reply[1]) / 1000, request.last.sent_at, asked=bool(reply[2]))
        return "taken" if reply[0] == b"taken" else "gone"

    async def release(
        self, claim: Claim, grant: Grant, keep: float, budget: Budget, *, restore: bool = False
    ) -> Released:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        request = Request()
        parting = grant.seat, keep, grant.doubtful, self._caller.database, restore
        args = (claim.token.encode(), *_parting_of(parting))
        reply = await self._caller.run(scripts.RELEASE, keys.acquire, args, budget, request)
        if reply[0] == b"released" or request.doubtful:
            return "released"
        return "taken" if reply[0] == b"taken" else "gone"

    async def leave(self, claim: Claim, budget: Budget) -> None:
        await self._leave(claim, budget, b"")

    async def ask_to_step_down(
        self, election: str, seats: int, seat: int | None, budget: Budget
    ) -> int:
        keys = keys_of(self._prefix, election, seats)
        args = (b"" if seat is None else b"%d" % seat,)
        reply = await self._caller.run(scripts.STEP_DOWN, keys.step_down, args, budget)
        return int(reply[1])

    async def force_release(
        self, election: str, seat: int, fence: int | None, budget: Budget
    ) -> LeaderInfo | None:
        keys = keys_of(self._prefix, election, seat + 1)
        request = Request()
        args = (b"%d" % seat, b"" if fence is None else b"%d" % fence, self._caller.database)
        reply = await self._caller.run(scripts.FORCE, keys.seat(seat), args, budget, request)
        if reply[0] == b"forced" or (reply[0] == b"kept" and request.doubtful):
            return leader_of([*reply[1:], True])
        return None

    def transaction(self, client: Any, tenure: Tenure) -> "Transaction | BlockingTransaction":
        # Here, because most programs need none.
        from incumbent.stores.redis import transaction  # noqa: PLC0415 - see above

        claim, seat = tenure.claim, tenure.grant.seat
        root = keys_of(self._prefix, claim.election, claim.seats).root
        condition = transaction.Condition(tenure, root + b"seat:%d" % seat)
        find_way = self._caller.way if client is self._client else None
        return transaction.of(client, condition, find_way)

    def wall_clock(self) -> int:
        return round((clock.now() + self._ahead) * 1000)

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        state, _ = await self._look(election, seats, budget)
        return state

    async def watch(self, election: str, seats: int, budget: Budget, mailbox: "Mailbox") -> None:
        lines = await self._lines_here()
        if self._watching is None or not self._watching.hubs.at_home:
            from incumbent.stores.redis.watching import Watching  # noqa: PLC0415 - few will watch

            channels = partial(channels_of, self._prefix, database=self._caller.database)
            self._watching = Watching(lines.inbox, channels, self._look)
        self._watching.hubs.join(election, seats, budget, mailbox)

    def reason(self, error: Exception) -> str:
        return faults.reason(error)

    def passing(self, error: Exception) -> bool:
        return isinstance(error, NotDurableError) or faults.passing(error)

    async def aclose(self) -> None:
        lines, watching = self._lines, self._watching
        try:
            if watching is not None and watching.hubs.at_home:
                await watching.hubs.aclose()
            if lines is not None:
                await (lines.aclose() if lines.at_home else lines.forsake())
        finally:
            if self._confirmer is not None:
                await self._confirmer.aclose()
            await self._caller.aclose()

    @property
    def _durably(self) -> "Confirmer":
        if self._confirmer is None:
            from incumbent.stores.redis.durability import Confirmer  # noqa: PLC0415 - few want it

            self._confirmer = Confirmer(self._caller)
        return self._confirmer

    async def _lines_here(self) -> Lines:
        """The lines of this event loop and this process."""
        old, way = self._lines, await self._caller.way()
        if self._lines is None or not self._lines.at_home:
            self._lines = Lines(self._caller, self._prefix, way.ears())
            if old is not None:
                await old.forsake()
        return self._lines

    async def _look(self, election: str, seats: int, budget: Budget) -> tuple[LeaderState, int]:
        """The state, and the last fence that was given."""
        began, asked = clock.now(), min(seats, AT_FIRST)
        reply = await self._ask_state(election, asked, budget)
        wanted = min(seats, int(reply[2]) or seats)
        if wanted > asked:
            left = Budget(budget.total - (clock.now() - began), budget.each)
            reply = await self._ask_state(election, wanted, left)
        waiting, fence, _, *taken = reply
        leaders = tuple(leader_of(seat) for seat in taken)
        return LeaderState(election, leaders, int(waiting)), int(fence)

    def _ask_state(self, election: str, seats: int, budget: Budget) -> Awaitable[Reply]:
        keys = keys_of(self._prefix, election, seats)
        return self._caller.run(scripts.STATE, keys.touch, (), budget)

    async def _leave(self, claim: Claim, budget: Budget, place: bytes) -> None:
        keys = keys_of(self._prefix, claim.election, claim.seats)
        args = (claim.token.encode(), place, self._caller.database)
        await self._caller.run(scripts.LEAVE, keys.acquire, args, budget)

    async def _leave_quietly(
        self, claim: Claim, budget: Budget, place: ServerPlace | None = None
    ) -> None:
        # The claim's own error is on its way; what was taken frees itself after the lease time, and
        # a place is dropped when its process is silent, or lets a wake-up pass.
        with suppress(Exception):
            await self._leave(claim, budget, b"" if place is None else place.name)
        if place is not None:
            place.standing = False


@lru_cache(maxsize=128)
def _parts(budget: Budget, lease_time: float) -> tuple[Budget, Budget]:
    """A quarter is kept for the clean-up, so that trying and cleaning stay within the budget.

    Less if the lease is short: after that time the seat is free anyway.
    """
    rest = min(budget.total * 0.25, lease_time)
    return Budget(budget.total - rest, budget.each), Budget(rest, rest)


@lru_cache(maxsize=512)
def _stand_of(leader_id: str, lease_time: float) -> tuple[bytes, ...]:
    """What a claim says beside its token, as the script is told it."""
    return leader_id.encode(), ms(lease_time)


@lru_cache(maxsize=512)
def _parting_of(parting: tuple[int, float, bool, bytes, bool]) -> tuple[bytes, ...]:
    """What a release says beside its token."""
    seat, keep, doubtful, database, restore = parting
    return b"%d" % seat, ms(keep), _flag(doubtful), database, _flag(restore)


def _ours(place: Place | None) -> ServerPlace | None:
    if place is None or isinstance(place, ServerPlace):
        return place
    raise TypeError(f"a place of another store: {place!r}")


def _grant(claim: Claim, reply: Sequence[Any], request: Request, doubts: tuple[str, ...]) -> Grant:
    _, seat, fence, since, ttl_ms = reply
    ttl, sent_at = int(ttl_ms) / 1000, request.last.sent_at
    if clock.now() + claim.margin >= valid_until(sent_at, ttl):
        raise redis_errors.TimeoutError(
            f"a seat of {claim.election!r} was granted too late: the server is slow for lease_time"
        )
    return Grant(int(seat), int(fence), int(since), ttl, sent_at, request.doubtful, doubts)


def _check(client: Any) -> None:
    if isinstance(client, RedisCluster):
        return
    if not isinstance(client, Redis) or isinstance(client, Pipeline):
        kind = client if isinstance(client, type) else type(client)
        hint = "from a URL: redis.asyncio.Redis.from_url(...)"
        if isinstance(client, BlockingRedis | BlockingCluster):
            hint = "that is a client for threads, and so are the electors of incumbent.blocking"
        raise TypeError(
            "redis must be a redis.asyncio.Redis or RedisCluster client or a Store, "
            f"not {kind.__module__}.{kind.__qualname__}; {hint}"
        )
    pool = client.connection_pool
    real("redis", getattr(pool, "connection_class", type(pool)))
    if isinstance(pool, SentinelConnectionPool) and not cast(Any, pool).is_master:
        raise TypeError("an election needs the primary: give the client of Sentinel.master_for()")


def _flag(on: bool) -> bytes:  # noqa: FBT001 - its name says it
    return b"1" if on else b"0"
