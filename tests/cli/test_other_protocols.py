"""Commands that are led to a server of another protocol: one line says where, and what to do."""

import pytest

from cli.inside import Inside, Said
from cli.stage import Runs
from kit.servers import Server
from kit.strangers import STRANGERS, Stranger
from kit.waiting import wait_until_blocking

SOON = ("--timeout", "1s")
"""Where it is waited for: who is not there may be about to start."""
LATER = ("--timeout", "10s")
"""Where the answer comes at once."""


def asking(limit: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All commands that ask."""
    return [
        ("status", *limit),
        ("status", "x", *limit),
        ("watch", *limit),
        ("watch", "x", *limit),
        ("candidates", "x", *limit),
        ("candidates", "x", "--strategy", "incumbent.strategy:Fifo", *limit),
        ("step-down", "x", *limit),
        ("release", "x", "--yes", *limit),
        ("doctor", *limit),
        ("doctor", "--json", *limit),
        ("bench", "--seconds", "100ms", *limit),
        ("demo",),
    ]


RUNNING: list[tuple[str, ...]] = [
    ("run", "x", "--lease", "1s", "--", "true"),
    ("campaign", "x", "--lease", "1s", "--", "true"),
]

ADVICE = {
    **dict.fromkeys(STRANGERS, "look whether host and port are right"),
    "POP3": "",  # what comes of "+OK" depends on the release of redis-py
    "TLS": "it speaks TLS: use rediss://",
    "closing": "look whether it runs there, and whether it wants TLS (rediss://)",
}


def asked(ask: Inside, url: str, *arguments: str) -> Said:
    """What a command says that is given `url` as it takes one."""
    return ask(*arguments, *(["--url", url] if arguments == ("demo",) else []), url=url)


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_server_that_is_none(ask: Inside, kind: str) -> None:
    """69, one line with the address, what is wrong and what to look at, and no secret."""
    with Stranger(kind) as stranger:
        # A port that closes at once may belong to a server that starts. These commands try again,
        # for ten seconds or for ever.
        commands = asking(SOON) if kind == "closing" else asking(LATER) + RUNNING
        for arguments in commands:
            said = asked(ask, stranger.url, *arguments)
            assert (said.code, said.out) == (69, ""), (arguments, said)
            (line,) = said.err.splitlines()
            where = f"incumbent: the server at {stranger.host}:{stranger.port} "
            assert line.startswith(f"{where}does not answer as it should: "), (arguments, line)
            assert line.endswith(ADVICE[kind]), (arguments, line)
            assert "S3CRET" not in line


@pytest.mark.parametrize("kind", ["plain", "HTTP", "closing"])
def test_a_server_without_tls(ask: Inside, valkey: Server, kind: str) -> None:
    """The same, where TLS was asked for."""
    with Stranger("HTTP" if kind == "plain" else kind) as stranger:
        url = valkey.url if kind == "plain" else stranger.url
        for arguments in asking(SOON):
            said = asked(ask, url.replace("redis://", "rediss://"), *arguments)
            assert (said.code, said.out) == (69, ""), (arguments, said)
            (line,) = said.err.splitlines()
            assert line.startswith("incumbent: the server at 127.0.0.1:"), (arguments, line)
            assert line.endswith(
                "; look whether it runs there, and speaks TLS (redis:// is without)"
            ), (arguments, line)


def test_a_campaign_on_a_server_that_closes(runs: Runs) -> None:
    """It may be one that starts: said once, with the same advice, and tried again."""
    with Stranger("closing") as stranger:
        run = runs.start("campaign", "x", "--", "true", url=stranger.url)
        wait_until_blocking(lambda: "next try" in run.errors, within=60)
        line = run.errors.splitlines()[0]
        where = f"the server at {stranger.host}:{stranger.port}"
        assert line.startswith(f"incumbent: no election of 'x' by {where}, next try in ")
        assert line.endswith(f"; {ADVICE['closing']}")


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("redis://[::1]:1", "the server at [::1]:1"),
        ("unix:///nowhere/socket", "the server at /nowhere/socket"),
        ("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", "the service 'main' of the Sentinels at"),
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", "the cluster at 127.0.0.1:1, 127.0.0.1:2"),
    ],
)
def test_where_nobody_is(ask: Inside, url: str, where: str) -> None:
    """Each kind of address is told as one."""
    said = ask("status", *SOON, url=url)
    assert said.code == 69
    assert f"incumbent: {where}" in said.err
