"""When an inbox gives its connection back, and when it takes another one: on a real server."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from contract.test_inbox import Ear, in_use, subscribers
from incumbent.stores.redis import answers
from incumbent.stores.redis import inbox as inboxes
from incumbent.stores.redis.inbox import Inbox
from incumbent.stores.redis.inboxes import Inboxes
from incumbent.stores.redis.slots import Address
from kit.fixtures import MakeClient
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until


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


@pytest.fixture
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a channel goes back at once, or nearly."""
    monkeypatch.setattr(inboxes, "IDLE", 0.02)


async def test_p8_without_a_channel_the_connection_goes_back_after_a_while(
    inbox: Inbox, client: "redis.asyncio.Redis", valkey: Server, soon_idle: None
) -> None:
    """Disconnected, as it was subscribed; the next channel has another one."""
    for _ in range(3):
        ear = Ear()
        inbox.open(b"kit:a", ear)
        await ear.has("listening")
        assert in_use(client.connection_pool) == 1
        inbox.close(b"kit:a")
        await wait_until(lambda: in_use(client.connection_pool) == 0, what="it went back")
        await wait_until(lambda: not connections(valkey), what="no connection")
        assert await client.ping()
        await client.connection_pool.disconnect()


async def test_p8_a_short_pause_costs_no_connection(inbox: Inbox, valkey: Server) -> None:
    """A listener that comes back before that has the same one."""
    ids: set[str] = set()
    for _ in range(5):
        ear = Ear()
        inbox.open(b"kit:a", ear)
        await ear.has("listening")
        ids.update(each["id"] for each in connections(valkey))
        inbox.close(b"kit:a")
        await asyncio.sleep(0.02)
    assert len(ids) == 1


async def test_whoever_listens_as_the_connection_goes_back_is_heard(
    inbox: Inbox, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever turn of the loop."""
    for turns in range(25):
        monkeypatch.setattr(inboxes, "IDLE", 60)
        ear = Ear()
        inbox.open(b"kit:a", ear)
        await ear.says("listening")
        inbox.close(b"kit:a")
        inbox._tire()
        for _ in range(turns):
            await asyncio.sleep(0)
        other = Ear()
        inbox.open(b"kit:a", other)
        await other.says("listening")
        await wait_until(lambda: subscribers(valkey, "kit:a") == 1)
        valkey.cli("PUBLISH", "kit:a", "on")
        await other.says("on")
        inbox.close(b"kit:a")


async def test_whoever_listens_as_a_cancelled_reader_ends_is_heard_later(
    inbox: Inbox, valkey: Server
) -> None:
    """By the next reader, which begins with the next channel at the latest."""
    for turns in range(6):
        ear, other, third = Ear(), Ear(), Ear()
        inbox.open(b"kit:a", ear)
        await ear.says("listening")
        assert inbox._reader is not None
        inbox._reader.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        inbox.open(b"kit:b", other)
        await wait_until(lambda other=other: other.told, what="it is told")  # type: ignore[misc]
        if other.told != ["listening"]:
            await wait_until(lambda: inbox._reader is None)
            inbox.open(b"kit:c", third)
            await third.says("listening")
        for channel in (b"kit:a", b"kit:b", b"kit:c"):
            inbox.close(channel)
        await inbox.aclose()
        inbox.closed = False


async def test_p8_a_connection_that_died_in_silence_is_found_out(
    distant: Inbox, proxy: Proxy, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it was told to listen: the answer is overdue, and another connection listens."""
    monkeypatch.setattr(answers, "WITHIN", 0.3)
    first, second = Ear(), Ear()
    distant.open(b"kit:a", first)
    await first.has("listening")
    distant.close(b"kit:a")
    await wait_until(lambda: subscribers(valkey, "kit:a") == 0)
    proxy.silence()
    distant.open(b"kit:b", second)
    await asyncio.sleep(0.05)
    await proxy.restore(reset=False)
    await second.says("listening")
    await wait_until(lambda: subscribers(valkey, "kit:b") == 1)
    valkey.cli("PUBLISH", "kit:b", "on")
    await second.says("on")


class OneNode:
    """A cluster of which all is known: one node, behind a proxy."""

    ADDRESS = ("node", 1)

    def __init__(self, pool: Any) -> None:
        self.doubts = 0
        self._pool = pool

    def owner(self, key: bytes) -> Address:
        return self.ADDRESS

    def doubt(self, address: Address) -> None:
        self.doubts += 1

    async def look(self, within: float) -> None:
        """There is nothing else to see."""

    def pool(self, address: Address) -> Any:
        return self._pool


async def test_p8_on_a_cluster_as_well(
    proxy: Proxy, make_client: MakeClient, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is doubted, and connected anew; without a channel its connection goes back."""
    if valkey.kind == "redis-6":
        pytest.skip("no sharded channels on redis-6")
    monkeypatch.setattr(answers, "WITHIN", 0.3)
    client = make_client(proxy)
    node = OneNode(client.connection_pool)
    ears, first, second = Inboxes(node), Ear(), Ear()
    ears.open(b"kit:a", first)
    await first.has("listening")
    proxy.silence()
    ears.open(b"kit:b", second)
    await second.has("deaf")
    await proxy.restore(reset=False)
    await second.says("listening")
    await first.says("listening")
    assert node.doubts >= 1
    monkeypatch.setattr(inboxes, "IDLE", 0.02)
    ears.close(b"kit:a")
    ears.close(b"kit:b")
    await wait_until(lambda: in_use(client.connection_pool) == 0, what="it went back")
    third = Ear()
    ears.open(b"kit:b", third)
    await third.says("listening")
    await ears.aclose()


async def test_channels_that_come_one_after_another_do_not_put_it_off(
    distant: Inbox, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is heard, however often something new is asked for."""
    monkeypatch.setattr(answers, "WITHIN", 0.5)
    first = Ear()
    distant.open(b"kit:first", first)
    await first.has("listening")
    proxy.silence()
    for number in range(200):
        distant.open(b"kit:%d" % number, Ear())
        await asyncio.sleep(0.05)
        if first.told[-1] == "deaf":
            break
    assert first.told == ["listening", "deaf"]
    await proxy.restore()


async def test_an_answer_that_came_while_the_loop_stood_still_is_in_time(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies there when the time is up."""
    first, second = Ear(), Ear()
    inbox.open(b"kit:a", first)
    await first.has("listening")
    monkeypatch.setattr(answers, "WITHIN", 0.05)
    monkeypatch.setattr(answers, "A_LITTLE_LONGER", 5.0)
    inbox.open(b"kit:b", second)
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - it stands still
    await second.has("listening")
    await first.has("listening")


async def test_a_channel_that_was_left_and_asked_for_anew_is_confirmed_by_the_later_answer(
    distant: Inbox, proxy: Proxy, valkey: Server
) -> None:
    """A message that is published between the two subscriptions is lost."""
    first = Ear()
    distant.open(b"kit:first", first)
    await first.has("listening")
    proxy.delay(0.3)
    early, late = Ear(), Ear()
    distant.open(b"kit:a", early)
    await wait_until(lambda: subscribers(valkey, "kit:a") == 1)
    proxy.hold_requests("SUBSCRIBE")
    distant.close(b"kit:a")
    await wait_until(lambda: subscribers(valkey, "kit:a") == 0)
    distant.open(b"kit:a", late)
    await asyncio.sleep(0.6)  # in which the first answer comes
    assert late.told == []
    proxy.release()
    await late.says("listening")
    assert subscribers(valkey, "kit:a") == 1
    assert early.told == []


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_is_closed_meanwhile_makes_no_noise(
    make_client: MakeClient, valkey: Server, turns: int, complaints_of_the_loop: list[Any]
) -> None:
    """In whichever turn after a channel was closed."""
    client = make_client(valkey)
    inbox, ear, other = Inbox(client.connection_pool), Ear(), Ear()
    inbox.open(b"kit:a", ear)
    inbox.open(b"kit:b", other)
    await ear.says("listening")
    await other.says("listening")
    inbox.close(b"kit:a")
    for _ in range(turns):
        await asyncio.sleep(0)
    await client.aclose()
    await asyncio.sleep(0.05)
    await inbox.aclose()
    assert complaints_of_the_loop == []


@pytest.fixture
async def complaints_of_the_loop() -> AsyncIterator[list[Any]]:
    """What the loop would have logged."""
    heard: list[Any] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: heard.append(context))
    yield heard
    loop.set_exception_handler(before)
