"""P9 on the wire that many requests share: nobody is left behind by somebody else's request."""

import asyncio

import pytest

from incumbent.stores.redis import wire as wires
from incumbent.stores.redis.scripts import STATE, PackedKeys
from incumbent.stores.redis.wire import ElsewhereError, Request, Wire
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.waiting import wait_until


def question() -> Request:
    """A request that any server answers."""
    return Request(
        STATE.command(
            PackedKeys.of(b"incumbent:x", b"incumbent:y", b"incumbent:z"), (), by_text=True
        )
    )


async def test_p9_who_is_queued_behind_an_abandoned_batch_goes_elsewhere(
    proxy: Proxy, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon: a batch that no request waits for ends by itself, and delays no other until then."""
    # No end of the batch, and no request's own time, is what is waited for.
    monkeypatch.setattr(wires, "LINGER", 120.0)
    monkeypatch.setattr(wires, "HASTY", 120.0)
    wire = Wire(make_client(proxy).connection_pool)
    assert await wire.send(question(), 90.0) == [0, b"0", 0]
    proxy.drop_replies(1, "EVAL")
    abandoned = asyncio.ensure_future(wire.send(question(), 60.0))
    await wait_until(lambda: proxy.dropped == 1, what="the batch's answer is lost")
    abandoned.cancel()
    behind = asyncio.ensure_future(wire.send(question(), 90.0))
    await asyncio.sleep(0)
    assert wire._queue
    assert isinstance(await asyncio.wait_for(behind, 30), ElsewhereError)
    assert wire.retired
    await wire.drop()
    await wait_until(lambda: not wire.busy)
