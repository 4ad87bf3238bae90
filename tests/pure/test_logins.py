"""`LogIns`: whether a log-in that is refused may be accepted later."""

from typing import Any

import pytest
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004
    InvalidResponse,
    NoPermissionError,
)

from incumbent import clock
from incumbent.stores.redis import faults
from incumbent.stores.redis.logins import PATIENCE, LogIns, log_ins_of

REFUSED = AuthenticationError("WRONGPASS")


class Clock:
    """Set by the test."""

    now = 1000.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the library takes for the time."""
    its = Clock()
    monkeypatch.setattr(clock, "now", lambda: its.now)
    return its


def test_the_first_one_is_refused_for_good(time: Clock) -> None:
    """And whatever follows it."""
    log_ins = LogIns()
    for _ in range(3):
        assert log_ins.judge(REFUSED) is REFUSED
        time.now += 1
    assert not faults.passing(REFUSED)


def test_one_after_others_may_pass_for_so_long(time: Clock) -> None:
    """Counted from the first refusal; one that is accepted begins anew."""
    log_ins = LogIns()
    for _ in range(2):
        log_ins.accept()
        time.now += 10 * PATIENCE
        for after in (0.0, PATIENCE / 2, PATIENCE / 2 - 1):
            time.now += after
            judged = log_ins.judge(REFUSED)
            assert isinstance(judged, AuthenticationError)
            assert faults.passing(judged)
            assert faults.worth_sending_again(judged)
            assert "WRONGPASS" in str(judged)
            assert "tried again for 10 minutes" in str(judged)
        time.now += 1
        assert log_ins.judge(REFUSED) is REFUSED


@pytest.mark.parametrize(
    "error", [InvalidResponse('Protocol error, got "H"'), faults.GarbledError("no answer")]
)
def test_answers_of_another_protocol_may_pass_as_well(time: Clock, error: Any) -> None:
    """At first, the address is wrong; afterwards, somebody else may have it for a while."""
    log_ins = LogIns()
    assert log_ins.judge(error) is error
    log_ins.accept()
    judged = log_ins.judge(error)
    assert faults.passing(judged)
    assert faults.worth_sending_again(judged)
    assert str(judged) == str(error)
    time.now += PATIENCE
    assert log_ins.judge(error) is error


@pytest.mark.parametrize("error", [ConnectionError("cut"), NoPermissionError("no right")])
def test_other_errors_stay_what_they_are(time: Clock, error: Any) -> None:
    """They are no matter of passwords."""
    log_ins = LogIns()
    log_ins.accept()
    assert log_ins.judge(error) is error


def test_each_client_has_its_own() -> None:
    """And keeps them."""

    class Pool:
        pass

    one, other = Pool(), Pool()
    assert log_ins_of(one) is log_ins_of(one)
    assert log_ins_of(one) is not log_ins_of(other)
