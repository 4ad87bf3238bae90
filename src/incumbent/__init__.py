"""Elect leaders among asyncio services that share a Redis or Valkey server."""

import importlib
import typing

from incumbent.electors.group import GroupElector
from incumbent.electors.leader import LeaderElector
from incumbent.engine.handle import Lease, current_lease
from incumbent.errors import (
    ElectorClosedError,
    IncumbentError,
    LeadershipLostError,
    NotDurableError,
    NotElectedError,
    StaleFenceError,
)
from incumbent.observability.logging import LoggingHook
from incumbent.options import Durability, LeaderOptions
from incumbent.periods import OncePer
from incumbent.results import (
    ActionFailed,
    Elected,
    LeaderInfo,
    LeadershipLost,
    LeaderState,
    LossReason,
    Outage,
    Outcome,
    Skipped,
    SkipReason,
)

if typing.TYPE_CHECKING:
    from incumbent.electors.strategic import StrategicElector
    from incumbent.stores.memory import MemoryStore

__all__ = [
    "ActionFailed",
    "Durability",
    "Elected",
    "ElectorClosedError",
    "GroupElector",
    "IncumbentError",
    "LeaderElector",
    "LeaderInfo",
    "LeaderOptions",
    "LeaderState",
    "LeadershipLost",
    "LeadershipLostError",
    "Lease",
    "LoggingHook",
    "LossReason",
    "MemoryStore",
    "NotDurableError",
    "NotElectedError",
    "OncePer",
    "Outage",
    "Outcome",
    "SkipReason",
    "Skipped",
    "StaleFenceError",
    "StrategicElector",
    "current_lease",
]


_LATER = {
    "MemoryStore": "incumbent.stores.memory",
    "StrategicElector": "incumbent.electors.strategic",
}
"""When it is asked for: what these need is a third of what all this costs to import."""


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return found
