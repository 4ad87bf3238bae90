"""The program never outlives the lease, nor the command, whatever becomes of either.

Field cases 15 (a program longer than the lease), 79 (SIGTERM hands over) and 81 (a second start
disturbs nobody), as far as they concern the command.
"""

import os
import pty
import shlex
import signal
import subprocess
import sys
import time

import psutil  # type: ignore[import-untyped] # as in test_demo.py
import pytest

from cli.stage import INCUMBENT, SOURCE, Program, Run, Runs, alive, gone, seat
from kit.proxy_thread import ProxyThread
from kit.stops import freeze
from kit.waiting import wait_until_blocking

STUBBORN = "trap 'tell got TERM' TERM; tell pid $$; while :; do sleep 0.05; done"
LEASE = 3.0
TIME_TO_HEAR = ("--lease", "9s", "--grace", "2.8s")
"""Seconds, and not tenths, between SIGTERM and SIGKILL, also when the lease runs out."""


def family(program: Program, *, trap: str = "") -> list[str]:
    """A program with a child and a grandchild, which all tell their numbers."""
    inner = (
        f"{trap} echo pid $$ >>{program.log}; sleep 61 & echo pid $! >>{program.log}; wait; wait"
    )
    return program.command(f"{trap} tell pid $$; sh -c '{inner}' & wait; wait")


def start(
    runs: Runs, program: Program, *more: str, url: str | None = None
) -> tuple[Run, list[int]]:
    """A run with a short lease, and the numbers of its three processes."""
    run = runs.start("run", "x", "--lease", str(LEASE), *more, "--", *family(program), url=url)
    return run, program.pids(count=3)


def test_case_15_a_program_much_longer_than_its_lease(runs: Runs, program: Program) -> None:
    """It is renewed while the program computes, and nobody else is elected meanwhile."""
    run, pids = start(runs, program)
    began = time.monotonic()
    while time.monotonic() < began + 2 * LEASE:
        assert runs("run", "x", "--skip-exit-code", "3", "--", "true")[0] == 3
    assert all(map(alive, pids))
    run.signal(signal.SIGTERM)
    assert run.ends() == 128 + signal.SIGTERM


def test_a_killed_command_ends_the_group_at_once(runs: Runs, program: Program) -> None:
    """SIGKILL: the program, its children and its grandchildren are dead within a second."""
    run, pids = start(runs, program, "--lease", "60s")
    run.signal(signal.SIGKILL)
    wait_until_blocking(lambda: gone(pids), within=10)
    assert runs.server.cli("PTTL", seat("x")) > 1000, "dead long before the lease could end"


def test_a_killed_command_ends_who_is_stopped_or_deaf(runs: Runs, program: Program) -> None:
    """Neither SIGSTOP nor a handler for SIGTERM helps."""
    command = family(program, trap='trap "" TERM HUP INT;')
    run = runs.start("run", "x", "--", *command)
    pids = program.pids(count=3)
    os.killpg(pids[0], signal.SIGSTOP)
    run.signal(signal.SIGKILL)
    wait_until_blocking(lambda: gone(pids), within=10)


def test_a_killed_supervisor_is_replaced_by_the_command(runs: Runs, program: Program) -> None:
    """Without its watch the program is ended, and the seat is given back after that."""
    run, pids = start(runs, program)
    run.supervisor.kill()
    assert run.ends() == 128 + signal.SIGKILL
    assert gone(pids)
    assert runs.server.cli("EXISTS", seat("x")) == 0


def test_the_program_dies_with_both(runs: Runs, program: Program) -> None:
    """Command and supervisor killed at once: the program itself dies all the same, on Linux."""
    run, pids = start(runs, program)
    supervisor = run.supervisor
    freeze(run.process.pid)
    supervisor.kill()
    run.signal(signal.SIGKILL)
    wait_until_blocking(lambda: not alive(pids[0]), within=10)
    for pid in filter(alive, pids):
        os.kill(pid, signal.SIGKILL)


def test_a_frozen_supervisor(runs: Runs, program: Program) -> None:
    """It is given a second beyond the grace; then the command ends the group by itself."""
    run, pids = start(runs, program)
    freeze(run.supervisor.pid)
    runs.server.cli("DEL", seat("x"))
    assert run.ends() == 75
    assert gone(pids)


def test_a_killed_command_and_a_frozen_supervisor(runs: Runs, program: Program) -> None:
    """The kernel resumes it when the command is gone, and it does its work."""
    run, pids = start(runs, program)
    freeze(run.supervisor.pid)
    run.signal(signal.SIGKILL)
    wait_until_blocking(lambda: gone(pids), within=10)


ADOPTS = """
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
subprocess.run(sys.argv[1:])
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to process 1 elsewhere")
def test_a_killed_command_and_a_frozen_supervisor_in_a_container(
    runs: Runs, program: Program
) -> None:
    """Adopted within its session, as by a shell that is process 1, it is resumed all the same."""
    command = [*INCUMBENT, "run", "x", "--lease", "60s", "--", *family(program)]
    with subprocess.Popen(
        [sys.executable, "-c", ADOPTS, *command],
        env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url},
        start_new_session=True,
    ) as first:
        try:
            pids = program.pids(count=3)
            (process,) = psutil.Process(first.pid).children()
            (supervisor,) = process.children()
            freeze(supervisor.pid)
            process.kill()
            wait_until_blocking(lambda: gone(pids), within=10)
        finally:
            for each in psutil.Process(first.pid).children(recursive=True):
                each.kill()
            first.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to process 1 elsewhere")
def test_orphans_are_adopted(runs: Runs, program: Program) -> None:
    """By the supervisor, which reaps them: in a container process 1 may not."""
    script = "sh -c 'sleep 60 & echo pid $! >>" + str(program.log) + "'; tell pid $$; sleep 60"
    run = runs.start("run", "x", "--", *program.command(script))
    orphan, _ = program.pids(count=2)
    assert psutil.Process(orphan).ppid() == run.supervisor.pid
    os.kill(orphan, signal.SIGKILL)
    wait_until_blocking(lambda: not psutil.pid_exists(orphan), within=10)


@pytest.mark.parametrize("stolen", [False, True], ids=["deleted", "taken"])
def test_a_lost_lease_ends_the_group(runs: Runs, program: Program, stolen: bool) -> None:
    """SIGTERM for all of it as soon as the loss is known, and exit code 75."""
    run, pids = start(runs, program)
    if stolen:
        runs.server.cli("HSET", seat("x"), "token", "another")
    else:
        runs.server.cli("DEL", seat("x"))
    assert run.ends() == 75
    assert gone(pids)
    reason = "taken" if stolen else "expired"
    *before, told = run.errors.splitlines()
    assert told.startswith(f"incumbent: leadership of 'x' lost: {reason} (")
    # A renewal may be late on a machine that stands still, which is told as well; nothing else is.
    assert all("'x' was not renewed" in line or "answers again for 'x'" in line for line in before)


def test_a_deaf_program_is_killed_after_the_grace(runs: Runs, program: Program) -> None:
    """It hears SIGTERM first."""
    run = runs.start("run", "x", *TIME_TO_HEAR, "--", *program.command(STUBBORN))
    pids = program.pids()
    runs.server.cli("DEL", seat("x"))
    assert run.ends() == 75
    assert program.told("got") == ["TERM"]
    assert gone(pids)


def test_a_stopped_program_hears_sigterm(runs: Runs, program: Program) -> None:
    """It is resumed to do so, and may clean up."""
    script = "trap 'tell bye; exit 1' TERM; tell pid $$; while :; do sleep 0.05; done"
    run = runs.start(
        "run", "x", "--lease", "20s", "--max-hold", "2s", "--", *program.command(script)
    )
    (pid,) = program.pids()
    os.killpg(pid, signal.SIGSTOP)
    assert run.ends() == 75
    assert program.lines[-1] == "bye"


def end_before_the_lease(runs: Runs, pids: list[int]) -> None:
    """Wait until they have ended; once the seat is free, they must have, however late we look."""

    def ended() -> bool:
        free = not runs.server.cli("EXISTS", seat("x"))
        if gone(pids):
            return True
        assert not free, "they have outlived the lease"
        return False

    wait_until_blocking(ended, within=120)


def test_an_unreachable_server(runs: Runs, program: Program) -> None:
    """The group is gone before the lease ends on the server."""
    with ProxyThread(runs.server) as relay:
        run, pids = start(runs, program, url=relay.url)
        relay.do(lambda proxy: proxy.cut(refuse=True))
        end_before_the_lease(runs, pids)
        assert run.ends() == 75
    assert "leadership of 'x' lost: unreachable" in run.errors


def test_a_frozen_command(runs: Runs, program: Program) -> None:
    """It cannot renew: the supervisor ends the group before the lease can end."""
    run, pids = start(runs, program)
    freeze(run.process.pid)
    end_before_the_lease(runs, pids)
    run.signal(signal.SIGCONT)
    assert run.ends() == 75


def test_a_frozen_command_with_a_deaf_program(runs: Runs, program: Program) -> None:
    """SIGTERM first, SIGKILL before the lease can end."""
    command = program.command(STUBBORN)
    run = runs.start("run", "x", *TIME_TO_HEAR, "--", *command)
    pids = program.pids()
    freeze(run.process.pid)
    end_before_the_lease(runs, pids)
    assert program.told("got") == ["TERM"]
    run.signal(signal.SIGCONT)
    assert run.ends() == 75


def test_what_the_program_leaves_behind(runs: Runs, program: Program) -> None:
    """It is ended, too, before the seat is given back; the code is the program's."""
    command = program.command("sleep 60 & tell pid $!; exit 3")
    assert runs("run", "x", "--", *command)[0] == 3
    assert gone(program.pids())
    assert runs.server.cli("EXISTS", seat("x")) == 0


def test_case_79_sigterm_hands_over(runs: Runs, program: Program) -> None:
    """The seat is given back when the program has cleaned up, and the next one leads at once."""
    script = "trap 'sleep 0.3; tell bye; exit 0' TERM; tell pid $$; while :; do sleep 0.05; done"
    run = runs.start("run", "x", "--lease", "60s", "--", *program.command(script))
    program.pids()
    other = runs.start("run", "x", "--wait", "forever", "--", *program.command("tell next"))
    wait_until_blocking(lambda: runs.server.cli("ZCARD", "incumbent:{x}:queue"), within=120)
    run.signal(signal.SIGTERM)
    assert (run.ends(), other.ends()) == (0, 0)
    assert program.lines[1:] == ["bye", "next"]


def test_case_81_a_second_start_disturbs_nobody(runs: Runs, program: Program) -> None:
    """Nothing is cleared at start."""
    run, pids = start(runs, program)
    before = runs.server.cli("HGETALL", seat("x"))
    assert runs("run", "x", "--", "true")[0] == 0
    assert runs.server.cli("HGETALL", seat("x")) == before
    assert all(map(alive, pids))
    run.signal(signal.SIGTERM)
    assert run.ends() == 128 + signal.SIGTERM


class Terminal:
    """The command in the foreground of a pseudo-terminal."""

    def __init__(self, runs: Runs, *arguments: str, command: list[str] | None = None) -> None:
        self._over = False
        pid, self._screen = pty.fork()
        if pid == 0:  # pragma: no cover - becomes the command
            os.environ.update(PYTHONPATH=SOURCE, INCUMBENT_URL=runs.server.url)
            command = command or [*INCUMBENT, *arguments]
            os.execvp(command[0], command)
        self.pid = pid
        runs.keep(self)

    def close(self) -> None:
        """End it, and with it all that it started."""
        if not self._over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._screen)

    def type(self, text: str) -> None:
        """As on the keyboard."""
        os.write(self._screen, text.encode())

    def ends(self) -> int:
        """The exit code."""
        _, status = wait_until_blocking(self._ended, within=120)
        self._over = True
        os.close(self._screen)
        return os.waitstatus_to_exitcode(status)

    def _ended(self) -> tuple[int, int] | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return (pid, status) if pid else None


def test_ctrl_c_in_a_terminal(runs: Runs, program: Program) -> None:
    """The program is interrupted, may clean up, and the seat is given back."""
    script = "trap 'tell bye; exit 4' INT; tell pid $$; while :; do sleep 0.05; done"
    terminal = Terminal(runs, "run", "x", "--", *program.command(script))
    program.pids()
    terminal.type("\x03")
    assert terminal.ends() == 4
    assert program.lines[-1] == "bye"
    assert runs.server.cli("EXISTS", seat("x")) == 0


def test_ctrl_c_reaches_a_script_around_it(runs: Runs, program: Program) -> None:
    """The program alone is interrupted by the terminal; the shell does not go on all the same."""
    command = shlex.join(
        [*INCUMBENT, "run", "x", "--", *program.command("tell pid $$; exec sleep 60")]
    )
    terminal = Terminal(runs, command=["bash", "-c", f"{command}; echo went on >>{program.log}"])
    program.pids()
    terminal.type("\x03")
    assert terminal.ends() == -signal.SIGINT
    assert len(program.lines) == 1


def test_a_program_may_ask(runs: Runs, program: Program) -> None:
    """It has the terminal, so it can read what is typed; and it is not suspended by Ctrl-Z."""
    terminal = Terminal(
        runs, "run", "x", "--", *program.command("tell ask; read answer; tell answer $answer")
    )
    program.wait_for("ask")
    terminal.type("\x1a")
    terminal.type("yes\n")
    assert program.wait_for("answer") == ["yes"]
    assert terminal.ends() == 0


def test_ctrl_c_while_it_waits(runs: Runs, program: Program) -> None:
    """It ends by SIGINT, so that a script around it ends as well; the line is left."""
    runs.start("run", "x", "--", *program.command("tell 1; sleep 60"))
    program.wait_for("1")
    terminal = Terminal(runs, "run", "x", "--wait", "forever", "--", "true")
    wait_until_blocking(lambda: runs.server.cli("ZCARD", "incumbent:{x}:queue"), within=120)
    terminal.type("\x03")
    assert terminal.ends() == -signal.SIGINT
    assert runs.server.cli("ZCARD", "incumbent:{x}:queue") == 0


def test_output_may_end_early(runs: Runs) -> None:
    """In a pipe whose reader is gone the program ends as without us."""
    command = [*INCUMBENT, "run", "x", "--", "sh", "-c", "while echo y; do :; done; exit 5"]
    env = os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        process.stdout.read(2)
        process.stdout.close()
        assert process.wait(30) == 128 + signal.SIGPIPE


def test_no_more_processes(runs: Runs) -> None:
    """What the system refuses is a sentence and 126, not a traceback."""
    code, errors = runs("run", "x", "--", "true", "x" * 131_000, "y" * 100)
    assert (code, errors) == (0, "")
    limited = f"ulimit -n 12; exec {shlex.join([*INCUMBENT, 'run', 'x', '--', 'true'])}"
    ended = subprocess.run(
        ["sh", "-c", limited],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url},
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 126
