"""What holds of every strategy, whatever the field: looked for by hypothesis."""

from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incumbent.strategy import (
    Candidate,
    LeastLoaded,
    NewestVersion,
    OldestVersion,
    Priority,
    Rendezvous,
    Scored,
    Snapshot,
    Sticky,
    Strategy,
)
from incumbent.strategy.scorers import points
from pure.crowd import NOW, PLAIN, POOLED, STRATEGIES, leads, look, node, order, snapshots


def snapshot_of(snapshot: Snapshot, candidates: Any) -> Snapshot:
    """The same look at other candidates."""
    return Snapshot(
        election=snapshot.election,
        candidates=tuple(candidates),
        now=snapshot.now,
        leader=snapshot.leader,
        seed=snapshot.seed,
    )


@given(STRATEGIES, snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(
    strategy: Strategy, snapshot: Snapshot, chance: Any
) -> None:
    """Same input, same result, in any order of candidates, and again when asked again."""
    shuffled = list(snapshot.candidates)
    chance.shuffle(shuffled)
    result = strategy(snapshot)
    assert strategy(snapshot_of(snapshot, shuffled)) == result
    assert strategy(snapshot) == result


@given(STRATEGIES, snapshots())
def test_a_ranking_is_total(strategy: Strategy, snapshot: Snapshot) -> None:
    """Each candidate once; the first is the winner; each loser, and nobody else, has a reason."""
    result = strategy(snapshot)
    ranked = [each.node_id for each in result.ranking]
    everybody = [each.node_id for each in snapshot.candidates]
    assert sorted(ranked) == sorted(everybody)
    assert result.winner is (result.ranking[0] if ranked else None)
    assert set(result.reasons) == set(ranked[1:])
    assert all(result.reasons.values())
    assert set(result.scores) == set(everybody)
    assert set(result.problems) <= set(everybody)
    assert [result.rank_of(each) for each in ranked] == list(range(len(ranked)))


@given(PLAIN, snapshots())
def test_a_ranking_goes_by_score_then_registration_then_id(
    strategy: Strategy, snapshot: Snapshot
) -> None:
    """The common rule for ties, for all that are not sticky."""
    result = strategy(snapshot)
    keys = [
        (-result.scores[each.node_id], each.registered_at, each.node_id) for each in result.ranking
    ]
    assert keys == sorted(keys)


@given(
    st.sampled_from([Rendezvous(), Priority(), LeastLoaded(), NewestVersion(), OldestVersion()]),
    snapshots(at_least=2),
    st.data(),
)
def test_the_others_keep_their_order_when_one_goes(
    strategy: Strategy, snapshot: Snapshot, data: st.DataObject
) -> None:
    """So whoever falls out, the next in rank is the same for all who saw it and who did not."""
    gone = data.draw(st.sampled_from(snapshot.candidates))
    rest = [each for each in snapshot.candidates if each is not gone]
    before = [each.node_id for each in strategy(snapshot).ranking if each is not gone]
    assert [each.node_id for each in strategy(snapshot_of(snapshot, rest)).ranking] == before


@given(POOLED, snapshots(at_least=1))
def test_points_are_from_0_to_100(scorer: Any, snapshot: Snapshot) -> None:
    """Whatever a scorer gives or raises."""
    for each in snapshot.candidates:
        value = points(scorer, each, snapshot).value
        assert isfinite(value)
        assert 0 <= value <= 100
        assert Scored(scorer)(snapshot).scores[each.node_id] == value


# -- rendezvous ------------------------------------------------------------------------------

ELECTIONS = 10_000


def owners(nodes: list[str]) -> list[str]:
    """Who wins each of ten thousand elections."""
    candidates = tuple(node(each) for each in nodes)
    looks = (
        Snapshot(election=f"job-{number}", candidates=candidates, now=NOW)
        for number in range(ELECTIONS)
    )
    return [Rendezvous()(each).ranking[0].node_id for each in looks]


@pytest.mark.parametrize("count", [3, 8])
def test_rendezvous_spreads_evenly_and_moves_only_what_it_must(count: int) -> None:
    """Each node has its share; when one goes, its elections move, and nobody else's."""
    nodes = [f"node-{number}" for number in range(count)]
    before = owners(nodes)
    share = ELECTIONS / count
    assert all(0.9 * share < before.count(each) < 1.1 * share for each in nodes)
    after = owners(nodes[1:])
    moved = [one for one, other in zip(before, after, strict=True) if one != other]
    assert set(moved) == {"node-0"}
    assert len(moved) <= share * 1.1
    gained = [other for one, other in zip(before, after, strict=True) if one != other]
    fair = len(moved) / (count - 1)
    assert all(0.8 * fair < gained.count(each) < 1.2 * fair for each in nodes[1:])


# -- sticky ----------------------------------------------------------------------------------


def mean_of(values: dict[str, float]) -> Any:
    """A scorer that reads the points of a node from a table."""

    def given_points(candidate: Candidate, snapshot: Snapshot) -> float:
        return values[candidate.node_id]

    return given_points


@settings(max_examples=200)
@given(
    margin=st.floats(0.5, 20),
    base=st.floats(0, 70),
    rounds=st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=30),
)
def test_sticky_does_not_flap_within_the_margin(
    margin: float, base: float, rounds: list[list[float]]
) -> None:
    """Scores that jitter within the margin never change the leader, whoever it is."""
    nodes = "abcd"
    leader: str | None = None
    leaders = set()
    for jitter in rounds:
        scores = {each: base + margin * part for each, part in zip(nodes, jitter, strict=True)}
        strategy = Sticky(Scored(mean_of(scores)), margin=margin + 1e-9)
        snapshot = look(*map(node, nodes), leader=None if leader is None else leads(leader))
        winner = strategy(snapshot).winner
        assert winner is not None
        leader = winner.node_id
        leaders.add(leader)
    assert len(leaders) == 1


@given(PLAIN, snapshots(at_least=2), st.sampled_from([0, 1, 30]))
def test_sticky_once_moved_does_not_move_back(
    strategy: Strategy, snapshot: Snapshot, margin: float
) -> None:
    """With the same field, the one that took over stays: two nodes never pass it to and fro."""
    sticky = Sticky(strategy, margin=margin)
    first = sticky(snapshot).ranking[0]
    settled = Snapshot(
        election=snapshot.election,
        candidates=snapshot.candidates,
        now=snapshot.now,
        leader=leads(first.node_id),
        seed=snapshot.seed,
    )
    assert order(sticky, settled).split()[0] == first.node_id
