"""incumbent.strategy.turn: who may try when, by rank and by how long the seat has been free."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from incumbent.results import LeaderInfo
from incumbent.strategy import Candidate, ElectionResult, Fifo, Snapshot
from incumbent.strategy.turn import Outside, Taken, Try, Turn, Wait, graces, turn

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CANDIDATES = tuple(
    Candidate(node_id=name, registered_at=NOW + timedelta(seconds=place), contending=True)
    for place, name in enumerate("abc")
)
LEADER = LeaderInfo(leader_id="b", seat=0, fence=1, since=NOW, remaining=3.0)


def after_a_look(node_id: str, *, free_for: float = 0.0, leader: LeaderInfo | None = None) -> Turn:
    """What a node may do, where the ranking is a, b, c and a grace is one second."""
    snapshot = Snapshot(election="job", candidates=CANDIDATES, now=NOW, leader=leader)
    return turn(snapshot, Fifo()(snapshot), node_id, free_for=free_for, grace=1.0)


@pytest.mark.parametrize(
    ("node_id", "free_for", "expected"),
    [
        ("a", 0.0, Try()),
        ("a", 9.0, Try()),
        ("b", 0.0, Wait(1.0)),
        ("b", 0.75, Wait(0.25)),
        ("b", 1.0, Try()),
        ("c", 0.0, Wait(2.0)),
        ("c", 1.5, Wait(0.5)),
        ("c", 2.0, Try()),
        ("d", 9.0, Outside()),
    ],
)
def test_rank_r_tries_after_r_graces(node_id: str, free_for: float, expected: Turn) -> None:
    """The winner at once, the next when it has not come in a grace, and so on."""
    assert after_a_look(node_id, free_for=free_for) == expected


@pytest.mark.parametrize(("node_id", "behind"), [("a", 0), ("b", 1), ("c", 1)])
def test_a_taken_seat_is_nobodys_turn(node_id: str, behind: int) -> None:
    """Nor the holder's own: it is not reentrant. The leader is none of those that come before."""
    assert after_a_look(node_id, free_for=9.0, leader=LEADER) == Taken(LEADER, behind)


@pytest.mark.parametrize(
    ("contending", "expected"),
    [("", 1), ("a", 2), ("ab", 3), ("abc", 3), ("c", 2)],
)
def test_those_that_only_stand_have_one_grace_together(contending: str, expected: int) -> None:
    """Of three better ones each that contends has a grace of its own, the others share one."""
    better = [replace(each, contending=each.node_id in contending) for each in CANDIDATES]
    assert graces(better) == expected


def test_with_nobody_better_there_is_no_grace() -> None:
    """The first of the ranking tries at once."""
    assert graces(()) == 0


def test_who_does_not_stand_has_no_turn_ever() -> None:
    """Also while somebody leads."""
    assert after_a_look("d", leader=LEADER) == Outside()


def test_whom_the_strategy_leaves_out_waits_for_ever() -> None:
    """It stands, but may not lead."""
    snapshot = Snapshot(election="job", candidates=CANDIDATES, now=NOW)
    result = ElectionResult.of(CANDIDATES[:1])
    assert turn(snapshot, result, "c", free_for=99.0, grace=1.0) == Wait(math.inf)
