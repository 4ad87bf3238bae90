"""What hooks are told of candidates: the part of `incumbent.events` that few need. Pure."""

from typing import Literal

from incumbent.telling import Event, event


@event
class HeartbeatDelayed(Event):
    """A candidate's heartbeat failed with `error`; the next follows in `retry_in` seconds."""

    error: Exception
    retry_in: float
    repeated: bool
    """As in `RenewalDelayed`."""


@event
class CandidateExpired(Event):
    """Heartbeats came too late: the candidate began anew, without what it had done before."""


@event
class WithdrawalFailed(Event):
    """A candidate left, and its record stays until its TTL is over."""

    error: Exception


@event
class NodeIdShared(Event):
    """Another process stands under the same node id: told once, within two heartbeats.

    The two share one record: each heartbeat overwrites what the other process told about itself.
    The record stays as long as one of them stands.
    """


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
class StrategyFailed(Event):
    """The strategy raised `error`, or returned no result: candidates are ranked by seniority.

    Told once for each kind of error.
    """

    error: BaseException


@event
class ScoresDoubtful(Event):
    """Some scores could not be used as they were: other values are used instead.

    Told when that begins, and again after a time without such scores.
    """

    problems: tuple[tuple[str, str], ...]
    """Node ids and what was wrong with their scores: the first ten."""


@event
class CandidateSetBack(Event):
    """Our work failed soon after its start: for `seconds` all other candidates go first."""

    times: int
    """How often in a row."""
    seconds: float


@event
class ResultLost(Event):
    """A candidate's `deed` could not be noted."""

    deed: Literal["started", "succeeded", "failed", "faltered", "steadied"]
    error: Exception
