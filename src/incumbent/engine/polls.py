"""One strategy's looks at elections: a snapshot, what the strategy makes of it, what is amiss.

Knows who stands; not who may try when, nor what an action is. If the strategy fails, the election
goes on: each kind of error is told once, and the candidates are ranked by seniority.
"""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from incumbent import actions, events
from incumbent.engine.contenders import Contenders, Voter
from incumbent.engine.office import Office
from incumbent.engine.term import Term
from incumbent.stores.base import Budget
from incumbent.stores.registry import Registry
from incumbent.strategy import ElectionResult, Fifo, Snapshot, Strategy, fingerprint, probation

REMEMBERED: Final = 1024
"""How many complaints are remembered, so that none is told at every look."""

MOST_TOLD: Final = 10
"""Of how many nodes an event tells what is wrong with their scores."""

_BY_SENIORITY: Final = Fifo()


class Look(NamedTuple):
    """A look at an election."""

    snapshot: Snapshot
    result: ElectionResult


class Polls:
    """The looks of one elector and its siblings."""

    def __init__(self, office: Office[Term], registry: Registry, strategy: Strategy) -> None:
        _check(strategy)
        self.office: Office[Term] = office
        self.registry: Registry = registry
        self.strategy: Strategy = strategy
        self.fingerprint: str = fingerprint(strategy)
        self.contenders: Contenders = Contenders()
        self._told: set[tuple[object, ...]] = set()
        self._doubtful: set[Voter] = set()

    async def snapshot(self, voter: Voter, budget: Budget) -> Snapshot:
        """Who stands: one round trip. What the store raises comes out."""
        snapshot = await self.registry.snapshot(voter.election, budget)
        self._complain(voter, snapshot)
        return snapshot

    async def dry_run(self, voter: Voter, budget: Budget) -> ElectionResult:
        """What the strategy makes of a look; its errors are raised."""
        snapshot = await self.snapshot(voter, budget)
        return probation.apply(snapshot, self._decide(snapshot))

    async def look(self, voter: Voter, budget: Budget) -> Look:
        """The same for an election, which ranks by seniority when the strategy fails."""
        snapshot = await self.snapshot(voter, budget)
        try:
            result = self._decide(snapshot)
            self._doubt(voter, result.problems)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a user's function
            if self._first("failed", voter, type(error)):
                self.office.tell(events.StrategyFailed, voter, error=error)
            result = _BY_SENIORITY(snapshot)
        return Look(snapshot, probation.apply(snapshot, result))

    def _decide(self, snapshot: Snapshot) -> ElectionResult:
        result: Any = self.strategy(snapshot)
        if not isinstance(result, ElectionResult):
            if inspect.iscoroutine(result):
                result.close()  # otherwise Python warns that it was never awaited
            raise TypeError(
                "a strategy must return an ElectionResult, such as"
                f" ElectionResult.of([best, second, ...]), not {type(result).__name__}"
            )
        for each in result.ranking:
            if snapshot.candidate(each.node_id) is None:
                raise ValueError(f"a strategy ranked {each.node_id!r}, which is no candidate")
        return result

    def _doubt(self, voter: Voter, problems: Mapping[str, str]) -> None:
        """Tell when doubtful scores begin, but not each time that other nodes have them."""
        if not problems:
            self._doubtful.discard(voter)
        elif voter not in self._doubtful:
            if len(self._doubtful) >= REMEMBERED:
                self._doubtful.clear()
            self._doubtful.add(voter)
            first = tuple(sorted(problems.items())[:MOST_TOLD])
            self.office.tell(events.ScoresDoubtful, voter, problems=first)

    def _complain(self, voter: Voter, snapshot: Snapshot) -> None:
        """Each set of nodes once. Their strategy is not obeyed: ours decides for us."""
        if snapshot.corrupt and self._first("corrupt", voter, snapshot.corrupt):
            self.office.tell(events.RecordsUnreadable, voter, nodes=snapshot.corrupt)
        ours = {"", self.fingerprint}
        others = sorted([each.node_id for each in snapshot.candidates if each.strategy not in ours])
        if others and self._first("strategy", voter, *others):
            self.office.tell(events.StrategiesDiffer, voter, nodes=tuple(others))

    def _first(self, *complaint: object) -> bool:
        if complaint in self._told:
            return False
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told.add(complaint)
        return True


def _check(strategy: Any) -> None:
    if not callable(strategy):
        raise TypeError(f"strategy must be callable with a snapshot, not {strategy!r}")
    actions.check_called(strategy, "strategy")
