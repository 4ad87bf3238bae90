"""Elect leaders among asyncio services that share a Redis or Valkey server."""

import typing

from incumbent.electors.group import GroupElector
from incumbent.electors.leader import LeaderElector
from incumbent.engine.handle import Lease, current_lease
from incumbent.errors import IncumbentError, LeadershipLostError, NotElectedError
from incumbent.options import LeaderOptions
from incumbent.periods import OncePer
from incumbent.results import (
    ActionFailed,
    Elected,
    LeaderInfo,
    LeadershipLost,
    LeaderState,
    LossReason,
    Outcome,
    Skipped,
    SkipReason,
)
from incumbent.stores.memory import MemoryStore

if typing.TYPE_CHECKING:
    from incumbent.electors.strategic import StrategicElector

__all__ = [
    "ActionFailed",
    "Elected",
    "GroupElector",
    "IncumbentError",
    "LeaderElector",
    "LeaderInfo",
    "LeaderOptions",
    "LeaderState",
    "LeadershipLost",
    "LeadershipLostError",
    "Lease",
    "LossReason",
    "MemoryStore",
    "NotElectedError",
    "OncePer",
    "Outcome",
    "SkipReason",
    "Skipped",
    "StrategicElector",
    "current_lease",
]


def __getattr__(name: str) -> typing.Any:
    # When it is asked for: what strategies need is a quarter of what all this costs to import.
    if name != "StrategicElector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from incumbent.electors.strategic import StrategicElector  # noqa: PLC0415 - see above

    globals()[name] = StrategicElector
    return StrategicElector
