"""What a holder has in hand: the public `Lease`, and how code deep inside an action finds it.

Shows a term and lets it be extended and released; decides nothing.
"""

import asyncio
from contextvars import ContextVar, Token
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from incumbent.durations import Duration, seconds, shown
from incumbent.engine.term import Term
from incumbent.errors import LeadershipLostError
from incumbent.kinds import text
from incumbent.options import MAX_LEASE_TIME
from incumbent.results import LossReason

if TYPE_CHECKING:
    from incumbent.stores.redis import Client
    from incumbent.stores.redis.transaction import Transaction

_leases: Final[ContextVar[tuple["Lease", ...]]] = ContextVar("incumbent_leases", default=())
Mark: TypeAlias = Token[tuple["Lease", ...]]


class Lease:
    """A seat that this process holds, or held.

    `held` and `remaining` are local and cost nothing: they follow a clock that also counts suspend,
    and turn false before the server could give the seat to anybody else.
    """

    __slots__ = ("__weakref__", "_left", "_term")

    def __init__(self, term: Term) -> None:
        self._term = term
        self._left = False

    @property
    def name(self) -> str:
        """The election, as it was called when this lease was asked for."""
        return self._term.name

    @property
    def leader_id(self) -> str:
        """Who holds it, as `state()` shows it to everybody."""
        return self._term.claim.leader_id

    @property
    def seat(self) -> int:
        """The number of the seat, the same for the whole term: 0 for a single leader."""
        return self._term.grant.seat

    @property
    def fence(self) -> int:
        """The fencing token: larger than that of every earlier term of this election.

        Hand it to whatever the work writes to, and let that refuse a smaller one than it has seen.
        Source: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
        """
        return self._term.grant.fence

    @property
    def acquired_at(self) -> datetime:
        """When the term began, by the server's clock, in UTC."""
        return self._term.grant.since

    @property
    def held(self) -> bool:
        """Whether it may be relied on at this very moment."""
        return self._term.held

    @property
    def remaining(self) -> float:
        """Seconds for which it may be relied on if no renewal comes through; 0 when not held."""
        return self._term.remaining

    @property
    def loss_reason(self) -> LossReason | None:
        """Why it was lost or asked to end; None as long as it was not."""
        return self._term.loss_reason

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lease is lost or asked to end: ``await lease.lost.wait()``."""
        return self._term.lost

    async def extend(self, duration: Duration) -> bool:
        """Keep the lease for at least `duration` from now; never shortens it.

        Renewals go on every third of `lease_time`. An extension never reaches beyond
        `max_hold_time` or, once the holder is asked to stop, beyond the renewals; `remaining` tells
        how long the lease lasts.

        Returns:
            False when it is no longer ours (the action is then stopped as `on_loss` says).

        Raises:
            ValueError: `duration` is 0, or more than the 30 days that a lease may have.
            redis.exceptions.RedisError: not confirmed within two `request_timeout`s.
            NotDurableError: too few replicas have it, as `durability` wants it. `held` and
                `remaining` are as before.
        """
        time = seconds("duration", duration)
        if not 0 < time <= MAX_LEASE_TIME:
            raise ValueError(
                f"duration must be above 0 and at most {shown(MAX_LEASE_TIME)}, not {shown(time)}"
            )
        return await self._term.extend(time)

    async def release(self) -> None:
        """Give the seat back early; the block or action goes on without it. Idempotent."""
        await self._term.close()

    async def step_down(self) -> None:
        """Hand over: ask the action to stop as after a loss, with time for its cleanup.

        Renewal goes on until the action has ended, for `lease_time` at most; then the next in line
        leads. In the action's own task the cancellation arrives here. Any other task waits here
        until the seat is given back or the lease has run out; the wait can be cancelled, for
        example when the action ends its own tasks. With ``on_loss="notify"`` the action is only
        told: then this returns at once in the action and in tasks that it has started. Idempotent.
        """
        await self._term.hand_over(within=self in _leases.get())

    def transaction(self, redis: "Client") -> "Transaction":
        """``async with lease.transaction(redis) as pipe:`` writes only while the lease is held.

        `redis` is any client of the election's own server or cluster, and database. `pipe` is a
        pipeline of it: commands are collected, and carried out at the end of the block, all or
        nothing, if the seat is this lease's *there* at that moment; ``await pipe.execute()``
        does so earlier, and gives their results. An error in the block sends nothing. On a cluster
        every key must have the election's name as hash tag, as in ``{name}:total``.

        Raises:
            StaleFenceError: at the commit; the lease is not held, and nothing was done.
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: at the commit; all of
                it was done, or nothing. It has two `request_timeout`s.
            redis.exceptions.ClusterCrossSlotError: at the commit; a key has another hash tag, and
                nothing was done.
            TypeError: not a client that can do it; before any I/O.
        """
        transaction: Transaction = self._term.transaction(redis)
        return transaction

    def ensure_held(self, need: Duration = 0.0) -> None:
        """Raise unless the lease may be relied on for `need` from now. Local: no round trip.

        Raises:
            LeadershipLostError: it is not held, or `need` is more than `remaining`.
        """
        wanted, remaining = seconds("need", need), self.remaining
        if not self.held:
            raise LeadershipLostError(
                self.name, self.loss_reason or "expired", "the lease is not held"
            )
        if remaining < wanted:
            raise LeadershipLostError(
                self.name,
                self.loss_reason or "expired",
                f"{remaining:.3f} s are left, {shown(wanted)} are needed",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and other._term is self._term

    def __hash__(self) -> int:
        return hash(self._term)

    def __repr__(self) -> str:
        state = (
            f"held, {self.remaining:.1f} s left"
            if self.held
            else f"not held, {self.loss_reason or 'released'}"
        )
        return (
            f"<Lease {self.name!r} seat={self.seat} fence={self.fence}"
            f" leader_id={self.leader_id!r} ({state})>"
        )


def current_lease(name: str | None = None) -> Lease | None:
    """The innermost lease under which this code runs (of election `name`, if given), or None.

    A lease that was lost is still found, and says so, until its action has ended.
    """
    if name is not None:
        text("name", name)
    for lease in reversed(_leases.get()):
        # A lease that was left in another context is still in this one.
        if not _was_left(lease) and (name is None or lease.name == name):
            return lease
    return None


def _was_left(lease: Lease) -> bool:
    return lease._left  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - our own


def push(lease: Lease) -> Mark:
    """Make `lease` the innermost of the current context; what is returned helps to `drop` it."""
    leases = _leases.get()
    if leases:
        leases = tuple(each for each in leases if not _was_left(each))
    return _leases.set((*leases, lease))


def drop(lease: Lease, mark: Mark) -> None:
    """Take `lease` out of the current context, wherever it stands."""
    lease._left = True  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - our own
    leases = _leases.get()
    if leases and leases[-1] is lease:  # as nearly always
        rest = leases[:-1]
    else:
        rest = tuple(other for other in leases if other is not lease)
    try:
        # Not `Token.MISSING`, which is missing itself in a subinterpreter of Python 3.12 and 3.13.
        if rest or isinstance(mark.old_value, tuple):
            _leases.set(rest)
        else:
            _leases.reset(mark)  # a context that knows nothing of us has less to keep
    except ValueError:  # it is another one than that in which the term began
        _leases.set(rest)
