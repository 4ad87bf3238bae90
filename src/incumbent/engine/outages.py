"""An outage as one row of failures: told when it begins, now and then, and when it is over.

Every failure is an event. Those that repeat what was told within the last minute are marked, so
that logs need no line for each.
"""

from typing import Any, Final

from incumbent import clock, events
from incumbent.engine.office import Named, Office
from incumbent.telling import Names

REMIND_EVERY: Final = 60.0
"""Seconds after which a reason is told once more."""

MOST_REASONS: Final = 8
"""How many reasons of one outage are told each for itself."""


class Outage:
    """The failures of one candidate that follow one another, over all of its tries and terms."""

    __slots__ = ("_began", "_office", "_told", "names")

    def __init__(self, office: Office[Any], election: str, leader_id: str) -> None:
        self._office = office
        self.names: Names = Names(election=election, leader_id=leader_id)
        """Whose failures these are."""
        self._began = 0.0
        self._told: dict[str, float] = {}
        """When each reason was last told."""

    def failed(
        self, kind: type[events.Event], who: Named, error: Exception, **details: float
    ) -> None:
        """Tell that `error` came in place of an answer."""
        now = clock.now()
        if not self._told:
            self._began = now
        # The same for all that begins alike: "refused: OOM", "not reached:".
        reason = " ".join(self._office.store.reason(error).split()[:2])
        repeated = self._repeats(reason, now)
        self._office.tell(kind, who, error=error, repeated=repeated, **details)

    def over(self) -> None:
        """There was an answer. Tell it, if that ends an outage."""
        if self._told:
            self._told = {}
            self._office.tell(events.OutageEnded, self, duration=clock.now() - self._began)

    def _repeats(self, reason: str, now: float) -> bool:
        if reason not in self._told and len(self._told) >= MOST_REASONS:
            reason = next(iter(self._told))
        repeated = now - self._told.get(reason, -REMIND_EVERY) < REMIND_EVERY
        if not repeated:
            self._told[reason] = now
        return repeated
