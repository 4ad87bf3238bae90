"""Whether a leader should make way: looks now and then, and steps down for a better candidate.

Two looks in a row have to agree, because one alone may show a node that has just come and not told
everything about itself: in both a candidate was better, and the best one of the second look was
better in both. Which one was the best in the first look does not matter, because many good nodes
may change places all the time.

A leader makes way only for candidates that contend. If the better one does not take the seat and
the leader gets it back, the leader waits longer and longer before it makes way for that one again.
"""

import asyncio
from datetime import datetime
from typing import Final, NamedTuple

from incumbent import clock
from incumbent.engine.contenders import Voter
from incumbent.engine.polls import Look, Polls
from incumbent.engine.term import Term
from incumbent.options import LeaderOptions
from incumbent.stores.base import Budget
from incumbent.strategy import Candidate

SHORTEST_PERIOD: Final = 0.25
"""Seconds between two looks, at least: each reads all candidates."""

MOST_DOUBLINGS: Final = 10


class _Offer(NamedTuple):
    """The seat was left to a candidate."""

    started: datetime | None
    """When that candidate had last started some work before."""
    times: int
    """How often in a row it did not come."""


class Deference:
    """For whom the seats of elections were given up, and whether they took them."""

    def __init__(self) -> None:
        self._offers: dict[tuple[str, str], _Offer] = {}

    def offer(self, election: str, to: Candidate) -> None:
        """The seat is about to be left to `to`."""
        before = self._offers.get((election, to.node_id))
        again = before is not None and before.started == to.last_started_at
        times = before.times + 1 if before is not None and again else 1
        self._offers[election, to.node_id] = _Offer(to.last_started_at, times)

    def wait(self, election: str, to: Candidate, lease_time: float) -> float:
        """Seconds that a term must last before the seat is left to `to`: 0 unless it did not come.

        Who has started some work since has taken its offer.
        """
        offer = self._offers.get((election, to.node_id))
        if offer is None:
            return 0.0
        if offer.started != to.last_started_at:
            del self._offers[election, to.node_id]
            return 0.0
        return lease_time * 2.0 ** min(offer.times - 1, MOST_DOUBLINGS)


class Reappraisal:
    """The looks of one term."""

    def __init__(
        self,
        polls: Polls,
        voter: Voter,
        options: LeaderOptions,
        term: Term,
        deference: Deference,
    ) -> None:
        self._polls = polls
        self._voter = voter
        self._options = options
        self._term = term
        self._deference = deference
        self._began = clock.now()

    async def run(self) -> None:
        """Look every third of `lease_time`, until the term is over or stopped from outside."""
        before: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(max(SHORTEST_PERIOD, self._options.renewal_period))
            if not self._term.held:
                return
            better = await self._better()
            best = next((each for each in better if self._may_come(each)), None)
            if best is not None and best.node_id in before:
                self._deference.offer(self._voter.election, best)
                self._term.step_down()
                return
            before = frozenset(each.node_id for each in better)

    async def _better(self) -> tuple[Candidate, ...]:
        """The candidates that should lead instead, best first, as far as is known now."""
        each = self._options.renewal_budget
        try:
            look = await self._polls.look(self._voter, Budget(each, each))
        except Exception:  # noqa: BLE001 - the renewals tell of trouble; this only looks
            return ()
        return self._ahead(look)

    def _ahead(self, look: Look) -> tuple[Candidate, ...]:
        leader, ranking = look.snapshot.leader, look.result.ranking
        if leader is None or leader.fence != self._term.grant.fence:
            return ()  # a term that is over, which the next renewal will find out
        ahead = ranking[: look.result.rank_of(self._voter.leader_id)]
        return tuple(each for each in ahead if each.contending)

    def _may_come(self, better: Candidate) -> bool:
        """Whether the seat may be offered to it again, after it did not take it before."""
        wait = self._deference.wait(self._voter.election, better, self._options.lease_time)
        return clock.now() - self._began >= wait
