"""A program under the command is a job of the user's shell: Ctrl-Z, fg, bg, and its terminal."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable

import psutil  # type: ignore[import-untyped] # as in test_demo.py
import pytest

from cli.stage import INCUMBENT, SOURCE, Program, Runs, alive, gone, seat
from cli.terminal import Terminal, Typist
from kit.waiting import wait_until_blocking

Open = Callable[..., Typist]
LOOP = "sleep 600 & while :; do wait $!; done"
"""Starts nothing new: a shell that was stopped in a vfork is not stopped until that is over."""
NO_ECHO, RAW = "stty -echo", "stty raw -echo"


@pytest.fixture
def shell(runs: Runs) -> Typist:
    """An interactive shell without line editing: it leaves the modes of the terminal alone."""
    env = {
        "INCUMBENT_URL": runs.server.url,
        "PS1": "ready> ",
        "ENV": "",
        "PATH": os.environ["PATH"],
    }
    typist = Typist(["dash", "-i"] if has("dash") else ["sh", "-i"], env)
    runs.keep(typist)
    typist.wait_for("ready> ")
    return typist


def has(program: str) -> bool:
    """Whether it can be run."""
    return any(os.access(f"{each}/{program}", os.X_OK) for each in os.get_exec_path())


def line(*arguments: str) -> str:
    """What is typed for a command."""
    return shlex.join([*INCUMBENT, *arguments]) + "\n"


def stopped(*pids: int) -> bool:
    """Whether each of them is."""
    return all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids)


def running(*pids: int) -> bool:
    """Whether none of them is stopped, or has ended."""
    return all(map(alive, pids)) and not any(map(stopped, pids))


def command_of(program: int) -> int:
    """The number of the command over the supervisor over `program`."""
    found = psutil.Process(program).parent().ppid()
    assert isinstance(found, int)
    return found


def in_foreground(typist: Typist, pid: int) -> bool:
    """Whether the group of `pid` has the terminal."""
    return typist.foreground == os.getpgid(pid)


def test_ctrl_z_and_fg(runs: Runs, program: Program, shell: Typist) -> None:
    """Both are stopped, and the shell has its terminal as it was; fg gives it back as it was."""
    before = shell.modes
    script = f"{NO_ECHO}; trap 'tell again' CONT; tell pid $$; {LOOP}"
    shell.type(line("run", "x", "--lease", "60s", "--", *program.command(script)))
    (pid,) = program.pids()
    changed, command = shell.modes, command_of(pid)
    assert changed != before
    assert in_foreground(shell, pid)
    for times in (1, 2):
        shell.type("\x1a")
        wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)
        assert stopped(pid, command)
        assert shell.modes == before
        shell.type("fg\n")
        program.wait_for("again", times=times)
        assert in_foreground(shell, pid)
        assert shell.modes == changed
        assert running(pid, command)
    shell.type("\x03")
    wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)
    shell.type("echo it was $?\n")
    shell.wait_for("it was 130")
    assert shell.modes == before
    assert runs.server.cli("EXISTS", seat("x")) == 0


def test_bg(program: Program, shell: Typist) -> None:
    """It goes on without the terminal; when it asks for it, it is stopped until it has that."""
    script = f"trap 'tell on; read answer; tell answer $answer; exit 0' USR1; tell pid $$; {LOOP}"
    shell.type(line("run", "x", "--lease", "60s", "--", *program.command(script)))
    (pid,) = program.pids()
    command = command_of(pid)
    shell.type("\x1a")
    wait_until_blocking(lambda: stopped(pid, command), within=60)
    shell.type("bg\n")
    wait_until_blocking(lambda: running(pid, command), within=60)
    assert in_foreground(shell, shell.process.pid)
    os.kill(command, signal.SIGUSR1)
    program.wait_for("on")
    wait_until_blocking(lambda: stopped(pid, command), within=60)
    assert in_foreground(shell, shell.process.pid)
    shell.type("fg\n")
    wait_until_blocking(lambda: in_foreground(shell, pid), within=60)
    shell.type("yes\n")
    assert program.wait_for("answer") == ["yes"]


def test_stopped_for_longer_than_the_lease(runs: Runs, program: Program, shell: Typist) -> None:
    """The program is ended, as nobody renews the lease; fg tells how it was."""
    script = f"trap 'tell bye; exit 1' TERM; tell pid $$; {LOOP}"
    options = ["--lease", "9s", "--grace", "2.8s"]  # time enough to hear SIGTERM
    shell.type(line("run", "x", *options, "--", *program.command(script)))
    (pid,) = program.pids()
    command = command_of(pid)
    shell.type("\x1a")
    wait_until_blocking(lambda: gone([pid]), within=60)
    assert program.lines[-1] == "bye"
    assert stopped(command)
    shell.type("fg; echo it was $?\n")
    shell.wait_for("it was 75")
    assert in_foreground(shell, shell.process.pid)


def test_ctrl_z_reaches_a_script_around_it(program: Program, shell: Typist) -> None:
    """The whole job is stopped, and goes on."""
    inner = line("run", "x", "--lease", "60s", "--", *program.command(f"tell pid $$; {LOOP}"))
    shell.type(shlex.join(["sh", "-c", f"echo pid $$ >>{program.log}; {inner.strip()}; exit 5"]))
    shell.type("\n")
    script, pid = program.pids(count=2)
    shell.type("\x1a")
    wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)
    wait_until_blocking(lambda: stopped(script, command_of(pid), pid), within=60)
    shell.type("fg\n")
    wait_until_blocking(lambda: running(script, command_of(pid), pid), within=60)
    shell.type("\x03")
    wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)


def test_ctrl_z_of_a_campaign(program: Program, shell: Typist) -> None:
    """Its program has no terminal, and stops and goes on with it."""
    script = f"trap 'tell again' CONT; tell pid $$; {LOOP}"
    shell.type(line("campaign", "x", "--lease", "60s", "--", *program.command(script)))
    (pid,) = program.pids()
    command = command_of(pid)
    shell.type("\x1a")
    wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)
    wait_until_blocking(lambda: stopped(pid, command), within=60)
    shell.type("fg\n")
    program.wait_for("again")
    wait_until_blocking(lambda: running(pid, command), within=60)
    shell.type("\x03")
    wait_until_blocking(lambda: in_foreground(shell, shell.process.pid), within=60)
    assert not alive(command)


def job(runs: Runs, *arguments: str) -> "subprocess.Popen[bytes]":
    """A command in a process group of its own, without a terminal, as a job of this process."""
    process = subprocess.Popen(
        [*INCUMBENT, *arguments],
        env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url},
        stdin=subprocess.DEVNULL,
        process_group=0,
    )

    class Job:
        def close(self) -> None:
            if process.poll() is None:
                process.kill()
                process.wait()

    runs.keep(Job())
    return process


@pytest.mark.parametrize("kind", ["run", "campaign"])
def test_sigtstp_without_a_terminal(runs: Runs, program: Program, kind: str) -> None:
    """The program is stopped first, and goes on with SIGCONT to the command."""
    script = f"trap 'tell again' CONT; tell pid $$; {LOOP}"
    process = job(runs, kind, "x", "--lease", "60s", "--", *program.command(script))
    (pid,) = program.pids()
    process.send_signal(signal.SIGTSTP)
    wait_until_blocking(lambda: stopped(pid, process.pid), within=60)
    process.send_signal(signal.SIGCONT)
    program.wait_for("again")
    wait_until_blocking(lambda: running(pid, process.pid), within=60)
    process.terminate()
    assert process.wait(60) == (0 if kind == "campaign" else 143)


def test_sigtstp_while_it_waits(runs: Runs, program: Program) -> None:
    """It is stopped, goes on, and is elected when its turn comes."""
    first = runs.start("run", "x", "--lease", "60s", "--", *program.command("tell 1; sleep 60"))
    program.wait_for("1")
    process = job(runs, "run", "x", "--wait", "forever", "--", *program.command("tell 2"))
    wait_until_blocking(lambda: runs.server.cli("ZCARD", "incumbent:{x}:queue"), within=120)
    process.send_signal(signal.SIGTSTP)
    wait_until_blocking(lambda: stopped(process.pid), within=60)
    process.send_signal(signal.SIGCONT)
    first.signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert program.lines == ["1", "2"]


@pytest.fixture
def open_terminal(runs: Runs) -> Open:
    """Opens a terminal with a run in it."""

    def opened(*arguments: str) -> Typist:
        terminal = Terminal(runs.server.url, *arguments)
        runs.keep(terminal)
        return terminal

    return opened


@pytest.mark.parametrize("how", ["lost", "killed", "frozen"])
def test_a_program_that_could_not_put_the_terminal_in_order(
    runs: Runs, program: Program, open_terminal: Open, how: str
) -> None:
    """In raw mode when it was ended by force: the modes are what they were."""
    script = f"echo modes; read go; {RAW}; tell pid $$; trap '' TERM; {LOOP}"
    options = ["--lease", "4s", "--grace", "500ms"]
    terminal = open_terminal("run", "x", *options, "--", *program.command(script))
    terminal.wait_for("modes")
    before = terminal.modes
    terminal.type("\n")
    (pid,) = program.pids()
    assert terminal.modes != before
    if how == "lost":
        runs.server.cli("DEL", seat("x"))
    elif how == "killed":
        os.killpg(pid, signal.SIGKILL)
    else:
        command = psutil.Process(terminal.process.pid)
        command.suspend()
        wait_until_blocking(lambda: gone([pid]), within=60)
        command.resume()
    assert terminal.ends() == (137 if how == "killed" else 75)
    assert terminal.modes == before


def test_a_program_may_leave_other_modes(program: Program, open_terminal: Open) -> None:
    """As stty does for a living."""
    script = f"echo modes; read go; {NO_ECHO}"
    terminal = open_terminal("run", "x", "--", *program.command(script))
    terminal.wait_for("modes")
    before = terminal.modes
    terminal.type("\n")
    assert terminal.ends() == 0
    assert terminal.modes != before
