"""What hooks are told: one frozen event per thing that happened, in the order in which it happened.

Pure. A hook is anything that can be called with one event; a function fits. Hooks are called from
the event loop, must not block, and cannot disturb an election: what they raise is logged and
forgotten. `KeyboardInterrupt` and `SystemExit` in the main thread come out of the event loop when
the election's own step is done, and so end the program. No event carries a token.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from incumbent.results import LeaderInfo, LossReason, SkipReason
from incumbent.telling import Event, Hook, Names, TermEvent, TermNames, event

if TYPE_CHECKING:
    from incumbent.candidate_events import (
        CandidateExpired,
        CandidateSetBack,
        HeartbeatDelayed,
        NodeIdShared,
        NotStanding,
        RecordsUnreadable,
        ResultLost,
        ScoresDoubtful,
        StrategiesDiffer,
        StrategyFailed,
        WithdrawalFailed,
    )

__all__ = [
    "ActionRaised",
    "AttemptDelayed",
    "AttemptSkipped",
    "CancellationIgnored",
    "CandidateExpired",
    "CandidateSetBack",
    "DurabilityWeakened",
    "Ending",
    "Event",
    "HeartbeatDelayed",
    "Hook",
    "Names",
    "NobodyToStop",
    "NodeIdShared",
    "NotStanding",
    "OutageEnded",
    "PeriodAhead",
    "RecordsUnreadable",
    "ReleaseFailed",
    "RenewalDelayed",
    "ResultLost",
    "ScoresDoubtful",
    "StrategiesDiffer",
    "StrategyFailed",
    "TermEnded",
    "TermEvent",
    "TermLost",
    "TermNames",
    "TermRenewed",
    "TermStarted",
    "WithdrawalFailed",
]


@event
class TermStarted(TermEvent):
    """Elected: the lease is held."""


@event
class TermRenewed(TermEvent):
    """The lease was extended; it may be relied on for `remaining` seconds."""

    remaining: float


@event
class RenewalDelayed(TermEvent):
    """A renewal failed and is tried again; the lease may be relied on for `remaining` seconds."""

    error: Exception
    remaining: float
    repeated: bool
    """Whether the same reason was told within the last minute: `OutageEnded` is still to come."""


@event
class TermLost(TermEvent):
    """The lease ended, or was asked to end, before the action did: once per term at most."""

    reason: LossReason
    detail: str
    """Why it could not be renewed, as ``refused: MISCONF ...``; empty for other reasons."""


@event
class CancellationIgnored(TermEvent):
    """The action was cancelled, not by this library, and has not ended a `lease_time` later.

    So renewals stopped and the lease is lost (``expired``). Either the action's clean-up takes that
    long, or something in it cancels its own task and catches that without `asyncio.Task.uncancel`,
    as timeouts made for Python before 3.11 do.
    """


@event
class NobodyToStop(TermEvent):
    """The task that entered the block has ended, but the term goes on: a loss has no task to stop.

    A fixture that runs in a task of its own is an example. The lease is still renewed; code that
    works under it has to check `Lease.lost` or `Lease.held`.
    """


@event
class ReleaseFailed(TermEvent):
    """The seat could not be given back: it frees itself when the lease runs out."""

    error: Exception


Ending: TypeAlias = Literal["released", "gone", "lost", "unknown"]
"""How a term ended on the server.

``released``: by us. ``gone``: the key had vanished when we released it. ``lost``: somebody else has
it, or may. ``unknown``: the release failed; the seat frees itself when the lease runs out.
"""


@event
class TermEnded(TermEvent):
    """The term is over, after `duration` seconds: the last event of every term."""

    ending: Ending
    duration: float


@event
class ActionRaised(TermEvent):
    """The action raised `error`."""

    error: Exception


@event
class AttemptSkipped(Event):
    """Not elected."""

    reason: SkipReason
    holder: LeaderInfo | None


@event
class AttemptDelayed(Event):
    """An attempt failed with an `error` that may pass; the next follows in `retry_in` seconds."""

    error: Exception
    retry_in: float
    repeated: bool
    """As in `RenewalDelayed`."""


@event
class OutageEnded(Event):
    """There is an answer again, `duration` seconds after the first failure in a row.

    The failures were told as `RenewalDelayed`, `AttemptDelayed` or `HeartbeatDelayed`.
    """

    duration: float


@event
class DurabilityWeakened(Event):
    """The server is set up so that `durability` promises less; told once, after the first grant."""

    findings: tuple[str, ...]
    """What was found and what it means, as `incumbent doctor` says it."""


@event
class PeriodAhead(Event):
    """The last run was in a period that begins `ahead` seconds from now, by the server's clock.

    That clock was ahead and has been set back. The run counts for the present period, so that
    nothing runs twice in it; the next period is not affected. Only one of the processes that ask is
    told.
    """

    ahead: float


def __getattr__(name: str) -> Any:
    # Those of candidates are made when somebody asks: to make a class of values takes its time.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from incumbent import candidate_events  # noqa: PLC0415 - see above

    return getattr(candidate_events, name)
