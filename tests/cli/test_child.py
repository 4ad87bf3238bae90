"""The holder's side of a program, without the command around it."""

import asyncio
import os
import signal

import pytest

from incumbent import ActionFailed, Elected, LeaderElector, LeaderOptions, MemoryStore, clock
from incumbent.cli.run.child import CannotRunError, Child
from incumbent.cli.run.duty import Duty, TooLateError
from incumbent.cli.run.performance import _failure

SLEEP = ["sleep", "60"]


def child(command: list[str], *, lasts: float = 60.0, grace: float = 5.0) -> Child:
    """A program under a lease that lasts so long, if nobody says more."""
    until = clock.now() + lasts
    return Child(command, env=os.environ, until=until, grace=grace, terminal=False)


async def test_time_that_runs_out() -> None:
    """Told nothing more, the supervisor ends the program, and says so."""
    sleeper = child(SLEEP, lasts=0.6, grace=0.3)
    assert await sleeper.wait() == -signal.SIGTERM
    assert sleeper.late


async def test_time_that_is_over_already() -> None:
    """It does not get to run."""
    sleeper = child(SLEEP, lasts=-1)
    assert await sleeper.wait() == -signal.SIGKILL


async def test_more_time() -> None:
    """What is told in time counts."""
    sleeper = child(["sh", "-c", "sleep 1.5; exit 4"], lasts=1.2, grace=0.2)
    sleeper.trust(clock.now() + 60)
    assert await sleeper.wait() == 4
    assert not sleeper.late


async def test_cancelled_while_it_waits() -> None:
    """The cancellation comes out when the group is gone."""
    sleeper = child(["sh", "-c", "trap 'sleep 0.3; exit 6' TERM; echo; sleep 60 & wait"])
    waiting = asyncio.ensure_future(sleeper.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert sleeper.code is not None


async def test_what_cannot_be_run() -> None:
    """The system's words."""
    with pytest.raises(CannotRunError, match="No such file or directory"):
        await child(["/no/such/program"]).wait()


@pytest.mark.parametrize("told", [True, False])
async def test_a_supervisor_that_is_not_told_of_renewals(told: bool) -> None:
    """A program that is ended although the lease was held all the time is no success."""
    duty = Duty(["sh", "-c", "sleep 2.5; exit 3"], grace=0.3, terminal=False)
    options = LeaderOptions(lease_time=2.0)
    hooks = [duty.told] if told else []
    async with LeaderElector(MemoryStore(), options, hooks=hooks) as elector:
        outcome = await elector.attempt("x", duty.perform)
    if told:
        assert isinstance(outcome, Elected)
        assert outcome.value == 3
    else:
        assert isinstance(outcome, ActionFailed)
        assert isinstance(outcome.error, TooLateError)
    assert not duty.running


async def test_only_a_leader_may_perform() -> None:
    """Without a lease there is nothing to keep to."""
    with pytest.raises(RuntimeError, match="for leaders"):
        await Duty(SLEEP, grace=1, terminal=False).perform()


def test_codes_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """What was ended too early is as good as lost; an error of ours is not hidden."""
    assert _failure("job", TooLateError()) == 75
    assert _failure("job", CannotRunError("Exec format error")) == 126
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == ["incumbent: job: Exec format error"]
    with pytest.raises(ZeroDivisionError):
        _failure("job", ZeroDivisionError())
