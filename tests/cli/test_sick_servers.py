"""Commands on a server that is sick: one line says how, 69, and never a traceback."""

import pytest

from cli.inside import Inside
from kit.fixtures import StartServer
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.sickness import LOADING, NODE_ARGS, SICKNESSES

SOON = ("--timeout", "1500ms")
ASKING = [
    ("status", *SOON),
    ("status", "x", *SOON),
    ("candidates", "x", *SOON),
    ("candidates", "x", "--strategy", "incumbent.strategy:Fifo", *SOON),
    ("step-down", "x", *SOON),
    ("release", "x", "--yes", *SOON),
]
MEASURING = ("bench", "--seconds", "100ms", *SOON)
RUNNING = [
    MEASURING,
    ("run", "x", "--", "true"),
    ("run", "x", "--once-per", "1d", "--", "true"),
]
BY_READING = {"MISCONF", "OOM", "NOREPLICAS", "READONLY"}
"""Such a server still answers those who only ask."""


def told(ask: Inside, url: str, *arguments: str) -> str:
    """What a command says that cannot do what it should."""
    said = ask(*arguments, url=url)
    assert said.code == 69, (arguments, said)
    assert said.out == ""
    (line,) = said.err.splitlines()
    place = url.rpartition("@")[2].removeprefix("redis://").partition("/")[0]
    assert line.startswith(f"incumbent: the server at {place} does not answer as it should: "), line
    return line


@pytest.mark.parametrize("says", SICKNESSES)
def test_a_server_that_refuses(start_server: StartServer, ask: Inside, says: str) -> None:
    """The word that it says is told, and who knows more; who only asks may have an answer."""
    server = start_server(args=NODE_ARGS if says == "CLUSTERDOWN" else ())
    with SICKNESSES[says](server):
        for arguments in ASKING:
            if says in BY_READING or (says == "CLUSTERDOWN" and "x" not in arguments):
                assert ask(*arguments, url=server.url).code in {0, 1}, arguments
            else:
                assert f"refused: {says} " in told(ask, server.url, *arguments)
        # Some try again for as long as a request may take, which is not to be seen twice.
        for arguments in RUNNING[: {"MASTERDOWN": 1, "CLUSTERDOWN": 1, "READONLY": 2}.get(says, 3)]:
            line = told(ask, server.url, *arguments)
            assert line.endswith("; 'incumbent doctor' says what to do"), arguments
            # Which of the two a replica says depends on what it is asked first.
            assert f"refused: {says} " in line or {says} < {"READONLY", "MASTERDOWN"}, line


def test_a_server_that_loads(own_server: Server, ask: Inside) -> None:
    """The same, from a proxy."""
    with ProxyThread(own_server) as relay:
        relay.do(lambda proxy: proxy.refuse(LOADING))
        for arguments in ASKING:
            assert "refused: LOADING " in told(ask, relay.url, *arguments)


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
def test_a_server_that_is_not_heard(own_server: Server, ask: Inside, cut: bool) -> None:
    """It is said that it was not reached."""
    with ProxyThread(own_server) as relay:
        relay.do(lambda proxy: proxy.drop_replies(None, cut=cut))
        for arguments in (*ASKING, MEASURING):
            assert "not reached: " in told(ask, relay.url, *arguments)
        relay.do_async(Proxy.restore)
        assert ask("status", url=relay.url).code == 0


@pytest.mark.parametrize("missing", ["eval evalsha", "time", "hget hmget hset", "scan"])
def test_a_right_that_is_missing(own_server: Server, ask: Inside, missing: str) -> None:
    """Named, with who knows more."""
    rights = [f"-{each}" for each in missing.split()]
    own_server.cli("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", *rights)
    url = own_server.url.replace("redis://", "redis://few:pw@")
    words = [f"'{each}'" for each in missing.split()]
    said = [ask(*arguments, url=url) for arguments in (*ASKING, *RUNNING)]
    failed = [each for each in said if each.code not in {0, 1}]
    assert len(failed) >= {"scan": 1, "time": 5}.get(missing, 6)
    for each in failed:
        assert each.code == 69
        (line,) = each.err.splitlines()
        assert any(word in line for word in words), line
        assert line.endswith("; 'incumbent doctor' says what to do")


def test_keys_of_the_wrong_type(own_server: Server, ask: Inside) -> None:
    """Of all parts of an election."""
    for part in ("seat:0", "fence", "gone", "candidates", "queue", "tick"):
        own_server.cli("RPUSH", f"incumbent:{{x}}:{part}", "no")
        own_server.cli("PEXPIRE", f"incumbent:{{x}}:{part}", 600_000)
    for arguments in (*ASKING[1:], *RUNNING[1:]):
        assert "refused: WRONGTYPE " in told(ask, own_server.url, *arguments)
