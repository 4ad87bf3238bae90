"""Field cases C: time. Clocks that jump, leases of all sizes, renewals that fail now and then."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
import redis.asyncio

from incumbent import Elected, LeaderElector, LeaderOptions, LeadershipLost
from incumbent.events import Event, RenewalDelayed, TermLost, TermRenewed
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    Journal,
    Work,
    is_held,
    nothing,
    quick,
    token_of,
    ttl_of,
)


async def test_case_36_a_renewal_does_not_outlive_the_lease(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The network accepts and never answers: tried within budgets, lost while the seat is ours."""
    proxy, work, journal = await make_proxy(valkey), Work(), Journal()
    rest: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, TermLost):
            rest.append(ttl_of(valkey, "one"))

    options = quick(lease_time=4, stop_grace=1.2, request_timeout=30)
    async with LeaderElector(make_client(proxy), options, hooks=[journal, look]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await journal.has(TermRenewed)
        proxy.silence()
        assert await leading == LeadershipLost("unreachable")
        await proxy.restore()
    last = journal.events.index(journal.of(TermRenewed)[-1])
    delayed = [each for each in journal.events[last:] if isinstance(each, RenewalDelayed)]
    assert len(delayed) >= 2, "one attempt took all the time there was"
    assert [each.remaining for each in delayed] == sorted(
        (each.remaining for each in delayed), reverse=True
    )
    assert len(rest) == 1
    assert rest[0] > 0


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_case_38_a_wall_clock_that_jumps_changes_nothing(
    elector: LeaderElector,
    valkey: Server,
    journal: Journal,
    monkeypatch: pytest.MonkeyPatch,
    jump: float,
) -> None:
    """By an hour, while leading and waiting: the lease is renewed, as long, and for the same."""
    real, real_ns = time.time, time.time_ns
    work = Work()
    leading = asyncio.create_task(elector.campaign("one", work))
    await work.began.wait()
    waiting = asyncio.create_task(elector.using(wait_time=60).attempt("one", nothing))
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump * 1e9))
    for _ in range(4):
        renewed = await journal.has_another(TermRenewed)
        assert 0.5 < renewed.remaining <= LEASE
    assert is_held(work.lease)
    assert not waiting.done()
    assert 500 < ttl_of(valkey, "one") <= 1000 * LEASE
    seconds = int(valkey.cli("TIME")[0])
    assert abs(work.lease.acquired_at.timestamp() - seconds) < 30
    (leader,) = (await elector.state("one")).leaders
    assert leader.since == work.lease.acquired_at
    work.finish.set()
    assert await leading == "done"
    assert isinstance(await waiting, Elected)
    assert journal.of(TermLost) == []


@pytest.mark.parametrize(
    "lease_time", [0.25, 0.5, 1.5, 1.2345, timedelta(milliseconds=251), timedelta(seconds=2)]
)
async def test_case_39_sub_second_leases(
    elector: LeaderElector, valkey: Server, lease_time: float | timedelta
) -> None:
    """Kept to the millisecond, never rounded to nothing, and renewed as any other."""
    wanted = lease_time.total_seconds() if isinstance(lease_time, timedelta) else lease_time
    options = elector.using(lease_time=lease_time, auto_extend=False, on_loss="notify")
    async with options.lead("one") as lease:
        assert lease.remaining <= wanted
        assert wanted * 1000 - 200 < ttl_of(valkey, "one") <= round(wanted * 1000)


@pytest.mark.parametrize(
    "lease_time", [0, 0.0004, 0.249, timedelta(microseconds=1), timedelta(0), timedelta(seconds=-1)]
)
async def test_case_39_a_lease_that_is_too_small_is_refused(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, lease_time: Any
) -> None:
    """A ValueError that says the least, before anything is sent."""
    proxy = await make_proxy(valkey)
    elector = LeaderElector(make_client(proxy))
    with pytest.raises(ValueError, match=r"lease_time must be from 0\.25 s|not negative"):
        elector.using(lease_time=lease_time)
    with pytest.raises(ValueError, match="lease_time"):
        LeaderOptions(lease_time=lease_time)
    assert proxy.opened == 0


async def test_case_40_waiting_has_nothing_to_do_with_the_lease(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """A wait of a minute with a lease of half a second: waits beyond it, and leads for it."""
    work = Work()
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    options = quick(lease_time=0.5, wait_time=60)
    async with LeaderElector(make_client(valkey), options) as other:
        follower = Work()
        waiting = asyncio.create_task(other.attempt("one", follower))
        await asyncio.wait([waiting], timeout=2 * 0.5)
        assert not waiting.done()
        work.finish.set()
        await follower.began.wait()
        assert 0 < ttl_of(valkey, "one") <= 500
        follower.finish.set()
        assert isinstance(await waiting, Elected)
    await leading


async def test_case_41_every_third_renewal_fails(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """Six renewals, of which every third loses its answer: no change of leadership at all.

    The short form of two minutes.
    """
    proxy, work = await make_proxy(valkey), Work()
    async with (
        LeaderElector(make_client(proxy), quick(lease_time=3), hooks=[journal]) as elector,
        LeaderElector(make_client(valkey), quick(wait_time=None)) as other,
    ):
        leading = asyncio.create_task(elector.campaign("one", work))
        await work.began.wait()
        standing_by = asyncio.create_task(other.campaign("one", nothing))
        mine = token_of(valkey, "one")
        for number in range(1, 7):
            if number % 3 == 0:
                proxy.drop_replies(1, "EVALSHA")
            await journal.has(TermRenewed, number)
        assert proxy.dropped == 2
        assert token_of(valkey, "one") == mine
        assert not standing_by.done()
        work.finish.set()
        assert await leading == "done"
        assert await standing_by == "done"
    assert journal.story() == ["TermStarted", "TermEnded"]
    assert work.runs == 1


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"lease_time": 10, "stop_grace": 4}, ("4 s", "10 s")),
        ({"lease_time": 1, "stop_grace": 500}, ("500 s", "1 s")),
        ({"lease_time": 0.25, "stop_grace": 0.1}, ("0.1 s", "0.25 s")),
        ({"lease_time": 5, "stop_grace": 5, "auto_extend": False}, ("5 s", "5 s")),
        ({"lease_time": 5, "min_hold_time": 5000}, ("5000 s", "5 s")),
    ],
)
def test_case_42_an_option_in_the_wrong_unit_is_refused(
    options: dict[str, Any], numbers: tuple[str, str]
) -> None:
    """Milliseconds for seconds leave no room for renewals: a ValueError names both numbers."""
    with pytest.raises(ValueError, match="lease_time") as caught:
        LeaderOptions(**options)
    for number in numbers:
        assert number in str(caught.value)


def test_case_42_what_is_accepted_has_room_for_several_renewals() -> None:
    """Whatever the lease time, three renewals of full length fit before the action must stop."""
    for lease_time in (0.25, 0.5, 1, 10, 30, 3600, 86_400):
        options = LeaderOptions(lease_time=lease_time)
        drift = 0.01 * lease_time + 0.002
        rest = lease_time - options.stop_grace - drift - options.renewal_period
        assert rest >= 2 * options.renewal_budget
        assert 3 * options.renewal_period <= lease_time


async def test_case_43_users_extend_once_and_think_it_lasts(
    client: "redis.asyncio.Redis", valkey: Server, make_client: MakeClient
) -> None:
    """With defaults an action of twelve lease times is led by the same leader at its end.

    The short form of fifty: a smaller lease would make it a test of how busy the machine is.
    """
    journal, work = Journal(), Work()
    elector = LeaderElector(client, LeaderOptions(lease_time=1.2), hooks=[journal])
    other = LeaderElector(make_client(valkey), LeaderOptions(wait_time=None))
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    standing_by = asyncio.create_task(other.attempt("one", nothing))
    assert await work.lease.extend(1.2)
    mine, began = token_of(valkey, "one"), time.monotonic()
    await wait_until(lambda: time.monotonic() - began > 12 * 1.2, within=30, every=0.05)
    assert token_of(valkey, "one") == mine
    assert is_held(work.lease)
    assert not standing_by.done()
    assert len(journal.of(TermRenewed)) >= 24
    work.finish.set()
    assert isinstance(await leading, Elected)
    assert isinstance(await standing_by, Elected)
    assert journal.story() == ["TermStarted", "TermEnded"]
    for each in (elector, other):
        await each.aclose()
