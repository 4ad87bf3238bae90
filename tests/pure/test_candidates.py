"""The values of the strategy room: metadata, candidates, snapshots and results."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, asdict
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent.strategy import Candidate, ElectionResult, Metadata, MetaValue, Snapshot
from incumbent.strategy.metadata import MAX_BYTES, MAX_KEY_BYTES, MAX_TEXT_BYTES
from pure.crowd import NOW, ago, leads, look, node, worker

# -- metadata --------------------------------------------------------------------------------


def test_metadata_is_a_mapping_that_nobody_can_change() -> None:
    """Equal to a dict of the same content, and apart from the one it was made of."""
    given_: dict[str, MetaValue] = {"load": 0.7, "version": "1.2"}
    metadata = Metadata(given_)
    given_["load"] = 9
    assert metadata == {"load": 0.7, "version": "1.2"}
    assert (len(metadata), list(metadata), metadata["load"]) == (2, ["load", "version"], 0.7)
    assert hash(metadata) == hash(Metadata({"version": "1.2", "load": 0.7}))
    assert repr(metadata) == "Metadata({'load': 0.7, 'version': '1.2'})"
    with pytest.raises(TypeError):
        metadata["load"] = 1  # type: ignore[index] # the mistake is the test


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({3: "x"}, "a key of metadata must be a str, not int"),
        ({"": "x"}, "a key of metadata must have 1 to 64 bytes"),
        ({"k" * (MAX_KEY_BYTES + 1): "x"}, "a key of metadata must have 1 to 64 bytes"),
        ({"ü" * (MAX_KEY_BYTES // 2 + 1): "x"}, "a key of metadata must have 1 to 64 bytes"),
        ({"k": "x" * (MAX_TEXT_BYTES + 1)}, "metadata 'k' must have 255 bytes at most"),
        ({"k": "\ud800"}, "UTF-8 can carry"),
        ({"k": float("nan")}, "metadata 'k' must be a finite number"),
        ({"k": float("inf")}, "metadata 'k' must be a finite number"),
        ({"k": None}, "metadata 'k' must be a str or a number, not NoneType"),
        ({"k": [1]}, "metadata 'k' must be a str or a number, not list"),
        ({f"key-{n}": "x" * 200 for n in range(6)}, f"metadata must have {MAX_BYTES} bytes"),
        ({"k": 10**2000}, "metadata 'k' must be a finite number"),
    ],
    ids=[
        *("key is no text", "no key", "long key", "long key in bytes", "long text", "no UTF-8"),
        *("nan", "inf", "none", "list", "all too long", "huge"),
    ],
)
def test_metadata_that_is_unfit_is_refused(values: Any, said: str) -> None:
    """The message names the rule and what broke it; nothing is cut short silently."""
    with pytest.raises((TypeError, ValueError), match=said):
        Metadata(values)


def test_metadata_at_its_limits_is_fine() -> None:
    """A limit is the last that is allowed."""
    assert Metadata({"k" * MAX_KEY_BYTES: "x" * MAX_TEXT_BYTES})
    room = MAX_BYTES - len('{"a":"","b":"","c":"","d":"","e":""}') - 3 * MAX_TEXT_BYTES
    full = dict.fromkeys("abc", "x" * MAX_TEXT_BYTES) | {"d": "y" * (room - 100), "e": "z" * 100}
    assert len(Metadata(full).encoded) == MAX_BYTES
    with pytest.raises(ValueError, match="not 1025"):
        Metadata(full | {"e": "z" * 101})


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.text(st.characters(codec="utf-8"), max_size=20)
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans(),
        max_size=6,
    )
)
def test_metadata_comes_back_as_it_was_sent(values: dict[str, Any]) -> None:
    """Separators, quotes, braces, control characters and digits all survive their encoding."""
    encoded = Metadata(values).encoded
    assert b"\n" not in encoded
    assert Metadata.read(json.loads(encoded)) == values


# -- candidates ------------------------------------------------------------------------------


def test_a_candidate_is_a_value() -> None:
    """Frozen, equal by content, hashable, copied and pickled whole, shown in full."""
    one = node("a", 5, load=0.5)
    assert one == node("a", 5, load=0.5)
    assert hash(one) == hash(node("a", 5, load=0.5))
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert asdict(one)["metadata"] == {"load": 0.5}
    assert "node_id='a'" in repr(one)
    assert "'load': 0.5" in repr(one)
    with pytest.raises(FrozenInstanceError):
        one.successes = 3  # type: ignore[misc] # the mistake is the test


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"node_id": ""}, "node_id must not be empty"),
        ({"registered_at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - the mistake
        ({"successes": -1}, "-1 successes, 0 failures"),
        ({"failures": -2}, "0 successes, -2 failures"),
        ({"metadata": {"k": [1]}}, "a str or a number"),
    ],
)
def test_a_candidate_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    """What would break a strategy later is told when it is made."""
    with pytest.raises((ValueError, TypeError), match=said):
        Candidate(**{"node_id": "a", "registered_at": NOW, **changes})


@pytest.mark.parametrize(
    ("candidate", "idle"),
    [
        (worker("a", 100), 100),
        (worker("a", 100, started=30), 30),
        (worker("a", 100, started=30, succeeded=20), 20),
        (worker("a", 100, started=30, succeeded=50, failed=10), 10),
        (worker("a", -5), 0),
    ],
    ids=["never ran", "running", "succeeded", "failed last", "from the future"],
)
def test_idle_counts_from_the_last_thing_it_did(candidate: Candidate, idle: float) -> None:
    """Starting and ending both end idleness; who never ran has been idle since it is there."""
    assert candidate.idle(NOW) == idle


@pytest.mark.parametrize(
    ("candidate", "proven"),
    [
        (worker("a"), None),
        (worker("a", failed=5), None),
        (worker("a", succeeded=5), ago(5)),
        (worker("a", succeeded=5, failed=9), ago(5)),
        (worker("a", succeeded=9, failed=5), None),
    ],
    ids=["no result", "failed only", "succeeded only", "failed before", "failed since"],
)
def test_a_success_counts_until_something_fails(
    candidate: Candidate, proven: datetime | None
) -> None:
    """W37: who succeeded once and fails ever since is not taken for healthy."""
    assert candidate.proven_at == proven


def test_numbers_are_read_from_metadata() -> None:
    """A text is no number, also if it looks like one; true is 1."""
    candidate = node("a", 5, load=3, version="2", ready=True)
    assert candidate.number("load") == 3.0
    assert candidate.number("ready") == 1.0
    assert candidate.number("version") is None
    assert candidate.number("none") is None


# -- snapshots -------------------------------------------------------------------------------


def test_a_snapshot_has_its_candidates_by_seniority() -> None:
    """In whatever order they come, it is the same snapshot."""
    old, older, twin = node("c", 10), node("b", 20), node("a", 10)
    snapshot = look(old, older, twin)
    assert [each.node_id for each in snapshot.candidates] == ["b", "a", "c"]
    assert snapshot == look(twin, old, older)
    assert snapshot.candidate("a") is twin
    assert snapshot.candidate("z") is None


def test_a_snapshot_knows_its_incumbent() -> None:
    """The candidate that leads: not a stranger, and not one whose work is over."""
    assert look(node("a"), leader=leads("a")).incumbent == node("a")
    assert look(node("a"), leader=leads("b")).incumbent is None
    assert look(node("a"), leader=leads("a", retained=True)).incumbent is None
    assert look(node("a")).incumbent is None


def test_a_snapshot_tells_who_goes_by_which_strategy() -> None:
    """So that nodes which disagree are noticed; who does not tell is left out."""
    one, two, three, four = (
        Candidate(node_id=each, registered_at=NOW, strategy=strategy)
        for each, strategy in zip("abcd", ["11", "22", "11", ""], strict=True)
    )
    assert look(one, two, three, four).strategies == {"11": ("a", "c"), "22": ("b",)}


def test_a_snapshot_that_cannot_be_is_refused() -> None:
    """One node twice, or a time of nowhere."""
    with pytest.raises(ValueError, match="two candidates of 'job' have the same node id"):
        look(node("a"), node("a", 5))
    with pytest.raises(ValueError, match="time zone"):
        Snapshot(election="job", candidates=(), now=datetime(2026, 1, 1))  # noqa: DTZ001


# -- results ---------------------------------------------------------------------------------


def test_a_result_of_ones_own_needs_an_order_only() -> None:
    """A function that orders candidates is a strategy; who is left out has no rank."""
    a, b = node("a"), node("b")
    result = ElectionResult.of([b, a])
    assert result.winner is b
    assert [result.rank_of(each) for each in "bac"] == [0, 1, None]
    assert (result.scores, result.reasons, result.problems) == ({}, {}, {})
    assert ElectionResult.of([]).winner is None


def test_a_result_has_its_winner_first() -> None:
    """A winner that is not the first of the ranking is a mistake."""
    a, b = node("a"), node("b")
    for winner, ranking in ((a, (b, a)), (a, ()), (None, (a,))):
        with pytest.raises(ValueError, match="the first of ranking"):
            ElectionResult(winner, ranking=ranking)
