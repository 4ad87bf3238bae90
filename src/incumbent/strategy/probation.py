"""A candidate whose work fails soon after its start goes behind the others for a while.

Pure. Without this, a broken node that looks best (it is idle, because its work fails at once) would
stop a healthy leader again and again. The memory is in the candidate's record on the server, so all
nodes agree on it, and it survives a restart of the node under the same id.

The figures: `FIRST` seconds after the first early failure, twice as long after each further one in
a row, `LONGEST` at most. So a node that has recovered leads again ten minutes later at most.
"""

from typing import Final

from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.result import ElectionResult

EARLY: Final = 30.0
"""Work that fails within so many seconds after its start (or within `lease_time`, if that is
longer) fails early. A success, or work that lasted longer, ends the row of early failures."""

FIRST: Final = 10.0
"""Seconds for which others go first after one early failure."""

LONGEST: Final = 600.0
"""Seconds for which others go first after many."""

KEPT: Final = 3600.0
"""Seconds after which an early failure belongs to no row any more."""


def penalty(early_failures: int) -> float:
    """Seconds for which others go first after so many early failures in a row."""
    if early_failures <= 0:
        return 0.0
    return min(LONGEST, FIRST * 2.0 ** min(early_failures - 1, 16))


def left(candidate: Candidate, snapshot: Snapshot) -> float:
    """Seconds for which others still go first; 0 for a candidate that is not on probation.

    A failure in the future (the server's clock was set back) does not count, or it would for long.
    """
    at = candidate.last_early_failure_at
    if at is None or at > snapshot.now:
        return 0.0
    ago = (snapshot.now - at).total_seconds()
    return max(0.0, penalty(candidate.early_failures) - ago)


def apply(snapshot: Snapshot, result: ElectionResult) -> ElectionResult:
    """`result`, with those on probation behind all others; the order is kept otherwise.

    The present leader keeps its place, because its work goes on.
    """
    leader = snapshot.incumbent
    waits = {
        each.node_id: seconds
        for each in result.ranking
        if each.early_failures
        and (leader is None or each.node_id != leader.node_id)
        and (seconds := left(each, snapshot)) > 0
    }
    if not waits:
        return result
    order = sorted(result.ranking, key=lambda each: each.node_id in waits)
    if order == list(result.ranking):
        return result
    reasons = {
        **result.reasons,
        **{
            each.node_id: f"failed {each.early_failures} times in a row soon after the start,"
            f" the others go first for {waits[each.node_id]:.0f} s"
            for each in order
            if each.node_id in waits
        },
    }
    reasons.pop(order[0].node_id, None)
    return ElectionResult.of(order, scores=result.scores, reasons=reasons, problems=result.problems)
