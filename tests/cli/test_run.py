"""`incumbent run`: exit codes, what the program is told, who runs and who does not."""

import gc
import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import redis

from cli.inside import Inside
from cli.stage import INCUMBENT, SOURCE, Program, Runs, alive, gone, seat
from kit import warden
from kit.ports import free_port
from kit.servers import Server, locate
from kit.waiting import wait_until_blocking


def test_the_program_runs_and_its_code_is_ours(runs: Runs, program: Program) -> None:
    """It is told of its lease by its environment, and nothing of the seat is left."""
    script = program.command(
        "tell $INCUMBENT_ELECTION $INCUMBENT_SEAT $INCUMBENT_LEADER_ID $INCUMBENT_FENCE; exit 7"
    )
    code, errors = runs("run", "report", "--leader-id", "me", "--", *script)
    assert (code, errors) == (7, "")
    (line,) = program.lines
    election, number, leader, fence = line.split()
    assert (election, number, leader) == ("report", "0", "me")
    assert fence == runs.server.cli("GET", "incumbent:{report}:fence")
    assert runs.server.cli("EXISTS", seat("report")) == 0


def test_a_program_that_is_ended_by_a_signal(runs: Runs) -> None:
    """128 and the number, as the shell has it."""
    assert runs("run", "report", "--", "sh", "-c", "kill -9 $$")[0] == 137


def test_who_is_not_elected_says_so(runs: Runs, program: Program) -> None:
    """One line on stderr and exit code 0, or the one that was asked for; the program is not run."""
    first = runs.start(
        "run", "job", "--leader-id", "first", "--", *program.command("tell 1; sleep 60")
    )
    program.wait_for("1")
    code, errors = runs("run", "job", "--", *program.command("tell 2"))
    assert (code, errors) == (0, "incumbent: not run: first leads 'job'\n")
    assert runs("run", "job", "--skip-exit-code", "9", "--", *program.command("tell 2"))[0] == 9
    assert program.lines == ["1"]
    first.signal(signal.SIGTERM)
    assert first.ends() == 128 + signal.SIGTERM


def test_waiting_for_the_seat(runs: Runs, program: Program) -> None:
    """It runs when the one before it has ended; who gives up waiting is not elected."""
    first = runs.start("run", "job", "--", *program.command("tell 1; sleep 60"))
    program.wait_for("1")
    assert runs("run", "job", "--wait", "200ms", "--skip-exit-code", "3", "--", "true")[0] == 3
    second = runs.start("run", "job", "--wait", "forever", "--", *program.command("tell 2"))
    wait_until_blocking(lambda: runs.server.cli("ZCARD", "incumbent:{job}:queue"), within=120)
    first.signal(signal.SIGTERM)
    assert second.ends() == 0
    assert program.lines == ["1", "2"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_it_waits(runs: Runs, program: Program, number: int) -> None:
    """It leaves the line, and ends as by that signal."""
    runs.start("run", "job", "--", *program.command("tell 1; sleep 60"))
    program.wait_for("1")
    waiter = runs.start("run", "job", "--wait", "forever", "--", *program.command("tell 2"))
    wait_until_blocking(lambda: runs.server.cli("ZCARD", "incumbent:{job}:queue"), within=120)
    waiter.signal(number)
    assert waiter.ends() == 128 + number
    assert runs.server.cli("ZCARD", "incumbent:{job}:queue") == 0
    assert program.lines == ["1"]


def test_ten_shells_with_the_same_crontab_line(runs: Runs, program: Program, ask: Inside) -> None:
    """Started at once, as by the clocks of ten hosts: one runs it, the others say why not."""
    line = (
        f"{shlex.join(INCUMBENT)} run nightly --once-per 366d -- sh -c 'echo ran >>{program.log}'"
    )
    shells = [
        subprocess.Popen(
            ["sh", "-c", line],
            env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(10)
    ]
    said = [shell.communicate(timeout=150)[1] for shell in shells]
    assert [shell.returncode for shell in shells] == [0] * 10
    assert program.lines == ["ran"]
    assert sum(each.startswith("incumbent: not run: ") for each in said) == 9
    late = ask("run", "nightly", "--once-per", "366d", "--", "true")
    assert late == (0, "", "incumbent: not run: 'nightly' has been run in this period\n")


def test_once_per_cron_expression(runs: Runs, program: Program) -> None:
    """Known by its blanks; the second run in the same period does not happen."""
    line = ["run", "nightly", "--once-per", "0 0 1 1 *", "--", *program.command("tell ran")]
    assert [runs(*line)[0] for _ in range(2)] == [0, 0]
    assert program.lines == ["ran"]


def test_a_clock_that_is_ahead_does_not_make_it_run_twice(runs: Runs, program: Program) -> None:
    """A start a few seconds before a period counts for it, so the host that is on time does not.

    The old mark, of the period before, shows that nothing but the tolerance is in the way.
    """
    length, begins = one_that_begins_in(10)
    line = ["run", "nightly", "--once-per", f"{length}ms", "--", *program.command("tell ran")]
    runs.server.cli("SET", "incumbent:{nightly}:tick", f"{begins - 2 * length} t -1", "PX", 10**9)
    assert runs(*line) == (0, "")
    assert time.time() * 1000 < begins, "it was early"
    assert runs.server.cli("GET", "incumbent:{nightly}:tick").split()[0] == str(begins)
    time.sleep(max(0.0, begins / 1000 - time.time()))
    said = (0, "incumbent: not run: 'nightly' has been run in this period\n")
    assert runs(*line) == said
    assert program.lines == ["ran"]


def one_that_begins_in(seconds: float) -> tuple[int, int]:
    """The length of a period of some months, and when the next one of these begins: ms."""
    begins = round(1000 * (time.time() + seconds))
    count = begins // (200 * 86_400_000)
    return begins // count, begins // count * count


def test_a_failed_run_may_be_tried_again(runs: Runs, program: Program) -> None:
    """Within the period, until one has not failed; without --retry-failed a run is a run."""
    line = ["run", "nightly", "--once-per", "0 0 1 1 *", "--tz", "Pacific/Auckland"]
    fails = program.command("tell ran; exit 3")
    for _ in range(2):
        assert runs(*line, "--retry-failed", "--", *fails) == (3, "")
    assert runs(*line, "--", *fails) == (3, "")
    done = (0, "incumbent: not run: 'nightly' has been run in this period\n")
    assert runs(*line, "--retry-failed", "--", *fails) == done
    assert program.lines == ["ran"] * 3


def test_the_time_zone_of_the_period(runs: Runs) -> None:
    """The new year of the zone is what counts: the tick that is kept on the server shows it."""
    zone = ZoneInfo("Pacific/Auckland")
    assert runs("run", "x", "--once-per", "0 0 1 1 *", "--tz", zone.key, "--", "true") == (0, "")
    tick = int(runs.server.cli("GET", "incumbent:{x}:tick").split()[0]) / 1000
    begun = datetime.fromtimestamp(tick, zone)
    assert begun == datetime(begun.year, 1, 1, tzinfo=zone)


def test_seats(runs: Runs, program: Program) -> None:
    """As many run as there are seats, each told its own."""
    command = program.command("tell seat $INCUMBENT_SEAT; sleep 60")
    for count in (1, 2):
        runs.start("run", "work", "--seats", "2", "--", *command)
        program.wait_for("seat", times=count)
    assert runs("run", "work", "--seats", "2", "--skip-exit-code", "4", "--", *command)[0] == 4
    assert program.told("seat") == ["0", "1"]


def test_the_longest_time(runs: Runs, program: Program) -> None:
    """A program that leads longer than it may is ended, and that is no success."""
    script = program.command("tell pid $$; exec sleep 60")
    code, errors = runs("run", "job", "--max-hold", "1s", "--", *script)
    why = "max_hold_time (it was held for as long as --max-hold allows)"
    assert (code, errors) == (75, f"incumbent: leadership of 'job' lost: {why}\n")
    assert gone(program.pids())


def test_the_shortest_time(runs: Runs) -> None:
    """The seat stays taken after a program that was fast; who comes meanwhile is told."""
    line = ["run", "job", "--min-hold", "20s", "--leader-id", "me", "--", "true"]
    assert runs(*line) == (0, "")
    said = "incumbent: not run: 'job' was just led by me, and its seat is still kept\n"
    assert runs(*line) == (0, said)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["x", "--", "no-such-program"], 127, "no-such-program: command not found"),
        (["x", "--", "/no/such/program"], 127, "/no/such/program: command not found"),
        (["x", "--", ""], 127, ": command not found"),
        (["x", "--", "/"], 126, "/: Is a directory"),
        (["x{", "--", "true"], 64, "an election's name must have no braces"),
        (["x", "--lease", "1ms", "--", "true"], 64, "--lease must be from 0.25 s"),
        (["x", "--grace", "1h", "--", "true"], 64, "the timers must fit into --lease"),
        (["x", "--prefix", "{", "--", "true"], 64, "--prefix must have no braces"),
        (["x", "--lease", "soon", "--", "true"], 2, "Error: "),
        (["x", "--once-per", "1 fortnight", "--", "true"], 2, "Error: "),
        (["x", "--once-per", "1h1", "--", "true"], 2, "Error: "),
        (["x", "--seats", "0", "--", "true"], 2, "Error: "),
        (["x", "--tz", "UTC", "--", "true"], 2, "--tz needs --once-per"),
        (["x", "--retry-failed", "--", "true"], 2, "--retry-failed needs --once-per"),
        (["x", "--once-per", "1d", "--tz", "UTC", "--", "true"], 2, "tz is for a cron expression"),
        (
            ["x", "--once-per", "0 3 * * *", "--tz", "Europe/Berln", "--", "true"],
            2,
            "such as 'Europe/Berlin', not 'Europe/Berln'",
        ),
        (["x"], 2, "Error: "),
        (["x", "ls", "-l"], 2, "Error: "),
        (
            ["x", "--url", "redis+cluster://:cret@127.0.0.1:1", "--", "true"],
            69,
            "the cluster at 127.0.0.1:1 does not answer",
        ),
        (["x", "--url", "embedded://x", "--", "true"], 64, "embedded:// takes nothing"),
        (["x", "--url", "redis://:se/cret@h", "--", "true"], 64, "not a URL of a server"),
        (
            ["x", "--url", "redis://:cret@127.0.0.1:1", "--", "true"],
            69,
            "the server at 127.0.0.1:1 does not answer",
        ),
    ],
)
def test_mistakes(ask: Inside, arguments: list[str], code: int, why: str) -> None:
    """A documented exit code and a sentence, without a traceback and without a password."""
    said = ask("run", *arguments)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("Usage: incumbent run" if code == 2 else f"incumbent: {why}")
    assert why in said.err
    assert "cret" not in said.err
    assert code == 2 or said.err.count("\n") == 1


def test_a_wrong_password(runs: Runs, own_server: Server) -> None:
    """A server that refuses: 69, and the password is not told."""
    own_server.cli("CONFIG", "SET", "requirepass", "right")
    url = own_server.url.replace("redis://", "redis://:secret@")
    code, errors = runs("run", "x", "--", "true", url=url)
    own_server.admin.connection_pool.connection_kwargs["password"] = "right"
    assert code == 69
    assert "secret" not in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fno program", "Exec format error"),
        (b"#!/no/such/shell\n", "the interpreter or loader that it names was not found"),
    ],
)
def test_a_program_that_cannot_be_started(
    runs: Runs, program: Program, content: bytes, why: str
) -> None:
    """126 and the system's words; the seat is given back."""
    program.log.write_bytes(content)
    program.log.chmod(0o755)
    code, errors = runs("run", "x", "--", str(program.log))
    assert (code, errors) == (126, f"incumbent: {program.log}: {why}\n")
    assert runs.server.cli("EXISTS", seat("x")) == 0


@pytest.mark.parametrize("command", ["run", "campaign"])
def test_a_program_that_may_not_be_executed(
    ask: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """126 as in a shell, by its path and by its name on PATH; nobody is elected for it."""
    script = tmp_path / "report.sh"
    script.write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    said = ask(command, "x", "--", str(script), url="redis://127.0.0.1:1")
    assert said == (126, "", f"incumbent: {script}: Permission denied\n")
    monkeypatch.setenv("PATH", f"/no/such/folder:{tmp_path}:{os.environ['PATH']}")
    said = ask(command, "x", "--", "report.sh", url="redis://127.0.0.1:1")
    assert said == (126, "", "incumbent: report.sh: Permission denied\n")
    said = ask(command, "x", "--", "folder", url="redis://127.0.0.1:1")
    assert said == (127, "", "incumbent: folder: command not found\n"), "as for a shell"


def test_a_server_of_the_command_s_own(runs: Runs) -> None:
    """embedded:// needs no server, and none is left."""
    assert runs("run", "x", "--", "sh", "-c", "exit 5", url="embedded://") == (5, "")


def test_what_the_shell_opened_is_open_for_the_program(runs: Runs, program: Program) -> None:
    """Descriptors above 2 reach the program, and none of ours do."""
    code = "import os; os.write(9, b'nine'); print(*(os.readlink(f'/proc/self/fd/{n}') for n in"
    code += " os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')), sep='\\n')"
    inner = shlex.join([*INCUMBENT, "run", "x", "--", sys.executable, "-c", code])
    ended = subprocess.run(
        ["sh", "-c", f"exec 9>{program.log}; exec {inner}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE, "INCUMBENT_URL": runs.server.url},
    )
    assert (ended.returncode, program.log.read_text()) == (0, "nine"), ended.stderr
    pipes = [path for path in ended.stdout.splitlines() if path.startswith(("pipe:", "socket:"))]
    assert len(pipes) == 2, "stdout and stderr"


def test_signals_are_forwarded(runs: Runs, program: Program) -> None:
    """Each to the whole group; the program's own code is ours, and the seat is free at once."""
    script = "; ".join(f"trap 'tell got {name}' {name}" for name in ("HUP", "USR1", "USR2", "INT"))
    script += "; trap 'tell got TERM; exit 9' TERM; tell pid $$; while :; do sleep 0.05; done"
    run = runs.start("run", "x", "--", *program.command(script))
    program.wait_for("pid")
    for count, name in enumerate(("HUP", "USR1", "USR2", "INT", "TERM"), 1):
        run.signal(getattr(signal, f"SIG{name}"))
        assert program.wait_for("got", times=count)[-1] == name
    assert run.ends() == 9
    assert runs.server.cli("EXISTS", seat("x")) == 0


def test_an_ignored_signal_stays_ignored(runs: Runs, program: Program) -> None:
    """As under nohup: SIGHUP means nothing to the command, nor to the program."""
    script = program.command("tell pid $$; sleep 60")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = runs.start("run", "x", "--", *script)
    finally:
        signal.signal(signal.SIGHUP, before)
    (pid,) = program.pids()
    run.signal(signal.SIGHUP)
    run.supervisor.send_signal(signal.SIGHUP)
    os.killpg(pid, signal.SIGHUP)
    run.signal(signal.SIGTERM)
    assert run.ends() == 128 + signal.SIGTERM
    assert not alive(pid)


def test_the_server_that_a_sentinel_names(
    runs: Runs, own_server: Server, tmp_path: Path, program: Program
) -> None:
    """redis+sentinel:// with a real Sentinel, the second of two that are named."""
    port = free_port(own_server.host)
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"bind {own_server.host}\nport {port}\ndir {tmp_path}\n"
        f"sentinel monitor main {own_server.host} {own_server.port} 1\n"
    )
    binary = locate(own_server.kind).path
    with (tmp_path / "out").open("wb") as out:
        sentinel = warden.start_child([str(binary), str(config), "--sentinel"], output=out)
    try:
        with redis.Redis(own_server.host, port) as client:
            wait_until_blocking(lambda: answers(client), within=120)
        url = f"redis+sentinel://{own_server.host}:1,{own_server.host}:{port}/main/3"
        command = program.command("tell $INCUMBENT_FENCE")
        assert runs("run", "x", "--", *command, url=url) == (0, "")
        own_server.cli("SELECT", 3)
        assert program.lines == [own_server.cli("GET", "incumbent:{x}:fence")]
        other = url.replace("main", "other")
        code, errors = runs("status", "x", "--timeout", "300ms", url=other)
        assert (code, errors.count("\n")) == (69, 1)
        gc.collect()  # what was not closed, as the connections to Sentinels once, warns now
    finally:
        sentinel.kill()
        sentinel.wait()
        warden.reaped(sentinel)


def answers(client: redis.Redis) -> bool:
    """Whether the server of `client` is there."""
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
