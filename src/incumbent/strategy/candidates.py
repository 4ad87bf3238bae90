"""The candidates of an election and one common look at them, as frozen values.

Pure. All times are the server's, also `now`: whoever scores the same snapshot comes to the same
result, whatever his own clock says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Final

from incumbent.results import LeaderInfo
from incumbent.strategy.metadata import Metadata, MetaValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that may lead: since when it is there, what it did, and what it says about itself."""

    node_id: str
    registered_at: datetime
    """When it enrolled; enrolling again before it expires does not move this."""
    last_started_at: datetime | None = None
    last_succeeded_at: datetime | None = None
    last_failed_at: datetime | None = None
    successes: int = 0
    failures: int = 0
    metadata: Mapping[str, MetaValue] = field(default_factory=Metadata)
    strategy: str = ""
    """The fingerprint of the strategy that it goes by; empty when it did not tell."""
    contending: bool = False
    """Whether it waits to lead, or leads, as its last heartbeat told; else it only stands."""
    early_failures: int = 0
    """How often in a row its work failed soon after its start."""
    last_early_failure_at: datetime | None = None

    def __post_init__(self) -> None:
        if not self.node_id:
            raise ValueError("node_id must not be empty")
        if self.registered_at.tzinfo is None:
            raise ValueError(f"registered_at must have a time zone: {self.registered_at!r}")
        if min(self.successes, self.failures, self.early_failures) < 0:
            raise ValueError(
                f"counts must not be negative: {self.successes} successes,"
                f" {self.failures} failures, {self.early_failures} early failures"
            )
        if not isinstance(self.metadata, Metadata):
            object.__setattr__(self, "metadata", Metadata(self.metadata))

    @property
    def success_rate(self) -> float | None:
        """The share of successes among its results, 0 to 1; None when there is no result."""
        results = self.successes + self.failures
        return self.successes / results if results else None

    @property
    def proven_at(self) -> datetime | None:
        """Its last success, if nothing has failed since."""
        succeeded, failed = self.last_succeeded_at, self.last_failed_at
        return None if succeeded and failed and failed > succeeded else succeeded

    def idle(self, now: datetime) -> float:
        """Seconds since it last started or ended some work; since it enrolled if it never has."""
        times = (self.last_started_at, self.last_succeeded_at, self.last_failed_at)
        last = max((time for time in times if time is not None), default=self.registered_at)
        return max(0.0, (now - last).total_seconds())

    def number(self, key: str) -> float | None:
        """The number `key` in its metadata; None when there is none, or a text."""
        value = self.metadata.get(key)
        return None if value is None or isinstance(value, str) else float(value)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One look at an election: who stands, who leads, and the server's time.

    Raises:
        ValueError: two candidates have one node id, or `now` has no time zone.
    """

    election: str
    candidates: tuple[Candidate, ...]
    """By registration, then node id, in whatever order they were given: the first wins a tie."""
    now: datetime
    leader: LeaderInfo | None = None
    """Who has the seat; None when it is free or was not looked at."""
    seed: int = 0
    """The same for all who look in one round, another one in the next: for `Random`."""
    corrupt: tuple[str, ...] = ()
    """Node ids of records that could not be read, and take no part."""

    def __post_init__(self) -> None:
        if self.now.tzinfo is None:
            raise ValueError(f"now must have a time zone: {self.now!r}")
        candidates = sorted(self.candidates, key=SENIORITY)
        if len(set(map(_NODE_ID, candidates))) < len(candidates):
            raise ValueError(f"two candidates of {self.election!r} have the same node id")
        object.__setattr__(self, "candidates", tuple(candidates))

    @property
    def incumbent(self) -> Candidate | None:
        """The candidate that leads now; None when nobody does, or somebody who does not stand."""
        if self.leader is None or self.leader.retained:
            return None
        return self.candidate(self.leader.leader_id)

    @property
    def strategies(self) -> Mapping[str, tuple[str, ...]]:
        """Node ids by the fingerprint of their strategy: all should go by the same one."""
        found: dict[str, list[str]] = {}
        for candidate in self.candidates:
            if candidate.strategy:
                found.setdefault(candidate.strategy, []).append(candidate.node_id)
        return {strategy: tuple(nodes) for strategy, nodes in found.items()}

    def candidate(self, node_id: str) -> Candidate | None:
        """The candidate with this id."""
        return self._by_id.get(node_id)

    @cached_property
    def longest_idle(self) -> float:
        """Seconds that the most idle candidate has been idle; 0 without candidates."""
        return max((candidate.idle(self.now) for candidate in self.candidates), default=0.0)

    @cached_property
    def proven_between(self) -> tuple[datetime, datetime] | None:
        """The oldest and the newest `proven_at` of all candidates; None when nobody has one."""
        times = [each.proven_at for each in self.candidates if each.proven_at is not None]
        return (min(times), max(times)) if times else None

    @cached_property
    def _by_id(self) -> Mapping[str, Candidate]:
        return {candidate.node_id: candidate for candidate in self.candidates}


_NODE_ID: Final = attrgetter("node_id")

SENIORITY: Final = attrgetter("registered_at", "node_id")
"""By which candidates are sorted."""
