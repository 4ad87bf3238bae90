"""The lease as a thread has it in hand: the same facts, asked and told without asyncio."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

from incumbent import Lease as AsyncLease
from incumbent import LossReason
from incumbent.blocking.job import run
from incumbent.kinds import text

if TYPE_CHECKING:
    from datetime import timedelta

    from incumbent.stores.redis.transaction import BlockingTransaction
    from incumbent.stores.redis.twin import SyncClient

_leases: Final[ContextVar[tuple["Lease", ...]]] = ContextVar("incumbent_blocking", default=())

_known: WeakValueDictionary[AsyncLease, "Lease"] = WeakValueDictionary()


class Lease:
    """A seat that this process holds, or held. May be asked from any thread.

    A thread cannot be stopped from outside. Long work asks `held` or `lost.is_set()` now and
    then, or calls `ensure_held` before it writes.
    """

    __slots__ = ("__weakref__", "_lease", "_left", "_lost", "_owner", "_pid")

    def __init__(self, lease: AsyncLease, lost: threading.Event) -> None:
        self._lease = lease
        self._lost = lost
        self._left = False
        self._pid = os.getpid()
        self._owner = threading.get_ident()
        _known[lease] = self

    @property
    def name(self) -> str:
        """The election, as it was called when this lease was asked for."""
        return self._lease.name

    @property
    def leader_id(self) -> str:
        """Who holds it, as `state()` shows it to everybody."""
        return self._lease.leader_id

    @property
    def seat(self) -> int:
        """The number of the seat, the same for the whole term: 0 for a single leader."""
        return self._lease.seat

    @property
    def fence(self) -> int:
        """The fencing token: larger than that of every earlier term of this election."""
        return self._lease.fence

    @property
    def acquired_at(self) -> datetime:
        """When the term began, by the server's clock, in UTC."""
        return self._lease.acquired_at

    @property
    def held(self) -> bool:
        """Whether it may be relied on at this very moment. Never in a forked child."""
        return self._lease.held

    @property
    def remaining(self) -> float:
        """Seconds for which it may be relied on if no renewal comes through; 0 when not held."""
        return self._lease.remaining

    @property
    def loss_reason(self) -> LossReason | None:
        """Why it was lost or asked to end; None as long as it was not."""
        return self._lease.loss_reason

    @property
    def lost(self) -> threading.Event:
        """Set when the lease is lost or asked to end: ``lease.lost.wait(timeout)``."""
        return self._lost

    def extend(self, duration: "float | timedelta") -> bool:
        """Keep the lease for at least `duration` from now; never shortens it.

        Renewals go on every third of `lease_time`. An extension never reaches beyond
        `max_hold_time` or, once the holder is asked to stop, beyond the renewals; `remaining` tells
        how long the lease lasts.

        Returns:
            False when it is no longer ours.

        Raises:
            ValueError: `duration` is 0, or more than the 30 days that a lease may have.
            redis.exceptions.RedisError: not confirmed within two `request_timeout`s.
        """
        return os.getpid() == self._pid and run(lambda: self._lease.extend(duration))

    def release(self) -> None:
        """Give the seat back early; the block or action goes on without it. Idempotent."""
        if os.getpid() == self._pid:
            run(self._lease.release)

    def step_down(self) -> None:
        """Hand over: tell the action to stop, and give the seat back when it has.

        Renewal goes on until the action has ended, for `lease_time` at most; then the next in line
        leads. In the action's own thread, and where its context is current, this returns at once.
        In any other thread it returns when the seat is given back or the lease has run out.
        Idempotent.
        """
        if os.getpid() != self._pid:
            return
        if self._owner == threading.get_ident() or self in _leases.get():
            run(partial(_begin, self._lease.step_down))
        else:
            run(self._lease.step_down)

    def transaction(self, redis: "SyncClient") -> "BlockingTransaction":
        """``with lease.transaction(redis) as pipe:`` writes only while the lease is held.

        `redis` is any client of the election's own server or cluster, and database. `pipe` is a
        pipeline of it: commands are collected, and carried out at the end of the block, all or
        nothing, if the seat is this lease's *there* at that moment; ``pipe.execute()``
        does so earlier, and gives their results. An error in the block sends nothing. On a cluster
        every key must have the election's name as hash tag, as in ``{name}:total``.

        Raises:
            StaleFenceError: at the commit; the lease is not held, and nothing was done.
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: at the commit; all of
                it was done, or nothing. How long that takes is up to the client's own timeouts.
            redis.exceptions.ClusterCrossSlotError: at the commit; a key has another hash tag, and
                nothing was done.
            TypeError: not a client that can do it; before any I/O.
        """
        transaction: BlockingTransaction = cast(Any, self._lease).transaction(redis)
        return transaction

    def ensure_held(self, need: "float | timedelta" = 0.0) -> None:
        """Raise unless the lease may be relied on for `need` from now. Local: no round trip.

        Raises:
            LeadershipLostError: it is not held, or `need` is more than `remaining`.
        """
        self._lease.ensure_held(need)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and other._lease == self._lease

    def __hash__(self) -> int:
        return hash(self._lease)

    def __repr__(self) -> str:
        return repr(self._lease)


_handing_over: Final[set["asyncio.Task[Any]"]] = set()


async def _begin(step_down: Callable[[], Awaitable[None]]) -> None:
    """Begin to hand over, and let it go on: who asks is whom it waits for."""

    async def whole() -> None:
        await step_down()

    task = asyncio.get_running_loop().create_task(whole(), name="incumbent hand-over")
    _handing_over.add(task)
    task.add_done_callback(_handing_over.discard)
    await asyncio.sleep(0)


def current_lease(name: str | None = None) -> Lease | None:
    """The innermost lease under which this thread works (of election `name`, if given), or None.

    A lease that was lost is still found, and says so, until its action has ended.
    """
    if name is not None:
        text("name", name)
    for lease in reversed(_leases.get()):
        # A lease that was left in another thread is still in this thread's context.
        if not _was_left(lease) and (name is None or lease.name == name):
            return lease
    return None


def known(leases: Iterable[AsyncLease]) -> tuple[Lease, ...]:
    """Those of `leases` under which a thread works, as that has them in hand."""
    return tuple(lease for each in leases if (lease := _known.get(each)) is not None)


def _was_left(lease: Lease) -> bool:
    return lease._left  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - our own


def push(lease: Lease) -> None:
    """Make `lease` the innermost of this thread."""
    _leases.set((*(each for each in _leases.get() if not _was_left(each)), lease))


def drop(lease: Lease) -> None:
    """Take `lease` out of this thread's, wherever it stands."""
    lease._left = True  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - our own
    _leases.set(tuple(other for other in _leases.get() if other is not lease))
