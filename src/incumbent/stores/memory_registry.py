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
from incumbent.strategy import Candidate, Snapshot, probation

GONE_FOR: Final = 60.0
"""Seconds for which a withdrawn token is remembered."""

MOST_OTHERS: Final = 8
"""How many other stands of one node id are remembered."""


@dataclass(slots=True)
class _Record:
    candidate: Candidate
    token: str = field(repr=False)
    ends_at: float
    others: dict[str, float] = field(default_factory=dict[str, float], repr=False)
    """When other stands of the node id end, by token."""

    def faltering(self, now: datetime) -> bool:
        """Whether its early failures still count."""
        at = self.candidate.last_early_failure_at
        return at is not None and (now - at).total_seconds() < probation.KEPT


class MemoryRegistry:
    """Candidates in this process, for electors that share it and the `store` of its seats.

    `last_fence` tells the last fencing token of an election, 0 for none.
    """

    def __init__(self, store: Store, last_fence: Callable[[str], int]) -> None:
        self._store = store
        self._last_fence = last_fence
        self._records: dict[str, dict[str, _Record]] = {}
        self._gone: dict[str, float] = {}
        self._ahead = time.time() - clock.now()
        """Seconds by which a clock that is never set is ahead of `incumbent.clock`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._records)} elections>"

    async def enrol(self, enrolment: Enrolment, budget: Budget) -> Enrolled | Literal["gone"]:
        now = clock.now()
        if self._gone.get(enrolment.token, now) > now:
            return "gone"
        standing = self._standing(enrolment.election, now)
        record = standing.get(enrolment.node_id)
        old = record if record is not None and record.ends_at > now else None
        candidate = old.candidate if old else _newcomer(enrolment.node_id, record, self._wall())
        candidate = replace(
            candidate,
            metadata=enrolment.metadata,
            strategy=enrolment.strategy,
            contending=enrolment.contending,
        )
        new = _Record(candidate, enrolment.token, now + enrolment.ttl)
        shared = False
        if old is not None:
            new.others = _living(old.others, now)
            known = new.others.pop(enrolment.token, None) is not None
            if old.token != enrolment.token:
                new.others[old.token] = old.ends_at
                shared = known
                if len(new.others) > MOST_OTHERS:
                    del new.others[next(iter(new.others))]
        standing[enrolment.node_id] = new
        self._records[enrolment.election] = standing
        return Enrolled(candidate.registered_at, fresh=old is None, shared=shared)

    async def withdraw(self, enrolment: Enrolment, budget: Budget) -> Withdrawn:
        now = clock.now()
        self._gone = {token: until for token, until in self._gone.items() if until > now}
        self._gone[enrolment.token] = now + GONE_FOR
        standing = self._standing(enrolment.election, now)
        old = standing.get(enrolment.node_id)
        if old is None or old.ends_at <= now:
            return "gone"
        old.others = _living(old.others, now)
        old.others.pop(enrolment.token, None)
        if old.token != enrolment.token:
            return "taken"
        old.candidate = replace(old.candidate, contending=False)
        if old.others:
            old.token = max(old.others, key=lambda token: old.others[token])
            old.ends_at = old.others.pop(old.token)
            return "taken"
        old.ends_at = now
        self._standing(enrolment.election, now)  # forgets it, unless its failures still count
        if not standing:
            del self._records[enrolment.election]
        return "withdrawn"

    async def record(self, election: str, node_id: str, deed: Deed, budget: Budget) -> bool:
        now = clock.now()
        record = self._standing(election, now).get(node_id)
        if record is None or record.ends_at <= now:
            return False
        record.candidate = _after(record, deed, self._wall())
        return True

    async def snapshot(self, election: str, budget: Budget) -> Snapshot:
        leaders = (await self._store.state(election, 1, budget)).leaders
        now = clock.now()
        standing = self._standing(election, now).values()
        return Snapshot(
            election=election,
            candidates=tuple(each.candidate for each in standing if each.ends_at > now),
            now=self._wall(),
            leader=leaders[0] if leaders else None,
            seed=self._last_fence(election),
        )

    def _wall(self) -> datetime:
        return instant((clock.now() + self._ahead) * 1000)

    def _standing(self, election: str, now: float) -> dict[str, _Record]:
        """The records that live, or whose early failures still count; others are forgotten."""
        records, wall = self._records.get(election, {}), self._wall()
        for node_id, record in tuple(records.items()):
            if record.ends_at <= now and not record.faltering(wall):
                del records[node_id]
        return records


def _newcomer(node_id: str, before: _Record | None, at: datetime) -> Candidate:
    """A new candidate, with the early failures of the record before, if there is one."""
    new = Candidate(node_id=node_id, registered_at=at)
    if before is None:
        return new
    return replace(
        new,
        early_failures=before.candidate.early_failures,
        last_early_failure_at=before.candidate.last_early_failure_at,
    )


def _after(record: _Record, deed: Deed, at: datetime) -> Candidate:
    """The candidate of `record`, after a deed."""
    old = record.candidate
    if deed == "started":
        return replace(old, last_started_at=at)
    if deed == "succeeded":
        return replace(old, last_succeeded_at=at, successes=old.successes + 1)
    if deed == "failed":
        return replace(old, last_failed_at=at, failures=old.failures + 1)
    if deed == "steadied":
        return replace(old, early_failures=0, last_early_failure_at=None)
    before = old.early_failures if record.faltering(at) else 0
    return replace(old, early_failures=before + 1, last_early_failure_at=at)


def _living(stands: dict[str, float], now: float) -> dict[str, float]:
    return {token: ends_at for token, ends_at in stands.items() if ends_at > now}
