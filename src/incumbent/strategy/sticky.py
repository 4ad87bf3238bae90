"""Who leads stays, unless another is clearly better: against leaders that change all the time.

Pure: looks at who has the seat in the snapshot, and remembers nothing.
"""

import math
from dataclasses import dataclass

from incumbent.durations import Duration, seconds
from incumbent.strategy.candidates import Candidate, Snapshot
from incumbent.strategy.result import ElectionResult
from incumbent.strategy.scorers import name_of
from incumbent.strategy.strategies import Strategy


@dataclass(frozen=True, slots=True, init=False)
class Sticky:
    """`strategy`, except that the leader stays first in two cases.

    It has led for less than `min_tenure`, or nobody's score is above its own by more than `margin`.
    Where the strategy has no scores, nobody is known to be better. The leader is the candidate that
    has the seat now; when it has gone, `strategy` alone decides, also when it comes back.

    >>> Sticky(LeastLoaded("load"), margin=0.2, min_tenure=60)

    Raises:
        ValueError: `margin` or `min_tenure` is negative or not finite.
    """

    strategy: Strategy
    margin: float
    """In the unit of the strategy's scores: points for `Scored`, seconds for `Fifo`."""
    min_tenure: float
    """Seconds, from the beginning of the leader's term."""

    def __init__(self, strategy: Strategy, margin: float, min_tenure: Duration = 0.0) -> None:
        if not callable(strategy):
            raise TypeError(f"a strategy must be callable with a snapshot: {strategy!r}")
        if not (math.isfinite(margin) and margin >= 0):
            raise ValueError(f"margin must be finite and not negative, not {margin}")
        object.__setattr__(self, "strategy", strategy)
        object.__setattr__(self, "margin", float(margin))
        object.__setattr__(self, "min_tenure", seconds("min_tenure", min_tenure))

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """As `strategy` says, or the leader before all others."""
        wanted = self.strategy(snapshot)
        term, leader = snapshot.leader, snapshot.incumbent
        if term is None or leader is None or not wanted.rank_of(leader.node_id):
            return wanted  # nobody to stay, or nobody who may, or who is first anyway
        why = self._why(wanted, leader, (snapshot.now - term.since).total_seconds())
        if why is None:
            return wanted
        others = [each for each in wanted.ranking if each.node_id != leader.node_id]
        return ElectionResult.of(
            (leader, *others),
            scores=wanted.scores,
            reasons={each.node_id: f"{leader.node_id!r} leads and {why}" for each in others},
            problems=wanted.problems,
        )

    def _why(self, wanted: ElectionResult, leader: Candidate, tenure: float) -> str | None:
        """Why the leader stays, in words; None when it does not."""
        if tenure < self.min_tenure:
            return f"stays for {self.min_tenure:g} s at least, {max(tenure, 0):.6g} s so far"
        own = wanted.scores.get(leader.node_id)
        best = wanted.scores.get(wanted.ranking[0].node_id)
        if own is None or best is None:
            return f"stays, for {name_of(self.strategy)} has no scores to tell who is better"
        if best > own + self.margin:
            return None
        return f"stays, for nobody is better by more than {self.margin:g}"
