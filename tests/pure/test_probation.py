"""incumbent.strategy.probation: after early failures a node is behind, longer and longer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent.results import LeaderInfo
from incumbent.strategy import Candidate, ElectionResult, Priority, Snapshot, probation

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def candidate(name: str, priority: int, *, times: int = 0, ago: float = 0.0) -> Candidate:
    """One that failed early so many times in a row, the last time so many seconds ago."""
    return Candidate(
        node_id=name,
        registered_at=NOW - timedelta(days=1),
        metadata={"priority": priority},
        early_failures=times,
        last_early_failure_at=NOW - timedelta(seconds=ago) if times else None,
    )


def decided(*candidates: Candidate, leader: str | None = None) -> tuple[Snapshot, ElectionResult]:
    """A snapshot, and what `Priority` makes of it with probation."""
    info = leader and LeaderInfo(leader_id=leader, seat=0, fence=1, since=NOW, remaining=3.0)
    snapshot = Snapshot(election="job", candidates=candidates, now=NOW, leader=info or None)
    return snapshot, probation.apply(snapshot, Priority()(snapshot))


def order(*candidates: Candidate, leader: str | None = None) -> list[str]:
    """The ranking of these."""
    _, result = decided(*candidates, leader=leader)
    return [each.node_id for each in result.ranking]


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (10**9, 600)]
)
def test_the_figures(times: int, seconds: float) -> None:
    """As they are documented: they double, up to ten minutes."""
    assert probation.penalty(times) == seconds


def test_who_failed_early_goes_behind_all_others() -> None:
    """Behind whoever is worse; those on probation keep their order among each other."""
    bad, worse = candidate("bad", 9, times=1), candidate("worse", 8, times=3)
    assert order(bad, worse, candidate("good", 1), candidate("poor", 0)) == [
        *("good", "poor", "bad", "worse")
    ]


@pytest.mark.parametrize(("times", "ago"), [(1, 10.0), (2, 20.0), (7, 600.0)])
def test_a_node_is_believed_again_when_its_time_is_over(times: int, ago: float) -> None:
    """Not before."""
    good = candidate("good", 1)
    assert order(candidate("bad", 9, times=times, ago=ago), good) == ["bad", "good"]
    assert order(candidate("bad", 9, times=times, ago=ago - 0.5), good) == ["good", "bad"]


def test_alone_it_goes_on() -> None:
    """And when all fail, the best of them tries."""
    assert order(candidate("bad", 9, times=5)) == ["bad"]
    assert order(candidate("bad", 9, times=5), candidate("good", 1, times=1)) == ["bad", "good"]


def test_who_leads_keeps_its_place() -> None:
    """It was elected and works now: no worse candidate gets the seat."""
    bad, good = candidate("bad", 9, times=5), candidate("good", 1)
    assert order(bad, good, leader="bad") == ["bad", "good"]
    assert order(bad, good, leader="good") == ["good", "bad"]


def test_a_failure_in_the_future_counts_for_nothing() -> None:
    """The clock was set back by a day: that must not be a day's probation."""
    assert order(candidate("bad", 9, times=5, ago=-86400), candidate("good", 1)) == ["bad", "good"]


def test_the_reasons_say_so() -> None:
    """For the one on probation; the one that wins by that has no reason any more."""
    _, result = decided(candidate("bad", 9, times=2, ago=5), candidate("good", 1))
    assert result.winner is not None
    assert result.winner.node_id == "good"
    assert result.reasons == {
        "bad": "failed 2 times in a row soon after the start, the others go first for 15 s"
    }
    assert result.scores == {"bad": 9.0, "good": 1.0}


@given(
    times=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    ago=st.floats(-1e5, 1e5),
)
def test_nobody_is_lost(times: list[int], ago: float) -> None:
    """The same candidates; those that are not on probation keep their order."""
    everybody = [
        replace(candidate(f"{place}", -place, times=each, ago=ago))
        for place, each in enumerate(times)
    ]
    snapshot, result = decided(*everybody)
    assert sorted(each.node_id for each in result.ranking) == [each.node_id for each in everybody]
    free = [each for each in result.ranking if probation.left(each, snapshot) == 0]
    assert [each.node_id for each in free] == sorted(each.node_id for each in free)
    assert list(result.ranking[: len(free)]) == free
