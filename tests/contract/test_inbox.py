"""The inbox on real servers: what it hears, what it says when it does not, what it leaves."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.connection import ConnectionPool

from incumbent.stores.redis import inbox as inboxes
from incumbent.stores.redis.inbox import Inbox
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.tls import Authority
from kit.waiting import wait_until


class Ear:
    """A listener that takes note."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def listening(self) -> None:
        self.told.append("listening")

    def deaf(self) -> None:
        self.told.append("deaf")

    def heard(self, message: bytes) -> None:
        assert isinstance(message, bytes)
        self.told.append(message.decode())

    async def has(self, *told: str) -> None:
        """Wait until exactly this was told, in this order."""
        await wait_until(lambda: len(self.told) >= len(told), what=f"{told}, not {self.told}")
        assert self.told == list(told)

    async def says(self, last: str, times: int = 1) -> None:
        """Wait until this is what it was told last, and that for the n-th time at least."""
        await wait_until(lambda: self.told[-1:] == [last] and self.told.count(last) >= times)


def in_use(pool: ConnectionPool) -> int:
    """How many connections of the pool are lent."""
    return len(pool._in_use_connections)


def subscribers(server: Server, channel: str) -> int:
    """How many listen to a channel."""
    return int(server.cli("PUBSUB", "NUMSUB", channel)[1])


@pytest.fixture
async def inbox(client: "redis.asyncio.Redis") -> AsyncIterator[Inbox]:
    """An inbox on `valkey`."""
    made = Inbox(client.connection_pool)
    yield made
    await made.aclose()
    assert in_use(client.connection_pool) == 0


@pytest.fixture
async def distant(proxy: Proxy, make_client: MakeClient) -> AsyncIterator[Inbox]:
    """An inbox behind `proxy`."""
    made = Inbox(make_client(proxy).connection_pool)
    yield made
    await made.aclose()


async def test_what_is_published_is_heard(
    server: Server, wire: dict[str, Any], make_client: MakeClient
) -> None:
    """RESP2 and RESP3, bytes and text, on every server: the same bytes, in order."""
    inbox, ear = Inbox(make_client(server, **wire).connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    for word in ("one", "two", "ä"):
        assert server.cli("PUBLISH", "kit:a", word) == 1
    await ear.has("listening", "one", "two", "ä")
    await inbox.aclose()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_without_hiredis(valkey: Server, make_client: MakeClient, protocol: int) -> None:
    """The parser in Python hears as well."""
    client = make_client(valkey, protocol=protocol, hiredis=False)
    inbox, ear = Inbox(client.connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    valkey.cli("PUBLISH", "kit:a", "one")
    await ear.has("listening", "one")
    await inbox.aclose()


async def test_channels_share_one_connection(inbox: Inbox, valkey: Server) -> None:
    """A hundred that are opened at once need one command; each hears its own messages."""
    before = len(connections(valkey))
    ears = {b"kit:%d" % number: Ear() for number in range(100)}
    for channel, ear in ears.items():
        inbox.open(channel, ear)
    for ear in ears.values():
        await ear.has("listening")
    assert len(connections(valkey)) == before + 1
    for channel in ears:
        valkey.cli("PUBLISH", channel, channel)
    for channel, ear in ears.items():
        await ear.has("listening", channel.decode())


async def test_a_later_channel_is_opened_on_the_same_connection(
    inbox: Inbox, valkey: Server
) -> None:
    """One that comes when the connection is there is confirmed by itself."""
    first, second = Ear(), Ear()
    inbox.open(b"kit:a", first)
    await first.has("listening")
    before = len(connections(valkey))
    inbox.open(b"kit:b", second)
    await second.has("listening")
    assert len(connections(valkey)) == before
    await first.has("listening")


async def test_a_closed_channel_has_no_subscriber(inbox: Inbox, valkey: Server) -> None:
    """So that the server can tell that nobody is there; the others go on."""
    first, second = Ear(), Ear()
    inbox.open(b"kit:a", first)
    inbox.open(b"kit:b", second)
    await second.has("listening")
    inbox.close(b"kit:a")
    await wait_until(lambda: subscribers(valkey, "kit:a") == 0)
    assert valkey.cli("PUBLISH", "kit:b", "on") == 1
    await second.has("listening", "on")
    await first.has("listening")


async def test_a_channel_can_be_closed_and_opened_again(inbox: Inbox, valkey: Server) -> None:
    """However quickly: its listener is told when it listens, and hears what comes then."""
    ear = Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    for _ in range(20):
        inbox.close(b"kit:a")
        await asyncio.sleep(0)
        ear = Ear()
        inbox.open(b"kit:a", ear)
        await ear.says("listening")
        await wait_until(lambda: subscribers(valkey, "kit:a") == 1)
        valkey.cli("PUBLISH", "kit:a", "on")
        await ear.says("on")


async def test_after_a_cut_it_listens_again(distant: Inbox, proxy: Proxy, valkey: Server) -> None:
    """Every listener is told that it heard nothing, and that it hears again."""
    ears = [Ear(), Ear()]
    for number, ear in enumerate(ears):
        distant.open(b"kit:%d" % number, ear)
    for ear in ears:
        await ear.has("listening")
    proxy.cut()
    for ear in ears:
        await ear.has("listening", "deaf", "listening")
    valkey.cli("PUBLISH", "kit:1", "on")
    await ears[1].has("listening", "deaf", "listening", "on")


async def test_it_outlives_its_server(own_server: Server, make_client: MakeClient) -> None:
    """A server that dies and comes back finds it listening."""
    inbox, ear = Inbox(make_client(own_server).connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    own_server.kill()
    await ear.has("listening", "deaf")
    own_server.start()
    await ear.says("listening")
    own_server.cli("PUBLISH", "kit:a", "on")
    await ear.says("on")
    await inbox.aclose()


async def test_without_a_server_it_says_so(make_client: MakeClient) -> None:
    """Who stands in line must not wait for what does not come, also when it comes later."""
    inbox, first, second = Inbox(make_client("redis://127.0.0.1:1").connection_pool), Ear(), Ear()
    inbox.open(b"kit:a", first)
    await wait_until(lambda: first.told)
    inbox.open(b"kit:b", second)
    assert second.told == ["deaf"]
    await inbox.aclose()
    assert set(first.told) == {"deaf"}


async def test_a_deaf_connection_is_replaced(distant: Inbox, proxy: Proxy, valkey: Server) -> None:
    """Silent, and nobody notices until a probe is missed: then another connection is made."""
    ear = Ear()
    distant.open(b"kit:a", ear)
    await ear.has("listening")
    proxy.silence()
    valkey.cli("PUBLISH", "kit:a", "unheard")
    distant.distrust(b"kit:a")
    await ear.has("listening", "deaf")
    await proxy.restore()
    await ear.says("listening")


async def test_who_hears_nothing_again_and_again_connects_ever_more_seldom(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is published arrives, as without the right to publish: no storm begins."""
    monkeypatch.setattr(inboxes, "FIRST_PAUSE", 0.001)
    ear = Ear()
    inbox.open(b"kit:a", ear)
    pauses = []
    for turn in range(8):
        await ear.says("listening", turn + 1)
        inbox.distrust(b"kit:a")
        pauses.append(inbox._pause(None))
    assert 0.5 * 2**6 < pauses[-1] / pauses[0] < 2 * 2**7


async def test_without_the_right_to_listen_it_says_so(
    own_server: Server, make_client: MakeClient
) -> None:
    """The server refuses: deaf at once, no connection is kept, and the next try is far away."""
    own_server.cli("ACL", "SETUSER", "mute", "on", ">p", "~*", "+@all", "resetchannels")
    client = make_client(own_server, username="mute", password="p")
    inbox, ear = Inbox(client.connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await wait_until(lambda: ear.told == ["deaf"])
    await wait_until(lambda: in_use(client.connection_pool) == 0)
    await inbox.aclose()


async def test_a_channel_that_is_refused_leaves_a_clean_pool(
    own_server: Server, make_client: MakeClient
) -> None:
    """The connection has subscribed to another by then: it goes back as one that has not."""
    own_server.cli("ACL", "SETUSER", "half", "on", ">p", "~*", "+@all", "resetchannels", "&kit:a")
    client = make_client(own_server, username="half", password="p", protocol=2)
    inbox, ear = Inbox(client.connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    inbox.open(b"kit:b", Ear())
    await ear.has("listening", "deaf")
    await wait_until(lambda: in_use(client.connection_pool) == 0)
    assert await client.echo("x") == b"x"
    await inbox.aclose()


async def test_a_pool_without_a_connection_makes_it_deaf(
    valkey: Server, make_client: MakeClient
) -> None:
    """It takes nothing from anybody, and listens when there is one to be had."""
    client = make_client(valkey, max_connections=1)
    async with client.client() as single:
        await single.ping()
        inbox, ear = Inbox(client.connection_pool), Ear()
        inbox.open(b"kit:a", ear)
        await wait_until(lambda: ear.told)
    await ear.says("listening")
    await inbox.aclose()
    assert await client.ping()


async def test_closed_it_leaves_a_clean_pool(client: redis.asyncio.Redis, valkey: Server) -> None:
    """No connection of the pool is subscribed, none is lent, and the client works on."""
    inbox, ear = Inbox(client.connection_pool), Ear()
    for number in range(3):
        inbox.open(b"kit:%d" % number, ear)
    await ear.has("listening", "listening", "listening")
    await inbox.aclose()
    assert in_use(client.connection_pool) == 0
    await wait_until(lambda: not valkey.cli("PUBSUB", "CHANNELS", "kit:*"))
    assert await asyncio.gather(*(client.echo("x") for _ in range(3))) == [b"x"] * 3
    await inbox.aclose()
    late = Ear()
    inbox.open(b"kit:late", late)
    assert late.told == ["deaf"]


@pytest.mark.parametrize("moment", ["at once", "silent", "while it pauses"])
async def test_case_34_it_can_be_closed_at_any_moment(
    distant: Inbox, proxy: Proxy, moment: str
) -> None:
    """Before it is connected, over a silent connection, without a server: within a moment."""
    ear = Ear()
    if moment == "silent":
        distant.open(b"kit:a", ear)
        await ear.has("listening")
        proxy.silence(requests=True)
    elif moment == "while it pauses":
        proxy.cut(refuse=True)
        distant.open(b"kit:a", ear)
        await wait_until(lambda: ear.told)
    else:
        distant.open(b"kit:a", ear)
    async with asyncio.timeout(4):
        await distant.aclose()
    assert "listening" not in ear.told[1:]


async def test_a_reader_that_was_cancelled_is_started_anew(inbox: Inbox, valkey: Server) -> None:
    """Who cancels every task hits ours, too; the next one that stands in line is heard."""
    ear = Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    assert inbox._reader is not None
    inbox._reader.cancel()
    await ear.has("listening", "deaf")
    await wait_until(lambda: inbox._reader is None)
    other = Ear()
    inbox.open(b"kit:b", other)
    await other.has("listening")
    await ear.says("listening")
    valkey.cli("PUBLISH", "kit:a", "on")
    await ear.says("on")


async def test_a_tls_connection_is_as_good(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, authority: Authority
) -> None:
    """What carries the bytes does not matter."""
    proxy = await make_proxy(valkey, tls=authority)
    client = make_client(proxy.url, ssl_ca_certs=str(authority.ca_file))
    inbox, ear = Inbox(client.connection_pool), Ear()
    inbox.open(b"kit:a", ear)
    await ear.has("listening")
    valkey.cli("PUBLISH", "kit:a", "one")
    await ear.has("listening", "one")
    await inbox.aclose()
