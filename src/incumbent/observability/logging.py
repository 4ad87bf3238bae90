"""Events as records of the standard library's `logging`, on the logger ``incumbent``.

The message is constant per kind of event; the event's fields are in the record's ``extra`` under
names that begin with ``incumbent_``. A message is one line, whatever others have chosen to be
called or a server says; only the traceback of an action's error follows it.
"""

import logging
from dataclasses import fields
from typing import Final

from incumbent.events import Event, TermLost
from incumbent.printable import printable

_LEVELS: Final = {
    "TermStarted": (logging.INFO, "elected"),
    "TermRenewed": (logging.DEBUG, "lease renewed"),
    "RenewalDelayed": (logging.WARNING, "renewal delayed"),
    "TermLost": (logging.WARNING, "leadership lost"),
    "CancellationIgnored": (logging.WARNING, "cancellation ignored"),
    "NobodyToStop": (logging.WARNING, "nobody to stop"),
    "ReleaseFailed": (logging.WARNING, "release failed"),
    "TermEnded": (logging.INFO, "term ended"),
    "ActionRaised": (logging.ERROR, "action raised"),
    "AttemptSkipped": (logging.DEBUG, "not elected"),
    "AttemptDelayed": (logging.WARNING, "election delayed"),
    "OutageEnded": (logging.WARNING, "the server answers again"),
    "DurabilityWeakened": (logging.WARNING, "durability weakened"),
    "PeriodAhead": (logging.WARNING, "last period is ahead of the server's clock"),
    "HeartbeatDelayed": (logging.WARNING, "heartbeat delayed"),
    "CandidateExpired": (logging.WARNING, "candidate expired"),
    "WithdrawalFailed": (logging.WARNING, "withdrawal failed"),
    "CandidateSetBack": (logging.WARNING, "candidate set back"),
    "NodeIdShared": (logging.WARNING, "node id shared"),
    "NotStanding": (logging.WARNING, "not a candidate"),
    "StrategyFailed": (logging.ERROR, "strategy failed"),
    "ScoresDoubtful": (logging.WARNING, "scores doubtful"),
    "StrategiesDiffer": (logging.WARNING, "strategies differ"),
    "RecordsUnreadable": (logging.WARNING, "records unreadable"),
    "ResultLost": (logging.WARNING, "result lost"),
}
_UNSAID: Final = frozenset({"error", "repeated"})
"""Fields that are not among the details in a message."""
_OTHER: Final = (logging.INFO, "event")
_ORDERLY: Final = (logging.INFO, "stepping down")
_LOGGER: Final = logging.getLogger("incumbent")


class LoggingHook:
    """Writes events to `logger`: trouble as WARNING or above, terms as INFO, the rest as DEBUG.

    An outage is written when it begins, with its reason, once a minute while it lasts, and when it
    ends; the failures in between are DEBUG. A leader that steps down as it was asked to is INFO.
    Hooks that are given to an elector replace its own: ``hooks=[LoggingHook(), mine]`` keeps the
    log.
    """

    __slots__ = ("logger",)

    def __init__(self, logger: logging.Logger = _LOGGER) -> None:
        self.logger: logging.Logger = logger

    def __repr__(self) -> str:
        return f"LoggingHook({self.logger!r})"

    def wants(self, kind: type[Event]) -> bool:
        """Whether such an event could be written now."""
        return self.logger.isEnabledFor(_LEVELS.get(kind.__name__, _OTHER)[0])

    def __call__(self, event: Event) -> None:
        level, message = _LEVELS.get(type(event).__name__, _OTHER)
        if getattr(event, "repeated", False):
            level = logging.DEBUG
        elif isinstance(event, TermLost) and event.reason == "stepped_down":
            level, message = _ORDERLY
        if not self.logger.isEnabledFor(level):
            return
        values = {field.name: getattr(event, field.name) for field in fields(event)}
        error = values.get("error")
        what = "" if error is None else f": {_in_words(error)}"
        details = ", ".join(
            f"{name}={value!r}" for name, value in values.items() if name not in _UNSAID
        )
        self.logger.log(
            level,
            "%s (%s)%s",
            message,
            printable(details, longest=None),
            what,
            # Else a campaign that goes on would be the end of what the action had to say.
            exc_info=error if level >= logging.ERROR else None,
            extra={f"incumbent_{name}": value for name, value in values.items()},
        )


def _in_words(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {printable(str(error), longest=None)}"
    except Exception as failure:  # noqa: BLE001 - the text of an error is made by the user's code
        return f"{kind} (its text cannot be shown: {type(failure).__name__})"
