"""Electors that are led to a server of another protocol: at first, and after a while."""

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest
import redis
from redis._parsers import _AsyncRESP2Parser
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import DefaultParser

from incumbent import LeaderElector, LeaderOptions
from incumbent.events import AttemptDelayed, OutageEnded
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.strangers import STRANGERS, Stranger
from kit.waiting import wait_until
from promises.scene import Journal, Work, nothing

HANDSHAKE = ("HELLO", "AUTH", "CLIENT", "SELECT")
PARSERS = pytest.mark.parametrize(
    "parser", [DefaultParser, _AsyncRESP2Parser], ids=["usual", "without hiredis"]
)


async def silent(connection: Any) -> None:
    """Says nothing when it has connected: the first thing that is read is an answer."""
    connection._parser.on_connect(connection)


@pytest.mark.parametrize("greet", [None, silent], ids=["log-in", "no log-in"])
@PARSERS
@pytest.mark.parametrize("kind", STRANGERS)
async def test_it_is_an_error_of_redis(kind: str, parser: Any, greet: Any) -> None:
    """Of no parser, and of no task that nobody waits for."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    with Stranger(kind) as stranger:
        client = Redis.from_pool(
            ConnectionPool(
                host=stranger.host,
                port=stranger.port,
                username="user",
                password="S3CRET",
                parser_class=parser,
                redis_connect_func=greet,
                protocol=2,
            )
        )
        options = LeaderOptions(lease_time=1, request_timeout=0.2)
        async with client, LeaderElector(client, options) as elector:
            with pytest.raises(redis.RedisError) as said:
                async with elector.lead("x"):
                    pytest.fail("nobody can lead there")
    assert "S3CRET" not in str(said.value)
    del said
    gc.collect()
    assert unseen == []


async def test_an_answer_that_is_none_is_one_that_was_lost(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """It is asked for again, on another connection."""
    async with LeaderElector(make_client(proxy)) as elector:
        assert await elector.run_if_leader("x", nothing) == "done"
        proxy.garble("EVALSHA")
        assert await elector.run_if_leader("x", nothing) == "done"


async def test_a_campaign_outlasts_a_stranger_at_the_address(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """As where addresses are given to the next container: it was a server before."""
    journal, work = Journal(), Work()
    async with (
        LeaderElector(make_client(proxy)) as other,
        LeaderElector(
            make_client(proxy), LeaderOptions(request_timeout=0.5), hooks=[journal]
        ) as elector,
    ):
        async with other.lead("x"):
            campaign = asyncio.create_task(elector.campaign("x", work))
            await _until_waiting(other)
            proxy.garble(*HANDSHAKE, "EVALSHA", "EVAL", "SUBSCRIBE", "PING", times=None)
            proxy.cut()
            await journal.has(AttemptDelayed)
            assert not campaign.done()
            await proxy.restore()
            await journal.has(OutageEnded)
        await wait_until(lambda: work.running, within=60)
        campaign.cancel()
        with suppress(asyncio.CancelledError):
            await campaign


async def _until_waiting(elector: LeaderElector) -> None:
    async def waits() -> bool:
        return (await elector.state("x")).waiting == 1

    await wait_until(waits)
