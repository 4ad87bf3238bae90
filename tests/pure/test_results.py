"""incumbent.results: frozen values that read well in a `match`."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from incumbent.results import (
    ActionFailed,
    Elected,
    LeaderInfo,
    LeadershipLost,
    LeaderState,
    LossReason,
    Outcome,
    Skipped,
    SkipReason,
)

INFO = LeaderInfo(
    leader_id="web-1", seat=2, fence=7, since=datetime(2026, 1, 2, tzinfo=UTC), remaining=3.5
)
OUTCOMES: list[Outcome[str]] = [
    Elected("value"),
    Skipped("held", INFO),
    ActionFailed(ValueError("no")),
    LeadershipLost("taken"),
]
VALUES = [*OUTCOMES, INFO, LeaderState("job", (INFO,), 4)]


def told(outcome: Outcome[str]) -> str:
    """What a caller sees who takes an outcome apart as the design shows it."""
    match outcome:
        case Elected(value):
            return f"elected {value}"
        case Skipped(reason, holder):
            return f"skipped {reason} {holder and holder.leader_id}"
        case ActionFailed(error):
            return f"failed {error}"
        case LeadershipLost(reason):
            return f"lost {reason}"


def test_each_outcome_matches_its_own_pattern() -> None:
    """The first fields are positional, and no outcome is taken for another."""
    assert [told(outcome) for outcome in OUTCOMES] == [
        "elected value",
        "skipped held web-1",
        "failed no",
        "lost taken",
    ]


@pytest.mark.parametrize(
    ("kind", "positional"),
    [
        (Elected, ("value",)),
        (Skipped, ("reason", "holder")),
        (ActionFailed, ("error",)),
        (LeadershipLost, ("reason",)),
        (LeaderState, ("name", "leaders", "waiting")),
        (LeaderInfo, ()),
    ],
)
def test_what_is_positional_is_fixed(kind: type, positional: tuple[str, ...]) -> None:
    """A later field cannot change what an existing pattern binds."""
    assert kind.__match_args__ == positional  # type: ignore[attr-defined] # dataclasses have it


def test_an_outcome_can_be_matched_by_its_named_fields() -> None:
    """What is not positional is there by name."""
    match LeadershipLost("stalled", value=3):
        case LeadershipLost("stalled", value=3, error=None):
            pass
        case lost:
            pytest.fail(repr(lost))
    match Elected(None, leader_id="a", seat=1, fence=2):
        case Elected(None, leader_id="a", seat=1, fence=2):
            pass
        case elected:
            pytest.fail(repr(elected))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_results_are_frozen(value: Any) -> None:
    """No field can be changed, none be added."""
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, 1)
    with pytest.raises((AttributeError, TypeError)):  # which of them differs between Pythons
        value.surprise = 1
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_results_are_equal_by_value(value: Any) -> None:
    """An equal copy is the same key; another field is another value."""
    copy = replace(value)
    assert copy == value
    assert hash(copy) == hash(value)
    assert copy is not value


def test_results_of_different_content_differ() -> None:
    """Each field counts for equality, and so does the kind."""
    assert Elected(1) != Elected(2)
    assert Elected(1) != Elected(1, seat=1)
    assert Skipped("held") != Skipped("held", INFO)
    assert LeadershipLost("taken") != LeadershipLost("expired")
    assert LeadershipLost("taken", value=1) != LeadershipLost("taken")
    assert replace(INFO, retained=True) != INFO
    assert LeaderState("job") != LeaderState("job", waiting=1)
    error = ValueError("no")
    assert ActionFailed(error) == ActionFailed(error)
    assert ActionFailed(error) != ActionFailed(ValueError("no"))


@pytest.mark.parametrize(
    "value",
    [value for value in VALUES if not isinstance(value, ActionFailed)],
    ids=lambda value: type(value).__name__,
)
def test_results_can_be_pickled(value: Any) -> None:
    """An outcome can come back from a worker process."""
    assert pickle.loads(pickle.dumps(value)) == value


def test_a_failure_can_be_pickled_with_its_error() -> None:
    """Exceptions are equal by identity only, so their content is compared."""
    failed = pickle.loads(pickle.dumps(ActionFailed(ValueError("no"))))
    assert repr(failed) == "ActionFailed(error=ValueError('no'))"


def test_the_reprs_can_be_read() -> None:
    """A person sees names and values."""
    assert repr(Elected(5, leader_id="a")) == "Elected(value=5, leader_id='a', seat=0, fence=0)"
    lost = "LeadershipLost(reason='taken', value=None, error=None, detail='')"
    assert repr(LeadershipLost("taken")) == lost
    assert repr(Skipped("held")) == "Skipped(reason='held', holder=None)"


def test_an_empty_state_has_no_leaders() -> None:
    """Nobody leads, nobody waits: the defaults."""
    assert LeaderState("job") == LeaderState("job", (), 0)
    assert INFO.retained is False


def test_the_reasons_are_those_of_the_design() -> None:
    """Callers compare with these words, so none may vanish or be renamed."""
    assert get_args(LossReason) == (
        "taken",
        "expired",
        "unreachable",
        "stalled",
        "max_hold_time",
        "stepped_down",
    )
    assert "held" in get_args(SkipReason)
