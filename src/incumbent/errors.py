"""The library's errors, by what a caller can do about them.

::

    IncumbentError
    ├── NotElectedError       try again later, or wait longer
    └── LeadershipLostError   stop the work: somebody else may lead

Bad arguments are `ValueError` and `TypeError`. Errors of Redis come out as redis-py raises them. No
message ever shows a lease's token.
"""

from incumbent.results import LeaderInfo, LossReason


class IncumbentError(Exception):
    """The root of all errors that this library raises by itself."""


class NotElectedError(IncumbentError):
    """`lead()` was not elected within `wait_time`."""

    def __init__(self, election: str, holder: LeaderInfo | None = None) -> None:
        super().__init__(election, holder)
        self.election = election
        self.holder = holder

    def __str__(self) -> str:
        led_by = f": {self.holder.leader_id} has the seat" if self.holder else ""
        return f"not elected in {self.election!r}{led_by}"


class LeadershipLostError(IncumbentError):
    """The lease ended before the work under it did; `reason` says why."""

    def __init__(self, election: str, reason: LossReason, detail: str = "") -> None:
        super().__init__(election, reason, detail)
        self.election = election
        self.reason: LossReason = reason
        self.detail = detail

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"leadership of {self.election!r} was lost: {self.reason}{detail}"
