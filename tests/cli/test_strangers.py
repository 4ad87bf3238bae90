"""What strangers may write, on the server or in its place, does nothing on a terminal.

Whoever may write to the keys chooses names, leader ids, node ids and metadata; a proxy or a server
chooses its errors.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from cli.inside import Inside, Said
from cli.stage import Follower, Runs, seat
from cli.terminal import Terminal
from incumbent import StrategicElector
from incumbent.printable import LONGEST
from incumbent.strategy import Fifo
from kit.parrot import Parrot
from kit.servers import Server

HARMFUL = {
    "controls": "a\x1b[2J\x1b]0;title\x07\x08b\x00",
    "C1": "a\x9b2Jb\x85c",
    "lines": "a\r\nincumbent: forged\n\tb\u2028c",
    "bidi": "gpj\u202etxt\u2066",
    "invisible": "a\u200bb\ufeff\u3164",
    "long": "n" * 10_000,
}
MALFORMED = b"a\xff\xed\xa0\x80\x9b2J"
"""No UTF-8: a lone byte, a surrogate, and half of a C1 control."""

EVERYTHING: list[str | bytes] = [*HARMFUL.values(), MALFORMED]

LEADERS = pytest.mark.parametrize("leader", EVERYTHING, ids=[*HARMFUL, "malformed"])


def led_by(server: Server, name: str, leader: str | bytes) -> None:
    """Somebody has written to the server that `leader` leads."""
    with Redis.from_url(server.url) as client:
        fields = {"token": "t", "leader": leader, "fence": 9, "since": 1}
        client.hset(seat(name), mapping=fields)
        client.pexpire(seat(name), 60_000)
        client.set(f"incumbent:{{{name}}}:fence", 9, px=60_000)


def harmless(said: Said, *, lines: int, errors: int = 0) -> None:
    """So many lines on stdout and on stderr, and nothing in them that acts or hides."""
    for text, count in ((said.out, lines), (said.err, errors)):
        assert text.count("\n") == count, text
        for line in text.split("\n"):
            assert line.isprintable(), ascii(line)
            assert not set("\u3164\ufe0f") & set(line)
            assert len(line) < LONGEST + 1000


@LEADERS
def test_leaders_of_all_commands(
    ask: Inside, valkey: Server, tmp_path_factory: pytest.TempPathFactory, leader: str | bytes
) -> None:
    """One line each, for people and for programs, which get it whole."""
    led_by(valkey, "job", leader)
    harmless(ask("status"), lines=2)
    harmless(ask("status", "job"), lines=2)
    said = ask("status", "job", "--json")
    assert said.out.rstrip("\n").isascii()
    assert said.out.rstrip("\n").isprintable()
    told = said.value["elections"][0]["leaders"][0]["leader_id"]
    assert told == (leader if isinstance(leader, str) else leader.decode(errors="replace"))
    harmless(ask("run", "job", "--", "true"), lines=0, errors=1)
    harmless(ask("release", "job"), lines=0, errors=2)
    harmless(ask("doctor"), lines=ask("doctor").out.count("\n"))
    harmless(ask("step-down", "job"), lines=1)
    harmless(ask("release", "job", "--yes"), lines=1)


@pytest.mark.parametrize(
    "name", ["gpj\u202etxt", "a\u200bb", "@acme\u202e:x", "a\ufe0f", "n" * 255], ids=ascii
)
def test_names_of_elections(ask: Inside, valkey: Server, name: str) -> None:
    """A name may hide something: it is shown, and said, as it is written."""
    led_by(valkey, name, "somebody")
    harmless(ask("status"), lines=2)
    harmless(ask("run", name, "--", "true"), lines=0, errors=1)
    harmless(ask("run", f"{name}\n", "--", "true"), lines=0, errors=1)
    harmless(ask("step-down", name), lines=1)
    harmless(ask("candidates", name), lines=0, errors=1)
    harmless(ask("release", name, "--seat", "3", "--yes"), lines=0, errors=1)
    assert ask("status", "--json").value["elections"][0]["name"] == name


def test_names_that_are_none(ask: Inside, valkey: Server) -> None:
    """Keys that no election could have are left out; the doctor names them."""
    with Redis.from_url(valkey.url) as client:
        for each in HARMFUL.values():
            client.set(f"incumbent:{{{each}\x1b}}:fence", 1)
    assert ask("status").out == ""
    said = ask("doctor")
    assert "\\x1b" in said.out
    harmless(said, lines=said.out.count("\n"))
    valkey.cli("FLUSHALL")  # for they have no end


@pytest.mark.parametrize("options", [(), ("--strategy", "incumbent.strategy:Fifo")])
def test_candidates(ask: Inside, valkey: Server, options: tuple[str, ...]) -> None:
    """Ids, metadata, and the ids of records that cannot be read."""
    metadata = {f"key {each[:20]}": each[:99] for each in HARMFUL.values()}
    with standing(valkey, "gpj\u202etxt", metadata):
        with Redis.from_url(valkey.url) as client:
            for each in EVERYTHING:
                client.hset("incumbent:{job}:candidates", each, "no record")
        said = ask("candidates", "job", *options)
        assert "gpj\\u202etxt" in said.out
        assert "unreadable" in said.err or "cannot be read" in said.err
        for line in f"{said.out}{said.err}".split("\n"):
            assert line.isprintable(), ascii(line)
        assert said.err.count("\n") == 1
        told = ask("candidates", "job", "--json", *options)
        assert told.out.rstrip("\n").isprintable()
        assert told.value["candidates"][0]["metadata"] == metadata


@pytest.mark.parametrize("says", ["".join(HARMFUL.values()), HARMFUL["long"]], ids=["all", "long"])
@pytest.mark.parametrize(
    "arguments",
    [
        *[("run", "job", "--", "true"), ("status",), ("status", "job"), ("watch",)],
        *[("candidates", "job"), ("step-down", "job"), ("release", "job", "--yes"), ("doctor",)],
        *[
            ("campaign", "job", "--", "true"),
            ("bench", "--quick"),
            ("demo",),
            ("status", "job", "--json"),
        ],
    ],
    ids=" ".join,
)
def test_errors_of_servers(ask: Inside, arguments: tuple[str, ...], says: str) -> None:
    """Each command says it in one line."""
    error = f"ERR {says}".replace("\r", "").replace("\n", "").encode()
    with Parrot(says=error) as parrot:
        url = f"redis://{parrot.host}:{parrot.port}"
        said = ask(*arguments, *(["--url", url] if arguments == ("demo",) else []), url=url)
    assert said.code == 69
    harmless(said, lines=0, errors=1)


def test_a_table(valkey: Server, runs: Runs) -> None:
    """On a terminal, where whatever acts would act; and line by line in a pipe."""
    for number, each in enumerate(EVERYTHING):
        led_by(valkey, f"job-{number}", each)
    follower = Follower(valkey.url)
    runs.keep(follower)
    lines = [follower.line() for _ in range(7)]
    assert all(line.isprintable() for line in lines), lines
    led_by(valkey, "job-1", "z\u202e")
    terminal = Terminal(valkey.url, "watch", "job-0", "job-3", "job-4")
    runs.keep(terminal)
    for shown in (r"a\x1b[2J\x1b]0", r"gpj\u202etxt\u2066", r"a\u200bb\ufeff\u3164"):
        terminal.wait_for(shown)
    assert "\x1b[2J" not in terminal.raw
    assert not {"\u202e", "\u200b", "\x9b", "\x07", "\x08"} & set(terminal.raw)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("fence", "abc\x1b", r"fence 'abc\\x1b', since '1'"),
        ("fence", "9" * 5000, f"fence '{'9' * 37}...', since '1'"),
        ("since", "9" * 20, f"fence '9', since '{'9' * 20}'"),
        ("since", "-" + "9" * 17, f"fence '9', since '-{'9' * 17}'"),
    ],
)
def test_a_corrupt_seat_is_one_bad_line(
    ask: Inside, valkey: Server, field: str, value: str, said: str
) -> None:
    """It ends neither `status` nor the command that asks for the seat with a traceback."""
    led_by(valkey, "bad", "somebody")
    led_by(valkey, "good", "somebody")
    valkey.cli("HSET", seat("bad"), field, value)
    bad, good, _ = ask("status").out.splitlines()
    assert (bad, good) == (f"bad: cannot be read: seat 0 is corrupt: {said}", "good")
    for arguments in (("run", "bad", "--", "true"), ("candidates", "bad"), ("watch", "bad")):
        answer = ask(*arguments)
        assert answer.code == 69
        harmless(answer, lines=0, errors=1)
        assert answer.err.endswith(f": seat 0 is corrupt: {said}\n")


@contextmanager
def standing(
    server: Server, node: str, metadata: dict[str, str], tenant: str | None = None
) -> Iterator[None]:
    """A block in which a node stands for ``job``, a tenant's or nobody's."""

    @asynccontextmanager
    async def candidate() -> AsyncIterator[None]:
        async with (
            AsyncRedis.from_url(server.url) as client,
            StrategicElector(client, strategy=Fifo(), node_id=node) as family,
            (family if tenant is None else family.for_tenant(tenant)).candidate(
                "job", metadata=metadata
            ),
        ):
            yield

    with asyncio.Runner() as runner:
        block = candidate()
        runner.run(block.__aenter__())
        try:
            yield
        finally:
            runner.run(block.__aexit__(None, None, None))
