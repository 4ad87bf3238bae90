"""incumbent.cli.elections.following and .news: what `watch` knows of a fleet, and what it tells."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from cli.stage import led, seat
from incumbent import LeaderInfo, LeaderState, Outage
from incumbent.cli.asking import Asker, Unreadable, Where, asking
from incumbent.cli.elections import absent, following, news
from incumbent.cli.elections.following import Fleet
from incumbent.cli.elections.table import Known
from incumbent.stores.redis import ServerError
from kit.fixtures import MakeProxy
from kit.servers import Server
from kit.sickness import LOADING, SICKNESSES
from kit.waiting import wait_until

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Recorder:
    """Keeps what happens."""

    def __init__(self) -> None:
        self.news: list[news.News] = []
        self.remarks: list[str] = []

    def show(self, happened: news.News) -> None:
        """Keep it."""
        self.news.append(happened)

    def remark(self, sentences: Sequence[str]) -> None:
        """Keep it."""
        self.remarks += sentences

    def changed(self, name: str) -> list[LeaderState]:
        """The states of an election."""
        told = [each for each in self.news if isinstance(each, news.Changed)]
        return [each.new for each in told if each.name == name]


@asynccontextmanager
async def followed(url: str, *names: str) -> AsyncIterator[tuple[Fleet, Recorder]]:
    """A fleet that is followed, for the length of a block."""
    screen = Recorder()
    async with (
        asking(Where(url=url, prefix="incumbent", timeout=2.0)) as asker,
        Fleet(asker, names, screen) as fleet,
    ):
        yield fleet, screen


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes less."""
    monkeypatch.setattr(following, "NEW_ONES", 0.1)
    monkeypatch.setattr(following, "SPARE", 0)
    monkeypatch.setattr(following, "NOTICED", 0.05)


def exist(server: Server, *names: str) -> None:
    """Somebody has led these, and nobody does now."""
    for name in names:
        server.cli("SET", f"incumbent:{{{name}}}:fence", "1", "PX", 60_000)


def names(fleet: Fleet) -> list[str]:
    """The elections that are known."""
    return sorted(each.name for each in fleet.known()[0])


@pytest.mark.usefixtures("often")
async def test_new_elections_are_followed_and_those_without_a_trace_are_dropped(
    valkey: Server,
) -> None:
    """So a fleet whose names change with the day does not grow for ever."""
    exist(valkey, "a")
    async with followed(valkey.url) as (fleet, screen):
        await wait_until(lambda: screen.changed("a"))
        exist(valkey, "b")
        await wait_until(lambda: screen.changed("b"))
        assert names(fleet) == ["a", "b"]
        valkey.cli("DEL", "incumbent:{a}:fence")
        await wait_until(lambda: names(fleet) == ["b"])
        exist(valkey, "a")
        await wait_until(lambda: len(screen.changed("a")) == 2)


@pytest.mark.usefixtures("often")
async def test_a_name_that_was_given_is_kept(valkey: Server) -> None:
    """Somebody waits for it to have a leader."""
    exist(valkey, "a")
    async with followed(valkey.url, "a") as (fleet, screen):
        await wait_until(lambda: screen.changed("a"))
        valkey.cli("DEL", "incumbent:{a}:fence")
        await asyncio.sleep(0.3)
        assert names(fleet) == ["a"]
        assert len(screen.news) == 1


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All names are looked at, also on a machine that stands still."""
    monkeypatch.setattr(absent, "WITHIN", 60.0)


@pytest.mark.usefixtures("often", "patient")
async def test_names_that_nobody_knows_are_told_and_followed_when_they_come(
    valkey: Server,
) -> None:
    """Once, with what may have been meant; `watch` goes on, because they may come."""
    exist(valkey, "scheduler", "nightly")
    async with followed(valkey.url, "schedulr", "something else", "nightly") as (fleet, screen):
        await wait_until(lambda: screen.remarks)
        nobody = "nobody has led it for a day, and nobody waits for it"
        assert screen.remarks == [
            f"no election 'schedulr': {nobody}; did you mean 'scheduler'?",
            f"no election 'something else': {nobody}",
        ]
        assert {each.name: each.note for each in fleet.known()[0]} == {
            "schedulr": "no such election yet; did you mean 'scheduler'?",
            "something else": "no such election yet",
            "nightly": "",
        }
        with led(valkey, "schedulr"):
            await wait_until(lambda: any(each.leaders for each in screen.changed("schedulr")))
            assert fleet.known()[0][0].note == ""
        await wait_until(lambda: not screen.changed("schedulr")[-1].leaders)
        assert fleet.known()[0][0].note == ""
        assert len(screen.remarks) == 2


@pytest.mark.usefixtures("often", "patient")
@pytest.mark.parametrize("names", [(), ("a", "b")])
async def test_where_there_is_nothing_the_server_may_be_the_wrong_one(
    valkey: Server, names: tuple[str, ...]
) -> None:
    """Said once, not once for each name."""
    async with followed(valkey.url, *names) as (_, screen):
        await wait_until(lambda: screen.remarks)
        (told,) = screen.remarks
        assert told == (
            "no elections under the prefix 'incumbent':"
            " look whether this is the right server, database and --prefix"
        )


@pytest.mark.usefixtures("often")
async def test_what_cannot_be_read_is_told_once_and_followed_when_it_can(valkey: Server) -> None:
    """Also one that is spoiled, and mended, meanwhile."""
    exist(valkey, "a", "b")
    valkey.cli("SET", seat("a"), "foreign", "PX", 60_000)
    async with followed(valkey.url) as (fleet, screen):
        await wait_until(lambda: screen.changed("b"))
        await asyncio.sleep(0.3)
        (spoiled,) = [each for each in screen.news if isinstance(each, news.Spoiled)]
        assert list(spoiled.found) == ["a"]
        assert fleet.known()[0][0].error == "wrong type: seat:0"
        valkey.cli("DEL", seat("a"))
        await wait_until(lambda: screen.changed("a"))
        assert [each.error for each in fleet.known()[0]] == ["", ""]


async def test_an_election_that_may_not_be_read_does_not_make_the_others_deaf(
    own_server: Server,
) -> None:
    """A subscription to all of their channels would be refused as a whole."""
    exist(own_server, "a", "b")
    rights = ("~incumbent:{a}:*", "&incumbent:{a}:*", "+@all")
    own_server.cli("ACL", "SETUSER", "some", "on", ">secret", "resetchannels", *rights)
    url = own_server.url.replace("redis://", "redis://some:secret@")
    async with followed(url) as (fleet, screen):
        await wait_until(lambda: screen.changed("a"))
        assert {each.name: each.error for each in fleet.known()[0]} == {
            "a": "",
            "b": "no right to its keys",
        }
        heard = own_server.cli("PUBSUB", "NUMSUB", "incumbent:{a}:db0:events")
        assert int(heard[1]) == 1


@pytest.mark.usefixtures("often")
async def test_an_outage_of_many_is_told_in_one(own_server: Server) -> None:
    """And once more when it is known why; and so is its end."""
    exist(own_server, *(f"job-{number}" for number in range(30)))
    async with followed(own_server.url) as (fleet, screen):
        await wait_until(lambda: len(screen.news) == 30)
        own_server.kill()

        def reasons() -> list[str]:
            return [each.why for each in screen.news if isinstance(each, news.Silent)]

        await wait_until(lambda: any("Error" in each for each in reasons()))
        silent = [each for each in screen.news if isinstance(each, news.Silent)]
        assert set().union(*(each.outages for each in silent)) == set(names(fleet))
        assert fleet.known()[1].startswith("No word from the server for ")
        own_server.restart()
        await wait_until(lambda: fleet.known()[1].startswith("No elections"))


@pytest.mark.usefixtures("often")
async def test_an_outage_is_told_when_there_are_no_elections(own_server: Server) -> None:
    """It is the search for them that fails."""
    async with followed(own_server.url) as (fleet, screen):
        own_server.kill()
        await wait_until(lambda: screen.news)
        (silent,) = screen.news
        assert next(iter(news.lines(silent, NOW))).startswith("the server: no word since ")
        assert fleet.known()[1].startswith("No word from the server for ")
        own_server.restart()
        await wait_until(lambda: len(screen.news) == 2)
        assert [*news.lines(screen.news[1], NOW)] == ["the server: heard of again"]
        assert fleet.known() == ([], "No elections under the prefix 'incumbent'")


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", ["MISCONF", "OOM", "NOREPLICAS", "READONLY"])
async def test_a_server_that_refuses_writes_is_told_of(own_server: Server, kind: str) -> None:
    """What is there can be read, but nobody is elected until it is over."""
    exist(own_server, "a")
    async with followed(own_server.url) as (fleet, screen):
        await wait_until(lambda: screen.changed("a"))
        before = own_server.cli("DBSIZE")
        with SICKNESSES[kind](own_server):
            await wait_until(lambda: fleet.known()[1])
            (told,) = [each for each in screen.news if isinstance(each, news.Refused)]
            assert fleet.known()[1] == news.refusal(told.why)
            assert fleet.known()[0] == [Known("a", LeaderState("a"))]
            assert own_server.cli("DBSIZE") == before
        await wait_until(lambda: fleet.known()[1] == "")
        assert screen.news[-1] == news.Refused("")


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("kind", "said"), [("MASTERDOWN", "MASTER is down"), ("BUSY", "BUSY"), ("LOADING", "loading")]
)
async def test_a_server_that_refuses_all_is_an_outage(
    own_server: Server, make_proxy: MakeProxy, kind: str, said: str
) -> None:
    """Its reason is told, and it heals by itself."""
    exist(own_server, "a")
    proxy = await make_proxy(own_server)
    async with followed(proxy.url) as (fleet, screen):
        await wait_until(lambda: screen.changed("a"))
        with nullcontext() if kind == "LOADING" else SICKNESSES[kind](own_server):
            if kind == "LOADING":
                proxy.refuse(LOADING)
            await wait_until(lambda: said in fleet.known()[1], within=60)
            assert fleet.known()[0][0].outage is not None
            await proxy.restore()
        await wait_until(lambda: fleet.known()[1] == "", within=60)
        assert fleet.known()[0] == [Known("a", LeaderState("a"))]


@pytest.mark.usefixtures("often")
async def test_a_search_that_swallows_its_cancellation_is_stopped_all_the_same(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `asyncio.wait_for` does now and then, in redis-py, on Python 3.11."""
    swallowed = asyncio.Event()
    find = Asker.names

    async def names(asker: Asker) -> list[str]:
        found = await find(asker)
        if swallowed.is_set():
            return found
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed.set()
        return found

    async with asyncio.timeout(30), followed(valkey.url, "a"):
        monkeypatch.setattr(Asker, "states", lambda asker, _: names(asker))
        await asyncio.sleep(0.3)
    assert swallowed.is_set()


# -- words -----------------------------------------------------------------------------------


def leads(name: str) -> LeaderState:
    info = LeaderInfo(leader_id="me", seat=0, fence=7, since=AT, remaining=5)
    return LeaderState(name, (info,), 2)


LINE = "seat 0: me leads for 3m20s, lease 5s, fence 7"
NOW = AT + timedelta(seconds=200)
FOREIGN = "WRONGTYPE Operation: incumbent:{a}:seat:0"
WRONG = Unreadable(ServerError(), FOREIGN)
OUTAGE = Outage(AT, ServerError())
NO_WORD = "no word since 2026-01-01T12:00:00Z: refused"
STATE, ERROR, SILENCE = ("leaders", "waiting"), ("error",), ("error", "silent_since")


@pytest.mark.parametrize(
    ("happened", "lines", "values"),
    [
        (news.Changed("a", None, leads("a")), [f"a: {LINE}"], [("a", *STATE)]),
        (
            news.Changed("a", leads("a"), LeaderState("a")),
            ["a: seat 0: free"],
            [("a", *STATE)],
        ),
        (
            news.Spoiled({"a": WRONG}),
            [f"a: cannot be read: wrong type: incumbent:{{a}}:seat:0 ({FOREIGN})"],
            [("a", *ERROR)],
        ),
        (
            news.Silent(dict.fromkeys("ab", OUTAGE), AT, "refused"),
            [f"a: {NO_WORD}", f"b: {NO_WORD}"],
            [("a", *SILENCE), ("b", *SILENCE)],
        ),
        (
            news.Silent(dict.fromkeys("abcd", OUTAGE), AT, "refused"),
            [f"4 elections: {NO_WORD}"],
            [(each, *SILENCE) for each in "abcd"],
        ),
        (news.Silent({}, AT, "refused"), [f"the server: {NO_WORD}"], []),
        (
            news.Heard({"a": leads("a"), "b": None}),
            ["a: heard of again", f"a: {LINE}", "b: heard of again"],
            [("a", *STATE)],
        ),
        (
            news.Heard(dict.fromkeys("abcd", leads("a"))),
            ["4 elections: heard of again"],
            [(each, *STATE) for each in "abcd"],
        ),
        (news.Heard({}), ["the server: heard of again"], []),
        (
            news.Spoiled(dict.fromkeys("abcd", Unreadable(ServerError(), "NOAUTH"))),
            ["4 elections: cannot be read: NOAUTH"],
            [(each, *ERROR) for each in "abcd"],
        ),
        (
            news.Refused("MISCONF no space"),
            ["the server refuses writes, and so nobody is elected: MISCONF no space"],
            [(None,)],
        ),
        (news.Refused(""), ["the server takes writes again"], [(None,)]),
    ],
)
def test_what_happens_in_lines_and_values(
    happened: news.News, lines: list[str], values: list[tuple[str | None, ...]]
) -> None:
    """An outage of many elections is one line; programs have a value for each election."""
    assert [*news.lines(happened, NOW)] == lines
    told = [*news.values(happened)]
    assert [(value.get("name"), *list(value)[1:]) for value in told] == values


@pytest.mark.parametrize(
    ("silent", "of", "said"),
    [
        (5, 5, "No word from the server for 15s: refused"),
        (2, 5, "No word of 2 elections for 15s: refused"),
    ],
)
def test_what_the_table_says_of_an_outage(silent: int, of: int, said: str) -> None:
    """It may concern one node of a cluster."""
    now = AT.replace(second=15)
    assert news.trouble(AT, "refused", now, silent=silent, of=of) == said
