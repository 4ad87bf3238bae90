"""P5: a request whose answer was lost is sent again, and gives the same answer."""

import asyncio
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from incumbent import Elected, LeaderElector, LeadershipLost, Skipped, current_lease
from incumbent.events import TermEnded, TermLost, TermRenewed, TermStarted
from incumbent.stores.redis import scripts
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import keys_without_ttl
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    fence_key,
    gone_key,
    here,
    quick,
    seat_key,
    steal,
    token_of,
    ttl_of,
)

YEAR = timedelta(days=366)
"""A period that does not end while a test runs."""

CLIENTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-retry": {"retry": Retry(NoBackoff(), 0)},
    "own-retry": {"retry": Retry(ConstantBackoff(0.01), 5), "socket_timeout": 0.5},
}


@pytest.fixture(params=list(CLIENTS))
def client_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of clients that send again by themselves, or do not."""
    return CLIENTS[request.param]


async def warm(elector: LeaderElector) -> None:
    """Each script is in the server's cache, so that what is dropped next is a real answer."""
    async with elector.lead("warm") as lease:
        await lease.extend(1)


async def test_p5_a_grant_whose_answer_was_lost_is_granted_again(
    server: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The same token, seat and fence: elected once, and nothing of it is left afterwards."""
    proxy, journal = await make_proxy(server), Journal()
    async with LeaderElector(make_client(proxy), quick(), hooks=[journal]) as elector:
        await warm(elector)
        proxy.drop_replies(1, "EVALSHA", cut=True)
        async with elector.lead("one") as lease:
            assert proxy.dropped == 1
            assert lease.held
            assert server.cli("HGET", seat_key("one"), "fence") == str(lease.fence)
            assert server.cli("GET", fence_key("one")) == str(lease.fence)
        assert ttl_of(server, "one") == -2
    assert [each.fence for each in journal.of(TermStarted)][1:] == [lease.fence]


async def test_p5_whatever_the_client_s_own_retry_is(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, client_options: dict[str, Any]
) -> None:
    """Of each request of a term, acquire, extend and release, the first answer is lost."""
    proxy, journal = await make_proxy(valkey), Journal()
    client = make_client(proxy, **client_options)
    async with LeaderElector(client, quick(), hooks=[journal]) as elector:
        await warm(elector)

        async def work() -> str:
            mine = token_of(valkey, "one")
            proxy.drop_replies(1, "EVALSHA", cut=True)
            assert await here().extend(3)
            assert token_of(valkey, "one") == mine
            assert ttl_of(valkey, "one") > 2000
            proxy.drop_replies(1, "EVALSHA", cut=True)
            return "done"

        proxy.drop_replies(1, "EVALSHA", cut=True)
        outcome = await elector.attempt("one", work)
    assert proxy.dropped == 3
    assert isinstance(outcome, Elected)
    assert [each.ending for each in journal.of(TermEnded)] == ["released", "released"]
    assert journal.of(TermLost) == []
    assert ttl_of(valkey, "one") == -2


async def test_p5_an_answer_that_never_comes_is_asked_for_again(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The connection stays, its answer does not come: sent again on another when it is overdue."""
    proxy = await make_proxy(valkey)
    options = quick(lease_time=3, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options) as elector:
        await warm(elector)
        opened = proxy.opened
        proxy.drop_replies(1, "EVALSHA")
        async with elector.lead("one") as lease:
            assert lease.held
        assert proxy.opened == opened + 1
        assert valkey.cli("GET", fence_key("one")) == str(lease.fence)


async def test_p5_a_release_whose_answer_was_lost_is_a_release(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """It hears "not yours" the second time, because somebody leads by now: no loss, and no harm."""
    proxy, journal = await make_proxy(valkey), Journal()
    async with (
        LeaderElector(make_client(proxy), quick(request_timeout=1), hooks=[journal]) as elector,
        LeaderElector(make_client(valkey), quick()) as other,
    ):
        await warm(elector)
        journal.events.clear()
        lead = elector.lead("one")
        await lead.__aenter__()
        proxy.drop_replies(1, "EVALSHA")
        leaving = lead.__aexit__(None, None, None)
        # The first release is done and its answer lost; before it is overdue, another leads.
        task = asyncio.ensure_future(leaving)
        async with other.using(wait_time=5).lead("one") as lease:
            await task
            assert lease.held
            assert await lease.extend(1)
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]
    assert journal.of(TermLost) == []


async def test_p5_a_release_that_met_an_empty_script_cache_was_sent_once(
    own_server: Server, make_client: MakeClient
) -> None:
    """NOSCRIPT is an answer: a seat that is another's at the first real release is a loss."""

    async def work() -> str:
        own_server.cli("SCRIPT", "FLUSH")
        steal(own_server, "one")
        return "done"

    async with LeaderElector(make_client(own_server), quick()) as elector:
        assert await elector.attempt("one", work) == LeadershipLost("taken", value="done")
    own_server.cli("DEL", seat_key("one"))


async def test_p5_the_scripts_give_the_same_answer_twice(server: Server) -> None:
    """On the server: a second acquire, extend or leave of a token says what the first one said."""
    seat, fence, gone = seat_key("one"), fence_key("one"), gone_key("one")
    queue, alive, tick = (f"incumbent:{{one}}:{name}" for name in ("queue", "alive", "tick"))
    keys = (6, fence, gone, queue, alive, tick, seat)
    acquire = ("EVAL", scripts.ACQUIRE.text, *keys, "mine", "me", 900, 0)
    first = server.cli(*acquire)
    assert first[0] == "granted"
    assert server.cli(*acquire) == first
    assert server.cli("GET", fence) == first[2]
    extend = ("EVAL", scripts.EXTEND.text, 2, fence, seat, "mine", 5000)
    assert [server.cli(*extend)[0] for _ in range(2)] == ["held", "held"]
    leave = ("EVAL", scripts.LEAVE.text, *keys, "mine", "", 0)
    assert [server.cli(*leave) for _ in range(2)] == [["left"], ["left"]]
    assert server.cli("EXISTS", seat) == 0
    assert server.cli(*acquire)[0] == "gone", "given up for good"
    assert keys_without_ttl(server) == []


async def test_p5_every_first_answer_lost_in_twenty_terms(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """One election after another, of each the grant's and the release's first answer is lost."""
    proxy = await make_proxy(valkey)
    fences: list[int] = []

    async def work() -> str:
        fences.append(here().fence)
        proxy.drop_replies(1, "EVALSHA", cut=True)
        return "done"

    async with LeaderElector(make_client(proxy), quick(request_timeout=2)) as elector:
        await warm(elector)
        for _ in range(20):
            proxy.drop_replies(1, "EVALSHA", cut=True)
            assert await elector.run_if_leader("one", work) == "done"
    assert fences == sorted(set(fences))
    assert len(fences) == 20
    assert proxy.dropped == 40


async def test_p5_a_renewal_whose_answer_was_lost_renews(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Three renewals lose their answer: the lease stays, and says that it was renewed."""
    proxy, journal = await make_proxy(valkey), Journal()
    async with LeaderElector(make_client(proxy), quick(lease_time=3), hooks=[journal]) as elector:
        await warm(elector)
        async with elector.lead("one") as lease:
            for _ in range(3):
                proxy.drop_replies(1, "EVALSHA", cut=True)
                await journal.has_another(TermRenewed)
            assert lease.held
    assert journal.of(TermLost) == []


@pytest.mark.parametrize("lost", [1, 2], ids=["asked-again", "given-up"])
async def test_p5_a_grant_that_was_lost_with_its_lease_silences_no_period(
    server: Server, make_client: MakeClient, make_proxy: MakeProxy, lost: int
) -> None:
    """A caller that asks again runs it; one that gives up leaves the period to the others."""
    proxy = await make_proxy(server)
    options = quick(lease_time=6, request_timeout=1)
    async with (
        LeaderElector(make_client(proxy), options, leader_id="one") as elector,
        LeaderElector(make_client(server), quick(once_per=YEAR), leader_id="other") as other,
    ):
        await warm(elector)
        proxy.drop_replies(lost, "EVALSHA")
        asking = asyncio.create_task(elector.using(once_per=YEAR).attempt("one", who_leads))
        # Each time as if the lease had run out.
        for _ in range(lost):
            await wait_until(lambda: server.cli("DEL", seat_key("one")) == 1)
        if lost == 1:
            assert await asking == Elected("one", leader_id=ANY, seat=0, fence=ANY)
            assert await other.attempt("one", who_leads) == Skipped("already_ran")
        else:
            with pytest.raises(RedisTimeoutError):
                await asking
            assert await other.run_if_leader("one", who_leads) == "other"


async def who_leads() -> str:
    """The work of a period."""
    lease = current_lease()
    assert lease is not None
    return lease.leader_id
