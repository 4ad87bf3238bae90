"""The library's errors, by what a caller can do about them.

::

    IncumbentError
    ├── NotElectedError       try again later, or wait longer
    ├── LeadershipLostError   stop the work: somebody else may lead
    ├── StaleFenceError       drop the write: somebody else leads, and nothing of it was done
    ├── NotDurableError       look after the replicas: nothing was done, and nobody leads by it
    └── ElectorClosedError    stop: this elector was closed, and takes part in no more elections

Bad arguments are `ValueError` and `TypeError`. Errors of Redis come out as redis-py raises them. No
message ever shows a lease's token.
"""

from incumbent.printable import printable
from incumbent.results import LOSS_REASONS, SKIP_REASONS, LeaderInfo, LossReason, SkipReason


class IncumbentError(Exception):
    """The root of all errors that this library raises by itself."""


class NotElectedError(IncumbentError):
    """`lead()` was not elected within `wait_time`."""

    def __init__(
        self, election: str, holder: LeaderInfo | None = None, reason: SkipReason = "held"
    ) -> None:
        super().__init__(election, holder, reason)
        self.election = election
        self.holder = holder
        self.reason: SkipReason = reason

    def __str__(self) -> str:
        if self.holder is not None:
            why = f"{printable(self.holder.leader_id)} has the seat"
        else:
            why = f"{self.reason} ({SKIP_REASONS[self.reason]})"
        return f"not elected in {self.election!r}: {why}"


class LeadershipLostError(IncumbentError):
    """The lease ended before the work under it did; `reason` says why."""

    def __init__(self, election: str, reason: LossReason, detail: str = "") -> None:
        super().__init__(election, reason, detail)
        self.election = election
        self.reason: LossReason = reason
        self.detail = detail

    def __str__(self) -> str:
        why = printable(self.detail, longest=None) or LOSS_REASONS[self.reason]
        return f"leadership of {self.election!r} was lost: {self.reason} ({why})"


class StaleFenceError(IncumbentError):
    """A write under an old fence was refused; nothing of it was done.

    `highest` is the larger fence that the storage has seen, None where it is not known.
    """

    def __init__(
        self, resource: str, fence: int, highest: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(resource, fence, highest, detail)
        self.resource = resource
        self.fence = fence
        self.highest = highest
        self.detail = detail

    def __str__(self) -> str:
        seen = "" if self.highest is None else f": {self.highest} has been seen"
        detail = f" ({self.detail})" if self.detail else ""
        return f"fence {self.fence} of {self.resource!r} is stale{seen}{detail}"


class NotDurableError(IncumbentError):
    """Too few replicas acknowledged a lease, or a renewal, in time; see `Durability`.

    Of `replicas` that were wanted, `acknowledged` did. A lease was given back; a renewal does not
    count.
    """

    def __init__(self, election: str, replicas: int, acknowledged: int) -> None:
        super().__init__(election, replicas, acknowledged)
        self.election = election
        self.replicas = replicas
        self.acknowledged = acknowledged

    def __str__(self) -> str:
        return (
            f"a lease of {self.election!r} is not durable: "
            f"{self.acknowledged} of {self.replicas} replicas acknowledged it in time"
        )


class ElectorClosedError(IncumbentError, RuntimeError):
    """The elector was closed, before the call or while it waited: it takes part in no elections."""

    def __init__(self) -> None:
        super().__init__("this elector is closed")
