"""incumbent.events: frozen, self-contained, without a token."""

import inspect
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from typing import Any, get_args, get_origin

import pytest

from incumbent import events
from incumbent.events import Event, Hook, TermEvent, TermNames
from incumbent.results import LeaderInfo

ALL = [getattr(events, name) for name in events.__all__]
KINDS: list[type[Any]] = [
    value for value in ALL if inspect.isclass(value) and issubclass(value, Event)
]
SAMPLES: dict[str, Any] = {
    "election": "job",
    "leader_id": "web-1",
    "seat": 0,
    "fence": 7,
    "remaining": 1.5,
    "error": ValueError("no"),
    "reason": "taken",
    "ending": "released",
    "duration": 2.5,
    "retry_in": 0.1,
    "repeated": False,
    "detail": "refused: OOM",
    "nodes": ("a", "b"),
    "deed": "failed",
    "ahead": 60.0,
    "problems": (("a", "has no number 'load'"),),
    "times": 3,
    "seconds": 40.0,
    "findings": ("persistence: none",),
    "holder": LeaderInfo(
        leader_id="b", seat=0, fence=6, since=datetime(2026, 1, 2, tzinfo=UTC), remaining=3
    ),
}


OF_NO_TERM = {
    "OutageEnded",
    "Event",
    "AttemptSkipped",
    "AttemptDelayed",
    "DurabilityWeakened",
    "HeartbeatDelayed",
    "CandidateExpired",
    "WithdrawalFailed",
    "CandidateSetBack",
    "NodeIdShared",
    "StrategyFailed",
    "ScoresDoubtful",
    "NotStanding",
    "PeriodAhead",
    "StrategiesDiffer",
    "RecordsUnreadable",
    "ResultLost",
}


def sample(kind: type[Any]) -> Any:
    """An event of that kind."""
    return kind(**{field.name: SAMPLES[field.name] for field in fields(kind)})


def test_there_is_an_event_for_each_thing_that_happens() -> None:
    """Hooks choose by these names, so none may vanish or be renamed."""
    assert {kind.__name__ for kind in KINDS} >= {
        "TermStarted",
        "TermRenewed",
        "RenewalDelayed",
        "TermLost",
        "ReleaseFailed",
        "TermEnded",
        "ActionRaised",
        "AttemptSkipped",
        "AttemptDelayed",
    } | OF_NO_TERM


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_is_a_frozen_value(kind: type[Any]) -> None:
    """Several hooks see the same event, so none may change it."""
    event = sample(kind)
    assert event == sample(kind)
    assert hash(event) == hash(sample(kind))
    for field in fields(kind):
        with pytest.raises(FrozenInstanceError):
            setattr(event, field.name, 1)
    with pytest.raises((AttributeError, TypeError)):  # which of them differs between Pythons
        event.surprise = 1
    assert not hasattr(event, "__dict__")


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_is_made_by_name(kind: type[Any]) -> None:
    """Fields can be added later without moving others."""
    assert kind.__match_args__ == ()


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_says_who_and_where_and_no_token(kind: type[Any]) -> None:
    """Election and leader are in every event; a field for a token is in none."""
    names = {field.name for field in fields(kind)}
    assert {"election", "leader_id"} <= names
    assert not any("token" in name for name in names)


def test_an_event_of_a_term_says_which() -> None:
    """Seat and fence tell the terms of one election apart, and `TermNames` fills just these."""
    assert list(TermNames.__annotations__) == [field.name for field in fields(TermEvent)]
    for kind in KINDS:
        assert (kind.__name__ in OF_NO_TERM) != issubclass(kind, TermEvent)


def test_a_term_ends_in_one_of_four_ways() -> None:
    """Hooks count by them."""
    assert get_origin(events.Ending) is not None
    assert get_args(events.Ending) == ("released", "gone", "lost", "unknown")


def test_a_function_is_a_hook() -> None:
    """Anything that takes one event fits, without a base class."""
    heard: list[Event] = []
    hook: Hook = heard.append
    hook(sample(events.TermStarted))
    assert heard == [sample(events.TermStarted)]
