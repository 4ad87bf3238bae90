"""P2: a lease ends locally before it can end on the server, with or without Redis in reach."""

import asyncio
import runpy
import time

import pytest

from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
    Lease,
    LossReason,
    clock,
)
from incumbent.events import Event, TermLost, TermRenewed, TermStarted
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, Work, here, is_held, nothing, quick, seat_key, token_of, ttl_of

LEASE = 3.0
"""Seconds; enough for a machine that stands still before it is watched how it ends."""

LATE = 0.12
"""Seconds by which the answers come late: as much a deadline is wrong that counts from them."""


def watch_it_end(server: Server, lease: Lease, election: str = "one") -> None:
    """Block the loop, so that only the clock ends the lease, until the server has freed the seat.

    The server is asked first and the lease afterwards: a lease that is still held then has
    outlived its seat, however slow this machine is.
    """
    assert is_held(lease)
    give_up = time.monotonic() + 5
    while server.cli("EXISTS", seat_key(election)):
        assert time.monotonic() < give_up
    assert not lease.held, f"free on the server, held here for {lease.remaining * 1000:.1f} ms more"
    assert lease.remaining == 0
    with pytest.raises(LeadershipLostError):
        lease.ensure_held()


async def test_p2_the_grant_counts_from_its_request(
    server: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The grant's answer is late; the lease ends here before the seat is free there."""
    proxy = await make_proxy(server)
    options = quick(lease_time=LEASE, stop_grace=0, on_loss="notify", auto_extend=False)
    async with LeaderElector(make_client(proxy), options) as elector:
        await elector.state("one")  # connected
        proxy.delay(LATE)
        async with elector.lead("one") as lease:
            proxy.delay(0)
            watch_it_end(server, lease)
        assert lease.loss_reason == "expired"


async def test_p2_a_renewal_counts_from_its_request(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The answer of the background's renewal is late; the lease ends here first all the same."""
    proxy, journal = await make_proxy(valkey), Journal()
    options = quick(lease_time=LEASE, stop_grace=0, on_loss="notify")
    async with (
        LeaderElector(make_client(proxy), options, hooks=[journal]) as elector,
        elector.lead("one") as lease,
    ):
        await journal.has(TermRenewed)  # the server knows the script
        proxy.delay(LATE)
        await journal.has(TermRenewed, 2)
        watch_it_end(valkey, lease)
        proxy.delay(0)


async def test_p2_an_extension_counts_from_its_request(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The same for `lease.extend`."""
    proxy = await make_proxy(valkey)
    options = quick(lease_time=LEASE, stop_grace=0, on_loss="notify", auto_extend=False)
    async with LeaderElector(make_client(proxy), options) as elector, elector.lead("one") as lease:
        proxy.delay(LATE)
        assert await lease.extend(2.0)
        proxy.delay(0)
        watch_it_end(valkey, lease)


async def test_p2_a_second_sending_counts_from_the_second_request(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """A grant whose first answer was lost is measured from the request that was answered."""
    proxy = await make_proxy(valkey)
    options = quick(lease_time=LEASE, stop_grace=0, on_loss="notify", auto_extend=False)
    async with LeaderElector(make_client(proxy), options) as elector:
        await elector.state("one")
        proxy.drop_replies(1, "EVALSHA", "EVAL", cut=True)
        async with elector.lead("one") as lease:
            assert proxy.dropped == 1
            watch_it_end(valkey, lease)


async def test_p2_one_percent_and_two_milliseconds_are_kept_for_drift(
    elector: LeaderElector,
) -> None:
    """No lease is trusted for longer than 99 % of its time less 2 ms, not even for a moment."""
    longest = {lease_time: 0.99 * lease_time - 0.002 for lease_time in (0.25, 0.9, 30.0, 86_400.0)}
    for lease_time, most in longest.items():
        async with elector.using(lease_time=lease_time).lead("one") as lease:
            assert 0 < lease.remaining <= most
    async with elector.lead("one") as lease:
        assert await lease.extend(100)
        assert 90 < lease.remaining <= 0.99 * 100 - 0.002


async def test_p2_without_redis_the_lease_ends_before_its_seat(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Nothing answers any more: when the loss is told, the seat is still ours on the server."""
    proxy, work = await make_proxy(valkey), Work()
    rest: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, TermLost):
            rest.append(ttl_of(valkey, "one"))

    options = quick(lease_time=4, stop_grace=1.2)
    async with LeaderElector(make_client(proxy), options, hooks=[look]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        mine = token_of(valkey, "one")
        proxy.silence()
        outcome = await leading
        assert outcome == LeadershipLost("unreachable")
        assert len(rest) == 1
        assert rest[0] > 0
        assert token_of(valkey, "one") in (mine, None)
        await proxy.restore()


async def test_p2_a_blocked_loop_finds_its_lease_ended(
    elector: LeaderElector, valkey: Server
) -> None:
    """The loop is blocked for longer than the lease: the next line of the action knows."""
    options = {"lease_time": 0.4, "request_timeout": 1.0}

    async def block() -> None:
        lease = here()
        watch_it_end(valkey, lease)
        await asyncio.sleep(10)

    outcome = await elector.using(**options).attempt("one", block)  # type: ignore[arg-type]
    assert outcome == LeadershipLost("stalled")


async def test_p2_a_blocked_action_that_ends_after_its_lease_is_lost(
    elector: LeaderElector, valkey: Server
) -> None:
    """An action that never gave the loop a chance is no success when it outlived its lease."""

    async def block() -> str:
        watch_it_end(valkey, here())
        return "done"

    outcome = await elector.using(lease_time=0.4).attempt("one", block)
    assert outcome == LeadershipLost("stalled", value="done")


async def test_p2_time_in_suspend_counts(
    make_client: MakeClient, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept for a minute: `held` is false at once, and the action is stopped soon.

    The loop's timers stand still in suspend (the next one is ten seconds away here), so this
    shows that the clock is looked at by itself.
    """
    asleep = 0.0
    awake = clock.now
    monkeypatch.setattr(clock, "now", lambda: awake() + asleep)
    journal, work = Journal(), Work()
    options = quick(lease_time=30)
    async with LeaderElector(make_client(valkey), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        assert is_held(work.lease)
        asleep = 60.0
        assert not is_held(work.lease)
        assert not elector.is_leading("one")
        assert elector.leases == ()
        assert await asyncio.wait_for(leading, 5) == LeadershipLost("stalled")
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"]


def test_p2_the_clock_counts_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's clock is the system's one that goes on in suspend, where there is one."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        pytest.skip("this system has no CLOCK_BOOTTIME")
    before = time.clock_gettime(boottime)
    assert before <= clock.now() <= time.clock_gettime(boottime)
    # On a machine that never slept all clocks say the same: here they do not.
    monkeypatch.setattr(time, "clock_gettime", {boottime: 7.0}.get)
    assert runpy.run_path(clock.__file__)["now"]() == 7.0


async def test_p2_a_grant_that_comes_too_late_is_no_election(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The answer comes when the lease is over: nobody is told "elected", the next try is."""
    proxy, journal = await make_proxy(valkey), Journal()
    options = quick(lease_time=0.5, request_timeout=3, wait_time=10)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        await elector.run_if_leader("warm", nothing)  # the server knows the scripts
        journal.events.clear()
        proxy.hold_replies("EVALSHA", "EVAL")
        granted: list[bool] = []

        async def work() -> None:
            granted.append(here().held)

        leading = asyncio.create_task(elector.attempt("one", work))
        await wait_until(lambda: ttl_of(valkey, "one") > 0)
        first = int(valkey.cli("HGET", seat_key("one"), "fence"))
        await wait_until(lambda: ttl_of(valkey, "one") == -2)
        assert journal.events == []
        proxy.release()
        outcome = await leading
    assert isinstance(outcome, Elected)
    assert granted == [True]
    assert [each.fence for each in journal.of(TermStarted)] == [outcome.fence]
    assert outcome.fence > first


async def test_p2_the_reason_tells_what_happened(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Without background renewal time is up: `expired`, and the lease said so before the server."""
    reasons: list[LossReason | None] = []
    work = Work()
    leading = asyncio.create_task(
        elector.using(auto_extend=False, lease_time=2.0).attempt("one", work)
    )
    await work.began.wait()
    await work.lease.lost.wait()
    reasons.append(work.lease.loss_reason)
    assert ttl_of(valkey, "one") > 0
    assert await leading == LeadershipLost("expired")
    assert reasons == ["expired"]
    assert [each.reason for each in journal.of(TermLost)] == ["expired"]
