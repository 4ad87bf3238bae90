"""Events as records of the standard library's `logging`, on the logger ``incumbent``.

The message is constant per kind of event; the event's fields are in the record's ``extra`` under
names that begin with ``incumbent_``.
"""

import logging
from dataclasses import dataclass, fields
from typing import Final

from incumbent import events

_LEVELS: Final[dict[type[events.Event], tuple[int, str]]] = {
    events.TermStarted: (logging.INFO, "elected"),
    events.TermRenewed: (logging.DEBUG, "lease renewed"),
    events.RenewalDelayed: (logging.WARNING, "renewal delayed"),
    events.TermLost: (logging.WARNING, "leadership lost"),
    events.ReleaseFailed: (logging.WARNING, "release failed"),
    events.TermEnded: (logging.INFO, "term ended"),
    events.ActionRaised: (logging.ERROR, "action raised"),
    events.AttemptSkipped: (logging.DEBUG, "not elected"),
    events.AttemptDelayed: (logging.WARNING, "election delayed"),
    events.HeartbeatDelayed: (logging.WARNING, "heartbeat delayed"),
    events.CandidateExpired: (logging.WARNING, "candidate expired"),
    events.WithdrawalFailed: (logging.WARNING, "withdrawal failed"),
    events.NodeIdShared: (logging.WARNING, "node id shared"),
    events.NotStanding: (logging.WARNING, "not a candidate"),
    events.StrategiesDiffer: (logging.WARNING, "strategies differ"),
    events.RecordsUnreadable: (logging.WARNING, "records unreadable"),
    events.ResultLost: (logging.WARNING, "result lost"),
}
_OTHER: Final = (logging.INFO, "event")


@dataclass(frozen=True, slots=True)
class LoggingHook:
    """Writes events to `logger`: trouble as WARNING or above, terms as INFO, the rest as DEBUG."""

    logger: logging.Logger = logging.getLogger("incumbent")

    def wants(self, kind: type[events.Event]) -> bool:
        """Whether such an event would be written now."""
        return self.logger.isEnabledFor(_LEVELS.get(kind, _OTHER)[0])

    def __call__(self, event: events.Event) -> None:
        level, message = _LEVELS.get(type(event), _OTHER)
        if not self.logger.isEnabledFor(level):
            return
        values = {field.name: getattr(event, field.name) for field in fields(event)}
        error = values.get("error")
        what = "" if error is None else f": {type(error).__name__}: {error}"
        details = ", ".join(
            f"{name}={value!r}" for name, value in values.items() if name != "error"
        )
        self.logger.log(
            level,
            "%s (%s)%s",
            message,
            details,
            what,
            # Else a campaign that goes on would be the end of what the action had to say.
            exc_info=error if isinstance(event, events.ActionRaised) else None,
            extra={f"incumbent_{name}": value for name, value in values.items()},
        )
