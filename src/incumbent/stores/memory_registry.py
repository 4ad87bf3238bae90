"""A registry inside the process, beside a `MemoryStore`: the same contract, with no server.

Knows nothing of how the store keeps its seats; who leads it asks as anybody does.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from incumbent import clock
from incumbent.stores.base import Budget, Store, instant
from incumbent.stores.registry import Deed, Enrolled, Enrolment, Withdrawn
from incumbent.strategy import Candidate, Snapshot

GONE_FOR: Final = 60.0
"""Seconds for which a withdrawn token is remembered."""


@dataclass(slots=True)
class _Record:
    candidate: Candidate
    token: str = field(repr=False)
    ends_at: float


class MemoryRegistry:
    """Candidates in this process, for electors that share it and the `store` of its seats.

    `last_fence` tells the last fencing token of an election, 0 for none.
    """

    def __init__(self, store: Store, last_fence: Callable[[str], int]) -> None:
        self._store = store
        self._last_fence = last_fence
        self._records: dict[str, dict[str, _Record]] = {}
        self._gone: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._records)} elections>"

    async def enrol(self, enrolment: Enrolment, budget: Budget) -> Enrolled | Literal["gone"]:
        now = clock.now()
        if self._gone.get(enrolment.token, now) > now:
            return "gone"
        standing = self._standing(enrolment.election, now)
        old = standing.get(enrolment.node_id)
        candidate = (
            replace(old.candidate, metadata=enrolment.metadata, strategy=enrolment.strategy)
            if old
            else Candidate(
                node_id=enrolment.node_id,
                registered_at=_wall(),
                metadata=enrolment.metadata,
                strategy=enrolment.strategy,
            )
        )
        standing[enrolment.node_id] = _Record(candidate, enrolment.token, now + enrolment.ttl)
        self._records[enrolment.election] = standing
        return Enrolled(candidate.registered_at, fresh=old is None)

    async def withdraw(self, enrolment: Enrolment, budget: Budget) -> Withdrawn:
        now = clock.now()
        self._gone = {token: until for token, until in self._gone.items() if until > now}
        self._gone[enrolment.token] = now + GONE_FOR
        standing = self._standing(enrolment.election, now)
        old = standing.get(enrolment.node_id)
        if old is None:
            return "gone"
        if old.token != enrolment.token:
            return "taken"
        del standing[enrolment.node_id]
        if not standing:
            del self._records[enrolment.election]
        return "withdrawn"

    async def record(self, election: str, node_id: str, deed: Deed, budget: Budget) -> bool:
        record = self._standing(election, clock.now()).get(node_id)
        if record is None:
            return False
        old, at = record.candidate, _wall()
        if deed == "started":
            record.candidate = replace(old, last_started_at=at)
        elif deed == "succeeded":
            record.candidate = replace(old, last_succeeded_at=at, successes=old.successes + 1)
        else:
            record.candidate = replace(old, last_failed_at=at, failures=old.failures + 1)
        return True

    async def snapshot(self, election: str, budget: Budget) -> Snapshot:
        leaders = (await self._store.state(election, 1, budget)).leaders
        standing = self._standing(election, clock.now())
        return Snapshot(
            election=election,
            candidates=tuple(record.candidate for record in standing.values()),
            now=_wall(),
            leader=leaders[0] if leaders else None,
            seed=self._last_fence(election),
        )

    def _standing(self, election: str, now: float) -> dict[str, _Record]:
        """The records that live; what does not is forgotten."""
        records = self._records.get(election, {})
        for node_id in [each for each, record in records.items() if record.ends_at <= now]:
            del records[node_id]
        return records


def _wall() -> datetime:
    return instant(time.time() * 1000)
