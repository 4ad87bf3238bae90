"""One strategy's looks at elections: a snapshot, what the strategy makes of it, what is amiss.

Knows who stands; not who may try when, nor what an action is.
"""

from typing import Final, NamedTuple

from incumbent import events
from incumbent.engine.office import Office
from incumbent.engine.term import Term
from incumbent.stores.base import Budget
from incumbent.stores.registry import Registry
from incumbent.strategy import ElectionResult, Snapshot, Strategy, fingerprint

REMEMBERED: Final = 1024
"""How many complaints are remembered, so that none is told at every look."""


class Voter(NamedTuple):
    """A node in an election."""

    election: str
    leader_id: str

    @property
    def names(self) -> events.Names:
        """What every event about it says."""
        return {"election": self.election, "leader_id": self.leader_id}


class Look(NamedTuple):
    """A look at an election."""

    snapshot: Snapshot
    result: ElectionResult


class Polls:
    """The looks of one elector and its siblings."""

    def __init__(self, office: Office[Term], registry: Registry, strategy: Strategy) -> None:
        if not callable(strategy):
            raise TypeError(f"strategy must be callable with a snapshot, not {strategy!r}")
        self.office: Office[Term] = office
        self.registry: Registry = registry
        self.strategy: Strategy = strategy
        self.fingerprint: str = fingerprint(strategy)
        self._told: set[tuple[object, ...]] = set()

    async def snapshot(self, voter: Voter, budget: Budget) -> Snapshot:
        """Who stands: one round trip. What the store raises comes out."""
        snapshot = await self.registry.snapshot(voter.election, budget)
        self._complain(voter, snapshot)
        return snapshot

    async def look(self, voter: Voter, budget: Budget) -> Look:
        """The same, and what the strategy makes of it, which may raise as well."""
        snapshot = await self.snapshot(voter, budget)
        result = self.strategy(snapshot)
        if not isinstance(result, ElectionResult):
            raise TypeError(
                f"a strategy must return an ElectionResult, not {type(result).__name__}"
            )
        return Look(snapshot, result)

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
