"""Candidates and snapshots for the tests of strategies: short to write, and drawn by hypothesis."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from incumbent.results import LeaderInfo
from incumbent.strategy import (
    Candidate,
    Fifo,
    IdleTime,
    LeastLoaded,
    NewestVersion,
    OldestVersion,
    Priority,
    Random,
    RecentSuccess,
    Rendezvous,
    Scored,
    Scorer,
    Snapshot,
    Sticky,
    Strategy,
    SuccessRate,
    Weighted,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    """A time that is `seconds` before NOW."""
    return NOW - timedelta(seconds=seconds)


def node(node_id: str, registered: float = 100, /, **metadata: Any) -> Candidate:
    """A candidate that enrolled `registered` seconds ago and says this about itself."""
    return Candidate(node_id=node_id, registered_at=ago(registered), metadata=metadata)


def worker(
    node_id: str,
    registered: float = 100,
    *,
    started: float | None = None,
    succeeded: float | None = None,
    failed: float | None = None,
    results: tuple[int, int] = (0, 0),
) -> Candidate:
    """A candidate that did something; times are seconds ago, results successes and failures."""
    return Candidate(
        node_id=node_id,
        registered_at=ago(registered),
        last_started_at=None if started is None else ago(started),
        last_succeeded_at=None if succeeded is None else ago(succeeded),
        last_failed_at=None if failed is None else ago(failed),
        successes=results[0],
        failures=results[1],
    )


def leads(node_id: str, since: float = 1000, *, retained: bool = False) -> LeaderInfo:
    """The leader of an election, since so many seconds."""
    return LeaderInfo(
        leader_id=node_id, seat=0, fence=7, since=ago(since), remaining=20, retained=retained
    )


def look(*candidates: Candidate, leader: LeaderInfo | None = None, seed: int = 0) -> Snapshot:
    """A snapshot of these candidates, at NOW."""
    return Snapshot(election="job", candidates=candidates, now=NOW, leader=leader, seed=seed)


def order(strategy: Strategy, snapshot: Snapshot) -> str:
    """The node ids of the ranking, joined."""
    return " ".join(candidate.node_id for candidate in strategy(snapshot).ranking)


# -- drawn -----------------------------------------------------------------------------------

TIMES = st.none() | st.integers(0, 50).map(ago)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "load": st.integers(0, 3) | st.floats(0, 1),
        "priority": st.integers(0, 3) | st.just("high"),
        "version": st.sampled_from(["1.0", "1", "1.10", "1.9", "2.0rc1", "main"]) | st.just(2),
    },
)


@st.composite
def candidates(draw: st.DrawFn, node_id: str) -> Candidate:
    """A candidate of this id, in any state; many are alike in some way."""
    return Candidate(
        node_id=node_id,
        registered_at=ago(draw(st.integers(50, 53))),
        last_started_at=draw(TIMES),
        last_succeeded_at=draw(TIMES),
        last_failed_at=draw(TIMES),
        successes=draw(st.integers(0, 5)),
        failures=draw(st.integers(0, 5)),
        metadata=draw(METADATA),
    )


@st.composite
def snapshots(draw: st.DrawFn, at_least: int = 0) -> Snapshot:
    """A snapshot of up to eight candidates; one of them, or a stranger, or nobody leads."""
    ids = [f"n{number}" for number in range(draw(st.integers(at_least, 8)))]
    leader = draw(st.sampled_from([None, "stranger", *ids]))
    return Snapshot(
        election=draw(st.sampled_from(["job", "other"])),
        candidates=tuple(draw(candidates(each)) for each in ids),
        now=NOW,
        leader=None if leader is None else leads(leader, draw(st.integers(0, 30))),
        seed=draw(st.integers(0, 5)),
    )


def erratic(candidate: Candidate, snapshot: Snapshot) -> float:
    """A scorer that goes wrong in every way."""
    choice = candidate.successes
    if choice == 0:
        raise LookupError("no such thing")
    return [0.0, 50.0, float("nan"), -5.0, 1e9, float("-inf")][choice]


SCORERS: st.SearchStrategy[Scorer] = st.sampled_from(
    [IdleTime(), SuccessRate(), SuccessRate(50), RecentSuccess(), erratic]
)
PARTS = st.tuples(SCORERS, st.sampled_from([0.15, 0.35, 0.5, 3.0]))
WEIGHTED: st.SearchStrategy[Scorer] = st.builds(Weighted, st.lists(PARTS, min_size=1))
POOLED: st.SearchStrategy[Scorer] = SCORERS | WEIGHTED
PLAIN: st.SearchStrategy[Strategy] = st.one_of(
    st.sampled_from(
        [
            Fifo(),
            Random(),
            Rendezvous(),
            Priority(),
            LeastLoaded(),
            NewestVersion(),
            OldestVersion(),
        ]
    ),
    POOLED.map(Scored),
)
STRATEGIES: st.SearchStrategy[Strategy] = PLAIN | st.builds(
    Sticky, PLAIN, st.sampled_from([0, 1, 20]), st.sampled_from([0, 10])
)
