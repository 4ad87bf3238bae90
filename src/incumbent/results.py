"""What an election gives back: outcomes of an attempt and the public state, as frozen values.

Pure. The first field of each outcome is positional, so ``case Elected(value)`` reads well.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from incumbent.values import Value

T_co = TypeVar("T_co", covariant=True)

LossReason: TypeAlias = Literal[
    "taken", "expired", "unreachable", "stalled", "max_hold_time", "stepped_down"
]
"""Why a lease ended before its action did.

``taken``: the server holds another's token. ``expired``: the key is gone, or time was up without
extension. ``unreachable``: no renewal was confirmed in time; told `stop_grace` before the lease
ends, which is held until then. ``stalled``: the event loop or the process slept past it.
``max_hold_time``: the term had lasted as long as it may. ``stepped_down``: it was asked to hand
over.
"""

LOSS_REASONS: Final[Mapping[LossReason, str]] = {
    "taken": "another leader has the seat, or it was released by force",
    "expired": "the lease ran out, or was deleted on the server",
    "unreachable": "it could not be renewed in time: the server did not answer, or refused",
    "stalled": "this process stood still for too long to renew it",
    "max_hold_time": "it was held for as long as max_hold_time allows",
    "stepped_down": "it was asked to hand over",
}
"""Each `LossReason` in words."""

SkipReason: TypeAlias = Literal["held", "already_ran", "not_a_candidate", "not_best"]
"""Why an attempt did not lead.

``held``: every seat was taken, or due to others in line, as long as it would wait.
``already_ran``: the period of `once_per` has had its run. Only in strategic elections:
``not_a_candidate``: this node does not stand; ``not_best``: the seat was left to better candidates
as long as it would wait.
"""

SKIP_REASONS: Final[Mapping[SkipReason, str]] = {
    "held": "every seat is taken, or due to others in line",
    "already_ran": "this period has had its run",
    "not_a_candidate": "this node does not stand in the election",
    "not_best": "the seat is left to better candidates",
}
"""Each `SkipReason` in words."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LeaderInfo(Value):
    """Who has a seat, as the server knows it."""

    leader_id: str
    seat: int
    fence: int
    since: datetime
    """When the term began, by the server's clock, in UTC."""
    remaining: float
    """Seconds until the seat would be free without renewal, when the server answered."""
    retained: bool = False
    """True when only `min_hold_time` keeps the seat: the work is over, nobody leads on it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaderState(Value):
    """An election as the server saw it when it answered."""

    name: str
    leaders: tuple[LeaderInfo, ...] = ()
    """The taken seats, by seat number; empty when nobody leads."""
    waiting: int = 0
    """How many stand in line for a seat.

    A waiter whose process was killed counts for a lease time at most, and for no more than 30 s.
    """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outage(Value):
    """The server is not heard: what was known of an election may be out of date."""

    since: datetime
    """When it was heard last, by the clock of this machine, in UTC."""
    error: Exception
    """What came of the last look at it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Elected(Value, Generic[T_co]):
    """The action ran under the lease, to its end, and returned `value`."""

    value: T_co
    _: KW_ONLY
    leader_id: str = ""
    seat: int = 0
    fence: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Skipped(Value):
    """The action did not run: somebody else leads, or has just led."""

    reason: SkipReason
    holder: LeaderInfo | None = None
    """Who has the seat that will be free first; None when those that are free are due to others."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ActionFailed(Value):
    """The action ran under the lease and raised `error`."""

    error: Exception


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeadershipLost(Value, Generic[T_co]):
    """The lease was lost while the action ran. What the action gave is kept, but is no success."""

    reason: LossReason
    _: KW_ONLY
    value: T_co | None = None
    error: Exception | None = None
    detail: str = field(default="", compare=False)
    """Why the lease could not be renewed, as ``refused: MISCONF ...``; empty for other reasons."""


Outcome: TypeAlias = Elected[T_co] | Skipped | ActionFailed | LeadershipLost[T_co]
"""What `attempt` returns."""
