"""The contract between the engine and a store of leases: requests, answers and the Protocol.

Knows no server. Every call has a `Budget` and raises when it is spent; contention is an answer,
trouble is the store's own exception.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from incumbent.options import Durability
from incumbent.periods import OncePer
from incumbent.results import LeaderInfo, LeaderState

if TYPE_CHECKING:
    from incumbent.stores.mailbox import Mailbox

LONGEST_GRACE: Final = 1.0
"""Seconds; see `grace_of`."""


class Budget(NamedTuple):
    """How long a call may take, in seconds."""

    total: float
    """The whole call, with all that is sent again."""
    each: float
    """One request, until its answer is overdue."""

    @staticmethod
    @lru_cache(maxsize=128)
    def of_two(request_timeout: float) -> "Budget":
        """The time of two requests: what is asked once may be asked once more."""
        return Budget(2 * request_timeout, request_timeout)


class Claim(NamedTuple):
    """One candidate's wish for a seat; the token is chosen before the first request."""

    election: str
    seats: int
    token: str
    leader_id: str
    lease_time: float
    margin: float
    """Seconds that must be left of a lease when its grant arrives, for it to be of use."""
    once_per: OncePer | None = None
    """At most one term per such period, whoever holds it."""
    after: int = 0
    """Only in a period that begins after this time: milliseconds since the epoch."""
    durability: Durability | None = None
    """How many replicas must have each grant and each extension, for it to count."""

    def __repr__(self) -> str:
        return f"<Claim of {self.election!r} by {self.leader_id!r}>"


class Grant(NamedTuple):
    """The seat is the claim's, until `ttl` seconds after the server answered.

    The holder relies on no more than the claim asked for: a clock that was set back makes `ttl`
    longer.
    """

    seat: int
    fence: int
    since_ms: float
    """When the term began, by the server's clock: milliseconds since the epoch."""
    ttl: float
    sent_at: float
    """When the answered request was sent, by `incumbent.clock`."""
    doubtful: bool
    """True when a copy of the request had no answer, and may yet arrive."""
    doubts: tuple[str, ...] = ()
    """What makes `durability` weaker on this server: said with the first such grant only."""

    @property
    def since(self) -> datetime:
        """When the term began, in UTC."""
        return instant(self.since_ms)


class Busy(NamedTuple):
    """No seat is to be had now."""

    holder: LeaderInfo | None
    """Who has the seat that will be free first; None when those that are free are due to others."""
    spent: bool = False
    """True when the claim had to be given up on the way: the next request needs a new one."""


class Ran(NamedTuple):
    """There has been a term in this period: nobody gets a seat before the next one."""

    ends: int
    """When the period is over, by the clock that counts them: milliseconds since the epoch."""
    ahead: float = 0.0
    """Seconds until the period of the last term begins, if it has yet to begin: the clock that
    counts periods was ahead and has been set back. Told once; from then on that term counts for
    the present period."""


class Extended(NamedTuple):
    """The lease is still the claim's: `ttl` seconds, as the answer to a request of `sent_at`.

    As with a grant, the holder relies on no more than the request asked for.
    """

    ttl: float
    sent_at: float
    asked: bool = False
    """Whether the holder was asked to step down."""


NotYours: TypeAlias = Literal["taken", "gone"]
"""The seat has another's token, or nobody's."""

Released: TypeAlias = Literal["released", "taken", "gone"]
"""What became of a release; one that was sent again and then found nothing was successful."""


class Place(Protocol):
    """A place in the line of one election, kept from the first request to the last.

    It is given up by a grant, by a last request, or by `leave`: always one of the three.
    """

    async def called(self, until: float) -> None:
        """Return when it is worth asking again, or when `incumbent.clock` says `until`.

        What happened since the last request was sent is not missed: then it returns at once.
        """
        ...

    async def leave(self, budget: Budget) -> None:
        """Leave the line; what was due to the leaver goes to the next. Idempotent, and quiet.

        With a budget of 0 this does not wait: the request, if one is needed, goes out behind it.
        """
        ...

    def close(self) -> None:
        """Forget the place here, without a word to the server."""
        ...


@runtime_checkable
class Store(Protocol):
    """Seats of elections with one holder each, and the one clock that says when they are free.

    Those who wait for a seat stand in line: first come, first served.
    """

    @property
    def replicates(self) -> bool:
        """Whether there can be replicas: without, a claim with `durability` must not be made."""
        ...

    async def acquire(
        self, claim: Claim, budget: Budget, place: Place | None = None, *, last: bool = False
    ) -> Grant | Busy | Ran:
        """Take the seat that is due to the claim, or learn that one is already the claim's.

        Without a `place` that is the lowest free seat which nobody in line is waiting for. With one
        the claim stands in line from this request on; the `last` one takes a seat or leaves. With
        `Ran` it has left as well.

        A grant that arrives too late to be of use counts as an overdue answer, and is raised as
        such; one that too few replicas have is raised as a `NotDurableError`. When this raises, or
        is cancelled, nothing of the claim is left behind, as far as the server can be reached; a
        place keeps its rank, should it be used again.
        """
        ...

    async def stand(self, claim: Claim, budget: Budget) -> Place:
        """A place for `claim`, which is in line from its first request on.

        Returns when a call would be heard, or is known not to be: then time has to do it. Raises
        nothing but a cancellation.
        """
        ...

    async def extend(
        self, claim: Claim, seat: int, duration: float, budget: Budget
    ) -> Extended | NotYours:
        """Let the lease live `duration` seconds from now, at least.

        What the claim may rely on already is never shortened: `duration`, or a longer one, from an
        earlier request.

        An extension that too few replicas have is raised as a `NotDurableError`: it is not known
        whether it will count.
        """
        ...

    async def release(
        self, claim: Claim, grant: Grant, keep: float, budget: Budget, *, restore: bool = False
    ) -> Released:
        """Free the seat at once, or leave it taken, but nobody's, for `keep` seconds at most.

        With `restore` the term does not count for its period.
        """
        ...

    async def leave(self, claim: Claim, budget: Budget) -> None:
        """Undo a claim whose fate is unknown, also one whose request has yet to arrive."""
        ...

    async def ask_to_step_down(
        self, election: str, seats: int, seat: int | None, budget: Budget
    ) -> int:
        """Let the holder of `seat`, or all of them, learn it at their next extension: how many."""
        ...

    async def force_release(
        self, election: str, seat: int, fence: int | None, budget: Budget
    ) -> LeaderInfo | None:
        """Take `seat` from its holder, who learns it at the next extension; its time runs on.

        Only from the term with this `fence`, unless that is None. Returns who had it, None when
        nobody did.
        """
        ...

    def wall_clock(self) -> int:
        """Milliseconds since the epoch by the clock that counts periods, as far as is known."""
        ...

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        """Who has the seats now."""
        ...

    async def watch(self, election: str, seats: int, budget: Budget, mailbox: "Mailbox") -> None:
        """Fill `mailbox`, until it is ended: with the present state, then one for each change.

        Returns at once. No change between the first state and the others is lost; what happened
        while the server was out of reach is told as far as it can still be seen. `budget` is that
        of one look at the server; an error that will not pass ends the mailbox.
        """
        ...

    def passing(self, error: Exception) -> bool:
        """Whether `error` may pass by itself, so that waiting on makes sense."""
        ...

    def reason(self, error: Exception) -> str:
        """`error` in words, as ``refused: MISCONF ...`` or ``not reached: no answer in time``."""
        ...

    async def aclose(self) -> None:
        """Give everything back. A call that is still to come must work, and leave nothing open."""
        ...


class Tenure(NamedTuple):
    """What a transaction depends on: a seat that is held."""

    name: str
    """The election, as its user calls it."""
    claim: Claim
    grant: Grant
    held: Callable[[], bool]
    """Whether the lease may be relied on now."""
    budget: Budget
    """What the transaction has, and what it may take to find out whose the seat is."""


@runtime_checkable
class Transacting(Protocol):
    """What a store offers if clients of its server can write in dependence on a seat."""

    def transaction(self, client: Any, tenure: Tenure) -> Any:
        """A pipeline of `client` whose commands are done only while the seat is held there."""
        ...


def grace_of(lease_time: float) -> float:
    """Seconds for which a seat is kept for who was called to it; then it is the next one's.

    With it, a waiter that dies with its call costs the others less than a dead holder does.
    """
    return min(LONGEST_GRACE, lease_time / 3)


def instant(milliseconds: float) -> datetime:
    """The time that is `milliseconds` after the epoch, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
