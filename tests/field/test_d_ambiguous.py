"""Field cases D: commands whose fate is unknown, and connections that come back by themselves."""

import asyncio
from typing import Any

import pytest
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from incumbent import Elected, LeaderElector, LeadershipLost
from incumbent.events import TermLost, TermRenewed, TermStarted
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    THIEF,
    Journal,
    Work,
    all_keys,
    fence_key,
    gone_key,
    here,
    is_held,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
)

CLIENTS: dict[str, dict[str, Any]] = {
    "default": {},
    "retry-off": {"retry": Retry(NoBackoff(), 0)},
    "retry-on-timeout": {"socket_timeout": 0.2, "retry_on_timeout": True},
}


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "swallowed"])
@pytest.mark.parametrize("options", list(CLIENTS))
async def test_case_45_an_acquire_that_was_sent_twice(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, options: str, cut: bool
) -> None:
    """Its first answer is lost: elected, under the first token, with one fence; no orphan left."""
    proxy, journal = await make_proxy(valkey), Journal()
    client = make_client(proxy, **CLIENTS[options])
    tokens: list[str | None] = []

    async def work() -> int:
        tokens.append(token_of(valkey, "one"))
        return here().fence

    elect = quick(request_timeout=1.2, lease_time=9)
    async with LeaderElector(client, elect, hooks=[journal]) as elector:
        await elector.run_if_leader("warm", nothing)
        proxy.drop_replies(1, "EVALSHA", cut=cut)
        leading = asyncio.create_task(elector.attempt("one", work))
        outcome = await leading
        assert isinstance(outcome, Elected)
        assert proxy.dropped == 1
        assert valkey.cli("GET", fence_key("one")) == str(outcome.value)
        assert len(tokens) == 1
    assert [each.fence for each in journal.of(TermStarted)][1:] == [outcome.fence]
    orphans = all_keys(valkey) - {fence_key("one"), fence_key("warm"), gone_key("one")}
    assert orphans == set()


async def test_case_45_a_late_copy_of_an_acquire_takes_nothing(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The first sending is held by the network until the term of the second is over: no ghost."""
    proxy = await make_proxy(valkey)
    options = quick(request_timeout=0.8, lease_time=30)
    async with LeaderElector(make_client(proxy), options) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.hold_requests("EVALSHA")
        leading = asyncio.create_task(elector.attempt("one", nothing))
        await wait_until(lambda: proxy.held == 2)  # the second sending, by another connection
        # Nobody can let the second one go alone; both arrive, in whatever order.
        proxy.release()
        assert isinstance(await leading, Elected)
        assert (await elector.state("one")).leaders == ()
        assert token_of(valkey, "one") is None


async def test_case_47_killed_connections_keep_no_ghost_and_lose_no_lease(
    own_server: Server, make_client: MakeClient
) -> None:
    """CLIENT KILL while leading, five times: reconnected, the token verified, led on."""
    journal, work = Journal(), Work()
    async with LeaderElector(make_client(own_server), quick(), hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        for _ in range(5):
            killed = own_server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            assert killed >= 1
            await journal.has_another(TermRenewed)
            assert is_held(work.lease)
        assert len(connections(own_server)) == 1
        work.finish.set()
        assert isinstance(await leading, Elected)
    assert journal.of(TermLost) == []


async def test_case_47_after_a_reconnect_another_s_token_is_believed(
    own_server: Server, make_client: MakeClient
) -> None:
    """Killed and replaced at the same moment: the first answer after the reconnect is a loss."""
    journal, work = Journal(), Work()
    async with LeaderElector(make_client(own_server), quick(), hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        own_server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        steal(own_server, "one")
        own_server.cli("PEXPIRE", seat_key("one"), 20_000)
        assert await leading == LeadershipLost("taken")
        assert not elector.is_leading("one")
    assert work.cleaned == 1
    assert token_of(own_server, "one") == THIEF
    assert len(journal.of(TermLost)) == 1
