"""`bench`: what it measures, how it tells, and that it leaves nothing behind."""

import signal

import pytest

from cli.inside import Inside
from cli.stage import Runs
from incumbent.cli.bench.figures import Measurement, lines, value
from kit.servers import Server
from kit.waiting import wait_until_blocking

PARTS = ["PING", "one by one", "at once", "hand-over"]


def test_figures() -> None:
    """Nearest ranks; no rate where none is meant; nothing measured is no zero."""
    many = Measurement("x", [each / 1000 for each in range(100, 0, -1)], within=4.0, at_once=7)
    shown = value(many)
    assert (shown["about"], shown["at_once"], shown["count"]) == ("x", 7, 100)
    assert (shown["per_second"], shown["p50"], shown["p99"], shown["max"]) == (25, 0.05, 0.099, 0.1)
    assert value(Measurement("y", [3.0]))["p50"] == value(Measurement("y", [3.0]))["max"] == 3.0
    assert value(Measurement("y", []))["p99"] is None
    table = [*lines([many, Measurement("y", [])])]
    assert table[1].split() == ["7", "x", "25", "50.00", "99.00", "100.00", "100"]
    assert table[2].split() == ["y", "-", "-", "-", "0"]
    assert {len(line) for line in table} == {len(table[0])}
    assert len(table[0]) <= 80


def test_all_is_measured_and_no_key_is_left(ask: Inside, valkey: Server) -> None:
    """Each thing once at least, by real elections; what was there before is left alone."""
    valkey.cli("SET", "incumbent:{mine}:fence", "7", "PX", 60_000)
    before = calls(valkey)
    said = ask("bench", "--seconds", "0.2", "--at-once", "3", "--json")
    assert (said.code, said.err) == (0, "")
    told = said.value["measurements"]
    assert [each["about"] for each in told] == PARTS
    assert [each["at_once"] for each in told] == [1, 1, 3, 1]
    for each in told:
        assert each["count"] >= each["at_once"]
        assert 0 < each["p50"] <= each["p99"] <= each["max"]
        assert (each["per_second"] is None) == (each["about"] == "hand-over")
    pings = calls(valkey).get("ping", 0) - before.get("ping", 0)
    assert pings >= told[0]["count"]
    assert valkey.cli("KEYS", "*") == ["incumbent:{mine}:fence"]


def calls(server: Server) -> dict[str, int]:
    """How often each command was called."""
    stats = server.admin.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}


def test_a_prefix_of_its_own_is_within_the_rights_of_a_user(
    ask: Inside, own_server: Server
) -> None:
    """Who may touch nothing but ``incumbent:*`` can measure."""
    rule = "on >pw ~incumbent:* resetchannels &incumbent:* +@all -keys -scan -flushall"
    own_server.cli("ACL", "SETUSER", "few", *rule.split())
    url = own_server.url.replace("redis://", "redis://few:pw@")
    said = ask("bench", "--seconds", "0.1", "--at-once", "2", url=url)
    assert (said.code, said.err) == (0, "")
    assert [line.split("  ")[0] for line in said.out.splitlines()] == ["", *expected(2)]
    assert own_server.cli("KEYS", "*") == []


def expected(at_once: int) -> list[str]:
    """The rows of the table."""
    return [f"{at_once} at once" if each == "at once" else each for each in PARTS]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_who_ends_it_early_finds_no_key(runs: Runs, valkey: Server, number: int, code: int) -> None:
    """In the middle of its elections, it gives back what it has, and removes the rest."""
    run = runs.start("bench", "--seconds", "10h", "--at-once", "20")
    wait_until_blocking(lambda: valkey.cli("KEYS", "*:{lone}:fence"), within=120)
    run.signal(number)
    assert run.ends() == code
    assert run.errors.strip() == ""  # click ends the line on which ^C stands
    assert valkey.cli("KEYS", "*") == []


def test_a_closed_terminal_means_nothing_under_nohup(runs: Runs, valkey: Server) -> None:
    """SIGHUP that was ignored before still is: it goes on until another signal ends it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = runs.start("bench", "--seconds", "10h")
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until_blocking(lambda: valkey.cli("KEYS", "*:{lone}:fence"), within=120)
    run.signal(signal.SIGHUP)
    run.signal(signal.SIGTERM)
    assert run.ends() == 143
    assert valkey.cli("KEYS", "*") == []
