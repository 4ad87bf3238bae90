"""Whose turn it is: what one candidate may do after a look at the election.

Pure. The winner tries at once, the others when the seat has been free for some graces: one for each
better candidate that contends, and one for all those together that only stand, because these may
try at any time but usually never do. So a winner that does not come costs one grace, and many that
never try cost no more. In any case it is the lease that decides who leads.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from incumbent.results import LeaderInfo
from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.result import ElectionResult


class Outside(NamedTuple):
    """The node does not stand: it never leads."""


class Taken(NamedTuple):
    """Somebody has the seat, maybe the node itself."""

    leader: LeaderInfo
    behind: int
    """How many better candidates contend, the leader not counted: they go first when it goes."""


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
    rank = result.rank_of(node_id)
    better = result.ranking[:rank]
    leader = snapshot.leader
    if leader is not None:
        contending = [each for each in better if each.contending]
        behind = sum(each.node_id != leader.leader_id for each in contending)
        return Taken(leader, behind)
    if rank is None:
        return Wait(math.inf)
    left = graces(better) * grace - free_for
    return Wait(left) if left > 0 else Try()


def graces(better: Sequence[Candidate]) -> int:
    """For how many graces a free seat is left to these better candidates."""
    contending = sum(each.contending for each in better)
    return contending + (contending < len(better))
