"""The contract between the engine and a store of leases: requests, answers and the Protocol.

Knows no server. Every call has a `Budget` and raises when it is spent; contention is an answer,
trouble is the store's own exception.
"""

from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from incumbent.results import LeaderInfo, LeaderState


class Budget(NamedTuple):
    """How long a call may take, in seconds."""

    total: float
    """The whole call, with all that is sent again."""
    each: float
    """One request, until its answer is overdue."""

    @classmethod
    def of_two(cls, request_timeout: float) -> "Budget":
        """The time of two requests: what is asked once may be asked once more."""
        return cls(2 * request_timeout, request_timeout)


class Claim(NamedTuple):
    """One candidate's wish for a seat; the token is chosen before the first request."""

    election: str
    seats: int
    token: str
    leader_id: str
    lease_time: float
    margin: float
    """Seconds that must be left of a lease when its grant arrives, for it to be of use."""

    def __repr__(self) -> str:
        return f"<Claim of {self.election!r} by {self.leader_id!r}>"


class Grant(NamedTuple):
    """The seat is the claim's, until `ttl` seconds after the server answered."""

    seat: int
    fence: int
    since: datetime
    ttl: float
    sent_at: float
    """When the answered request was sent, by `incumbent.clock`."""
    doubtful: bool
    """True when a copy of the request had no answer, and may yet arrive."""


class Busy(NamedTuple):
    """Every seat is taken; `holder` has the one that will be free first."""

    holder: LeaderInfo


class Extended(NamedTuple):
    """The lease is still the claim's: `ttl` seconds, as the answer to a request of `sent_at`."""

    ttl: float
    sent_at: float


NotYours: TypeAlias = Literal["taken", "gone"]
"""The seat has another's token, or nobody's."""

Released: TypeAlias = Literal["released", "taken", "gone"]
"""What became of a release; one that was sent again and then found nothing was successful."""


@runtime_checkable
class Store(Protocol):
    """Seats of elections with one holder each, and the one clock that says when they are free."""

    async def acquire(self, claim: Claim, budget: Budget) -> Grant | Busy:
        """Take the lowest free seat, or learn that it is already the claim's.

        A grant that arrives too late to be of use counts as an overdue answer, and is raised as
        such. When this raises, or is cancelled, nothing of the claim is left behind, as far as the
        server can be reached.
        """
        ...

    async def extend(
        self, claim: Claim, seat: int, duration: float, budget: Budget
    ) -> Extended | NotYours:
        """Let the lease live `duration` seconds from now, at least; never shortens it."""
        ...

    async def release(self, claim: Claim, grant: Grant, keep: float, budget: Budget) -> Released:
        """Free the seat at once, or leave it taken, but nobody's, for `keep` seconds at most."""
        ...

    async def leave(self, claim: Claim, budget: Budget) -> None:
        """Undo a claim whose fate is unknown, also one whose request has yet to arrive."""
        ...

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        """Who has the seats now."""
        ...

    def passing(self, error: Exception) -> bool:
        """Whether `error` may pass by itself, so that waiting on makes sense."""
        ...

    async def aclose(self) -> None:
        """Give everything back. A call that is still to come must work, and leave nothing open."""
        ...


def instant(milliseconds: float) -> datetime:
    """The time that is `milliseconds` after the epoch, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
