"""Which nodes of this process contend in which elections: they wait to lead, or lead.

Their heartbeats tell it to all others. A node that does not contend gets no grace of its own, and
no leader makes way for it.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from incumbent import events


class Voter(NamedTuple):
    """A node in an election."""

    election: str
    leader_id: str

    @property
    def names(self) -> events.Names:
        """What every event about it says."""
        return {"election": self.election, "leader_id": self.leader_id}


class Contenders:
    """Those of one elector and its siblings."""

    def __init__(self) -> None:
        self._contending = Counter[Voter]()
        self._standing: dict[Voter, list[Callable[[], None]]] = {}

    def __contains__(self, voter: Voter) -> bool:
        return self._contending[voter] > 0

    def enter(self, voter: Voter, *, tell: bool) -> None:
        """Count one more reason why it contends. With `tell` its heartbeat tells it soon."""
        self._contending[voter] += 1
        if tell:
            self._tell(voter)

    def leave(self, voter: Voter) -> None:
        """Count one reason less. After the last one its heartbeat tells that soon."""
        self._contending[voter] -= 1
        if self._contending[voter] <= 0:
            del self._contending[voter]
            self._tell(voter)

    def _tell(self, voter: Voter) -> None:
        for beat in self._standing.get(voter, ()):
            beat()

    def stand(self, voter: Voter, beat: Callable[[], None]) -> None:
        """It stands: `beat` is called when it may have to tell something new."""
        self._standing.setdefault(voter, []).append(beat)

    def withdraw(self, voter: Voter, beat: Callable[[], None]) -> None:
        """It stands no longer. Idempotent."""
        standing = self._standing.get(voter, [])
        if beat in standing:
            standing.remove(beat)
        if not standing:
            self._standing.pop(voter, None)
