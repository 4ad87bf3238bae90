"""The scorers: what each gives, and the rule for what is no score."""

import inspect
from typing import Any

import pytest

from incumbent.strategy import (
    Candidate,
    IdleTime,
    RecentSuccess,
    Scored,
    Scorer,
    Snapshot,
    SuccessRate,
    Weighted,
)
from incumbent.strategy.scorers import points
from pure.crowd import look, node, worker


def scores(scorer: Scorer, *candidates: Candidate) -> dict[str, float]:
    """What each candidate gets among all of them."""
    snapshot = look(*candidates)
    return {each.node_id: scorer(each, snapshot) for each in candidates}


# -- the stock ones --------------------------------------------------------------------------


def test_idle_time_is_a_share_of_the_longest() -> None:
    """The most idle has 100; running or just done is near 0."""
    given = scores(
        IdleTime(), worker("new", 40), worker("ran", 90, succeeded=10), worker("now", 90, started=0)
    )
    assert given == {"new": 100, "ran": 25, "now": 0}


def test_idle_time_of_equals_is_equal() -> None:
    """A single candidate, and all that came at this moment, have 100."""
    assert scores(IdleTime(), worker("a", 7)) == {"a": 100}
    assert scores(IdleTime(), worker("a", 0), worker("b", 0)) == {"a": 100, "b": 100}


def test_success_rate_is_the_share_of_successes() -> None:
    """Who has no result has what `untried` says, by default nothing."""
    crowd = [worker("a", results=(3, 1)), worker("b", results=(0, 2)), worker("c")]
    assert scores(SuccessRate(), *crowd) == {"a": 75, "b": 0, "c": 0}
    assert scores(SuccessRate(untried=60), *crowd) == {"a": 75, "b": 0, "c": 60}


def test_rounding_makes_no_score_above_100() -> None:
    """Numbers of which 100 x / x is more than 100, and a mean of 100s likewise."""
    assert scores(IdleTime(), worker("a", 699.642631)) == {"a": 100}
    full = Weighted([(IdleTime(), 0.7), (lambda c, s: 100, 0.41), (IdleTime(), 0.7)])
    assert 0.7 * 100 + 0.41 * 100 + 0.7 * 100 > 100 * (0.7 + 0.41 + 0.7)
    assert points(full, worker("a"), look(worker("a"))) == (100, None)


@pytest.mark.parametrize("untried", [-1, 101, float("nan")])
def test_success_rate_takes_points_only(untried: float) -> None:
    """What a newcomer gets is a score as well."""
    with pytest.raises(ValueError, match="untried must be from 0 to 100"):
        SuccessRate(untried)


def test_recent_success_is_the_place_between_oldest_and_newest() -> None:
    """W37: a failure is no success, also as the last thing that was completed."""
    given = scores(
        RecentSuccess(),
        worker("oldest", succeeded=50),
        worker("between", succeeded=20),
        worker("newest", succeeded=10),
        worker("none"),
        worker("failed", failed=1),
        worker("broken", succeeded=5, failed=1),
    )
    assert given == {
        "oldest": 0, "between": 75, "newest": 100, "none": 0, "failed": 0, "broken": 0
    }  # fmt: skip


def test_recent_success_of_equals_is_equal() -> None:
    """A single one, and all that succeeded together, have 100."""
    assert scores(RecentSuccess(), worker("a", succeeded=9), worker("b")) == {"a": 100, "b": 0}
    both = scores(RecentSuccess(), worker("a", succeeded=9), worker("b", succeeded=9))
    assert both == {"a": 100, "b": 100}


def readiness(candidate: Candidate, snapshot: Snapshot) -> float:
    """A scorer as users write them."""
    return float(candidate.metadata["ready"])


def test_weighted_is_a_mean() -> None:
    """Weights need not add up to 1; the order of the parts does not matter."""
    one = Weighted([(readiness, 0.5), (SuccessRate(), 0.25)])
    other = Weighted([(SuccessRate(), 25), (readiness, 50)])
    crowd = [node("a", ready=30), node("b", ready=90)]
    assert scores(one, *crowd) == scores(other, *crowd) == {"a": 20, "b": 60}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "one scorer at least"),
        ([(IdleTime(), 0)], "above 0, not 0"),
        ([(IdleTime(), 1), (SuccessRate(), -1)], "above 0, not -1"),
        ([(IdleTime(), float("nan"))], "above 0, not nan"),
        ([(IdleTime(), float("inf"))], "above 0, not inf"),
        ([("idle", 1)], "must be callable"),
        ([(IdleTime, 1)], r"must be made first, not the class: IdleTime\("),
    ],
    ids=["empty", "zero", "negative", "nan", "inf", "text", "class"],
)
def test_weights_that_make_no_sense_are_refused(parts: Any, said: str) -> None:
    """When it is made, not when somebody is elected."""
    with pytest.raises((ValueError, TypeError), match=said):
        Weighted(parts)


async def later(candidate: Candidate, snapshot: Snapshot) -> float:
    """A scorer that would have to be awaited."""
    return 1.0


def test_a_coroutine_function_is_no_scorer() -> None:
    """It would give a coroutine, which is no number."""
    with pytest.raises(TypeError, match="not a coroutine function"):
        Scored(later)  # type: ignore[arg-type] # the mistake is the test


def test_stock_scorers_show_what_they_are() -> None:
    """A repr that can be read back."""
    weighted = Weighted([(SuccessRate(50), 0.35), (IdleTime(), 1)])
    assert repr(Scored(weighted)) == (
        "Scored(scorer=Weighted(parts=((SuccessRate(untried=50.0), 0.35), (IdleTime(), 1.0))))"
    )


# -- the rule --------------------------------------------------------------------------------


def fails(candidate: Candidate, snapshot: Snapshot) -> float:
    """A scorer that needs what is not there."""
    return float(candidate.metadata["absent"])


@pytest.mark.parametrize(
    ("scorer", "value", "problem"),
    [
        (lambda c, s: 40, 40, None),
        (lambda c, s: True, 1, None),
        (lambda c, s: -0.1, 0, "<lambda> gave -0.1; it counts as 0"),
        (lambda c, s: 140, 100, "<lambda> gave 140; it counts as 100"),
        (lambda c, s: float("inf"), 100, "<lambda> gave inf; it counts as 100"),
        (lambda c, s: float("nan"), 0, "<lambda> gave nan; it counts as 0"),
        (lambda c, s: None, 0, "<lambda> gave None, which is no number; it counts as 0"),
        (lambda c, s: "much", 0, "<lambda> gave 'much', which is no number; it counts as 0"),
        (fails, 0, "fails raised KeyError('absent'); it counts as 0"),
        (Weighted([(fails, 1), (lambda c, s: 60, 1)]), 30, "fails raised KeyError('absent');"),
        (Weighted([(fails, 1), (lambda c, s: 200, 3)]), 75, "it counts as 0; <lambda> gave 200"),
    ],
    ids=["fine", "bool", "below", "above", "inf", "nan", "none", "text", "raises", "part", "parts"],
)
def test_what_is_no_score_counts_and_is_told(
    scorer: Any, value: float, problem: str | None
) -> None:
    """Cut to 0 and 100, and 0 for what is no number; a part of a mean goes by the same rule."""
    given = points(scorer, node("a"), look(node("a")))
    assert given.value == value
    if problem is None:
        assert given.problem is None
    else:
        assert problem in str(given.problem)


def test_what_a_scorer_raised_is_told_in_short() -> None:
    """A message of a megabyte does not end up in every result."""

    def loud(candidate: Candidate, snapshot: Snapshot) -> float:
        raise ValueError("x" * 100_000)

    problem = points(loud, node("a"), look(node("a"))).problem
    assert problem is not None
    assert len(problem) < 300


class ShyError(ValueError):
    """An error, or a number, that cannot be looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")

    def __float__(self) -> float:
        raise KeyError("nor count me")


class Nameless:
    """A scorer that has no name either."""

    def __init__(self, gives: Any) -> None:
        self._gives = gives

    @property
    def __name__(self) -> str:
        raise RuntimeError("nobody")

    def __call__(self, candidate: Candidate, snapshot: Snapshot) -> Any:
        """What it gives, or raises."""
        if self._gives is None:
            raise ShyError
        return self._gives


async def pending() -> float:
    """What a scorer must not give."""
    return 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "Nameless raised a ShyError; it counts as 0"),
        (ShyError(), "Nameless gave a ShyError, which is no number; it counts as 0"),
    ],
)
def test_what_cannot_be_shown_stops_no_election(given: Any, said: str) -> None:
    """Whatever of theirs raises: the error's words, the value, the scorer's name."""
    assert points(Nameless(given), node("a"), look(node("a"))) == (0.0, said)


def test_a_coroutine_is_no_score() -> None:
    """It is closed, so that Python does not warn that it was never awaited."""
    made = pending()
    value, problem = points(lambda c, s: made, node("a"), look(node("a")))  # type: ignore[arg-type]
    assert (value, "which is no number" in str(problem)) == (0.0, True)
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED


def test_who_interrupts_a_scorer_is_obeyed() -> None:
    """Only errors are a matter of scores."""

    def interrupted(candidate: Candidate, snapshot: Snapshot) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        points(interrupted, node("a"), look(node("a")))
