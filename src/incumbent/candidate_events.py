"""What hooks are told of candidates: the part of `incumbent.events` that few need. Pure."""

from typing import Literal

from incumbent.telling import Event, event


@event
class HeartbeatDelayed(Event):
    """A candidate's heartbeat failed with `error`; the next follows in `retry_in` seconds."""

    error: Exception
    retry_in: float


@event
class CandidateExpired(Event):
    """Heartbeats came too late: the candidate began anew, without what it had done before."""


@event
class WithdrawalFailed(Event):
    """A candidate left, and its record stays until its TTL is over."""

    error: Exception


@event
class NodeIdShared(Event):
    """A candidate left, and another process stands under the same node id: its record stays."""


@event
class NotStanding(Event):
    """A node that is no candidate waits to lead, which it cannot before it is one."""


@event
class StrategiesDiffer(Event):
    """The candidates `nodes` go by another strategy than we do; each goes by its own."""

    nodes: tuple[str, ...]


@event
class RecordsUnreadable(Event):
    """The records of `nodes` are none, and take no part."""

    nodes: tuple[str, ...]


@event
class ResultLost(Event):
    """A candidate's `deed` could not be noted."""

    deed: Literal["started", "succeeded", "failed"]
    error: Exception
