"""The strategies: whom each prefers, how ties go, and what it says about the losers."""

import functools
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from incumbent.strategy import (
    Candidate,
    ElectionResult,
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
    Snapshot,
    Sticky,
    Strategy,
    SuccessRate,
    Weighted,
    fingerprint,
)
from incumbent.strategy.versions import version
from pure.crowd import ago, leads, look, node, order, worker

# -- nobody, and one -------------------------------------------------------------------------

ALL: list[Strategy] = [
    Fifo(),
    Random(),
    Rendezvous(),
    Scored(IdleTime()),
    Priority(),
    LeastLoaded(),
    NewestVersion(),
    OldestVersion(),
    Sticky(Fifo(), margin=1),
]


@pytest.mark.parametrize("strategy", ALL, ids=repr)
def test_without_candidates_nobody_wins(strategy: Strategy) -> None:
    """An empty field is a result without winner, not an error."""
    assert strategy(look()) == ElectionResult.of([])


@pytest.mark.parametrize("strategy", ALL, ids=repr)
def test_a_single_candidate_wins(strategy: Strategy) -> None:
    """Whatever it is like, also without what the strategy looks for."""
    result = strategy(look(node("a")))
    assert result.winner == node("a")
    assert result.ranking == (node("a"),)
    assert result.reasons == {}


# -- by one thing ----------------------------------------------------------------------------


def test_fifo_prefers_who_has_been_there_longest() -> None:
    """A tie goes by node id; each loser hears by how much it came too late."""
    snapshot = look(node("c", 10), node("b", 10), node("a", 5), node("z", 20.5))
    result = Fifo()(snapshot)
    assert order(Fifo(), snapshot) == "z b c a"
    assert result.reasons["a"] == "registered 5 s ago, 'z' registered 20.5 s ago"
    assert order(Fifo(), look(node("b"), node("a"))) == "a b"
    tie = Fifo()(look(node("b", 10), node("a", 10)))
    assert tie.reasons["b"] == (
        "'a' registered 10 s ago as well, and registered at the same time,"
        " with an id that sorts first"
    )


def test_priority_prefers_the_highest_number() -> None:
    """A text is no number; who has none comes last, and the result says so."""
    snapshot = look(
        node("low", priority=1), node("none"), node("text", priority="9"), node("high", priority=5)
    )
    result = Priority()(snapshot)
    assert order(Priority(), snapshot) == "high low none text"
    assert result.scores["low"] == 1
    assert result.reasons["low"] == "has priority 1, 'high' has priority 5"
    assert result.reasons["none"] == "has no number 'priority', 'high' has priority 5"
    assert result.problems == dict.fromkeys(("none", "text"), "has no number 'priority'")
    assert order(Priority("weight"), look(node("a", weight=1), node("b", weight=2))) == "b a"


def test_least_loaded_prefers_the_lowest_number() -> None:
    """Also below 0; a tie goes to who came first, and says so."""
    snapshot = look(
        node("busy", load=0.9), node("young", 5, load=-1), node("old", 9, load=-1), node("none")
    )
    result = LeastLoaded()(snapshot)
    assert order(LeastLoaded(), snapshot) == "old young busy none"
    assert result.reasons["busy"] == "has load 0.9, 'old' has load -1"
    assert result.reasons["young"] == "'old' has load -1 as well, and registered 4 s earlier"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.9", "1.10"),
        ("1.0.0-alpha", "1.0.0"),
        ("1.0.0-alpha", "1.0.0-alpha.1"),
        ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
        ("1.0.0-beta.2", "1.0.0-beta.11"),
        ("1.0.0-rc.1", "1.0.0"),
        ("2.0rc1", "2.0"),
        ("2.0a2", "2.0b1"),
        ("2.0.dev3", "2.0a1"),
        ("2.0", "2.0.post1"),
        ("1.99+local", "V2"),
        (9, 10),
        (1.5, "1.6"),
    ],
)
def test_versions_are_compared_as_such(older: Any, newer: Any) -> None:
    """Semantic versions and Python's, with all that is written around them."""
    snapshot = look(node("old", 50, version=older), node("new", 5, version=newer), node("none", 90))
    assert order(NewestVersion(), snapshot) == "new old none"
    assert order(OldestVersion(), snapshot) == "old new none"


@pytest.mark.parametrize("same", [("1", "1.0.0"), ("v1.2", "1.2+build.7"), ("1.0-RC1", "1.0.rc1")])
def test_versions_that_differ_in_writing_only_are_equal(same: tuple[str, str]) -> None:
    """A tie, which goes to who came first."""
    young, old = same
    snapshot = look(node("young", 5, version=young), node("old", 9, version=old))
    for strategy in (NewestVersion(), OldestVersion()):
        assert order(strategy, snapshot) == "old young"
        assert len(set(strategy(snapshot).scores.values())) == 1


@pytest.mark.parametrize("text", ["", "main", "latest-2", "-1", ".1", "٣.1", None])
def test_what_is_no_version_is_told(text: str | None) -> None:
    """It comes last, by either strategy."""
    assert version(text) is None
    given = {} if text is None else {"version": text}
    result = NewestVersion()(look(node("a", 90, **given), node("b", version="0.1")))
    assert result.problems == {"a": "has no 'version' that is a version"}
    assert result.reasons["a"] == "has no 'version' that is a version, 'b' has version 0.1"


# -- by points -------------------------------------------------------------------------------


def test_the_highest_score_wins() -> None:
    """Losers hear both numbers; ties go by registration."""
    snapshot = look(
        worker("good", 5, results=(3, 1)),
        worker("best", 5, results=(9, 0)),
        worker("twin", 4, results=(1, 0)),
    )
    result = Scored(SuccessRate())(snapshot)
    assert [each.node_id for each in result.ranking] == ["best", "twin", "good"]
    assert result.scores == {"best": 100, "twin": 100, "good": 75}
    assert result.reasons["good"] == "scores 75.0, 'best' scores 100.0"
    assert result.reasons["twin"] == "'best' scores 100.0 as well, and registered 1 s earlier"


def test_the_most_idle_changes_after_a_result() -> None:
    """W31: who has just run is not the most idle any more."""
    before = look(worker("a", 100), worker("b", 50))
    after = look(worker("a", 100, started=2, succeeded=1), worker("b", 50))
    assert order(Scored(IdleTime()), before) == "a b"
    assert order(Scored(IdleTime()), after) == "b a"


def test_w37_a_broken_node_does_not_stay_the_winner() -> None:
    """It succeeded last of all, and has failed since."""
    snapshot = look(worker("broken", succeeded=5, failed=1), worker("sound", succeeded=50))
    assert order(Scored(RecentSuccess()), snapshot) == "sound broken"


def test_the_weighted_best_wins() -> None:
    """The example of the maintenance node: readiness, successes, idleness."""

    def readiness(candidate: Candidate, snapshot: Snapshot) -> float:
        return candidate.number("ready") or 0.0

    strategy = Scored(Weighted([(readiness, 0.5), (SuccessRate(), 0.35), (IdleTime(), 0.15)]))
    snapshot = look(
        Candidate(
            node_id="ready", registered_at=ago(10), successes=1, failures=1, metadata={"ready": 100}
        ),
        Candidate(node_id="idle", registered_at=ago(100), successes=9, metadata={"ready": 20}),
    )
    result = strategy(snapshot)
    assert result.scores == pytest.approx({"ready": 69, "idle": 60})
    assert result.winner is not None
    assert result.winner.node_id == "ready"


def test_a_scorer_that_fails_for_one_harms_nobody_else() -> None:
    """The candidate has 0 points, and the result says why."""

    def half(candidate: Candidate, snapshot: Snapshot) -> float:
        return float(candidate.metadata["points"]) / 2

    result = Scored(half)(look(node("odd", 90), node("fine", points=20)))
    assert result.winner == node("fine", points=20)
    assert result.problems == {"odd": "half raised KeyError('points'); it counts as 0"}
    assert result.reasons["odd"] == (
        "scores 0.0 (half raised KeyError('points'); it counts as 0), 'fine' scores 10.0"
    )


# -- by chance -------------------------------------------------------------------------------


def test_w38_chance_is_the_same_for_all_and_another_each_round() -> None:
    """One seed, one winner; over many rounds each node has its share."""
    crowd = [node(each) for each in "abcd"]
    wins = dict.fromkeys("abcd", 0)
    for seed in range(2000):
        (winner, *_) = Random()(look(*crowd, seed=seed)).ranking
        assert Random()(look(*reversed(crowd), seed=seed)).winner == winner
        wins[winner.node_id] += 1
    assert all(400 < count < 600 for count in wins.values()), wins


def test_chance_does_not_move_who_leads() -> None:
    """Nobody is better than the leader, so nobody takes over, round after round."""
    crowd = [node(each) for each in "abcd"]
    for seed in range(50):
        result = Random()(look(*crowd, seed=seed, leader=leads("c")))
        assert result.winner == node("c")
        assert result.reasons["a"].endswith("'c' leads")


def test_rendezvous_looks_at_names_only() -> None:
    """Whatever seed, leader and registration: one election, one winner."""
    one = look(node("a", 1), node("b", 2), node("c", 3))
    other = look(node("c", 1), node("a", 7), node("b", 9), seed=5, leader=leads("b"))
    assert order(Rendezvous(), one) == order(Rendezvous(), other)


# -- staying ---------------------------------------------------------------------------------


def test_sticky_keeps_the_leader_within_the_margin() -> None:
    """Exactly at the margin it stays, beyond it goes; the others hear why."""
    sticky = Sticky(LeastLoaded(), margin=2)
    snapshot = look(node("a", load=5), node("b", load=3), node("c", load=9), leader=leads("a"))
    result = sticky(snapshot)
    assert order(sticky, snapshot) == "a b c"
    assert result.reasons == dict.fromkeys(
        "bc", "'a' leads and stays, for nobody is better by more than 2"
    )
    assert result.scores == {"a": -5, "b": -3, "c": -9}
    beyond = look(node("a", load=5.1), node("b", load=3), leader=leads("a"))
    assert order(sticky, beyond) == "b a"
    assert sticky(beyond).reasons == {"a": "has load 5.1, 'b' has load 3"}


def test_sticky_keeps_the_leader_for_its_tenure() -> None:
    """By the server's time; after it only the margin counts."""
    sticky = Sticky(LeastLoaded(), margin=0, min_tenure=timedelta(minutes=1))
    crowd = [node("a", load=5), node("b", load=3)]
    young = look(*crowd, leader=leads("a", 59.5))
    assert order(sticky, young) == "a b"
    assert sticky(young).reasons == {"b": "'a' leads and stays for 60 s at least, 59.5 s so far"}
    assert order(sticky, look(*crowd, leader=leads("a", 60))) == "b a"


@pytest.mark.parametrize(
    "leader", [None, leads("gone"), leads("a", retained=True)], ids=["free", "stranger", "retained"]
)
def test_sticky_without_a_leader_that_stands_is_its_strategy(leader: Any) -> None:
    """A seat that is free, or held by no candidate, or kept after the work, binds nobody."""
    snapshot = look(node("a", load=5), node("b", load=4), leader=leader)
    assert Sticky(LeastLoaded(), margin=9)(snapshot) == LeastLoaded()(snapshot)


def test_sticky_on_a_tie_keeps_the_leader() -> None:
    """Without any margin: who came first is not better than who leads."""
    snapshot = look(
        node("old", 90, version="2"), node("new", 5, version="2.0"), leader=leads("new")
    )
    assert order(Sticky(NewestVersion(), margin=0), snapshot) == "new old"


def test_sticky_moves_from_who_lacks_what_others_have() -> None:
    """A leader without the number is worse than anybody with one, by any margin."""
    snapshot = look(node("a"), node("b", load=1e9), leader=leads("a"))
    assert order(Sticky(LeastLoaded(), margin=1e6), snapshot) == "b a"
    nobody = look(node("a", 1), node("b", 2), leader=leads("a"))
    assert order(Sticky(LeastLoaded(), margin=0), nobody) == "a b"


def youngest(snapshot: Snapshot) -> ElectionResult:
    """A strategy as users write them."""
    return ElectionResult.of(reversed(snapshot.candidates))


def without_a(snapshot: Snapshot) -> ElectionResult:
    """Another, that lets one node never lead."""
    return ElectionResult.of(each for each in snapshot.candidates if each.node_id != "a")


def test_a_function_is_a_strategy() -> None:
    """Also inside Sticky, which without scores keeps the leader, if it may lead at all."""
    crowd = [node("a", 9), node("b", 5)]
    assert order(youngest, look(*crowd)) == "b a"
    kept = Sticky(youngest, margin=1)(look(*crowd, leader=leads("a")))
    assert kept.winner == crowd[0]
    assert kept.reasons == {
        "b": "'a' leads and stays, for youngest has no scores to tell who is better"
    }
    assert order(Sticky(without_a, margin=1), look(*crowd, leader=leads("a"))) == "b"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"strategy": "fifo", "margin": 1}, "must be callable with a snapshot: 'fifo'"),
        ({"strategy": Fifo(), "margin": -1}, "margin must be finite and not negative, not -1"),
        ({"strategy": Fifo(), "margin": float("nan")}, "not nan"),
        ({"strategy": Fifo(), "margin": 1, "min_tenure": -1}, "min_tenure must be finite"),
        ({"strategy": Fifo(), "margin": 1, "min_tenure": "1m"}, "min_tenure must be seconds"),
    ],
    ids=["text", "negative", "nan", "tenure", "tenure text"],
)
def test_sticky_checks_its_arguments(arguments: dict[str, Any], said: str) -> None:
    """When it is made."""
    with pytest.raises((ValueError, TypeError), match=said):
        Sticky(**arguments)


def test_case_97_a_preferred_node_that_comes_and_goes_leads_once_at_most() -> None:
    """The best node leaves and returns every second: the one that stepped in keeps the seat."""
    sticky = Sticky(Priority(), margin=5, min_tenure=30)
    leader, since, terms = "best", 0, 1
    for second in range(1, 200):
        present = [node("plain", 1000, priority=1)]
        if second % 2 == 0:
            present.append(node("best", 0, priority=5))
        result = sticky(look(*present, leader=leads(leader, second - since)))
        assert result.winner is not None
        if result.winner.node_id != leader:
            leader, since, terms = result.winner.node_id, second, terms + 1
    assert (leader, since, terms) == ("plain", 1, 2)


# -- reprs and fingerprints ------------------------------------------------------------------


def test_stock_strategies_show_what_they_are() -> None:
    """A repr that can be read back."""
    assert repr(Sticky(LeastLoaded(), 1, timedelta(minutes=1))) == (
        "Sticky(strategy=LeastLoaded(key='load'), margin=1.0, min_tenure=60.0)"
    )
    for strategy in (*ALL, Scored(Weighted([(SuccessRate(5), 2)]))):
        assert eval(repr(strategy)) == strategy


def test_a_fingerprint_tells_strategies_apart() -> None:
    """Each kind and each setting has its own; the same again has the same."""

    def make() -> list[Strategy]:
        return [
            *ALL,
            Priority("weight"),
            LeastLoaded("weight"),
            Sticky(Fifo(), margin=2),
            Sticky(Fifo(), margin=1, min_tenure=1),
            Scored(SuccessRate()),
            Scored(SuccessRate(1)),
            Scored(Weighted([(SuccessRate(), 1)])),
            Scored(Weighted([(SuccessRate(), 1), (IdleTime(), 2)])),
            youngest,
            without_a,
            functools.partial(youngest),
            Other().elect,
            Priority("weight").__call__,
            Priority("height").__call__,
            Other(),
        ]

    prints = [fingerprint(each) for each in make()]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint(each) for each in make()]
    assert fingerprint(Sticky(Fifo(), 1)) == fingerprint(Sticky(Fifo(), 1.0, timedelta(0)))
    assert {len(each) for each in prints} == {12}


class Other:
    """A strategy with a method, and one that is called itself."""

    def __call__(self, snapshot: Snapshot) -> ElectionResult:
        return ElectionResult.of(snapshot.candidates)

    def elect(self, snapshot: Snapshot) -> ElectionResult:
        return ElectionResult.of(snapshot.candidates)


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """Nothing of it comes from addresses or from this process's hashes."""
    code = (
        "from incumbent.strategy import *\n"
        "def f(c, s): return 1\n"
        "print(fingerprint(Sticky(Scored(Weighted([(f, 2), (IdleTime(), 1)])), margin=5)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
