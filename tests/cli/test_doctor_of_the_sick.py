"""`doctor` of a server that is sick: whatever it refuses, or does not answer, is a finding."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from cli.inside import Inside
from incumbent.blocking import StrategicElector
from incumbent.cli.doctor.judgement import NEEDED
from incumbent.stores.redis.facts import TRIES
from incumbent.strategy import Fifo
from kit.fixtures import StartServer
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.sickness import LOADING, NODE_ARGS, SICKNESSES

ONLY_THE_DOCTORS = {"PING", "INFO", "CONFIG", "SCAN", "TYPE", "HLEN"}
ASKED = sorted({*NEEDED, *ONLY_THE_DOCTORS})
"""Every command that it sends, but for those of the log-in."""

TRIED_LIKE_DEL = {*TRIES} - {"EVAL", "EVALSHA", "GET", "HGET", "HMGET", "PTTL", "TIME", "ZCARD"}
ANSWERED = [each for each in ASKED if each not in {*TRIED_LIKE_DEL, "SUBSCRIBE"}] + ["DEL"]
"""What is not answered by a message, and one of those that are only tried, by the same lines."""

HANDSHAKE = {"HELLO", "AUTH", "CLIENT", "SELECT", "COMMAND"}


class Finding(NamedTuple):
    """As it is told to programs."""

    about: str
    level: str
    found: str
    means: str
    advice: str


class Doctor:
    """Asks it, without the seconds in which it watches and listens."""

    def __init__(self, ask: Inside) -> None:
        self._ask = ask

    def __call__(self, url: str, *options: str) -> list[Finding]:
        """What is not well."""
        said = self._ask("doctor", "--json", *options, url=url)
        assert said.code in {0, 1}, said
        findings = [Finding(**each) for each in said.value["findings"]]
        assert said.value["ok"] == (said.code == 0)
        assert said.value["ok"] == all(each.level != "wrong" for each in findings)
        bad = [each for each in findings if each.level != "ok"]
        assert all(each.found and each.means and each.advice for each in bad)
        return bad


@pytest.fixture
def doctor(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Asks `doctor`."""
    monkeypatch.setattr("incumbent.stores.redis.facts.WATCHED", 0.0)
    monkeypatch.setattr("incumbent.stores.redis.facts.LISTENING", 0.3)
    return Doctor(ask)


@pytest.fixture
def peopled(own_server: Server) -> Iterator[Server]:
    """A server with a key of each kind, so that whatever can be asked is."""
    for command in (
        ("SET", "incumbent:{a}:fence", "12"),
        ("HSET", "incumbent:{a}:seat:0", "token", "t", "fence", "12", "longest", "600000"),
        ("SET", "incumbent:{a}:tick", "12"),
        ("ZADD", "incumbent:{a}:queue", "1", "1:p:1000:1"),
    ):
        own_server.cli(*command)
        own_server.cli("PEXPIRE", command[1], 600_000)
    elector = StrategicElector(own_server.url, strategy=Fifo(), node_id="n")
    with elector, elector.candidate("b", ttl=600):
        yield own_server


@pytest.fixture
def relay(peopled: Server) -> Iterator[ProxyThread]:
    """A proxy in front of it."""
    with ProxyThread(peopled) as relay:
        yield relay


def test_what_it_asks(relay: ProxyThread, doctor: Doctor) -> None:
    """So that the sweeps below forget nothing."""
    doctor(relay.url)
    sent = {*relay.proxy.commands} - HANDSHAKE - {"UNSUBSCRIBE"}
    assert sorted(sent) == ASKED


def about(findings: list[Finding], command: str) -> list[Finding]:
    """Those that name the command."""
    return [each for each in findings if re.search(rf"\b{command}\b", each.found)]


def test_a_right_that_is_missing(peopled: Server, doctor: Doctor) -> None:
    """What elections need is wrong; what only the doctor needs is noted, or done without."""
    url = peopled.url.replace("redis://", "redis://few:pw@")
    for command in ASKED:
        peopled.cli("ACL", "SETUSER", "few", "reset", "on", ">pw", "~*", "&*", "+@all")
        peopled.cli("ACL", "SETUSER", "few", f"-{command.lower()}")
        findings = doctor(url)
        wrong = [(each.about, each.found) for each in findings if each.level == "wrong"]
        if command in NEEDED:
            assert ("rights", f"missing: {command}") in wrong
        else:
            assert wrong == [], command
            assert about(findings, command) or command in {"PING", "CONFIG", "HLEN"}, command


def test_a_command_that_is_not_known(relay: ProxyThread, doctor: Doctor) -> None:
    """Renamed, or left out, by those who host the server."""
    for command in ASKED:
        error = f"ERR unknown command '{command}'"
        with faulty(relay, "refuse", error, command):
            findings = doctor(relay.url)
        wrong = [(each.about, each.found) for each in findings if each.level == "wrong"]
        if command in NEEDED:
            assert ("commands", f"missing: {command}") in wrong
        else:
            assert wrong == [], command


def test_no_answer_to_a_command(relay: ProxyThread, doctor: Doctor) -> None:
    """The next questions are asked."""
    for command in ANSWERED:
        with faulty(relay, "drop_replies", None, command):
            findings = doctor(relay.url, "--timeout", "400ms")
        assert ("answers", "wrong") in {each[:2] for each in about(findings, command)}, command


def test_a_connection_that_is_lost_at_a_command(relay: ProxyThread, doctor: Doctor) -> None:
    """The same."""
    for command in ANSWERED:
        with faulty(relay, "drop_replies", None, command, cut=True):
            findings = doctor(relay.url)
        assert ("connection", "wrong") in {each[:2] for each in about(findings, command)}, command


@contextmanager
def faulty(relay: ProxyThread, fault: str, *how: Any, **options: Any) -> Iterator[None]:
    """A block in which the proxy has a fault."""
    relay.do(lambda proxy: getattr(proxy, fault)(*how, **options))
    yield
    relay.do_async(Proxy.restore)


@pytest.mark.parametrize("says", SICKNESSES)
def test_a_sick_server(start_server: StartServer, doctor: Doctor, says: str) -> None:
    """What it says is told, what that means, and what to do."""
    args = NODE_ARGS if says == "CLUSTERDOWN" else ()
    server = start_server(args=args)
    assert not any(each.level == "wrong" for each in doctor(server.url)) or args
    with SICKNESSES[says](server):
        findings = doctor(server.url)
    told = [each for each in findings if each.level == "wrong" and says in each.found]
    if says == "READONLY":
        told = [each for each in findings if each.found == "this is a replica"]
    assert told
    assert not [each for each in findings if each.about == "rights"], "no matter of rights"


def test_a_server_that_loads(relay: ProxyThread, doctor: Doctor) -> None:
    """Whatever it is asked."""
    relay.do(lambda proxy: proxy.refuse(LOADING))
    findings = doctor(relay.url)
    assert [each.about for each in findings if each.level == "wrong"][:1] == ["refused"]


def test_a_server_that_is_silent(relay: ProxyThread, doctor: Doctor) -> None:
    """It stops asking after three; what was not asked is told."""
    relay.do(lambda proxy: proxy.drop_replies(None))
    findings = doctor(relay.url, "--timeout", "200ms")
    answers = [each for each in findings if each.about == "answers"]
    assert [each.level for each in answers] == ["wrong", "note"]
    assert answers[1].found.startswith("not asked: ")
    assert "rights" not in {each.about for each in findings}
    assert relay.proxy.commands.total() < 60


def test_a_server_that_cuts_each_connection(relay: ProxyThread, doctor: Doctor) -> None:
    """The same."""
    relay.do(lambda proxy: proxy.drop_replies(None, cut=True))
    assert "connection" in {each.about for each in doctor(relay.url)}


def test_a_right_that_is_missing_to_connect(own_server: Server, doctor: Doctor) -> None:
    """To select a database."""
    own_server.cli("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-select")
    url = f"redis://few:pw@{own_server.host}:{own_server.port}/1"
    (finding,) = doctor(url)
    assert (finding.about, finding.level) == ("rights", "wrong")
    assert "select" in finding.found


def test_who_cannot_be_connected_to(own_server: Server, ask: Inside) -> None:
    """Nobody there, or a wrong password: one sentence, 69."""
    wrong = own_server.url.replace("redis://", "redis://nobody:pw@")
    own_server.cli("CONFIG", "SET", "requirepass", "secret")
    try:
        for url, words in (
            ("redis://127.0.0.1:1", "connect"),
            (wrong, "WRONGPASS|invalid username-password"),
            (own_server.url, "NOAUTH|[Aa]uthenticat"),
        ):
            said = ask("doctor", url=url)
            assert (said.code, said.out, said.err.count("\n")) == (69, "", 1)
            assert re.search(words, said.err)
    finally:
        own_server.cli("CONFIG", "SET", "requirepass", "")
