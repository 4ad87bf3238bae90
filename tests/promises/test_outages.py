"""An outage tells its reason: once when it begins, now and then, and when it is over."""

import asyncio
import logging

import pytest
from redis.exceptions import ResponseError

import incumbent.blocking
from incumbent import Elected, LeaderElector, LeadershipLost, LeadershipLostError, StrategicElector
from incumbent.events import (
    AttemptDelayed,
    Event,
    HeartbeatDelayed,
    Hook,
    OutageEnded,
    RenewalDelayed,
    TermLost,
    TermStarted,
)
from incumbent.observability.logging import LoggingHook
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, Work, forever, quick

MISCONF = "MISCONF the disk is full"
REASON = f"refused: {MISCONF}"
SHORT = quick(lease_time=4, request_timeout=0.8, stop_grace=1.2)


def refuse(proxy: Proxy, error: str = MISCONF) -> None:
    """Have no script carried out."""
    proxy.refuse(error, "EVAL", "EVALSHA")


def failures(journal: Journal) -> list[RenewalDelayed | AttemptDelayed]:
    """All that failed, in order."""
    kinds = RenewalDelayed, AttemptDelayed
    return [each for each in journal.events if isinstance(each, kinds)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What an operator sees."""
    ours = [each for each in caplog.records if each.name == "incumbent"]
    return [each.message for each in ours if each.levelno >= logging.WARNING]


async def test_a_campaign_in_an_outage(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it tries, and whatever it loses: a line at the begin, and one at the end."""
    proxy, journal, work = await make_proxy(valkey), Journal(), Work()
    hooks: list[Hook] = [journal, LoggingHook()]
    async with LeaderElector(make_client(proxy), SHORT, hooks=hooks) as elector:
        campaigning = asyncio.create_task(elector.campaign("one", work))
        await work.began.wait()
        refuse(proxy)
        await journal.has(AttemptDelayed, 5)
        await proxy.restore()
        await journal.has(TermStarted, 2)
        work.finish.set()
        assert await campaigning == "done"
    assert [each.repeated for each in failures(journal)][:1] == [False]
    assert all(each.repeated for each in failures(journal)[1:])
    (ended,) = journal.of(OutageEnded)
    assert ended.duration > 0.3
    order = [type(each) for each in journal.events]
    assert order.index(RenewalDelayed) < order.index(OutageEnded)
    told = warnings(caplog)
    assert [each.split(" (")[0] for each in told] == [
        "renewal delayed",
        "leadership lost",
        "release failed",
        "the server answers again",
    ]
    assert MISCONF in told[0]
    assert f"detail='{REASON}'" in told[1]


async def test_the_reason_of_a_loss(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """In the event, in the outcome, in the error, and in the note on the action's own error."""
    proxy, journal = await make_proxy(valkey), Journal()

    async def lead() -> None:
        refuse(proxy)
        await forever()

    async def fail() -> None:
        try:
            await lead()
        finally:
            raise KeyError("mine")

    async with LeaderElector(make_client(proxy), SHORT, hooks=[journal]) as elector:
        outcome = await elector.attempt("one", lead)
        assert outcome == LeadershipLost("unreachable")
        assert isinstance(outcome, LeadershipLost)
        assert outcome.detail == REASON
        assert journal.of(TermLost)[0].detail == REASON
        await proxy.restore()
        with pytest.raises(LeadershipLostError) as raised:
            await elector.run_if_leader("two", lead)
        assert raised.value.detail == REASON
        assert str(raised.value) == f"leadership of 'two' was lost: unreachable ({REASON})"
        await proxy.restore()
        with pytest.raises(LeadershipLostError, match=MISCONF):
            async with elector.lead("three"):
                await lead()
        await proxy.restore()
        with pytest.raises(KeyError) as its_own:
            await elector.run_if_leader("four", fail)
        assert REASON in its_own.value.__notes__[0]


async def test_a_silent_server_is_a_reason(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """It is said that nothing was heard."""
    proxy, journal = await make_proxy(valkey), Journal()

    async def lead() -> None:
        proxy.silence()
        await forever()

    async with LeaderElector(make_client(proxy), SHORT, hooks=[journal]) as elector:
        outcome = await elector.attempt("one", lead)
        await proxy.restore()
    assert isinstance(outcome, LeadershipLost)
    assert outcome.detail.startswith("not reached: no ")


async def test_other_losses_have_no_such_reason(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """A renewal that failed once, and a loss for another reason: nothing is made up."""
    proxy, journal, work = await make_proxy(valkey), Journal(), Work()
    options = quick(lease_time=2, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        refuse(proxy)
        await journal.has(RenewalDelayed)
        await proxy.restore()
        await journal.has(OutageEnded)
        await elector.force_release("one")
        outcome = await leading
    assert outcome == LeadershipLost("taken")
    assert isinstance(outcome, LeadershipLost)
    assert outcome.detail == ""


async def test_a_schedule_in_an_outage(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """An outage that lasts for several ticks is one."""
    proxy, journal = await make_proxy(valkey), Journal()
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()

    async with LeaderElector(make_client(proxy), SHORT, hooks=[journal]) as elector:
        refuse(proxy)
        ticking = asyncio.create_task(elector.schedule("tick", every=0.25, action=run))
        await journal.has(AttemptDelayed, 8)
        await proxy.restore()
        await ran.wait()
        ticking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ticking
    assert [each.repeated for each in failures(journal)] == [False] + [True] * (
        len(failures(journal)) - 1
    )
    assert len(journal.of(OutageEnded)) == 1


async def test_another_reason_is_told(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """But not each of the ways in which a server is not reached."""
    proxy, journal = await make_proxy(valkey), Journal()
    async with LeaderElector(make_client(proxy), SHORT, hooks=[journal]) as elector:
        refuse(proxy)
        campaigning = asyncio.create_task(elector.campaign("one", Work()))
        await journal.has(AttemptDelayed)
        await proxy.restore()
        refuse(proxy, "NOREPLICAS too few")

        def told(word: str) -> list[AttemptDelayed]:
            return [each for each in journal.of(AttemptDelayed) if word in str(each.error)]

        await wait_until(lambda: told("NOREPLICAS"))
        assert [each.repeated for each in told("NOREPLICAS")[:1]] == [False]
        campaigning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await campaigning


async def test_heartbeats_in_an_outage(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The same for a candidate that does not lead."""
    proxy, journal = await make_proxy(valkey), Journal()
    async with (
        StrategicElector(
            make_client(proxy), SHORT, strategy=Fifo(), node_id="a", hooks=[journal]
        ) as elector,
        elector.candidate("one", ttl=0.6),
    ):
        refuse(proxy)
        await journal.has(HeartbeatDelayed, 4)
        await proxy.restore()
        await journal.has(OutageEnded)
    # On a machine that stands still one may have no answer in time, which is told as well.
    first, *others = [each for each in journal.of(HeartbeatDelayed) if MISCONF in str(each.error)]
    assert not first.repeated
    assert all(each.repeated for each in others)


async def test_a_wait_that_ends_in_an_outage(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Its error is raised, and the next call begins anew."""
    proxy, journal = await make_proxy(valkey), Journal()
    options = quick(wait_time=0.5, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        for number in range(2):
            refuse(proxy)
            with pytest.raises(ResponseError, match="disk is full"):
                await elector.run_if_leader("one", forever)
            told = [each for each in failures(journal) if not each.repeated]
            assert len(told) == number + 1
            await proxy.restore()


def test_with_threads(valkey: Server) -> None:
    """The same reason, in the outcome and in the error."""
    heard: list[Event] = []
    with ProxyThread(valkey) as relay:
        elector = incumbent.blocking.LeaderElector(relay.url, SHORT, hooks=[heard.append])
        with elector:

            def lead() -> None:
                relay.do(refuse)
                lease = incumbent.blocking.current_lease()
                assert lease is not None
                assert lease.lost.wait(30)

            outcome = elector.attempt("one", lead)
            assert isinstance(outcome, LeadershipLost)
            assert outcome.detail == REASON
            relay.do_async(Proxy.restore)
            with pytest.raises(LeadershipLostError, match=MISCONF):
                elector.run_if_leader("two", lead)
            relay.do_async(Proxy.restore)
            assert isinstance(elector.attempt("three", lambda: None), Elected)
