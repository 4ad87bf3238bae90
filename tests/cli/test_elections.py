"""`status`, `step-down` and `release`, in pipes and on a terminal."""

from collections.abc import Sequence

import pytest
from redis.asyncio.connection import AbstractConnection

from cli.inside import Inside
from cli.stage import Program, Run, Runs, led, seat
from cli.terminal import Terminal
from incumbent.stores.redis.wire import Request, Wire
from kit.servers import Server
from kit.waiting import wait_until_blocking

NOWHERE = "redis://127.0.0.1:1"


def leading(runs: Runs, program: Program, name: str, *options: str, lease: str = "3s") -> Run:
    """Somebody leads `name`, and goes on leading."""
    script = program.command("tell pid $$; exec sleep 60")
    before = len(program.told("pid"))
    run = runs.start("run", name, "--lease", lease, "--leader-id", "me", *options, "--", *script)
    program.wait_for("pid", times=before + 1)
    return run


# -- status ----------------------------------------------------------------------------------


def test_status_shows_who_leads_and_who_waits(runs: Runs, ask: Inside, valkey: Server) -> None:
    """One election by its name, also one in which nobody leads; for people and for programs."""
    with led(valkey, "job", lease=3.0):
        runs.start("run", "job", "--wait", "60", "--", "true")
        shown = wait_until_blocking(
            lambda: said if "in line" in (said := ask("status", "job", "nope")).out else None,
            within=120,
            what="somebody waits",
        )
        assert shown.code == 0
        assert shown.err == (
            "incumbent: no election 'nope': nobody has led it for a day, and nobody waits for it\n"
        )
        first, second, third = shown.out.splitlines()
        assert first == "job, 1 in line"
        assert second.startswith("  seat 0: me leads for ")
        assert third == "nope: nobody leads"
        told = ask("status", "job", "--json").value["elections"]
    assert [(each["name"], each["waiting"]) for each in told] == [("job", 1)]
    (leader,) = told[0]["leaders"]
    assert (leader["leader_id"], leader["seat"], leader["retained"]) == ("me", 0, False)
    assert 0 < leader["remaining"] <= 3
    assert leader["since"].endswith("Z")


def test_status_finds_all_elections_of_a_prefix(ask: Inside, valkey: Server) -> None:
    """Also groups with high seats, and tenants; what others keep on the server is left out."""
    assert ask("status").err == (
        "incumbent: no elections under the prefix 'incumbent':"
        " look whether this is the right server, database and --prefix\n"
    )
    assert ask("status", "--json").value == {"elections": []}
    valkey.cli("SET", "incumbent:{other}:fence", "1", "PX", 60_000)
    valkey.cli("SET", "incumbent:{@acme%3A:reports}:fence", "1", "PX", 60_000)
    valkey.cli(
        "HSET", seat("group", 700), "token", "t", "leader", "far", "fence", "9", "since", "1"
    )
    valkey.cli("PEXPIRE", seat("group", 700), 60_000)
    for foreign in (
        "incumbent:other",
        "incumbent:{@open}:fence",
        "incumbents:{x}:fence",
        "[y]:{y}:f",
    ):
        valkey.cli("SET", foreign, "1", "PX", 60_000)
    with led(valkey, "job"):
        found = ask("status", "--json").value["elections"]
    assert [each["name"] for each in found] == ["@acme%3A:reports", "group", "job", "other"]
    assert [len(each["leaders"]) for each in found] == [0, 1, 1, 0]
    assert found[1]["leaders"][0]["seat"] == 700
    assert ask("status", "--prefix", "[y]", "--json").value["elections"][0]["name"] == "y"


def test_what_others_wrote_cannot_move_the_cursor(ask: Inside, valkey: Server) -> None:
    """A leader's name comes from anybody who can write to the server."""
    valkey.cli(
        "HSET", seat("job"), "token", "t", "leader", "a\x1b[2J\nb", "fence", "9", "since", "1"
    )
    valkey.cli("PEXPIRE", seat("job"), 60_000)
    assert "\x1b" not in ask("status", "job").out
    assert len(ask("status", "job").out.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        *[("status",), ("status", "job"), ("watch",), ("watch", "job"), ("step-down", "job")],
        *[("release", "job", "--yes"), ("status", "job", "--json")],
    ],
)
def test_a_server_that_is_not_there(ask: Inside, arguments: tuple[str, ...]) -> None:
    """One line, and 69."""
    said = ask(*arguments, "--timeout", "2s", url=NOWHERE)
    assert (said.code, said.out) == (69, "")
    assert " does not answer as it should: not reached: " in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("status", "{x}"), 64, "must have no braces"),
        (("watch", "@x"), 64, "is written @TENANT:NAME"),
        (("step-down", " "), 64, "must not be blank"),
        (("release", "x\n", "--yes"), 64, "no control characters"),
        (("status", "--timeout", "0"), 64, "must be above 0"),
        (("status", "--prefix", "{"), 64, "must have no braces"),
        (("status", "--url", "http://x"), 64, "a server's URL must begin with"),
        (("status", "--timeout", "soon"), 2, "is no duration"),
        (("step-down",), 2, "Missing argument"),
        (("release", "x", "--seat", "-1"), 2, "--seat"),
        (("watch", "--what"), 2, "No such option"),
    ],
)
def test_a_mistake(ask: Inside, arguments: tuple[str, ...], code: int, why: str) -> None:
    """It is said in words."""
    said = ask(*arguments)
    assert (said.code, said.out) == (code, "")
    assert why in said.err


def test_a_frozen_server_is_given_up(ask: Inside, own_server: Server) -> None:
    """P9: after the timeout, also where all keys are looked through."""
    own_server.pause()
    try:
        for arguments in (("status",), ("status", "job")):
            assert ask(*arguments, "--timeout", "500ms", url=own_server.url).code == 69
    finally:
        own_server.resume()


def fence(name: str) -> str:
    """The key of an election's counter."""
    return f"incumbent:{{{name}}}:fence"


def test_one_key_of_the_wrong_type_is_one_bad_line(ask: Inside, valkey: Server) -> None:
    """With the names of the election and of the key; all others are shown, and the code is 1."""
    for name in ("a", "b", "c"):
        valkey.cli("SET", fence(name), "1", "PX", 60_000)
    valkey.cli("SET", seat("b"), "foreign", "PX", 60_000)
    said = ask("status")
    a, b, c = said.out.splitlines()
    assert (said.code, said.err, a, c) == (1, "", "a: nobody leads", "c: nobody leads")
    assert b.startswith(f"b: cannot be read: wrong type: {seat('b')} (WRONGTYPE ")
    assert seat("b") in b
    assert ask("status", "c", "b").out.splitlines() == [c, b]
    told = ask("status", "--json")
    assert told.code == 1
    assert [each["name"] for each in told.value["elections"]] == ["a", "b", "c"]
    assert seat("b") in told.value["elections"][1]["error"]
    said = ask("status", "b")
    assert (said.code, said.out) == (69, "")
    assert seat("b") in said.err


def test_an_election_that_this_user_may_not_see_is_one_bad_line(
    ask: Inside, own_server: Server
) -> None:
    """The others are shown."""
    for name in ("a", "b"):
        own_server.cli("SET", fence(name), "1", "PX", 60_000)
    own_server.cli("ACL", "SETUSER", "some", "on", ">secret", "~incumbent:{a}:*", "+@all")
    url = own_server.url.replace("redis://", "redis://some:secret@")
    said = ask("status", url=url)
    a, b = said.out.splitlines()
    assert (said.code, said.err, a) == (1, "", "a: nobody leads")
    assert b.startswith("b: cannot be read: no right to its keys (")


def test_status_asks_about_many_elections_in_one_round_trip(
    ask: Inside, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, a thousand elections on a far server would take minutes."""
    sent: list[int] = []
    write = Wire._write

    def counted(wire: Wire, requests: Sequence[Request], connection: AbstractConnection) -> None:
        sent.append(len(requests))
        write(wire, requests, connection)

    monkeypatch.setattr(Wire, "_write", counted)
    names = [f"job-{number}" for number in range(300)]
    for name in names:
        valkey.cli("SET", fence(name), "1", "PX", 60_000)
    said = ask("status", "--json")
    assert sorted(names) == [each["name"] for each in said.value["elections"]]
    assert sum(sent) >= 300
    assert len(sent) <= 5


# -- step-down and release -------------------------------------------------------------------


def test_who_leads_is_asked_to_step_down(runs: Runs, program: Program, ask: Inside) -> None:
    """It hands over with its next renewal; when nobody is there, that is told, with 1."""
    run = leading(runs, program, "job", lease="6s")  # renewals have a sixth of it for their answer
    assert ask("step-down", "job", "--seat", "1").code == 1
    said = ask("step-down", "job", "--json")
    assert (said.code, said.value) == (0, {"name": "job", "asked": 1})
    assert run.ends() == 75
    why = "stepped_down (it was asked to hand over)"
    assert run.errors == f"incumbent: leadership of 'job' lost: {why}\n"
    said = ask("step-down", "job")
    assert (said.code, said.err) == (1, "incumbent: nobody leads 'job'\n")


def test_a_seat_is_taken_from_who_does_not_listen(
    runs: Runs, program: Program, ask: Inside, valkey: Server
) -> None:
    """P1: the holder is stopped, and only then the next one leads, with a greater fence."""
    run = leading(runs, program, "job", lease="6s")
    old = int(valkey.cli("HGET", seat("job"), "fence"))
    said = ask("release", "job", "--yes")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("taken from me; the seat is free in ")
    assert run.ends() == 75
    assert run.errors == (
        "incumbent: leadership of 'job' lost: taken"
        " (another leader has the seat, or it was released by force)\n"
    )
    program.log.unlink()
    code, _ = runs(
        "run", "job", "--wait", "30", "--", *program.command('tell fence "$INCUMBENT_FENCE"')
    )
    assert code == 0
    assert int(program.told("fence")[0]) > old
    said = ask("release", "job", "--yes", "--json")
    assert (said.code, said.value) == (1, {"name": "job", "released": None})


def test_several_held_seats_need_a_number(ask: Inside, valkey: Server) -> None:
    """Nobody is taken a seat from by guess."""
    with led(valkey, "job", seats=2), led(valkey, "job", seats=2):
        said = ask("release", "job", "--yes")
        assert (said.code, said.err) == (
            64,
            "incumbent: seats 0, 1 of 'job' are held: say which one by --seat\n",
        )
        taken = ask("release", "job", "--seat", "1", "--yes", "--json").value["released"]
        assert taken["seat"] == 1
        assert ask("release", "job", "--yes", "--json").value["released"]["seat"] == 0


def test_without_a_terminal_nobody_can_be_asked(ask: Inside, valkey: Server) -> None:
    """A script has to say that it means it; nothing is done without."""
    with led(valkey, "job") as lease:
        said = ask("release", "job")
        assert lease.held
    assert said.code == 64
    assert "say --yes if you mean it" in said.err


@pytest.mark.parametrize(("answer", "code"), [("\n", 1), ("\x03", 130), ("y\n", 0)])
def test_the_operator_is_asked(
    valkey: Server, terminals: list[Terminal], *, answer: str, code: int
) -> None:
    """Who it is, is shown first; only a yes does it."""
    with led(valkey, "job"):
        terminal = Terminal(valkey.url, "release", "job")
        terminals.append(terminal)
        shown = terminal.wait_for("[y/N]")
        assert "job, seat 0: me leads for " in shown
        terminal.type(answer)
        assert terminal.ends() == code
        assert (valkey.cli("HGET", seat("job"), "token") == "retained") == (code == 0)


def test_another_term_than_the_one_that_was_shown_is_left_alone(
    valkey: Server, terminals: list[Terminal]
) -> None:
    """While the operator thought about it, the seat has changed hands."""
    with led(valkey, "job"):
        terminal = Terminal(valkey.url, "release", "job")
        terminals.append(terminal)
        terminal.wait_for("[y/N]")
    with led(valkey, "job"):
        terminal.type("y\n")
        assert terminal.ends() == 1
        assert "nothing done" in terminal.text
        assert valkey.cli("HGET", seat("job"), "token") != "retained"
