"""What hooks are told: one frozen event per thing that happened, in the order in which it happened.

Pure. A hook is anything that can be called with one event; a function fits. Hooks are called from
the event loop, must not block, and cannot disturb an election: what they raise is logged and
forgotten. No event carries a token.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypedDict

from incumbent.results import LeaderInfo, LossReason, SkipReason
from incumbent.values import Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Event(Value):
    """Something that happened to `leader_id` in `election`, whose name has its tenant in front."""

    election: str
    leader_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermEvent(Event):
    """Something that happened in the term with this `seat` and `fence`."""

    seat: int
    fence: int


class Names(TypedDict):
    """What every event of one candidate has in common."""

    election: str
    leader_id: str


class TermNames(Names):
    """What every event of one term has in common."""

    seat: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermStarted(TermEvent):
    """Elected: the lease is held."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermRenewed(TermEvent):
    """The lease was extended; it may be relied on for `remaining` seconds."""

    remaining: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RenewalDelayed(TermEvent):
    """A renewal failed and is tried again; the lease may be relied on for `remaining` seconds."""

    error: Exception
    remaining: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermLost(TermEvent):
    """The lease ended, or was asked to end, before the action did: once per term at most."""

    reason: LossReason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReleaseFailed(TermEvent):
    """The seat could not be given back: it frees itself when the lease runs out."""

    error: Exception


Ending: TypeAlias = Literal["released", "gone", "lost", "unknown"]
"""How a term ended on the server.

``released``: by us. ``gone``: the key had vanished when we released it. ``lost``: somebody else has
it, or may. ``unknown``: the release failed; the seat frees itself when the lease runs out.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermEnded(TermEvent):
    """The term is over, after `duration` seconds: the last event of every term."""

    ending: Ending
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ActionRaised(TermEvent):
    """The action raised `error`."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AttemptSkipped(Event):
    """Not elected."""

    reason: SkipReason
    holder: LeaderInfo | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AttemptDelayed(Event):
    """An attempt failed with an `error` that may pass; the next follows in `retry_in` seconds."""

    error: Exception
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HeartbeatDelayed(Event):
    """A candidate's heartbeat failed with `error`; the next follows in `retry_in` seconds."""

    error: Exception
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CandidateExpired(Event):
    """Heartbeats came too late: the candidate began anew, without what it had done before."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WithdrawalFailed(Event):
    """A candidate left, and its record stays until its TTL is over."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NodeIdShared(Event):
    """A candidate left, and another process stands under the same node id: its record stays."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NotStanding(Event):
    """A node that is no candidate waits to lead, which it cannot before it is one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StrategiesDiffer(Event):
    """The candidates `nodes` go by another strategy than we do; each goes by its own."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RecordsUnreadable(Event):
    """The records of `nodes` are none, and take no part."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ResultLost(Event):
    """A candidate's `deed` could not be noted."""

    deed: Literal["started", "succeeded", "failed"]
    error: Exception


class Hook(Protocol):
    """Anything that can be called with an event.

    One that has a method ``wants(kind: type[Event]) -> bool`` as well is asked before each event,
    and spares the making of those that it would ignore.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of `event`."""
        ...
