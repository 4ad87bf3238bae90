"""The holder's side of a program, without the command around it."""

import asyncio
import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import incumbent.cli.run.child
from cli.stage import Program, gone
from incumbent import ActionFailed, Elected, LeaderElector, LeaderOptions, MemoryStore, clock
from incumbent.cli.run.child import CannotRunError, Child
from incumbent.cli.run.duty import Duty, TooLateError
from incumbent.cli.run.performance import _failure
from kit.stops import freeze
from kit.waiting import wait_until

SLEEP = ["sleep", "60"]


def child(command: list[str], *, lasts: float = 60.0, grace: float = 5.0) -> Child:
    """A program under a lease that lasts so long, if nobody says more."""
    until = clock.now() + lasts
    return Child(command, env=os.environ, until=until, grace=grace, terminal=False)


async def test_time_that_runs_out() -> None:
    """Told nothing more, the supervisor ends the program, and says so."""
    sleeper = child(SLEEP, lasts=6.0, grace=3.0)
    assert await sleeper.wait() == -signal.SIGTERM
    assert sleeper.late


async def test_time_that_is_over_already(program: Program) -> None:
    """It does not get to run."""
    short = child(program.command("tell ran"), lasts=-1)
    assert await short.wait() == -signal.SIGKILL
    assert short.late
    assert program.lines == []


async def test_more_time() -> None:
    """What is told in time counts."""
    sleeper = child(["sh", "-c", "sleep 4; exit 4"], lasts=3.0, grace=1.0)
    sleeper.trust(clock.now() + 60)
    assert await sleeper.wait() == 4
    assert not sleeper.late


STILL = """
import pathlib, runpy, sys, time

it = runpy.run_path({supervisor!r})
original = it[{where!r}] if {where!r} in it else getattr(it["Supervisor"], {where!r})

def stand_still(*arguments):
    while pathlib.Path({still!r}).exists():
        time.sleep(0.01)
    return original(*arguments)

if {where!r} in it:
    it[{where!r}] = stand_still
else:
    setattr(it["Supervisor"], {where!r}, stand_still)
it["main"](*map(int, sys.argv[1:3]), *map(float, sys.argv[3:5]), sys.argv[5:])
"""


class Still:
    """Supervisors of this test stand still where they are told to, until they may go on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._script = folder / "still.py"
        self.flag = folder / "still"

    def at(self, where: str) -> None:
        """Have them stand still at this function."""
        original = incumbent.cli.run.child.SUPERVISOR
        text = STILL.format(supervisor=original, where=where, still=str(self.flag))
        self._script.write_text(text)
        self.flag.touch()
        self._monkeypatch.setattr(incumbent.cli.run.child, "SUPERVISOR", str(self._script))

    def no_more(self) -> None:
        """Let them go on."""
        self.flag.unlink()


@pytest.fixture
def still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Still:
    """A way to stop supervisors at a certain point."""
    return Still(tmp_path, monkeypatch)


@pytest.mark.parametrize("where", ["main", "_over"])
async def test_more_time_for_a_supervisor_that_stood_still(
    still: Still, program: Program, where: str
) -> None:
    """What it was told before the time was over counts, although it reads that after."""
    still.at(where)
    script = f"tell began; while [ -e {still.flag} ]; do sleep 0.1; done; sleep 1; exit 4"
    slow = child(program.command(script), lasts=6.0, grace=1.0)
    over = slow._until
    if where == "_over":
        await wait_until(lambda: program.told("began"), within=60)
    slow.trust(clock.now() + 600)
    await wait_until(lambda: clock.now() > over)
    still.no_more()
    assert await slow.wait() == 4
    assert not slow.late


async def test_one_that_is_to_end_before_it_has_begun(still: Still, program: Program) -> None:
    """It does not get to run either."""
    still.at("main")
    slow = child(program.command("tell ran"))
    slow.end()
    still.no_more()
    assert await slow.wait() == -signal.SIGKILL
    assert not slow.late
    assert program.lines == []


async def test_a_signal_before_it_has_begun(still: Still, program: Program) -> None:
    """It is not lost."""
    still.at("main")
    slow = child(program.command("tell pid $$; sleep 60"))
    slow.signal(signal.SIGUSR1)  # SIGINT may be ignored, as it is in the background of a script
    still.no_more()
    assert await slow.wait() == -signal.SIGUSR1


async def test_a_killed_holder_before_it_has_begun(still: Still, program: Program) -> None:
    """Nobody leads, so nothing is run."""
    still.at("main")
    orphan = child(program.command("tell ran"))
    os.close(orphan._orders)
    orphan._orders = os.open(os.devnull, os.O_WRONLY)
    still.no_more()
    assert await orphan.wait() == -signal.SIGKILL
    assert program.lines == []


async def test_cancelled_while_it_waits(program: Program) -> None:
    """The cancellation comes out when the group is gone."""
    script = "trap 'sleep 0.3; exit 6' TERM; tell pid $$; sleep 60 & wait"
    sleeper = child(program.command(script))
    waiting = asyncio.ensure_future(sleeper.wait())
    await wait_until(lambda: program.told("pid"))
    waiting.cancel()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert sleeper.code == 6


async def test_a_supervisor_that_is_frozen_beyond_the_lease() -> None:
    """A long grace is no reason to wait: the holder ends the group before the lease can end."""
    sleeper = child(SLEEP, lasts=2.0, grace=600.0)
    freeze(sleeper._supervisor.pid)
    sleeper.end()
    assert await asyncio.wait_for(sleeper.wait(), 60) == -signal.SIGKILL


async def test_more_time_while_the_group_ends(program: Program) -> None:
    """The supervisor counts as frozen only when the lease that was renewed is over as well."""
    script = "trap 'sleep 3; exit 7' TERM; tell pid $$; while :; do sleep 0.05; done"
    cleaning = child(program.command(script), lasts=30.0)
    await wait_until(lambda: program.told("pid"))
    cleaning.trust(clock.now() + 2)
    cleaning.end()
    cleaning.trust(clock.now() + 60)
    assert await cleaning.wait() == 7


async def test_the_group_is_known_before_the_program_runs(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that is killed before it can say anything about the program: none is left."""
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import runpy, sys, threading\n"
        f"it = runpy.run_path({incumbent.cli.run.child.SUPERVISOR!r})\n"
        "it['Supervisor'].__init__ = lambda *_: threading.Event().wait()\n"
        "it['main'](*map(int, sys.argv[1:3]), *map(float, sys.argv[3:5]), sys.argv[5:])\n"
    )
    monkeypatch.setattr(incumbent.cli.run.child, "SUPERVISOR", str(slow))
    family = child(program.command("sleep 61 & tell pid $!; tell pid $$; wait"))
    await wait_until(lambda: len(program.told("pid")) == 2)
    family._supervisor.kill()
    assert await family.wait() == -signal.SIGKILL
    assert gone(program.pids(count=2))


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """More than a thousand are open, so that the next ones have numbers beyond that."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, min(2048, most)), most))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for each in opened:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


@pytest.mark.usefixtures("many_descriptors")
async def test_where_many_files_are_open() -> None:
    """The numbers of descriptors do not matter."""
    short = child(["sh", "-c", "exit 3"])
    assert short._orders > 1024
    assert await short.wait() == 3


async def test_what_cannot_be_run() -> None:
    """The system's words."""
    with pytest.raises(CannotRunError, match="No such file or directory"):
        await child(["/no/such/program"]).wait()


@pytest.mark.parametrize("told", [True, False])
async def test_a_supervisor_that_is_not_told_of_renewals(told: bool) -> None:
    """A program that is ended although the lease was held all the time is no success."""
    duty = Duty("x", ["sh", "-c", "sleep 5; exit 3"], grace=0.6)
    options = LeaderOptions(lease_time=4.0)
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
        await Duty("x", SLEEP, grace=1).perform()


def test_codes_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """What was ended too early is as good as lost; an error of ours is not hidden."""
    assert _failure("job", TooLateError()) == 75
    assert _failure("job", CannotRunError(errno.ENOEXEC)) == 126
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == ["incumbent: job: Exec format error"]
    with pytest.raises(ZeroDivisionError):
        _failure("job", ZeroDivisionError())
