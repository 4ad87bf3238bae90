"""Whose turn it is: what one candidate may do after a look at the election.

Pure. The winner tries at once; who has rank r does when the seat has been free for r graces, so
that a winner which does not come costs one grace. Who leads is decided by the lease all the same.
"""

import math
from typing import NamedTuple, TypeAlias

from incumbent.results import LeaderInfo
from incumbent.strategy.candidates import Snapshot
from incumbent.strategy.result import ElectionResult


class Outside(NamedTuple):
    """The node does not stand: it never leads."""


class Taken(NamedTuple):
    """Somebody has the seat, maybe the node itself."""

    leader: LeaderInfo


class Wait(NamedTuple):
    """Better ones go first: look again in so many seconds, or sooner."""

    seconds: float
    """Infinity for who is not ranked."""


class Try(NamedTuple):
    """Ask for the seat now."""


Turn: TypeAlias = Outside | Taken | Wait | Try


def turn(
    snapshot: Snapshot, result: ElectionResult, node_id: str, *, free_for: float, grace: float
) -> Turn:
    """What `node_id` may do, when the seat has been seen free for `free_for` seconds."""
    if snapshot.candidate(node_id) is None:
        return Outside()
    if snapshot.leader is not None:
        return Taken(snapshot.leader)
    rank = result.rank_of(node_id)
    if rank is None:
        return Wait(math.inf)
    left = rank * grace - free_for
    return Wait(left) if left > 0 else Try()
