"""incumbent.errors: the tree as drawn, what the errors say, and that they can travel."""

import inspect
import pickle
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

import pytest

from incumbent import errors
from incumbent.errors import (
    IncumbentError,
    LeadershipLostError,
    NotDurableError,
    NotElectedError,
)
from incumbent.results import LOSS_REASONS, SKIP_REASONS, LeaderInfo, LossReason, SkipReason

HOLDER = LeaderInfo(
    leader_id="web-1", seat=0, fence=7, since=datetime(2026, 1, 2, tzinfo=UTC), remaining=3.5
)
ERRORS = [
    pytest.param(IncumbentError("broken"), id="IncumbentError"),
    pytest.param(NotElectedError("job"), id="NotElectedError"),
    pytest.param(NotElectedError("job", HOLDER), id="NotElectedError-holder"),
    pytest.param(LeadershipLostError("job", "taken"), id="LeadershipLostError"),
    pytest.param(LeadershipLostError("job", "stalled", "why"), id="LeadershipLostError-detail"),
    pytest.param(NotDurableError("job", 2, 1), id="NotDurableError"),
]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Every error class is drawn once, and all have the one root, an Exception."""
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    drawn = re.findall(r"^\s*[├└─│ ]*\b(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert drawn == [value.__name__ for value in classes]
    for value in classes:
        assert issubclass(value, IncumbentError)
        assert IncumbentError.__bases__ == (Exception,)


def test_no_error_hides_among_those_of_python() -> None:
    """`except ValueError`, `OSError` or `TimeoutError` around an action catches none of ours."""
    for error in (
        NotElectedError("job"),
        LeadershipLostError("job", "taken"),
        NotDurableError("job", 1, 0),
    ):
        assert not isinstance(error, (ValueError, TypeError, OSError, RuntimeError))


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_can_be_pickled(error: IncumbentError) -> None:
    """From a worker process it comes back with its fields, its message and its notes."""
    error.add_note("seen in worker 3")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert copy.args == error.args


def test_not_elected_names_the_election_and_who_has_the_seat() -> None:
    """The message is enough to know whom to ask."""
    assert str(NotElectedError("nightly report")) == (
        "not elected in 'nightly report': held (every seat is taken, or due to others in line)"
    )
    assert str(NotElectedError("job", HOLDER)) == "not elected in 'job': web-1 has the seat"
    assert NotElectedError("job", HOLDER).holder is HOLDER


def test_whoever_has_the_seat_cannot_act_on_a_terminal() -> None:
    """Anybody who can write to the server may have chosen the id."""
    holder = replace(HOLDER, leader_id="a\x1b[2J\nb\u202e")
    assert str(NotElectedError("job", holder)).endswith(r": a\x1b[2J\nb\u202e has the seat")


def test_every_reason_is_told_in_words() -> None:
    """None is left out, and each is said with its word, for those who look it up."""
    assert set(LOSS_REASONS) == set(get_args(LossReason))
    assert set(SKIP_REASONS) == set(get_args(SkipReason))
    for loss, words in LOSS_REASONS.items():
        assert str(LeadershipLostError("job", loss)).endswith(f" lost: {loss} ({words})")
    for skip, words in SKIP_REASONS.items():
        assert str(NotElectedError("job", None, skip)) == f"not elected in 'job': {skip} ({words})"


def test_lost_names_the_election_and_the_reason() -> None:
    """The reason is a field as well, for those who decide by it."""
    error = LeadershipLostError("job", "unreachable", "2 s too late")
    assert str(error) == "leadership of 'job' was lost: unreachable (2 s too late)"
    assert (error.election, error.reason, error.detail) == ("job", "unreachable", "2 s too late")


def test_not_durable_names_the_election_and_how_many_answered() -> None:
    """Both numbers are fields as well, for those who count."""
    error = NotDurableError("job", 2, 1)
    said = "a lease of 'job' is not durable: 1 of 2 replicas acknowledged it in time"
    assert str(error) == said
    assert (error.election, error.replicas, error.acknowledged) == ("job", 2, 1)


def test_a_name_cannot_forge_a_line_of_a_log() -> None:
    """Names are shown quoted, with control characters escaped, wherever they came from."""
    for error in (
        NotElectedError("a\nb"),
        LeadershipLostError("a\nb", "taken"),
        NotDurableError("a\nb", 1, 0),
    ):
        assert "\n" not in str(error)


def test_no_error_has_room_for_a_token() -> None:
    """No constructor takes one, and what is shown of a holder has none."""
    for kind in (NotElectedError, LeadershipLostError, NotDurableError):
        assert "token" not in str(inspect.signature(kind))
    assert "token" not in repr(NotElectedError("job", HOLDER))
