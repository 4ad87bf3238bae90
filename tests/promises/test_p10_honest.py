"""P10: `state()` shows the truth while someone leads; a lost lease is never reported as success."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
    LeaderState,
    NotElectedError,
    Skipped,
)
from incumbent.events import AttemptSkipped, TermEnded, TermLost, TermRenewed
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    Journal,
    Work,
    here,
    nothing,
    quick,
    seat_key,
    steal,
    ttl_of,
)


async def test_p10_state_tells_who_leads(server: Server, make_client: MakeClient) -> None:
    """Nobody, then the holder with all that is known of it, then nobody; each by one round trip."""
    observer = LeaderElector(make_client(server), quick())
    async with LeaderElector(make_client(server), quick(), leader_id="node-1 ä") as elector:
        assert await observer.state("one") == LeaderState("one")
        seconds, micros = server.cli("TIME")
        now = datetime.fromtimestamp(int(seconds) + int(micros) / 1e6, UTC)
        async with elector.lead("one") as lease:
            state = await observer.state("one")
            (leader,) = state.leaders
            assert (state.name, state.waiting) == ("one", 0)
            assert (leader.leader_id, leader.seat, leader.retained) == ("node-1 ä", 0, False)
            assert leader.fence == lease.fence
            assert leader.since == lease.acquired_at
            assert timedelta(milliseconds=-1) <= leader.since - now < timedelta(seconds=5)
            assert 0 < leader.remaining <= LEASE
            assert await elector.state("one") != LeaderState("one")
            assert await observer.state("two") == LeaderState("two")
        assert await observer.state("one") == LeaderState("one")
    await observer.aclose()


async def test_p10_state_stays_true_through_renewals(
    elector: LeaderElector, journal: Journal
) -> None:
    """The same term, since the same time, with what is left of the renewed lease."""
    async with elector.lead("one"):
        (first,) = (await elector.state("one")).leaders
        await journal.has(TermRenewed, 3)
        (later,) = (await elector.state("one")).leaders
        assert (later.fence, later.since) == (first.fence, first.since)
        assert 0 < later.remaining <= LEASE


async def test_p10_state_shows_a_minimum_hold_as_such(
    elector: LeaderElector, valkey: Server
) -> None:
    """The work is over and the seat still taken: shown as retained, by nobody who leads."""
    assert await elector.using(min_hold_time=0.8).run_if_leader("one", nothing) == "done"
    (info,) = (await elector.state("one")).leaders
    assert info.retained
    assert info.leader_id == elector.leader_id
    assert not elector.is_leading("one")
    skipped = await elector.attempt("one", nothing)
    assert isinstance(skipped, Skipped)
    assert skipped.holder is not None
    assert skipped.holder.retained


async def test_p10_state_follows_a_theft(elector: LeaderElector, valkey: Server) -> None:
    """What counts is what the server knows, not what this process believes."""
    async with elector.using(on_loss="notify", lease_time=30).lead("one") as lease:
        steal(valkey, "one")
        (leader,) = (await elector.state("one")).leaders
        assert leader.leader_id == "thief"
        assert lease.held, "a state that was asked for decides nothing"


async def test_p10_who_is_skipped_learns_who_leads(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """The result, the error and the event name the holder, with its fence and the lease's rest."""
    journal = Journal()
    other = LeaderElector(make_client(valkey), quick(), hooks=[journal])
    async with elector.lead("one") as lease:
        skipped = await other.attempt("one", nothing)
        assert isinstance(skipped, Skipped)
        assert skipped.reason == "held"
        assert skipped.holder is not None
        assert skipped.holder.leader_id == elector.leader_id
        assert skipped.holder.fence == lease.fence
        with pytest.raises(NotElectedError, match=elector.leader_id) as caught:
            async with other.lead("one"):
                pass
        assert caught.value.election == "one"
        assert caught.value.holder is not None
        assert caught.value.holder.fence == lease.fence
        assert await other.run_if_leader("one", nothing) is None
        async with other.try_lead("one") as none:
            assert none is None
    told = journal.of(AttemptSkipped)
    assert len(told) == 4
    assert all(each.holder and each.holder.fence == lease.fence for each in told)
    await other.aclose()


async def test_p10_local_answers_are_true(elector: LeaderElector, valkey: Server) -> None:
    """`is_leading` and `leases` follow the lease: before, while held, after loss and end."""
    assert not elector.is_leading("one")
    assert not elector.leases
    sibling = elector.using(on_loss="notify")
    async with sibling.lead("one") as lease:
        assert elector.is_leading("one")
        assert sibling.is_leading("one")
        assert not elector.is_leading("two")
        (mine,) = elector.leases
        assert (mine.name, mine.fence, mine.held) == ("one", lease.fence, True)
        async with elector.lead("two"):
            assert sorted(each.name for each in elector.leases) == ["one", "two"]
        steal(valkey, "one")
        await lease.lost.wait()
        assert not elector.is_leading("one")
        assert not elector.leases
    assert not mine.held
    assert not elector.is_leading("one")


async def test_p10_a_loss_that_only_the_release_finds_is_a_loss(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The seat was another's when the work was done: no success, by any way to lead."""

    async def work() -> str:
        steal(valkey, "one")
        return "value"

    assert await elector.attempt("one", work) == LeadershipLost("taken", value="value")
    valkey.flush()
    with pytest.raises(LeadershipLostError, match="taken"):
        await elector.run_if_leader("one", work)
    valkey.flush()
    with pytest.raises(LeadershipLostError, match="taken"):
        async with elector.lead("one"):
            await work()
    assert [each.reason for each in journal.of(TermLost)] == ["taken"] * 3
    assert [each.ending for each in journal.of(TermEnded)] == ["lost"] * 3


async def test_p10_a_seat_that_is_gone_after_the_work_is_no_loss(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The work ended while it was held, nobody else has led: success, and an event tells."""

    async def work() -> str:
        valkey.cli("DEL", seat_key("one"))
        return "value"

    outcome = await elector.attempt("one", work)
    assert isinstance(outcome, Elected)
    assert outcome.value == "value"
    assert journal.of(TermLost) == []
    assert [each.ending for each in journal.of(TermEnded)] == ["gone"]


async def test_p10_work_that_outlived_its_lease_is_no_success(elector: LeaderElector) -> None:
    """Not renewed, not cancelled (it blocked the loop): what it gives is kept, as lost."""

    async def work() -> str:
        while here().held:
            time.sleep(0.01)  # noqa: ASYNC251 - it is what this is about
        return "value"

    outcome = await elector.using(lease_time=0.3).attempt("one", work)
    assert outcome == LeadershipLost("stalled", value="value")


async def test_p10_a_success_says_under_which_lease(elector: LeaderElector) -> None:
    """`Elected` carries who, where and the fence, and matches by its value."""
    fences: list[int] = []

    async def work() -> str:
        fences.append(here().fence)
        return "value"

    match await elector.attempt("one", work):
        case Elected(value) as outcome:
            assert value == "value"
            assert outcome.leader_id == elector.leader_id
            assert [outcome.fence] == fences
            assert outcome.seat == 0
        case other:
            pytest.fail(f"not elected: {other}")


async def test_p10_an_action_that_returns_none_is_a_success(elector: LeaderElector) -> None:
    """None is a value; `attempt` tells it from "not elected"."""
    outcome = await elector.attempt("one", asyncio.sleep, 0)
    assert isinstance(outcome, Elected)
    assert outcome.value is None


async def test_p10_a_term_that_ended_is_never_held_again(
    elector: LeaderElector, valkey: Server
) -> None:
    """A handle that outlives its block says so, and can neither extend nor release another's."""
    async with elector.lead("one") as old:
        pass
    work = Work()
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    before = ttl_of(valkey, "one")
    assert not old.held
    assert old.remaining == 0
    assert await old.extend(60) is False
    await old.release()
    assert 0 < ttl_of(valkey, "one") <= before
    assert work.lease.held
    work.finish.set()
    assert isinstance(await leading, Elected)


async def test_p10_waiters_see_the_truth_at_last(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """The state is asked for all the time while two electors hand over: one leader or none."""
    other = LeaderElector(make_client(valkey), quick(wait_time=None), leader_id="b")
    seen: set[int] = set()
    stop = asyncio.Event()

    async def look() -> None:
        while not stop.is_set():
            leaders = (await elector.state("one")).leaders
            assert len(leaders) <= 1
            seen.update(leader.fence for leader in leaders)

    looking = asyncio.create_task(look())
    fences: set[int] = set()

    async def work() -> None:
        fences.add(here().fence)
        await wait_until(lambda: here().fence in seen, within=5)

    waiting = elector.using(wait_time=None)
    for each in (other, waiting, other, waiting):
        await each.attempt("one", work)
    stop.set()
    await looking
    assert seen == fences
    assert len(fences) == 4
    await other.aclose()
