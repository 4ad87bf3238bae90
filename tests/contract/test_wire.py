"""For a server next door the loop stays awake, as to be woken takes as long as the answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from incumbent.stores.redis import wire as wires
from incumbent.stores.redis.scripts import command
from incumbent.stores.redis.wire import Question, Wire
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server

PING = command(b"PING")
PONG = b"PONG"


@pytest.fixture
async def naps() -> AsyncIterator[list[float | None]]:
    """For how long the loop would have slept, each time that it looked for something to do."""
    loop: Any = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.SelectorEventLoop):
        pytest.skip("only asyncio's own loop tells for how long it sleeps")
    watched: Any = loop
    select, timeouts = watched._selector.select, list[float | None]()

    def noted(timeout: float | None = None) -> Any:
        timeouts.append(timeout)
        return select(timeout)

    watched._selector.select = noted
    yield timeouts
    watched._selector.select = select


async def ask(wire: Wire) -> None:
    """Send one request alone."""
    assert await wire.send(Question(PING), 10.0) == PONG


async def test_a_quick_answer_is_waited_for_awake(
    valkey: Server, make_client: MakeClient, naps: list[float | None], monkeypatch: Any
) -> None:
    """When it is known that the server is near, which the first one does not tell: it connects."""
    monkeypatch.setattr(wires, "NEAR", 10.0)  # however busy the machine is
    wire = Wire(make_client(valkey).connection_pool)
    await ask(wire)
    await ask(wire)
    naps.clear()
    await ask(wire)
    assert set(naps) == {0}
    await wire.retire()


async def test_a_slow_answer_is_not(
    proxy: Proxy, make_client: MakeClient, naps: list[float | None]
) -> None:
    """Who is far is waited for asleep, and one late answer is enough to count as far."""
    wire = Wire(make_client(proxy).connection_pool)
    proxy.delay(0.02)
    for _ in range(3):
        await ask(wire)
        assert not wire._near
    naps.clear()
    await ask(wire)
    assert any(nap != 0 for nap in naps)
    await wire.retire()


async def test_nobody_stays_awake_for_long(
    proxy: Proxy, make_client: MakeClient, naps: list[float | None], monkeypatch: Any
) -> None:
    """An answer that does not come is waited for asleep, after the time that it took before."""
    wire = Wire(make_client(proxy).connection_pool)
    monkeypatch.setattr(wires, "NEAR", 10.0)
    await ask(wire)
    monkeypatch.setattr(wires, "NEAR", 0.01)
    proxy.delay(0.3)
    naps.clear()
    await ask(wire)
    assert any(nap != 0 for nap in naps)
    assert not wire._near
    await wire.retire()


# -- what is given up ------------------------------------------------------------------------


async def test_an_answer_that_is_waited_for_keeps_the_others_in_order(
    proxy: Proxy, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow server is no silent one: the queue waits, and leaves on the same connection."""
    monkeypatch.setattr(wires, "ABANDONED", 0.01)
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    proxy.delay(0.2)
    first = wire._enqueue(Question(PING), 30.0)
    await asyncio.sleep(0)
    answers = list(await asyncio.gather(first, wire.send(Question(PING), 30.0)))
    assert answers == [PONG, PONG]
    assert not wire.retired
    await wire.retire()


async def test_with_the_loop_ends_what_nobody_waits_for(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """A request that is waited for, as by a generator that is closed, is answered before that."""
    wire = Wire(make_client(proxy).connection_pool)
    await ask(wire)
    proxy.delay(0.05)
    answers = [wire.send(Question(PING), 0.4) for _ in range(2)]  # too hasty to go alone
    closing = asyncio.create_task(wire.aclose())
    assert list(await asyncio.gather(*answers)) == [PONG, PONG]
    await closing
    proxy.hold_replies()
    given_up = asyncio.ensure_future(wire.send(Question(PING), 0.4))
    await asyncio.sleep(0)
    given_up.cancel()
    sender = wire._sender
    assert sender is not None
    await wire.aclose()
    assert sender.done()
    await wire.retire()
