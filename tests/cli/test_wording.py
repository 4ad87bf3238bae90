"""What somebody reads at three in the morning: names and options as they are typed."""

import pytest

from cli.inside import Inside
from cli.stage import Program, Runs, seat
from cli.test_strangers import standing
from incumbent import LeaderOptions
from incumbent.blocking import LeaderElector
from kit.servers import Server


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--lease", "10ms"), 64, "--lease must be from 0.25 s to 2592000 s (30d), not 0.01 s"),
        (("--min-hold", "2m"), 64, "--min-hold must be at most --lease: 120 s > 30 s"),
        (("--max-hold", "0"), 64, "--max-hold must be above 0, not 0 s"),
        (("--grace", "30"), 64, "the timers must fit into --lease: "),
        (("--grace", "30"), 64, " + --grace 30 s + "),
        (("--leader-id", "{"), 64, "--leader-id must have no braces"),
        (("--prefix", "{"), 64, "--prefix must have no braces"),
        (("--retry-failed",), 2, "--retry-failed needs --once-per"),
        (("--once-per", "1d", "--tz", "UTC"), 2, "'--tz': "),
    ],
)
def test_options_are_called_as_they_are_typed(
    ask: Inside, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Also where it is the library that refuses them."""
    answer = ask("run", "job", *arguments, "--", "true")
    assert answer.code == code
    assert said in " ".join(answer.err.split())
    assert "_" not in answer.err


def test_the_timeout_of_commands_that_ask(ask: Inside) -> None:
    """It is an option of the library's by another name."""
    answer = ask("status", "--timeout", "0")
    assert (answer.code, answer.err) == (64, "incumbent: --timeout must be above 0, not 0 s\n")


def test_elections_of_tenants(ask: Inside, runs: Runs, program: Program, valkey: Server) -> None:
    """Every command takes the name that `status` shows."""
    shown = "@ac%3Ame:reports"
    told = LeaderOptions(on_loss="notify")
    with (
        LeaderElector(valkey.url, told, leader_id="me").for_tenant("ac:me") as elector,
        elector.lead("reports"),
    ):
        assert ask("status").out.startswith(f"{shown}\n  seat 0: me leads")
        assert ask("run", shown, "--", "true").err == f"incumbent: not run: me leads {shown!r}\n"
        assert ask("step-down", shown).code == 0
        assert ask("release", shown, "--yes").out.startswith("taken from me")
    valkey.cli("DEL", seat(shown))
    code, _ = runs("run", shown, "--", *program.command('tell 1 "$INCUMBENT_ELECTION"'))
    assert (code, program.lines) == (0, [f"1 {shown}"])
    campaign = runs.start("campaign", shown, "--", *program.command("tell 2; exec sleep 60"))
    program.wait_for("2")
    campaign.signal(15)
    assert campaign.ends() == 0


def test_candidates_of_tenants(ask: Inside, valkey: Server) -> None:
    """As everywhere, with a strategy and without; an own election may not begin so."""
    with standing(valkey, "n1", {"zone": "a"}, tenant="acme"):
        for more in ((), ("--strategy", "incumbent.strategy:Fifo")):
            said = ask("candidates", "@acme:job", *more)
            assert (said.code, said.err) == (0, "")
            assert "n1: " in said.out
        assert ask("candidates", "job").err == "incumbent: nobody stands for 'job'\n"
    for wrong in ("@acme", "@", "@acme:", "@:job", "@a:@b"):
        for command in (("candidates",), ("status",), ("step-down",)):
            said = ask(*command, wrong)
            assert (said.code, said.out) == (64, ""), wrong
