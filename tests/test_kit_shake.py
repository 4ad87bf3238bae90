"""The tests of `scripts/shake`: whom it stops, that all continue, and how it ends."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from kit import shake
from kit.shake import LONGEST, SHORTEST, Tally, arguments, candidates, draw, label
from kit.stops import (
    Process,
    Status,
    Stop,
    Watcher,
    all_processes,
    below,
    command_of,
    freeze,
    listed,
    read_status,
    send,
)
from kit.waiting import wait_until_blocking

TESTS = Path(__file__).parent
Shaken = Callable[..., subprocess.Popen[str]]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scripts/shake needs /proc")


def _state(process: Process) -> str:
    status = read_status(process.pid)
    return status.state if status and status.process == process else "gone"


def _is_stopped(process: Process) -> bool:
    return _state(process) == "T"


def _known(pid: int) -> Process:
    status = read_status(pid)
    assert status is not None
    return status.process


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    """What continues them if we are killed."""
    with Watcher() as watcher:
        yield watcher


@pytest.fixture
def start() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts Python code, waits for its first line, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "-c", textwrap.dedent(code)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def sleeper(start: Callable[[str], subprocess.Popen[str]]) -> Process:
    """A process that does nothing."""
    return _known(start("import time; print('ready'); time.sleep(60)").pid)


# -- whom ------------------------------------------------------------------------------------


def _row(pid: int, parent: int, state: str = "S", terminal: int = 0) -> Status:
    return Status(Process(pid, 100 + pid), parent, state, terminal)


def test_only_processes_of_the_tree_are_stopped() -> None:
    """Those of others are not, nor who started the tests."""
    table = [_row(1, 0), _row(5, 1), _row(7, 5), _row(8, 7), _row(9, 8), _row(20, 1), _row(21, 20)]
    assert {each.process.pid for each in below(7, table)} == {7, 8, 9}
    assert candidates(7, table, terminal=0) == [Process(7, 107), Process(8, 108), Process(9, 109)]
    assert candidates(6, table, terminal=0) == []


def test_who_is_stopped_already_is_left_alone() -> None:
    """Somebody else will continue it, at their own time."""
    table = [_row(7, 1), _row(8, 7, "T"), _row(9, 7, "Z"), _row(10, 7, "R"), _row(11, 7, "t")]
    assert [each.pid for each in candidates(7, table, terminal=0)] == [7, 10]


def test_a_shell_s_jobs_are_left_alone() -> None:
    """The shell would tell its user that a job was stopped, and wait."""
    table = [_row(7, 1, terminal=3), _row(8, 7, terminal=3), _row(9, 7), _row(10, 7, terminal=4)]
    assert [each.pid for each in candidates(7, table, terminal=3)] == [7, 8, 9]


def test_this_process_is_found_with_its_children(sleeper: Process) -> None:
    """What /proc tells is read as it is."""
    own = read_status(os.getpid())
    assert own is not None
    assert own.parent == os.getppid()
    terminal = own.terminal
    wait_until_blocking(  # whoever shakes this test may have it for a moment
        lambda: sleeper in candidates(os.getpid(), all_processes(), terminal),
        what="it is found",
    )
    assert label(command_of(sleeper)) == "python -c"


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    """The same draws for the same seed, of the lengths that were said."""

    def draws(seed: int) -> list[shake.Choice]:
        chance = Random(seed)
        return [draw(chance, 4, there) for there in range(100)]

    assert draws(7) == draws(7) != draws(8)
    assert all(SHORTEST <= each.length <= LONGEST and 0 <= each.which < 1 for each in draws(7))
    chance = Random(7)
    pauses = [draw(chance, 4, 20).after for _ in range(2000)]
    assert sum(pauses) / len(pauses) == pytest.approx(4 / 20, rel=0.1)


# -- stop and continue -----------------------------------------------------------------------


def _begun(process: Process, watcher: Watcher) -> Stop:
    """A stop that has begun. Whoever shakes this test may have the process for a moment."""

    def begun() -> Stop | None:
        stop = Stop(process, watcher)
        return stop if stop.begin() else None

    return wait_until_blocking(begun, what="it begins")


def test_a_process_stands_still_until_the_end(sleeper: Process, watcher: Watcher) -> None:
    """And no longer."""
    stop = _begun(sleeper, watcher)
    wait_until_blocking(lambda: _is_stopped(sleeper), what="it is stopped")
    stop.end()
    wait_until_blocking(lambda: _state(sleeper) in "SRD", what="it continues")


def test_a_number_that_was_given_to_another_process_is_not_signalled(
    sleeper: Process, watcher: Watcher
) -> None:
    """The moment of its start tells."""
    predecessor = sleeper._replace(started=sleeper.started - 1)
    assert not Stop(predecessor, watcher).begin()
    assert not send(predecessor, signal.SIGKILL)
    wait_until_blocking(lambda: _state(sleeper) in "SRD", what="it goes on")


def test_who_has_ended_is_not_stopped(
    start: Callable[[str], subprocess.Popen[str]], watcher: Watcher
) -> None:
    """Whether it was reaped or not."""
    child = start("print('ready')")
    process = _known(child.pid)
    wait_until_blocking(lambda: _state(process) in {"Z", "gone"}, what="it has ended")
    assert not Stop(process, watcher).begin()
    child.wait()
    assert not Stop(process, watcher).begin()


def _stopped_once_more(stop: Stop) -> None:
    send(stop.process, signal.SIGSTOP)


def _frozen(stop: Stop) -> None:
    freeze(stop.process.pid)


def _continued_and_stopped(stop: Stop) -> None:
    send(stop.process, signal.SIGCONT)
    wait_until_blocking(lambda: not _is_stopped(stop.process), what="it continues")
    stop.look()
    send(stop.process, signal.SIGSTOP)
    wait_until_blocking(lambda: _is_stopped(stop.process), what="it is stopped again")


@pytest.mark.parametrize("by_a_test", [_stopped_once_more, _frozen, _continued_and_stopped])
def test_whom_a_test_stops_meanwhile_stays_stopped(
    sleeper: Process, watcher: Watcher, by_a_test: Callable[[Stop], None]
) -> None:
    """A frozen server that answered would be the end of that test."""
    stop = _begun(sleeper, watcher)
    wait_until_blocking(lambda: _is_stopped(sleeper), what="it is stopped")
    stop.look()
    by_a_test(stop)
    stop.end()
    assert _is_stopped(sleeper)
    send(sleeper, signal.SIGCONT)
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it continues")


def test_a_process_that_a_test_freezes_just_then_stays_frozen(
    sleeper: Process, watcher: Watcher
) -> None:
    """Its signal may be one with ours."""
    stop = _begun(sleeper, watcher)
    freeze(sleeper.pid)
    stop.end()
    assert _is_stopped(sleeper)
    send(sleeper, signal.SIGCONT)


def test_whom_a_test_continues_meanwhile_goes_on(sleeper: Process, watcher: Watcher) -> None:
    """The end of our stop does nothing to it."""
    stop = _begun(sleeper, watcher)
    wait_until_blocking(lambda: _is_stopped(sleeper), what="it is stopped")
    stop.look()
    send(sleeper, signal.SIGCONT)
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it continues")
    stop.end()
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it goes on")


def test_two_do_not_stop_the_same_process(sleeper: Process, watcher: Watcher) -> None:
    """Each would take the other's stop for one that is to last."""
    stop = _begun(sleeper, watcher)
    assert not Stop(sleeper, watcher).begin()
    stop.end()
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it continues")
    _begun(sleeper, watcher).end()
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it continues")


def test_a_stop_that_ends_before_it_has_come_is_over(
    start: Callable[[str], subprocess.Popen[str]], watcher: Watcher
) -> None:
    """A process stops when it is on a processor, which may be later than the end of our moment."""
    busy = [_known(start("print('ready')\nwhile True: pass").pid) for _ in range(3)]
    for turn in range(300):
        stop = _begun(busy[turn % 3], watcher)
        for _ in range(turn % 4):
            stop.look()
        stop.end()
    for process in busy:
        wait_until_blocking(lambda one=process: not _is_stopped(one), what="it continues")  # type: ignore[misc]


def test_ctrl_z_meanwhile_is_not_lost(
    start: Callable[[str], subprocess.Popen[str]], watcher: Watcher
) -> None:
    """SIGCONT removes it from what is pending: it is sent again."""
    child = start(
        """
        import signal, time
        signal.signal(signal.SIGTSTP, lambda *_: print("heard"))
        print("ready")
        time.sleep(60)
        """
    )
    process = _known(child.pid)
    stop = _begun(process, watcher)
    wait_until_blocking(lambda: _is_stopped(process), what="it is stopped")
    child.send_signal(signal.SIGTSTP)
    stop.end()
    assert child.stdout is not None
    assert child.stdout.readline() == "heard\n"


# -- if we die -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_continue_even_if_the_stopper_is_killed(
    start: Callable[[str], subprocess.Popen[str]], sleeper: Process, number: int
) -> None:
    """The watcher continues who is still on the list."""
    stopper = start(
        f"""
        import time
        from kit.stops import Process, Stop, Watcher
        watcher = Watcher()
        while not (stop := Stop(Process({sleeper.pid}, {sleeper.started}), watcher)).begin():
            time.sleep(0.01)
        print("ready")
        time.sleep(60)
        """
    )
    wait_until_blocking(lambda: _is_stopped(sleeper), what="it is stopped")
    stopper.send_signal(number)
    wait_until_blocking(lambda: not _is_stopped(sleeper), what="it continues")
    assert stopper.wait() == -number


def test_who_continues_is_off_the_list() -> None:
    """The watcher signals only those whom we still have stopped."""
    lines = ["+7 100\n", "+8 100\n", "-7 100\n", "+7 200\n", "-9 100\n"]
    assert listed(lines) == [Process(8, 100), Process(7, 200)]


# -- the whole -------------------------------------------------------------------------------


@pytest.fixture
def shaken(tmp_path: Path) -> Iterator[Shaken]:
    """Runs and shakes the tests in some code; whoever reads its output waits for it."""
    started: list[subprocess.Popen[str]] = []

    def shaken(code: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
        command = [sys.executable, "-m", "kit.shake", *options, "--", "-n", "0", "-q", "."]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=tmp_path
        )
        started.append(child)
        return child

    yield shaken
    for child in started:
        if child.poll() is None:
            child.terminate()
            child.communicate()


BUSY = """
    import os, time

    def test_it():
        assert "PYTHONPATH" not in os.environ  # as without us
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            time.sleep(0.01)
"""


def test_it_tells_its_seed_and_what_it_stopped(shaken: Shaken) -> None:
    """And ends as the tests do."""
    run = shaken(BUSY, "--seed", "7", "--every", "0.5")
    out, _ = run.communicate()
    assert run.returncode == 0, out
    assert out.startswith("seed 7\n")
    ending = re.search(
        r"^1 passed.*\nseed 7\n(\d+) stops, (\d+\.\d) s in all\n(.+)\Z",
        out,
        re.MULTILINE | re.DOTALL,
    )
    assert ending, out
    stops, seconds = int(ending[1]), float(ending[2])
    assert stops >= 1
    assert stops * SHORTEST - 0.1 <= seconds <= stops * LONGEST + 0.1
    assert re.fullmatch(rf" +{stops} +{seconds} s  python -m pytest\n", ending[3])


def test_it_fails_with_the_tests(shaken: Shaken) -> None:
    """Its exit code is pytest's."""
    run = shaken("def test_it():\n    assert False\n")
    out, _ = run.communicate()
    assert run.returncode == 1, out
    assert "1 failed" in out


def test_sigterm_ends_the_tests(shaken: Shaken, tmp_path: Path) -> None:
    """They are told, and it waits for them."""
    code = f"""
        import os, pathlib, time

        def test_it():
            pathlib.Path({str(tmp_path / "pid")!r}).write_text(f"{{os.getpid()}}\\n")
            time.sleep(60)
    """
    run = shaken(code, "--every", "0.5")
    told = tmp_path / "pid"
    wait_until_blocking(lambda: told.exists() and told.read_text().endswith("\n"), within=120)
    process = _known(int(told.read_text()))
    run.terminate()
    out, _ = run.communicate()
    assert run.returncode == 128 + signal.SIGTERM, out
    assert _state(process) == "gone"
    assert "stops" in out


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own options before, pytest's after two hyphens."""
    options = arguments(["--seed", "7", "--", "-k", "fence", "--", "x"])
    assert (options.seed, options.every, options.pytest) == (7, 4.0, ["-k", "fence", "--", "x"])
    assert arguments([]).pytest == []
    assert isinstance(arguments([]).seed, int)
    for wrong in (["--every", "0"], ["tests"]):
        with pytest.raises(SystemExit) as ended:
            arguments(wrong)
        assert ended.value.code == 2
    assert "--every must be more than 0, not 0.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/bin/valkey-server 127.0.0.1:7000"], "valkey-server"),
        (["/env/bin/python3.11", "-m", "kit.contender", "a"], "python -m kit.contender"),
        (["python", "-u", "-c", "import sys"], "python -c"),
        (["python", "-I", "-S", "/tests/kit/warden.py"], "warden.py"),
        (["python"], "python"),
        ([], "(gone)"),
    ],
)
def test_the_names_of_what_was_stopped(command: list[str], name: str) -> None:
    """Short, and the same for all of a kind."""
    assert label(command) == name


def test_the_tally_has_the_most_frequent_first() -> None:
    """With all of them before."""
    tally = Tally()
    for name, length in (("a", 0.5), ("b", 0.25), ("b", 0.125)):
        tally.add(name, length)
    total, *each = (" ".join(line.split()) for line in tally.lines())
    assert total == "3 stops, 0.9 s in all"
    assert each == ["2 0.4 s b", "1 0.5 s a"]
