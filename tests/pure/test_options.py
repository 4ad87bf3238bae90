"""incumbent.options: every rule of `LeaderOptions`, each with the message that it is told by."""

import copy
import inspect
import math
import pickle
import sys
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incumbent.durations import seconds
from incumbent.options import (
    DRIFT_SECONDS,
    DRIFT_SHARE,
    Durability,
    LeaderOptions,
    OptionChanges,
)

DURATIONS = (
    "lease_time",
    "wait_time",
    "min_hold_time",
    "max_hold_time",
    "stop_grace",
    "request_timeout",
)
MAY_BE_NONE = ("wait_time", "max_hold_time", "stop_grace")
FLAGS = ("auto_extend", "restart")


def options(**values: Any) -> LeaderOptions:
    """Options from values that a type checker would refuse, too."""
    return LeaderOptions(**values)


# -- defaults and units ----------------------------------------------------------------------


def test_the_defaults_are_those_of_the_design() -> None:
    """A caller who names nothing gets a lease of 30 s, one try, renewal and cancellation."""
    default = LeaderOptions()
    assert {field.name: getattr(default, field.name) for field in fields(default)} == {
        "lease_time": 30.0,
        "wait_time": 0.0,
        "min_hold_time": 0.0,
        "max_hold_time": None,
        "auto_extend": True,
        "stop_grace": 5.0,
        "on_loss": "cancel",
        "once_per": None,
        "request_timeout": 5.0,
        "restart": False,
        "durability": None,
    }


@pytest.mark.parametrize("field", DURATIONS)
def test_a_duration_is_seconds_or_a_timedelta(field: str) -> None:
    """An int, a float and a timedelta of one length are the same option, kept as a float."""
    by_int, by_float, by_delta = (
        options(**{field: value}) for value in (4, 4.0, timedelta(seconds=4))
    )
    assert by_int == by_float == by_delta
    assert type(getattr(by_int, field)) is type(getattr(by_delta, field)) is float
    assert getattr(by_int, field) == 4.0


def test_none_is_for_ever_or_the_default() -> None:
    """None waits for ever, holds without limit, and takes a sixth of the lease as grace."""
    made = LeaderOptions(lease_time=12, wait_time=None, max_hold_time=None, stop_grace=None)
    assert (made.wait_time, made.max_hold_time, made.stop_grace) == (None, None, 2.0)


def test_the_timers_of_renewal_follow_from_the_lease() -> None:
    """A renewal is due after a third; one attempt has a sixth, or `request_timeout` if shorter."""
    assert LeaderOptions(lease_time=9).renewal_period == 3.0
    assert LeaderOptions(lease_time=9).renewal_budget == 1.5
    assert LeaderOptions(lease_time=9, request_timeout=0.4).renewal_budget == 0.4
    assert LeaderOptions(lease_time=600).renewal_budget == 5.0


# -- field cases -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, 0.25, timedelta(milliseconds=1500)])
def test_case_39_a_lease_of_parts_of_a_second_is_kept_exactly(value: float | timedelta) -> None:
    """Sub-second and float leases pass, and nothing rounds them."""
    assert LeaderOptions(lease_time=value).lease_time == seconds("", value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0004, "0.0004 s"),
        (timedelta(microseconds=1), "0.000001 s"),
        (0, "0 s"),
        (0.249, "0.249 s"),
    ],
    ids=["0.4ms", "1us", "zero", "249ms"],
)
def test_case_39_a_lease_that_is_too_short_is_refused(value: float | timedelta, shown: str) -> None:
    """What the server would round to nothing never gets that far; rule and value are named."""
    with pytest.raises(
        ValueError, match=r"^lease_time must be from 0\.25 s to 2592000 s \(30d\), not "
    ) as said:
        LeaderOptions(lease_time=value)
    assert str(said.value).endswith(f"not {shown}")


def test_a_lease_that_is_too_long_is_refused() -> None:
    """30 days are the most, and just allowed."""
    assert LeaderOptions(lease_time=timedelta(days=30)).lease_time == 2_592_000.0
    with pytest.raises(ValueError, match=r"^lease_time must be from .* to 2592000 s \(30d\), not"):
        LeaderOptions(lease_time=timedelta(days=30, seconds=9))


@pytest.mark.parametrize("wait", [0, 60, None, timedelta(days=365)])
def test_case_40_waiting_does_not_depend_on_the_lease(wait: float | timedelta | None) -> None:
    """Any time to wait goes with a lease of 5 s, and changes no other option."""
    made = LeaderOptions(lease_time=5, wait_time=wait)
    assert made.changed(wait_time=0) == LeaderOptions(lease_time=5)


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        pytest.param(
            {"lease_time": 10, "stop_grace": 3.3},
            (
                "two attempts 6.666667 s",
                "stop_grace 3.3 s",
                "allowance 0.102 s",
                "= 10.068667 s",
                "lease_time is 10 s",
            ),
            id="grace beside renewals",
        ),
        pytest.param(
            {"lease_time": 10, "stop_grace": 9.9, "auto_extend": False},
            ("two attempts 0 s", "stop_grace 9.9 s", "= 10.002 s", "lease_time is 10 s"),
            id="grace alone",
        ),
        pytest.param(
            {"lease_time": 10, "stop_grace": timedelta(minutes=500)},
            ("stop_grace 30000 s (8h20m)", "lease_time is 10 s"),
            id="wrong unit",
        ),
    ],
)
def test_cases_10_and_42_timers_that_do_not_fit_are_refused(
    values: dict[str, Any], numbers: tuple[str, ...]
) -> None:
    """Options that leave no room for two attempts are a ValueError that names the numbers."""
    with pytest.raises(ValueError, match=r"^the timers must fit into lease_time: ") as said:
        options(**values)
    for number in numbers:
        assert number in str(said.value)


@pytest.mark.parametrize("auto_extend", [True, False])
def test_the_timers_may_fill_the_lease_all_but_wholly(auto_extend: bool) -> None:
    """The sum is compared strictly: at the limit it is refused, a little below it passes."""
    # 10 - (3.333 + 2 * 0.5 if renewing) - 0.102
    room = 10 - 0.102 - (10 / 3 + 2 * 0.5 if auto_extend else 0)
    common = {"lease_time": 10, "request_timeout": 0.5, "auto_extend": auto_extend}
    assert options(**common, stop_grace=room - 1e-6).stop_grace == room - 1e-6
    with pytest.raises(ValueError, match="must fit"):
        options(**common, stop_grace=room + 1e-9)


@pytest.mark.parametrize("lease", [0.25, 0.3, 1, 30, 86_400, 2_592_000])
def test_the_defaults_fit_any_lease(lease: float) -> None:
    """Who sets `lease_time` alone is never refused for the timers that follow from it."""
    LeaderOptions(lease_time=lease)


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("field", DURATIONS)
@pytest.mark.parametrize(
    "value",
    [True, False, "5", b"5", Decimal(5), 5j, [5], object()],
    ids=["True", "False", "str", "bytes", "Decimal", "complex", "list", "object"],
)
def test_a_duration_of_another_type_is_refused(field: str, value: object) -> None:
    """A bool is no number of seconds, and nothing is parsed; field and type are named."""
    with pytest.raises(TypeError) as said:
        options(**{field: value})
    assert str(said.value) == (
        f"{field} must be seconds (int or float) or a timedelta, not {type(value).__name__}"
    )


@pytest.mark.parametrize("field", sorted(set(DURATIONS) - set(MAY_BE_NONE)))
def test_none_is_refused_where_it_means_nothing(field: str) -> None:
    """Only three durations have a meaning for None."""
    with pytest.raises(TypeError, match=f"^{field} must be seconds .* not NoneType$"):
        options(**{field: None})


@pytest.mark.parametrize("field", DURATIONS)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(math.nan, "nan s", id="nan"),
        pytest.param(math.inf, "inf s", id="inf"),
        pytest.param(-math.inf, "-inf s", id="minus-inf"),
        pytest.param(-0.001, "-0.001 s", id="negative"),
        pytest.param(timedelta(seconds=-1), "-1 s", id="negative-timedelta"),
    ],
)
def test_a_duration_is_finite_and_not_negative(field: str, value: object, shown: str) -> None:
    """NaN, infinities and negative times are refused by name and value."""
    with pytest.raises(ValueError, match=f"^{field} must be finite and not negative") as said:
        options(**{field: value})
    assert str(said.value).endswith(f"not {shown}")


@pytest.mark.parametrize("field", DURATIONS)
def test_an_int_beyond_every_float_is_refused_as_such(field: str) -> None:
    """A huge int is the same mistake as infinity, so it is the same kind of error."""
    with pytest.raises(ValueError, match=f"^{field} must be finite"):
        options(**{field: 10**400})


@pytest.mark.parametrize("field", FLAGS)
@pytest.mark.parametrize("value", [0, 1, None, "yes"], ids=["0", "1", "None", "str"])
def test_a_flag_is_a_bool(field: str, value: object) -> None:
    """Nothing is taken for true or false that is not."""
    with pytest.raises(TypeError) as said:
        options(**{field: value})
    assert str(said.value) == f"{field} must be a bool, not {type(value).__name__}"


@pytest.mark.parametrize("value", ["", "Cancel", "ignore", None, True, []], ids=repr)
def test_on_loss_is_one_of_two_words(value: object) -> None:
    """Both words are named with what was given instead."""
    with pytest.raises(ValueError, match=r"^on_loss must be 'cancel' or 'notify', not ") as said:
        options(on_loss=value)
    assert str(said.value).endswith(f"not {value!r}")


def test_a_minimum_hold_fits_into_the_lease() -> None:
    """A seat cannot stay taken longer than it was granted for; equal is allowed."""
    assert LeaderOptions(lease_time=10, min_hold_time=10).min_hold_time == 10
    with pytest.raises(ValueError, match=r"^min_hold_time must be at most lease_time: 11 s > 10 s"):
        LeaderOptions(lease_time=10, min_hold_time=11)


@pytest.mark.parametrize("field", ["max_hold_time", "request_timeout"])
def test_a_limit_of_zero_is_refused(field: str) -> None:
    """A term or a request that may last no time at all is a mistake."""
    with pytest.raises(ValueError, match=f"^{field} must be above 0, not 0 s$"):
        options(**{field: 0})
    assert getattr(options(**{field: 1e-6}), field) == 1e-6


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"lease_time": 0.2499999}, id="lease_time"),
        pytest.param({"lease_time": 1, "min_hold_time": 1.0000001}, id="min_hold_time"),
    ],
)
def test_a_message_shows_the_value_that_breaks_the_rule(values: dict[str, float]) -> None:
    """A value just beyond its limit is not shown as the limit itself."""
    with pytest.raises(ValueError, match="must be") as said:
        options(**values)
    *_, wrong = values.values()
    assert str(wrong) in str(said.value)


def test_options_are_given_by_name() -> None:
    """Positional values and unknown names are TypeErrors."""
    with pytest.raises(TypeError):
        LeaderOptions(30)  # type: ignore[call-arg] # the mistake is the test
    with pytest.raises(TypeError, match="lease_tme"):
        options(lease_tme=30)


@settings(deadline=None)
@given(
    lease=st.floats(0.0, 100.0),
    hold=st.floats(0.0, 100.0),
    grace=st.none() | st.floats(0.0, 100.0),
    timeout=st.floats(0.0, 30.0),
    auto=st.booleans(),
)
def test_what_is_accepted_keeps_every_rule(
    lease: float, hold: float, grace: float | None, timeout: float, auto: bool
) -> None:
    """Options either keep all rules or are refused by a message that begins with one of them."""
    refusal = ""
    made = LeaderOptions()
    try:
        made = LeaderOptions(
            lease_time=lease,
            min_hold_time=hold,
            stop_grace=grace,
            request_timeout=timeout,
            auto_extend=auto,
        )
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert refusal.split()[0] in {*DURATIONS, "the"}
        return
    drift = DRIFT_SHARE * lease + DRIFT_SECONDS
    renewing = made.renewal_period + 2 * made.renewal_budget if auto else 0.0
    assert made.lease_time >= 0.25
    assert made.min_hold_time <= made.lease_time
    assert 0 < made.renewal_budget <= made.request_timeout
    assert renewing + made.stop_grace + drift < made.lease_time


# -- durability ------------------------------------------------------------------------------


def test_durability_is_one_replica_within_a_fifth_of_a_second() -> None:
    """The defaults are those of the design; the timeout may be a `timedelta`."""
    assert Durability() == Durability(replicas=1, timeout=0.2)
    assert Durability(timeout=timedelta(milliseconds=50)).timeout == 0.05
    assert repr(Durability(replicas=2)) == "Durability(replicas=2, timeout=0.2)"
    assert len({Durability(), Durability(replicas=2), Durability(timeout=1)}) == 3


@pytest.mark.parametrize("replicas", [0, -1])
def test_durability_without_a_replica_is_refused(replicas: int) -> None:
    """None is what says that no replica is wanted."""
    with pytest.raises(ValueError, match=f"^replicas must be 1 or more, not {replicas}$"):
        Durability(replicas=replicas)


@pytest.mark.parametrize("timeout", [0, 0.0009])
def test_a_timeout_that_the_server_takes_for_no_limit_is_refused(timeout: float) -> None:
    """Less than a millisecond would be sent as 0, with which WAIT waits for ever."""
    with pytest.raises(ValueError, match=r"^timeout must be at least 0\.001 s, not "):
        Durability(timeout=timeout)


@pytest.mark.parametrize("replicas", [True, 1.0, "1", None])
def test_durability_wants_a_whole_number(replicas: Any) -> None:
    """A bool or a float is a mistake."""
    with pytest.raises(TypeError, match=r"^replicas must be an int, not "):
        Durability(replicas=replicas)


def test_durability_must_be_one() -> None:
    """A bare number could be either of its two."""
    with pytest.raises(TypeError, match=r"^durability must be a Durability, such as .*, not int$"):
        options(durability=1)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"lease_time": 3.6}, r"it has 0\.6 s \(.* request_timeout 5 s .* lease_time 3\.6 s\)$"),
        ({"request_timeout": 0.5}, r"it has 0\.5 s \(.* request_timeout 0\.5 s .* lease_time 30 s"),
        ({"lease_time": 3.6, "auto_extend": False}, r"it has 0\.6 s"),
    ],
    ids=["lease_time", "request_timeout", "no_renewal"],
)
def test_two_waits_must_fit_into_an_attempt(changes: dict[str, Any], shown: str) -> None:
    """One may stand behind another one's WAIT, and then wait for its own; the numbers are shown."""
    with pytest.raises(ValueError, match=r"two waits .*\(durability\.timeout 0\.2 s \+ 0\.1 s"):
        options(durability=Durability(), **changes)
    with pytest.raises(ValueError, match=shown):
        options(durability=Durability(), **changes)
    assert options(durability=Durability(timeout=0.1), **changes).durability is not None


def test_with_the_defaults_a_lease_of_a_little_more_than_three_seconds_fits() -> None:
    """As the documentation says."""
    assert LeaderOptions(lease_time=3.61, durability=Durability()).renewal_budget > 0.6


# -- a frozen value --------------------------------------------------------------------------


def test_options_are_frozen() -> None:
    """Neither a field nor a new name can be set or deleted."""
    made = LeaderOptions()
    for field in fields(made):
        with pytest.raises(FrozenInstanceError):
            setattr(made, field.name, 1)
    with pytest.raises(FrozenInstanceError):
        del made.lease_time
    with pytest.raises((AttributeError, TypeError)):  # which of them differs between Pythons
        made.surprise = 1  # type: ignore[attr-defined] # the mistake is the test
    assert not hasattr(made, "__dict__")


def test_equal_options_are_one_key() -> None:
    """Equality and hash go by value; any field makes a difference."""
    assert LeaderOptions() == LeaderOptions(lease_time=timedelta(seconds=30))
    assert len({LeaderOptions(), LeaderOptions(stop_grace=5), LeaderOptions(wait_time=0)}) == 1
    others: list[dict[str, Any]] = [
        {"lease_time": 31},
        {"wait_time": None},
        {"min_hold_time": 1},
        {"max_hold_time": 1},
        {"auto_extend": False},
        {"stop_grace": 4},
        {"on_loss": "notify"},
        {"once_per": 60},
        {"request_timeout": 4},
        {"restart": True},
        {"durability": Durability()},
    ]
    assert [next(iter(other)) for other in others] == [
        field.name for field in fields(LeaderOptions)
    ]
    assert len({LeaderOptions(), *(options(**other) for other in others)}) == len(others) + 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_case_62_options_can_be_pickled(protocol: int) -> None:
    """A worker process gets the same options, also those that are not the default."""
    made = LeaderOptions(
        lease_time=9, wait_time=None, on_loss="notify", restart=True, durability=Durability()
    )
    assert pickle.loads(pickle.dumps(made, protocol)) == made


def test_options_can_be_copied() -> None:
    """Copies are equal, by whichever way."""
    made = LeaderOptions(lease_time=9)
    assert copy.copy(made) == copy.deepcopy(made) == made
    if sys.version_info >= (3, 13):
        assert copy.replace(made, lease_time=9) == made


def test_the_repr_can_be_read_and_run() -> None:
    """What a log shows is what would make the same options."""
    made = LeaderOptions(lease_time=9, wait_time=None)
    assert repr(made).startswith("LeaderOptions(lease_time=9.0, wait_time=None, min_hold_time=0.0,")
    assert eval(repr(made)) == made


# -- changed ---------------------------------------------------------------------------------


def test_changed_is_a_copy() -> None:
    """The original stays; what is not named is kept."""
    made = LeaderOptions(lease_time=12, on_loss="notify")
    other = made.changed(wait_time=timedelta(seconds=3), restart=True)
    assert other == LeaderOptions(lease_time=12, on_loss="notify", wait_time=3, restart=True)
    assert made == LeaderOptions(lease_time=12, on_loss="notify")
    assert made.changed() == made


def test_changed_lets_a_default_grace_follow_the_lease() -> None:
    """A sixth stays a sixth; a grace that was chosen stays as chosen."""
    assert LeaderOptions(lease_time=12).changed(lease_time=6).stop_grace == 1.0
    assert LeaderOptions(lease_time=12, stop_grace=0.5).changed(lease_time=6).stop_grace == 0.5
    assert LeaderOptions(lease_time=12).changed(lease_time=6, stop_grace=0.7).stop_grace == 0.7
    assert LeaderOptions(lease_time=12).changed(wait_time=1).stop_grace == 2.0


def test_changed_checks_every_rule_again() -> None:
    """A change cannot make what the constructor would refuse."""
    made = LeaderOptions(lease_time=12, stop_grace=3)
    with pytest.raises(ValueError, match="must fit"):
        made.changed(lease_time=5)
    with pytest.raises(TypeError, match="restart must be a bool"):
        made.changed(restart=1)  # type: ignore[arg-type] # the mistake is the test
    with pytest.raises(TypeError, match="lease_tme"):
        made.changed(lease_tme=5)  # type: ignore[call-arg] # the mistake is the test


def test_every_option_can_be_changed() -> None:
    """The fields, the constructor's arguments and the names for `changed` are the same."""
    names = [field.name for field in fields(LeaderOptions)]
    assert list(inspect.signature(LeaderOptions).parameters) == names
    assert list(OptionChanges.__annotations__) == names
