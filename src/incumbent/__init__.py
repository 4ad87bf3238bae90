"""Elect leaders among asyncio services that share a Redis or Valkey server."""

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
    "current_lease",
]
