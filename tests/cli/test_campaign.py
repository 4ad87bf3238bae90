"""`incumbent campaign`: stands by, runs the program while leading, and starts it anew."""

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from cli.stage import Program, Run, Runs, alive, gone, seat
from kit.proxy_thread import ProxyThread
from kit.waiting import wait_until_blocking

SERVE = "trap 'tell bye; exit 0' TERM; tell pid $$; while :; do sleep 0.05; done"


def waiting(runs: Runs, count: int) -> None:
    """Return when so many stand in line."""
    wait_until_blocking(
        lambda: runs.server.cli("ZCARD", "incumbent:{x}:queue") == count,
        within=120,
        what=f"{count} in line",
    )


def campaign(runs: Runs, program: Program, *more: str, script: str = SERVE) -> Run:
    """A campaign with a lease of five seconds."""
    return runs.start("campaign", "x", "--lease", "5s", *more, "--", *program.command(script))


def test_it_starts_an_ended_program_anew(runs: Runs, program: Program) -> None:
    """After success and after failure, with a pause that grows."""
    run = campaign(runs, program, script='tell at "$(date +%s.%N)"; exit 3')
    times = [float(text) for text in program.wait_for("at", times=6, within=120)]
    run.signal(signal.SIGTERM)
    assert run.ends() == 0
    pauses = [after - before for before, after in pairwise(times)]
    # The fifth is 0.8 to 1.6 s; a machine that is busy makes pauses longer, never shorter.
    assert all(
        pause > least for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.4, 0.8), strict=True)
    )
    assert "ended with exit code 3" in run.errors


def test_case_79_sigterm_releases_after_the_program_s_end(runs: Runs, program: Program) -> None:
    """The program cleans up under the lease; then the one that stood by leads at once."""
    slow = (
        "trap 'tell got; sleep 3; tell bye; exit 0' TERM; tell pid $$; while :; do sleep 0.05; done"
    )
    first = campaign(runs, program, script=slow)
    program.pids()
    second = campaign(runs, program)
    waiting(runs, 1)
    holder = runs.server.cli("HGET", seat("x"), "token")
    first.signal(signal.SIGTERM)
    program.wait_for("got")
    while "bye" not in program.lines:
        token = runs.server.cli("HGET", seat("x"), "token")
        assert token == holder or "bye" in program.lines
    assert first.ends() == 0
    program.pids(count=2)
    assert program.lines[1:3] == ["got", "bye"]
    second.signal(signal.SIGTERM)
    assert second.ends() == 0
    assert runs.server.cli("EXISTS", seat("x")) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_while_it_stands_by(runs: Runs, program: Program, number: int, code: int) -> None:
    """It leaves the line and ends; the leader notices nothing."""
    campaign(runs, program)
    (pid,) = program.pids()
    second = campaign(runs, program)
    waiting(runs, 1)
    second.signal(signal.SIGHUP)
    second.signal(signal.SIGUSR1)
    second.signal(number)
    assert second.ends() == code
    waiting(runs, 0)
    assert alive(pid)


def test_a_signal_in_the_pause(runs: Runs, program: Program) -> None:
    """Nothing runs then, and nothing is started any more."""
    run = campaign(runs, program, script="tell ran; exit 1")
    program.wait_for("ran", times=5, within=120)
    run.signal(signal.SIGTERM)
    assert run.ends() == 0


def test_a_lost_lease_is_followed_by_another_stand(runs: Runs, program: Program) -> None:
    """The program is ended, and started again when the seat is free."""
    run = campaign(runs, program)
    (first,) = program.pids()
    runs.server.cli("DEL", seat("x"))
    _, second = program.pids(count=2)
    assert not alive(first)
    assert "leadership of 'x' lost: expired" in run.errors
    run.signal(signal.SIGTERM)
    assert run.ends() == 0
    assert gone([first, second])


def test_a_signal_and_a_loss_at_once(runs: Runs, program: Program) -> None:
    """Asked to end, it does not stand again because the lease was lost meanwhile."""
    deaf = "trap 'tell got' TERM; tell pid $$; while :; do sleep 0.05; done"
    run = campaign(runs, program, script=deaf)
    (pid,) = program.pids()
    run.signal(signal.SIGTERM)
    program.wait_for("got")
    runs.server.cli("DEL", seat("x"))
    assert run.ends() == 0
    assert not alive(pid)
    assert len(program.told("pid")) == 1


def test_the_next_one_leads_after_sigkill(runs: Runs, tmp_path: Path) -> None:
    """The killed leader's program is dead before the other one's begins."""
    programs = [Program(tmp_path, name) for name in ("a", "b")]
    first = campaign(runs, programs[0])
    (pid,) = programs[0].pids()
    campaign(runs, programs[1])
    waiting(runs, 1)
    first.signal(signal.SIGKILL)
    wait_until_blocking(lambda: not alive(pid), within=10)
    assert not programs[1].lines
    programs[1].pids()


def test_an_outage_is_survived(runs: Runs, program: Program) -> None:
    """The program is ended in time, and leads again when the server is back."""
    with ProxyThread(runs.server) as relay:
        command = ["campaign", "x", "--lease", "2s", "--", *program.command(SERVE)]
        run = runs.start(*command, url=relay.url)
        (first,) = program.pids()
        relay.do(lambda proxy: proxy.cut(refuse=True))
        wait_until_blocking(lambda: not alive(first), within=120)
        relay.do_async(lambda proxy: proxy.restore())
        program.pids(count=2)
        run.signal(signal.SIGTERM)
        assert run.ends() == 0


def test_signals_reach_the_program(runs: Runs, program: Program) -> None:
    """SIGHUP asks it to read its settings again, and is no end."""
    run = campaign(runs, program, script=f"trap 'tell hup' HUP; {SERVE}")
    (pid,) = program.pids()
    run.signal(signal.SIGHUP)
    program.wait_for("hup")
    run.signal(signal.SIGTERM)
    assert run.ends() == 0
    assert not alive(pid)


def test_a_program_that_is_not_there(runs: Runs) -> None:
    """Nothing is tried for ever that cannot be."""
    code, errors = runs("campaign", "x", "--", "no-such-program")
    assert (code, errors) == (127, "incumbent: no-such-program: command not found\n")
