"""The contract of `stores.base`: what every store promises, in memory and on every server."""

import asyncio
import time
from datetime import UTC, timedelta
from itertools import pairwise
from typing import Any

import pytest

from contract.bench import BUDGET, LEASE, Bench, claim, holder_of
from incumbent import OncePer, clock
from incumbent.stores.base import LONGEST_GRACE as GRACE
from incumbent.stores.base import Busy, Extended, Grant, Place, Ran, Store
from incumbent.stores.memory import MemoryStore
from kit.waiting import wait_until

NEAR = 3.0
"""Seconds that a busy machine may lose between two lines of a test."""

MOMENT = 0.05
EARLY = 0.002
"""uvloop counts milliseconds, and rounds."""
"""Seconds in which nothing happens, if nothing is to happen."""

ROUNDING = 1e-6
"""In memory a time that was added and taken away again is not quite what it was."""


# -- acquire ---------------------------------------------------------------------------------


def test_a_claim_shows_no_token() -> None:
    """Nor does what shows a claim: a log, an assertion that fails."""
    assert claim("job", "a").token not in f"{claim('job', 'a')} {claim('job', 'a')!r}"


async def test_a_free_seat_is_granted(bench: Bench) -> None:
    """The grant says which seat, since when, for how long, and when it was asked for."""
    before, wall = clock.now(), bench.now()
    grant = await bench.elect(claim("job"))
    assert grant.seat == 0
    assert before <= grant.sent_at <= clock.now()
    assert grant.ttl == pytest.approx(LEASE)
    assert grant.since.tzinfo is UTC
    assert wall - 0.001 <= grant.since.timestamp() <= bench.now()
    assert grant.doubtful is False


async def test_a_taken_seat_is_refused_with_its_holder(bench: Bench) -> None:
    """Contention is an answer that tells who leads, since when and for how long."""
    grant = await bench.elect(claim("job", "a"))
    answer = await bench.store.acquire(claim("job", "b"), BUDGET)
    assert holder_of(answer).leader_id == "leader-a"
    assert holder_of(answer).seat == 0
    assert holder_of(answer).fence == grant.fence
    assert abs(holder_of(answer).since - grant.since).total_seconds() < 0.001
    assert LEASE - NEAR < holder_of(answer).remaining <= LEASE + ROUNDING
    assert holder_of(answer).retained is False


async def test_p5_a_claim_that_is_repeated_gets_the_same_grant(bench: Bench) -> None:
    """The token decides: the same seat, fence and beginning, and nobody else is elected."""
    first = await bench.elect(claim("job", "a"))
    again = await bench.elect(claim("job", "a"))
    assert again._replace(sent_at=0, ttl=0) == first._replace(sent_at=0, ttl=0)
    assert again.sent_at >= first.sent_at
    assert LEASE - NEAR < again.ttl <= LEASE + ROUNDING
    assert await bench.names("job") == [(0, "leader-a")]


async def test_p5_a_claim_is_known_by_its_token_alone(bench: Bench) -> None:
    """Another token under the same name is another candidate; another name is no other."""
    await bench.elect(claim("job", "a"))
    namesake = claim("job", "b")._replace(leader_id="leader-a")
    assert isinstance(await bench.store.acquire(namesake, BUDGET), Busy)
    renamed = claim("job", "a")._replace(leader_id="somebody")
    await bench.elect(renamed)
    assert await bench.names("job") == [(0, "leader-a")]


async def test_p5_a_repeated_claim_lives_on_from_its_repetition(bench: Bench) -> None:
    """Its TTL is that of a new lease, so that the holder may trust the later answer."""
    await bench.elect(claim("job", lease_time=10))
    again = await bench.elect(claim("job", lease_time=20))
    assert again.ttl == pytest.approx(20)
    (info,) = await bench.leaders("job")
    assert 20 - NEAR < info.remaining <= 20 + ROUNDING


async def test_p1_a_late_copy_of_the_claim_does_not_shorten(bench: Bench) -> None:
    """What was extended meanwhile stays so: its holder counts on it."""
    await bench.elect(claim("job", lease_time=10))
    extended = await bench.store.extend(claim("job"), 0, 600, BUDGET)
    assert isinstance(extended, Extended)
    again = await bench.elect(claim("job", lease_time=10))
    assert again.ttl > 600 - NEAR
    (info,) = await bench.leaders("job")
    assert info.remaining > 600 - NEAR


async def test_elections_do_not_touch_each_other(bench: Bench) -> None:
    """One token may lead two elections, and each ends alone."""
    one = await bench.elect(claim("one", "a"))
    await bench.elect(claim("two", "a"))
    assert await bench.store.release(claim("one", "a"), one, 0, BUDGET) == "released"
    assert await bench.names("one") == []
    assert await bench.names("two") == [(0, "leader-a")]


async def test_p1_of_many_at_once_one_is_elected(bench: Bench) -> None:
    """Fifty candidates at one moment: one grant, and everybody else is told of it."""
    answers = await asyncio.gather(
        *(bench.store.acquire(claim("job", str(number)), BUDGET) for number in range(50))
    )
    (winner,) = [answer for answer in answers if isinstance(answer, Grant)]
    told = {holder_of(answer).fence for answer in answers if isinstance(answer, Busy)}
    assert told == {winner.fence}


async def test_a_lease_that_is_over_can_be_taken(bench: Bench) -> None:
    """Nobody has to release what has run out."""
    await bench.elect(claim("job", "a"))
    bench.expire("job")
    grant = await bench.elect(claim("job", "b"))
    assert await bench.names("job") == [(0, "leader-b")]
    assert grant.seat == 0


async def test_a_lease_runs_out_by_itself(bench: Bench) -> None:
    """Not before its time, and soon after it."""
    began = clock.now()
    await bench.elect(claim("job", "a", lease_time=0.25))
    answer = await bench.store.acquire(claim("job", "b"), BUDGET)
    assert 0 < holder_of(answer).remaining <= 0.25 + ROUNDING

    async def elected() -> bool:
        return isinstance(await bench.store.acquire(claim("job", "b"), BUDGET), Grant)

    await wait_until(elected, within=NEAR)
    assert clock.now() - began >= 0.249


# -- several seats ---------------------------------------------------------------------------


async def test_seats_are_taken_from_the_lowest(bench: Bench) -> None:
    """Three seats, three leaders, in the order in which they came."""
    grants = await bench.fill("job", "abc", seats=3)
    assert [grant.seat for grant in grants] == [0, 1, 2]
    assert await bench.names("job", 3) == [(0, "leader-a"), (1, "leader-b"), (2, "leader-c")]


async def test_one_more_than_there_are_seats_is_refused(bench: Bench) -> None:
    """A full group grants nothing, however often it is asked."""
    await bench.fill("job", "abc", seats=3)
    for who in "def":
        assert isinstance(await bench.store.acquire(claim("job", who, seats=3), BUDGET), Busy)
    assert len(await bench.leaders("job", 3)) == 3


@pytest.mark.parametrize("seat", [0, 1, 2])
async def test_the_seat_that_fell_free_is_taken_next(bench: Bench, seat: int) -> None:
    """Whichever it is, and the others stay where they are."""
    grants = await bench.fill("job", "abc", seats=3)
    gone = claim("job", "abc"[seat], seats=3)
    assert await bench.store.release(gone, grants[seat], 0, BUDGET) == "released"
    assert (await bench.elect(claim("job", "d", seats=3))).seat == seat
    assert len(await bench.leaders("job", 3)) == 3


async def test_p5_a_holder_keeps_its_seat_when_a_lower_one_is_free(bench: Bench) -> None:
    """A claim that is repeated finds its own seat first, and does not take a second one."""
    grants = await bench.fill("job", "ab", seats=3)
    await bench.store.release(claim("job", "a", seats=3), grants[0], 0, BUDGET)
    assert (await bench.elect(claim("job", "b", seats=3))).seat == 1
    assert await bench.names("job", 3) == [(1, "leader-b")]


async def test_each_seat_is_extended_alone(bench: Bench) -> None:
    """One leader's longer lease is no other's."""
    await bench.fill("job", "abc", seats=3)
    answer = await bench.store.extend(claim("job", "b", seats=3), 1, 90, BUDGET)
    assert isinstance(answer, Extended)
    remaining = [round(info.remaining / 10) * 10 for info in await bench.leaders("job", 3)]
    assert remaining == [30, 90, 30]


async def test_each_seat_is_released_alone(bench: Bench) -> None:
    """The others go on leading."""
    grants = await bench.fill("job", "abc", seats=3)
    await bench.store.release(claim("job", "b", seats=3), grants[1], 0, BUDGET)
    assert await bench.names("job", 3) == [(0, "leader-a"), (2, "leader-c")]


async def test_a_token_is_worth_nothing_on_another_seat(bench: Bench) -> None:
    """A holder that asks for the wrong seat is told so, and harms nobody."""
    grants = await bench.fill("job", "ab", seats=3)
    mine = claim("job", "a", seats=3)
    assert await bench.store.extend(mine, 1, 90, BUDGET) == "taken"
    assert await bench.store.extend(mine, 2, 90, BUDGET) == "gone"
    assert await bench.store.release(mine, grants[1], 0, BUDGET) == "taken"
    assert await bench.names("job", 3) == [(0, "leader-a"), (1, "leader-b")]


async def test_electors_of_different_sizes_share_an_election(bench: Bench) -> None:
    """During a roll-out one sees the seats that its own size has, no others."""
    await bench.fill("job", "abc", seats=3)
    assert len(await bench.leaders("job", 1)) == 1
    assert len(await bench.leaders("job", 2)) == 2
    assert len(await bench.leaders("job", 5)) == 3
    small = await bench.store.acquire(claim("job", "d", seats=2), BUDGET)
    assert holder_of(small).seat in {0, 1}
    assert (await bench.elect(claim("job", "e", seats=5))).seat == 3


async def test_case_86_a_foreign_release_adds_no_seat(bench: Bench) -> None:
    """Released three times by a stranger, and three times by its owner, a group is as large."""
    grants = await bench.fill("job", "ab", seats=2)
    for _ in range(3):
        assert (
            await bench.store.release(claim("job", "x", seats=2), grants[0], 0, BUDGET) == "taken"
        )
    for _ in range(3):
        await bench.store.release(claim("job", "a", seats=2), grants[0], 0, BUDGET)
    await bench.elect(claim("job", "c", seats=2))
    assert isinstance(await bench.store.acquire(claim("job", "d", seats=2), BUDGET), Busy)


@pytest.mark.parametrize("soonest", [0, 1, 2])
async def test_busy_tells_of_the_seat_that_frees_first(bench: Bench, soonest: int) -> None:
    """Whoever waits sets its timer by this one."""
    for number, who in enumerate("abc"):
        lease = 10 if number == soonest else 20 + number
        await bench.elect(claim("job", who, seats=3, lease_time=lease))
    answer = await bench.store.acquire(claim("job", "d", seats=3), BUDGET)
    assert holder_of(answer).seat == soonest
    assert holder_of(answer).leader_id == f"leader-{'abc'[soonest]}"
    assert 10 - NEAR < holder_of(answer).remaining <= 10 + ROUNDING


# -- extend ----------------------------------------------------------------------------------


async def test_a_lease_is_extended_from_now_on(bench: Bench) -> None:
    """The answer says for how long it lives, and the state says the same."""
    grant = await bench.elect(claim("job"))
    before = clock.now()
    answer = await bench.store.extend(claim("job"), 0, 60, BUDGET)
    assert isinstance(answer, Extended)
    assert answer.ttl == pytest.approx(60)
    assert before <= answer.sent_at <= clock.now()
    (info,) = await bench.leaders("job")
    assert 60 - NEAR < info.remaining <= 60 + ROUNDING
    assert (info.fence, info.leader_id) == (grant.fence, "leader-a")
    assert abs(info.since - grant.since).total_seconds() < 0.001


@pytest.mark.parametrize("duration", [0.0004, 0.25, 29.0])
async def test_an_extension_never_shortens(bench: Bench, duration: float) -> None:
    """A smaller wish is granted by what is there already; the answer tells how much that is."""
    await bench.elect(claim("job"))
    answer = await bench.store.extend(claim("job"), 0, duration, BUDGET)
    assert isinstance(answer, Extended)
    assert LEASE - NEAR < answer.ttl <= LEASE + ROUNDING
    (info,) = await bench.leaders("job")
    assert LEASE - NEAR < info.remaining <= LEASE + ROUNDING


async def test_case_1_a_lease_that_went_to_another_is_not_extended(bench: Bench) -> None:
    """The old holder hears "taken", and the new one's lease is unchanged."""
    await bench.elect(claim("job", "a"))
    bench.expire("job")
    grant = await bench.elect(claim("job", "b"))
    assert await bench.store.extend(claim("job", "a"), 0, 300, BUDGET) == "taken"
    (info,) = await bench.leaders("job")
    assert (info.leader_id, info.fence) == ("leader-b", grant.fence)
    assert info.remaining <= LEASE + ROUNDING


async def test_a_lease_that_is_gone_is_not_extended(bench: Bench) -> None:
    """Nothing is made anew: a seat comes into being by an election only."""
    assert await bench.store.extend(claim("never"), 0, 60, BUDGET) == "gone"
    await bench.elect(claim("job"))
    bench.expire("job")
    assert await bench.store.extend(claim("job"), 0, 60, BUDGET) == "gone"
    assert await bench.names("job") == await bench.names("never") == []


async def test_p5_an_extension_can_be_repeated(bench: Bench) -> None:
    """Sent twice it does what it does once."""
    await bench.elect(claim("job"))
    answers = [await bench.store.extend(claim("job"), 0, 60, BUDGET) for _ in range(3)]
    assert all(isinstance(answer, Extended) for answer in answers)
    (info,) = await bench.leaders("job")
    assert info.remaining <= 60 + ROUNDING


async def test_case_39_times_are_kept_to_the_millisecond(bench: Bench) -> None:
    """Sub-second leases and extensions are neither cut to seconds nor rounded to nothing."""
    grant = await bench.elect(claim("job", lease_time=1.234))
    assert grant.ttl == pytest.approx(1.234)
    answer = await bench.store.extend(claim("job"), 0, 2.345, BUDGET)
    assert isinstance(answer, Extended)
    assert answer.ttl == pytest.approx(2.345)


# -- release ---------------------------------------------------------------------------------


async def test_a_released_seat_is_free_at_once(bench: Bench) -> None:
    """The next candidate need not wait for anything."""
    grant = await bench.elect(claim("job", "a"))
    assert await bench.store.release(claim("job", "a"), grant, 0, BUDGET) == "released"
    assert await bench.names("job") == []
    await bench.elect(claim("job", "b"))


async def test_p5_a_release_can_be_repeated(bench: Bench) -> None:
    """Once it is done, there is nothing more to do, and that is what is said."""
    grant = await bench.elect(claim("job"))
    assert await bench.store.release(claim("job"), grant, 0, BUDGET) == "released"
    assert await bench.store.release(claim("job"), grant, 0, BUDGET) == "gone"


async def test_case_6_a_release_does_not_free_anothers_seat(bench: Bench) -> None:
    """The old holder hears "taken"; the new one leads on."""
    grant = await bench.elect(claim("job", "a"))
    bench.expire("job")
    await bench.elect(claim("job", "b"))
    for keep in (0.0, 10.0):
        assert await bench.store.release(claim("job", "a"), grant, keep, BUDGET) == "taken"
    (info,) = await bench.leaders("job")
    assert (info.leader_id, info.retained) == ("leader-b", False)
    assert info.remaining > LEASE - NEAR


@pytest.mark.parametrize("keep", [0.0, 10.0])
async def test_case_9_the_release_of_a_lease_that_is_over_is_no_error(
    bench: Bench, keep: float
) -> None:
    """It is told as gone, and nothing is kept of what is not there."""
    grant = await bench.elect(claim("job"))
    bench.expire("job")
    assert await bench.store.release(claim("job"), grant, keep, BUDGET) == "gone"
    assert await bench.names("job") == []


async def test_case_83_a_kept_seat_stays_taken_by_nobody(bench: Bench) -> None:
    """It is shown as retained, for the rest of the minimum hold, and nobody is elected."""
    grant = await bench.elect(claim("job", "a"))
    assert await bench.store.release(claim("job", "a"), grant, 10, BUDGET) == "released"
    (info,) = await bench.leaders("job")
    assert info.retained is True
    assert (info.leader_id, info.seat, info.fence) == ("leader-a", 0, grant.fence)
    assert 10 - NEAR < info.remaining <= 10 + ROUNDING
    answer = await bench.store.acquire(claim("job", "b"), BUDGET)
    assert holder_of(answer).retained is True
    assert 10 - NEAR < holder_of(answer).remaining <= 10 + ROUNDING


async def test_the_old_token_is_worth_nothing_on_a_kept_seat(bench: Bench) -> None:
    """A stray task can neither prolong nor free nor retake what its term has given back."""
    mine = claim("job", "a")
    grant = await bench.elect(mine)
    await bench.store.release(mine, grant, 10, BUDGET)
    assert await bench.store.extend(mine, 0, 300, BUDGET) == "taken"
    assert await bench.store.release(mine, grant, 0, BUDGET) == "taken"
    assert await bench.store.release(mine, grant, 20, BUDGET) == "taken"
    assert isinstance(await bench.store.acquire(mine, BUDGET), Busy)
    await bench.store.leave(mine, BUDGET)
    (info,) = await bench.leaders("job")
    assert info.retained is True
    assert info.remaining <= 10 + ROUNDING


async def test_a_seat_is_not_kept_beyond_its_lease(bench: Bench) -> None:
    """A minimum hold that is longer than the rest of the lease ends with the lease."""
    grant = await bench.elect(claim("job", lease_time=10))
    assert await bench.store.release(claim("job"), grant, 25, BUDGET) == "released"
    (info,) = await bench.leaders("job")
    assert info.retained is True
    assert 10 - NEAR < info.remaining <= 10 + ROUNDING


async def test_a_kept_seat_falls_free_when_its_time_is_over(bench: Bench) -> None:
    """Nobody has to free it, and not a moment is lost beyond the minimum hold."""
    grant = await bench.elect(claim("job", "a"))
    began = clock.now()
    await bench.store.release(claim("job", "a"), grant, 0.1, BUDGET)

    async def elected() -> bool:
        return isinstance(await bench.store.acquire(claim("job", "b"), BUDGET), Grant)

    await wait_until(elected, within=NEAR)
    assert clock.now() - began >= 0.099


async def test_one_kept_seat_of_a_group_leaves_the_others_free(bench: Bench) -> None:
    """A minimum hold blocks its own seat only."""
    grants = await bench.fill("job", "ab", seats=2)
    await bench.store.release(claim("job", "a", seats=2), grants[0], 10, BUDGET)
    await bench.store.release(claim("job", "b", seats=2), grants[1], 0, BUDGET)
    assert (await bench.elect(claim("job", "c", seats=2))).seat == 1
    assert [info.retained for info in await bench.leaders("job", 2)] == [True, False]


# -- leave -----------------------------------------------------------------------------------


async def test_leaving_undoes_a_claim(bench: Bench) -> None:
    """Whichever seat it got is free again."""
    await bench.fill("job", "abc", seats=3)
    await bench.store.leave(claim("job", "b", seats=3), BUDGET)
    assert await bench.names("job", 3) == [(0, "leader-a"), (2, "leader-c")]


async def test_leaving_touches_nobody_else(bench: Bench) -> None:
    """A claim that got nothing leaves without a trace for others, as often as it likes."""
    await bench.elect(claim("job", "a"))
    for _ in range(3):
        await bench.store.leave(claim("job", "b"), BUDGET)
        await bench.store.leave(claim("other", "b"), BUDGET)
    assert await bench.names("job") == [(0, "leader-a")]


@pytest.mark.parametrize("how", ["asked again", "given up"])
async def test_p5_a_lease_that_ended_before_its_grant_arrived_is_no_run(
    bench: Bench, how: str
) -> None:
    """Its claim may ask again; the others may as soon as it is given up, and not before."""
    once_per = OncePer(timedelta(days=366))
    mine, other = (claim("job", who)._replace(once_per=once_per) for who in "ab")
    ran = Ran(once_per.period(round(time.time() * 1000)).ends)
    await bench.elect(mine)
    bench.expire("job")
    assert await bench.store.acquire(other, BUDGET) == ran
    if how == "asked again":
        await bench.elect(mine)
        bench.expire("job")
        assert await bench.store.acquire(other, BUDGET) == ran
    await bench.store.leave(mine, BUDGET)
    await bench.elect(other)
    await bench.store.leave(mine, BUDGET)
    bench.expire("job")
    assert await bench.store.acquire(claim("job", "c")._replace(once_per=once_per), BUDGET) == ran


async def test_a_claim_that_is_early_counts_for_the_period_that_is_about_to_begin(
    bench: Bench,
) -> None:
    """With a tolerance; who has none learns that its own period, which is nearly over, has run."""
    begins = round(1000 * (time.time() + 40))
    count = begins // (200 * 86_400_000)
    length = begins // count / 1000
    exact, tolerant = OncePer(length), OncePer(length, tolerance=60)
    present = exact.period(round(1000 * time.time()))
    following = exact.period(present.ends)
    assert tolerant.window(round(1000 * time.time())).period == following
    await bench.elect(claim("job", "a")._replace(once_per=tolerant))
    bench.expire("job")
    others = [claim("job", who)._replace(once_per=exact) for who in "bc"]
    for other in others:
        assert await bench.store.acquire(other, BUDGET) == Ran(present.ends)
    early = claim("job", "d")._replace(once_per=tolerant)
    assert await bench.store.acquire(early, BUDGET) == Ran(following.ends)


# -- state -----------------------------------------------------------------------------------


async def test_p10_the_state_of_an_election_without_leaders(bench: Bench) -> None:
    """Nobody leads, nobody waits, and asking makes nothing."""
    state = await bench.store.state("job", 3, BUDGET)
    assert (state.name, state.leaders, state.waiting) == ("job", (), 0)
    if bench.server is not None:
        assert bench.server.cli("EXISTS", "incumbent:{job}:seat:0", "incumbent:{job}:fence") == 0


async def test_p10_the_state_shows_who_leads(bench: Bench) -> None:
    """By seat, with name, fence and beginning, as the grants said."""
    grants = await bench.fill("job", "ab", seats=2)
    leaders = await bench.leaders("job", 2)
    assert [info.leader_id for info in leaders] == ["leader-a", "leader-b"]
    assert [info.fence for info in leaders] == [grant.fence for grant in grants]
    for info, grant in zip(leaders, grants, strict=True):
        assert abs(info.since - grant.since).total_seconds() < 0.001
        assert info.since.tzinfo is UTC
        assert not info.retained


async def test_p10_the_state_follows_at_once(bench: Bench) -> None:
    """What has ended is not shown any more."""
    grant = await bench.elect(claim("job", "a"))
    await bench.store.release(claim("job", "a"), grant, 0, BUDGET)
    assert await bench.names("job") == []
    await bench.elect(claim("job", "b"))
    bench.expire("job")
    assert await bench.names("job") == []


@pytest.mark.parametrize("candidates", [40, 2])
async def test_p10_the_state_shows_all_seats_however_many_are_asked_for(
    bench: Bench, candidates: int
) -> None:
    """Who asks need not know how many seats there are; who knows of fewer sees these."""
    await bench.fill("job", map(str, range(candidates)), seats=40)
    await bench.elect(claim("job", "b", seats=41))
    everybody = [(seat, f"leader-{seat}") for seat in range(candidates)]
    everybody.append((candidates, "leader-b"))
    assert await bench.names("job", 1024) == everybody
    assert await bench.names("job", 40) == everybody[:40]
    assert await bench.names("job", 2) == everybody[:2]


# -- fences ----------------------------------------------------------------------------------


async def test_p7_each_term_has_a_larger_fence(bench: Bench) -> None:
    """After a release, after an expiry, after a leave, and for each seat."""
    fences: list[int] = []
    for ending in ("release", "expire", "leave", "keep"):
        mine = claim("job", ending, seats=2)
        other = claim("job", f"{ending}-too", seats=2)
        grant, second = await bench.elect(mine), await bench.elect(other)
        fences += [grant.fence, second.fence]
        if ending == "release":
            await bench.store.release(mine, grant, 0, BUDGET)
        elif ending == "leave":
            await bench.store.leave(mine, BUDGET)
        else:
            bench.expire("job")
        await bench.store.release(other, second, 0, BUDGET)
    assert all(earlier < later for earlier, later in pairwise(fences))


async def test_p7_a_fence_is_the_servers_time_at_least(bench: Bench) -> None:
    """So it survives the loss of the counter; and it stays below what a double holds exactly."""
    before = bench.now()
    grant = await bench.elect(claim("job"))
    assert int(before * 1e6) - 1000 <= grant.fence <= int(bench.now() * 1e6) + 1000
    assert grant.fence < 2**53


async def test_p7_fences_of_one_microsecond_differ(bench: Bench) -> None:
    """Elections in a burst count on from the last one, whatever the clock says."""
    answers = await asyncio.gather(
        *(bench.store.acquire(claim("job", str(n), seats=64), BUDGET) for n in range(64))
    )
    fences = [answer.fence for answer in answers if isinstance(answer, Grant)]
    assert len(set(fences)) == 64


async def test_p7_a_fence_does_not_change_during_a_term(bench: Bench) -> None:
    """Neither by extension nor by a repeated claim."""
    grant = await bench.elect(claim("job"))
    await bench.store.extend(claim("job"), 0, 60, BUDGET)
    assert (await bench.elect(claim("job"))).fence == grant.fence
    (info,) = await bench.leaders("job")
    assert info.fence == grant.fence


# -- the store itself ------------------------------------------------------------------------


async def test_a_store_is_known_as_one(bench: Bench) -> None:
    """Electors tell a store from a client by the protocol."""
    assert isinstance(bench.store, Store)


async def test_p1_a_seat_is_forced_from_its_holder_and_stays_taken(bench: Bench) -> None:
    """The holder can do no more with it; nobody else gets it before its time is over."""
    store, a = bench.store, claim("job", "a", seats=2)
    grant = await bench.elect(a)
    for seat, fence in ((0, grant.fence + 1), (1, None)):
        assert await store.force_release("job", seat, fence, BUDGET) is None
    taken = await store.force_release("job", 0, grant.fence, BUDGET)
    assert taken is not None
    assert (taken.leader_id, taken.seat, taken.fence) == (a.leader_id, 0, grant.fence)
    assert taken.retained
    assert 0 < taken.remaining <= LEASE
    assert await store.force_release("job", 0, None, BUDGET) is None, "nobody's already"
    assert await store.extend(a, 0, 60, BUDGET) == "taken"
    assert await store.release(a, grant, 0, BUDGET) == "taken"
    (shown,) = (await store.state("job", 2, BUDGET)).leaders
    assert shown.retained
    assert shown.remaining <= taken.remaining
    assert await store.ask_to_step_down("job", 2, None, BUDGET) == 0
    busy = await store.acquire(claim("job", "b"), BUDGET)
    assert holder_of(busy).fence == grant.fence


async def test_a_closed_store_still_serves_who_comes_late(bench: Bench) -> None:
    """A term that outlives its elector can be released; closing twice is closing once."""
    grant = await bench.elect(claim("job"))
    await bench.store.aclose()
    await bench.store.aclose()
    assert isinstance(await bench.store.extend(claim("job"), 0, 60, BUDGET), Extended)
    assert await bench.store.release(claim("job"), grant, 0, BUDGET) == "released"


@pytest.mark.parametrize(
    "name", ["täglich", "日次 レポート", "a b  c", "🎉", "%s*?[a]\\'\"", "x" * 255]
)
async def test_case_64_any_name_makes_an_election(bench: Bench, name: str) -> None:
    """Spaces, other alphabets, quotes and long names go through and come back."""
    named = claim(name, "a")._replace(leader_id=f"wer: {name}"[:200])
    grant = await bench.elect(named)
    assert isinstance(await bench.store.acquire(claim(name, "b"), BUDGET), Busy)
    state = await bench.store.state(name, 1, BUDGET)
    assert state.name == name
    assert state.leaders[0].leader_id == named.leader_id
    assert await bench.store.release(named, grant, 0, BUDGET) == "released"


async def test_no_trouble_of_ours_is_taken_for_passing(bench: Bench) -> None:
    """A bug in the caller's code is not waited out."""
    assert not bench.store.passing(ValueError("no"))


# -- standing in line ------------------------------------------------------------------------


class Waiter:
    """A candidate that has asked without success, and then stands in line."""

    def __init__(self, bench: Bench, who: str, *, seats: int = 1, lease_time: float = LEASE):
        self.claim = claim("job", who, seats=seats, lease_time=lease_time)
        self._store = bench.store
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """Where it stands."""
        assert self._place is not None
        return self._place

    async def stand(self) -> "Waiter":
        """Take a place, and be refused."""
        self._place = await self._store.stand(self.claim, BUDGET)
        assert isinstance(await self.ask(), Busy)
        return self

    async def ask(self, *, last: bool = False) -> Grant | Busy | Ran:
        """Ask for a seat."""
        return await self._store.acquire(self.claim, BUDGET, self.place, last=last)

    async def take(self) -> Grant:
        """Be called, and get a seat; before there could be a touch by time alone."""
        await self.called()
        grant = await self.ask()
        assert isinstance(grant, Grant), grant
        return grant

    async def called(self, within: float = NEAR) -> None:
        """Wait until it is called, and not for long."""
        until = clock.now() + within
        await self.place.called(until)
        assert clock.now() < until, f"{self.claim} was not called"

    async def is_called(self) -> bool:
        """Whether it is its turn."""
        until = clock.now() + MOMENT
        await self.place.called(until)
        return clock.now() < until - EARLY

    async def leave(self) -> None:
        """Give up."""
        await self.place.leave(BUDGET)

    async def release(self, grant: Grant, keep: float = 0) -> None:
        """Give the seat back."""
        assert await self._store.release(self.claim, grant, keep, BUDGET) == "released"


async def line_of(bench: Bench, candidates: str, **options: Any) -> list[Waiter]:
    """The candidates stand in line, one after another."""
    return [await Waiter(bench, who, **options).stand() for who in candidates]


async def waiting(bench: Bench, seats: int = 1) -> int:
    """How many stand in line."""
    return (await bench.store.state("job", seats, BUDGET)).waiting


async def free(bench: Bench, grant: Grant, who: str = "a", seats: int = 1, keep: float = 0) -> None:
    """The holder gives its seat back."""
    holder = claim("job", who, seats=seats)
    assert await bench.store.release(holder, grant, keep, BUDGET) == "released"


async def test_p8_who_waits_is_counted_and_served_in_order(bench: Bench) -> None:
    """First come, first served: each release calls exactly the next."""
    grant = await bench.elect(claim("job", "a"))
    line = await line_of(bench, "bcd")
    assert await waiting(bench) == 3
    await free(bench, grant)
    for position, waiter in enumerate(line):
        assert [await other.is_called() for other in line[position + 1 :]] == [False] * (
            len(line) - position - 1
        )
        grant = await waiter.take()
        assert await waiting(bench) == len(line) - position - 1
        await waiter.release(grant)
    assert await bench.names("job") == []


async def test_a_newcomer_does_not_pass_the_line(bench: Bench) -> None:
    """A seat that is free is due to who is first in line; nobody has it, so no holder is told."""
    grant = await bench.elect(claim("job", "a"))
    (waiter,) = await line_of(bench, "b")
    await free(bench, grant)
    answer = await bench.store.acquire(claim("job", "c"), BUDGET)
    assert answer == Busy(None)
    await bench.store.acquire(claim("job", "a"), BUDGET)
    assert await bench.names("job") == []
    assert (await waiter.take()).seat == 0


async def test_who_leaves_is_not_waited_for(bench: Bench) -> None:
    """In the middle, at the head, or when it was called: its turn goes to the next."""
    grant = await bench.elect(claim("job", "a"))
    first, second, third, fourth = await line_of(bench, "bcde")
    await second.leave()
    await first.leave()
    assert await waiting(bench) == 2
    await free(bench, grant)
    await third.called()
    await third.leave()
    await fourth.called(within=GRACE / 2)
    await fourth.take()
    await second.leave()
    assert await waiting(bench) == 0


async def test_a_place_may_be_forgotten_without_a_word(bench: Bench) -> None:
    """What is not told is found out: its seat is kept for a moment, and then goes to the next."""
    grant = await bench.elect(claim("job", "a"))
    first, second = await line_of(bench, "bc", lease_time=3)
    first.place.close()
    await free(bench, grant)
    await second.take()


async def test_a_wake_up_is_not_renewed_by_others_who_ask(bench: Bench) -> None:
    """Who was called and does not come loses its turn, however many come and ask meanwhile.

    A server takes it that the whole process is gone: there, a newcomer may be the first to profit.
    """
    grant = await bench.elect(claim("job", "a"))
    first, second = await line_of(bench, "bc")
    await free(bench, grant)
    await first.called()
    began = clock.now()
    while not await second.is_called():
        assert clock.now() - began < GRACE + NEAR
        if isinstance(await bench.store.acquire(claim("job", "d"), BUDGET), Grant):
            break
    for waiter in (first, second):
        await waiter.leave()


async def test_the_last_request_takes_a_seat_or_leaves(bench: Bench) -> None:
    """Whoever has no more time is not called any more."""
    grant = await bench.elect(claim("job", "a"))
    first, second = await line_of(bench, "bc")
    refused = await first.ask(last=True)
    assert holder_of(refused).leader_id == "leader-a"
    assert await waiting(bench) == 1
    await free(bench, grant)
    grant = await second.take()
    (third,) = await line_of(bench, "d")
    await second.release(grant)
    await third.called()
    assert isinstance(await third.ask(last=True), Grant)
    assert await waiting(bench) == 0


async def test_the_last_request_passes_on_what_is_not_its_own(bench: Bench) -> None:
    """Who gives up behind others takes nothing from them."""
    grant = await bench.elect(claim("job", "a"))
    first, second = await line_of(bench, "bc")
    await free(bench, grant)
    assert await second.ask(last=True) == Busy(None)
    await first.take()


async def test_waiting_ends_at_its_time(bench: Bench) -> None:
    """Called or not: whoever has waited long enough is told so, at once if the time is over."""
    await bench.elect(claim("job", "a"))
    (waiter,) = await line_of(bench, "b")
    began = clock.now()
    await waiter.place.called(began + 0.1)
    assert 0.099 <= clock.now() - began < 0.1 + NEAR
    await waiter.place.called(began)
    await waiter.leave()


async def test_a_lease_that_runs_out_calls_the_next(bench: Bench) -> None:
    """Nobody releases it."""
    await bench.elect(claim("job", "a", lease_time=0.3))
    first, second = await line_of(bench, "bc")
    await first.take()
    assert not await second.is_called()
    await second.leave()


async def test_a_minimum_hold_that_ends_calls_the_next(bench: Bench) -> None:
    """It ends long before the lease would have: whoever waits learns of that."""
    grant = await bench.elect(claim("job", "a"))
    (waiter,) = await line_of(bench, "b")
    began = clock.now()
    await free(bench, grant, keep=0.3)
    await waiter.take()
    assert clock.now() - began >= 0.299


async def test_an_abandoned_claim_calls_the_next(bench: Bench) -> None:
    """A seat that is undone is as free as one that is given back."""
    await bench.elect(claim("job", "a"))
    (waiter,) = await line_of(bench, "b")
    await bench.store.leave(claim("job", "a"), BUDGET)
    await waiter.take()


async def test_p5_who_holds_a_seat_gets_it_also_from_the_line(bench: Bench) -> None:
    """A claim whose first answer was lost finds its seat, and stands in line no more."""
    await bench.elect(claim("job", "a"))
    place = await bench.store.stand(claim("job", "a"), BUDGET)
    grant = await bench.store.acquire(claim("job", "a"), BUDGET, place)
    assert isinstance(grant, Grant)
    assert await waiting(bench) == 0


async def test_seats_that_fall_free_together_are_filled_together(bench: Bench) -> None:
    """Three are called at once, each has the seat that is due to it; the fourth waits on."""
    grants = await bench.fill("job", "abc", seats=3)
    line = await line_of(bench, "defg", seats=3)
    for who, grant in zip("abc", grants, strict=True):
        await free(bench, grant, who, seats=3)
    for waiter in line[:3]:
        await waiter.called()
    assert not await line[3].is_called()
    assert sorted([(await waiter.take()).seat for waiter in line[:3]]) == [0, 1, 2]
    await line[3].leave()


async def test_who_can_see_fewer_seats_is_passed_over(bench: Bench) -> None:
    """A seat that the first in line cannot see goes to the first who can."""
    grants = await bench.fill("job", "abc", seats=3)
    (small,) = await line_of(bench, "d", seats=1)
    (large,) = await line_of(bench, "e", seats=3)
    await free(bench, grants[2], "c", seats=3)
    assert (await large.take()).seat == 2
    assert not await small.is_called()
    await free(bench, grants[0], "a", seats=3)
    assert (await small.take()).seat == 0


async def test_lines_do_not_touch_each_other(bench: Bench) -> None:
    """A release in one election calls nobody in another."""
    await bench.elect(claim("job", "a"))
    (waiter,) = await line_of(bench, "b")
    other = await bench.elect(claim("other", "a"))
    await bench.store.release(claim("other", "a"), other, 0, BUDGET)
    assert not await waiter.is_called()
    await waiter.leave()


async def test_a_place_of_another_store_is_refused(bench: Bench) -> None:
    """Nothing is asked in the name of a stranger."""
    place = await MemoryStore().stand(claim("job", "a"), BUDGET)
    with pytest.raises(TypeError, match="another store"):
        await bench.store.acquire(claim("job", "a"), BUDGET, place)


async def test_case_58_who_comes_back_at_once_is_behind_who_waits(bench: Bench) -> None:
    """The old leader wants the seat again: B is next, then it, then B, and so on."""
    one, two = Waiter(bench, "a"), Waiter(bench, "b")
    grant = await bench.elect(one.claim)
    for _ in range(5):
        await two.stand()
        await one.release(grant)
        again = await bench.store.acquire(one.claim, BUDGET)
        assert not isinstance(again, Grant)
        grant = await two.take()
        one, two = two, one
    await one.release(grant)
