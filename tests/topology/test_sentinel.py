"""Sentinels replace the primary while one leads, others wait, and somebody releases."""

import asyncio
from functools import partial
from typing import Any

import pytest
from redis import exceptions as redis_errors

from cancellation.ways import by_scope, by_task, by_task_again
from incumbent import Elected, LeadershipLost, Lease, events
from incumbent.stores.redis import primary, sentinels
from kit import register
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import open_sockets
from kit.sentinels import SERVICE, Sentinel, Watched
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, cancel, nothing
from topology.scene import (
    LONG,
    WITHIN,
    Line,
    MakeWatchedElector,
    StartWatched,
    led,
    manager_of,
    replicated,
    seat_of,
)

PATIENT: Any = {"request_timeout": 15.0, "lease_time": 120.0}


async def is_told(told: list[int], *counts: int) -> None:
    """Wait until who watches was told of so many leaders, last."""
    await wait_until(lambda: told[-len(counts) :] == list(counts), within=WITHIN)


async def test_the_primary_is_killed_and_a_sentinel_with_it(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector, make_proxy: MakeProxy
) -> None:
    """While one leads, others wait, one releases, one watches, one stands: all go on.

    The Sentinel that is asked first falls silent, as when the host of both has vanished: the
    caller's own client would ask it for as long as its timeouts and retries are.
    """
    watched, journal, told = start_watched(), Journal(), list[int]()
    first = await make_proxy(watched.sentinel)
    make_watched_elector = partial(make_watched_elector, sentinels=(first, watched.sentinel))
    leads = make_watched_elector(watched, lease_time=12, hooks=[journal])
    other, third = (make_watched_elector(watched, **PATIENT) for _ in range(2))
    best = make_watched_elector(watched, node_id="best", **PATIENT)
    lines = [Line("waited"), Line("left")]
    released = asyncio.Event()

    async def release() -> None:
        async with other.lead("left"):
            await released.wait()

    async def watch() -> None:
        async for state in third.watch("waited"):
            told.append(len(state.leaders))

    watching = asyncio.create_task(watch())
    releasing = asyncio.create_task(release())
    async with led(leads, "held"), led(other, "waited"), best.candidate("best", ttl=60):
        for line in lines:
            await line.join(third, "next")
        victim = watched.primary
        replicated(victim)
        first.silence()
        victim.kill()
        released.set()
        await asyncio.wait_for(releasing, WITHIN)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        new = watched.primary
        assert new is not victim
        assert new.cli("EXISTS", seat_of("held")) == 1
        await wait_until(
            lambda: new.cli("PUBSUB", "CHANNELS", "*{waited}:db0:events"), within=WITHIN
        )
        assert isinstance(await best.attempt("best", nothing), Elected)
        assert (await third.state("waited")).waiting == 1
    for line in lines:
        await line.over()
        assert line.led == ["next"]
    await is_told(told, 1, 0, 1, 0)
    await cancel(watching)
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_the_primary_is_replaced_in_good_order(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector
) -> None:
    """The old one takes renewals for ten seconds more: what they give must not be relied on."""
    watched, journal = start_watched(), Journal()
    one = make_watched_elector(watched, lease_time=12, hooks=[journal])
    other = make_watched_elector(watched, lease_time=12)
    line = Line("job")
    async with led(one, "job"):
        for who in "ab":
            await line.join(other, who)
        old = watched.primary
        replicated(old)
        await asyncio.to_thread(watched.fail_over)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        new = watched.primary
        assert new is not old
        await wait_until(lambda: new.cli("PUBSUB", "CHANNELS", "*{job}:db0:inbox:*"), within=WITHIN)
    await line.over()
    assert line.led == ["a", "b"]
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_who_rested_while_the_primary_was_replaced_does_not_ask_the_old_one(
    start_watched: StartWatched,
    make_watched_elector: MakeWatchedElector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old one goes on as a primary, and the connection to it is open."""
    monkeypatch.setattr(primary, "LOOK_EVERY", 0.01)  # whatever happens meanwhile is a rest
    monkeypatch.setattr(primary, "WITHIN", WITHIN)
    monkeypatch.setattr(primary, "PATIENCE", WITHIN)
    monkeypatch.setattr(sentinels, "PATIENCE", WITHIN)
    watched = start_watched()
    elector, old = make_watched_elector(watched, **PATIENT), watched.primary
    assert isinstance(await elector.attempt("job", nothing), Elected)
    asked = calls(old, "eval", "evalsha")
    await asyncio.to_thread(watched.fail_over)
    assert isinstance(await elector.attempt("job", nothing), Elected)
    assert calls(old, "eval", "evalsha") == asked > 0


async def test_the_primary_freezes(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector
) -> None:
    """Its connections stay open and silent; the new one is used within a renewal period."""
    watched, journal = start_watched(), Journal()
    one = make_watched_elector(watched, lease_time=12, hooks=[journal])
    other = make_watched_elector(watched, lease_time=12)
    line = Line("job")
    async with led(one, "job"):
        await line.join(other, "a")
        old = watched.primary
        replicated(old)
        old.pause()
        watched.await_failover(old)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        assert watched.primary.cli("EXISTS", seat_of("job")) == 1
    await line.over()
    assert journal.story() == ["TermStarted", "TermEnded"]


def calls(server: Server, *names: str) -> int:
    """How often these commands were run since `server` was started."""
    counts: Any = server.admin.info("commandstats")
    return sum(count["calls"] for name, count in counts.items() if name[8:] in names)


async def test_the_old_primary_is_back_before_another_took_over(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector, make_proxy: MakeProxy
) -> None:
    """It is a primary like any other, and named by the Sentinel: what it granted would be lost.

    Nobody goes there who connects meanwhile, nor in the seconds until it is a replica.
    """
    watched = start_watched()
    old, new = watched.primary, watched.replica
    watched.hold_back_promotion()
    old.kill()
    watched.await_flags("s_down,o_down,master,disconnected,failover_in_progress")
    old.start()
    watched.await_flags("master,failover_in_progress")
    assert watched.primary is old
    asked = await make_proxy(watched.sentinel)
    elector = make_watched_elector(watched, sentinels=(asked,), **PATIENT)
    attempt = asyncio.create_task(elector.attempt("job", nothing))
    # It asks again, so it did not believe what it was told first; or it is done, and did.
    await wait_until(lambda: attempt.done() or asked.commands["SENTINEL"] > 1, within=WITHIN)
    watched.promote(new)
    assert isinstance(await asyncio.wait_for(attempt, WITHIN), Elected)
    assert watched.primary is new
    assert isinstance(await elector.attempt("job", nothing), Elected)
    assert calls(old, "eval", "evalsha") == 0


async def test_a_sentinel_that_is_behind_is_outvoted(
    start_watched: StartWatched,
    make_watched_elector: MakeWatchedElector,
    make_proxy: MakeProxy,
    valkey: Server,
) -> None:
    """It names another primary, and is asked first; alone, it is not believed."""
    watched, asked = start_watched(), calls(valkey, "eval", "evalsha")
    again = await make_proxy(watched.sentinel)
    with Sentinel(valkey) as behind:
        three = (behind, watched.sentinel, again)
        elector = make_watched_elector(watched, sentinels=three)
        async with led(elector, "job"):
            assert watched.primary.cli("EXISTS", seat_of("job")) == 1
            assert valkey.cli("EXISTS", seat_of("job")) == 0
        watched.sentinel.kill()
        late = make_watched_elector(watched, sentinels=three, request_timeout=1)
        with pytest.raises((redis_errors.ConnectionError, redis_errors.TimeoutError)):
            await late.attempt("job", nothing)
    assert calls(valkey, "eval", "evalsha") == asked


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
async def test_p4_who_stops_asking_a_sentinel_leaves_no_connection(
    start_watched: StartWatched, late: bool
) -> None:
    """At each suspension in turn: who is still asked when enough have answered is cancelled."""
    manager = manager_of(start_watched().sentinel)
    known = sentinels.known_to(manager, SERVICE)
    (place,) = known.order()
    round_ = sentinels.Round(known)
    ask = partial(sentinels._ask, manager, SERVICE, place, round_)
    for way in (by_task, by_task_again, by_scope):
        points = 0
        while (await way(ask, points + 1, late=late)).struck:
            assert await open_sockets() == [], f"stopped at suspension {points}"
            points += 1
        assert points > 2


def forget(watched: Watched) -> None:
    """Replace the primary by a replica that has not got its latest writes."""
    old = watched.primary
    old.kill()
    watched.await_failover(old)


async def test_p2_who_was_forgotten_learns_it_at_the_next_renewal(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector
) -> None:
    """Not when its time is up: the new primary says that the seat is gone."""
    watched, journal = start_watched(), Journal()
    watched.hold_back_replication()
    elector = make_watched_elector(watched, lease_time=12, hooks=[journal])

    async def work() -> None:
        await asyncio.to_thread(forget, watched)
        await asyncio.Event().wait()

    outcome = await asyncio.wait_for(elector.attempt("job", work), WITHIN)
    assert isinstance(outcome, LeadershipLost)
    assert outcome.reason == "expired"
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"]
    assert not journal.of(events.TermRenewed)


async def test_p7_what_was_forgotten_is_refused_by_the_fence(
    start_watched: StartWatched,
    make_watched_elector: MakeWatchedElector,
    valkey: Server,
    make_client: MakeClient,
) -> None:
    """Two hold a lease until the older one learns better; what that one writes is not accepted."""
    watched, guarded = start_watched(), make_client(valkey)
    watched.hold_back_replication()
    old = make_watched_elector(watched, on_loss="notify")
    new = make_watched_elector(watched, **PATIENT)

    async def write(lease: Lease, who: str) -> bool:
        return await register.write(guarded, "job", lease.fence, who, register.wall())

    async with old.lead("job") as forgotten:
        assert await write(forgotten, "old")
        await asyncio.to_thread(forget, watched)
        async with new.lead("job") as lease:
            assert lease.fence > forgotten.fence
            assert await write(lease, "new")
            assert not await write(forgotten, "old")
            assert await write(lease, "new")
            assert not await forgotten.extend(LONG)
            assert forgotten.loss_reason == "taken"
