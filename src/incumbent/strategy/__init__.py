"""Who should lead: candidates, scorers, strategies and what they decide. Pure, and told the time.

A strategy is anything that can be called with a `Snapshot` and gives an `ElectionResult`; a scorer
is called with a `Candidate` and the snapshot, and gives 0 to 100 points. A function fits for both.
"""

from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.fingerprint import fingerprint
from incumbent.strategy.metadata import Metadata, MetaValue
from incumbent.strategy.result import ElectionResult
from incumbent.strategy.scorers import IdleTime, RecentSuccess, Scorer, SuccessRate, Weighted
from incumbent.strategy.sticky import Sticky
from incumbent.strategy.strategies import (
    Fifo,
    LeastLoaded,
    Priority,
    Random,
    Rendezvous,
    Scored,
    Strategy,
)
from incumbent.strategy.versions import NewestVersion, OldestVersion

__all__ = [
    "Candidate",
    "ElectionResult",
    "Fifo",
    "IdleTime",
    "LeastLoaded",
    "MetaValue",
    "Metadata",
    "NewestVersion",
    "OldestVersion",
    "Priority",
    "Random",
    "RecentSuccess",
    "Rendezvous",
    "Scored",
    "Scorer",
    "Snapshot",
    "Sticky",
    "Strategy",
    "SuccessRate",
    "Weighted",
    "fingerprint",
]
