"""What somebody reads at three in the morning: names and options as they are typed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.inside import Inside
from cli.stage import INCUMBENT, Program, Runs, seat
from cli.terminal import Typist
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


def test_the_options_of_commands_that_ask(ask: Inside) -> None:
    """They are options of the library's by other names."""
    answer = ask("doctor", "--lease", "1ms")
    assert (answer.code, answer.out) == (64, "")
    assert answer.err.startswith("incumbent: --lease must be from 0.25 s to ")
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
        assert ask("candidates", "job").err.startswith("incumbent: no election 'job': ")
    for wrong in ("@acme", "@", "@acme:", "@:job", "@a:@b"):
        for command in (("candidates",), ("status",), ("step-down",)):
            said = ask(*command, wrong)
            assert (said.code, said.out) == (64, ""), wrong


@pytest.mark.parametrize(
    ("name", "meant"),
    [("nigthly", "nightly"), ("acme:reports", "@acme:reports"), ("nightly ", "nightly")],
)
def test_a_name_that_is_none(ask: Inside, valkey: Server, name: str, meant: str) -> None:
    """Commands say so, with the one that is most like it; what they print for programs is whole."""
    for known in ("nightly", "@acme:reports", "other"):
        valkey.cli("SET", f"incumbent:{{{known}}}:fence", "1", "PX", 60_000)
    for arguments, code in (
        (("status", name), 0),
        (("step-down", name), 1),
        (("release", name, "--yes"), 1),
        (("candidates", name), 0),
    ):
        said = ask(*arguments)
        assert said.code == code
        assert said.err == (
            f"incumbent: no election {name!r}: nobody has led it for a day,"
            f" and nobody waits for it; did you mean {meant!r}?\n"
        )
    assert ask("status", name).out == f"{name}: nobody leads\n"
    assert ask("status", name, "--json").err == ""
    assert ask("step-down", "nightly").err == "incumbent: nobody leads 'nightly'\n"
    assert ask("candidates", "nightly").err == "incumbent: nobody stands for 'nightly'\n"
    assert "did you mean" not in ask("status", "something else").err


def test_the_wrong_server_or_prefix(ask: Inside, valkey: Server) -> None:
    """Where there is nothing at all, the name is not what is wrong."""
    assert ask("status", "job").err == (
        "incumbent: no elections under the prefix 'incumbent':"
        " look whether this is the right server, database and --prefix\n"
    )


def test_a_server_with_too_many_names(
    ask: Inside, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be looked through in a moment is not said to lack anything."""
    monkeypatch.setattr("incumbent.cli.elections.absent.WITHIN", 0.0)
    said = ask("step-down", "job")
    assert (said.code, said.err) == (1, "incumbent: nobody leads 'job'\n")


# -- screens ---------------------------------------------------------------------------------


@contextmanager
def narrow(valkey: Server, *arguments: str) -> Iterator[Typist]:
    """The command on a terminal of 80 columns."""
    terminal = Typist([*INCUMBENT, *arguments], {"INCUMBENT_URL": valkey.url}, columns=80)
    try:
        yield terminal
    finally:
        terminal.close()


def test_lines_fit_a_terminal_of_80_columns(valkey: Server) -> None:
    """They are folded between words: a name can be marked and copied."""
    node = "scheduler-6d4cf56db6-x7k2p-of-a-rather-long-deployment:1:0a1b2c3d"
    metadata = {f"region-{number}": "europe-west-3" for number in range(6)}
    with (
        LeaderElector(valkey.url, LeaderOptions(on_loss="notify"), leader_id=node) as elector,
        elector.lead("reports"),
        standing(valkey, node, metadata),
    ):
        for arguments, words in (
            (("status",), ["leads for", "lease ", "fence"]),
            (("candidates", "job", "--strategy", "incumbent.strategy:Fifo"), ["region-5=europe"]),
            (("doctor", "--lease", "3s"), ["a message came back"]),
        ):
            with narrow(valkey, *arguments) as terminal:
                terminal.ends()
                text = terminal.text
                assert all(word in text for word in words), text
                assert max(map(len, text.splitlines())) <= 80
                if arguments[0] != "doctor":
                    assert any(node in line for line in text.splitlines())
