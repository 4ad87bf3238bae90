"""Section H of the field cases: groups of leaders, and the semaphores that others made of them."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

from incumbent import (
    GroupElector,
    LeaderElector,
    LeaderOptions,
    Lease,
    MemoryStore,
    Skipped,
)
from incumbent.stores.base import Store
from kit.checker import LATE, check
from kit.crew import Crew
from kit.fixtures import MakeClient, StartServer
from kit.leftovers import connections
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Work, cancel, in_line, nothing, quick

SEED = 20_071


def seats_of(server: Server, name: str = "one") -> list[str]:
    """The keys of the seats that are taken."""
    found: list[str] = server.cli("KEYS", f"incumbent:{{{name}}}:seat:*")
    return sorted(found)


@pytest.fixture(params=["redis", "memory"])
async def target(
    request: pytest.FixtureRequest, valkey: Server, make_client: MakeClient
) -> "redis.asyncio.Redis | Store":
    """What groups are made on: a server, or the memory of the process."""
    return make_client(valkey) if request.param == "redis" else MemoryStore()


@pytest.fixture
async def group(target: "redis.asyncio.Redis | Store") -> AsyncIterator[GroupElector]:
    """A group of three seats."""
    async with GroupElector(target, quick(), seats=3) as made:
        yield made


@pytest.mark.parametrize("seats", [0, -1, 1025])
def test_a_group_has_1_to_1024_seats(seats: int) -> None:
    """The message names the rule and the value."""
    with pytest.raises(ValueError, match=f"seats must be from 1 to 1024, not {seats}"):
        GroupElector(MemoryStore(), seats=seats)


@pytest.mark.parametrize("seats", [True, 2.0, "2", None])
def test_a_number_of_seats_is_an_int(seats: object) -> None:
    """Nothing is guessed."""
    with pytest.raises(TypeError, match="seats must be an int"):
        GroupElector(MemoryStore(), seats=seats)  # type: ignore[arg-type] # the mistake is the test


async def test_as_many_lead_as_there_are_seats(group: GroupElector) -> None:
    """The lowest first, each with a fence of its own; one more is skipped, and told who leads."""
    assert group.seats == 3
    async with group.lead("one") as a, group.lead("one") as b, group.lead("one") as c:
        assert [lease.seat for lease in (a, b, c)] == [0, 1, 2]
        assert len({lease.fence for lease in (a, b, c)}) == 3
        outcome = await group.attempt("one", nothing)
        assert isinstance(outcome, Skipped)
        assert outcome.holder is not None
        state = await group.state("one")
        assert [leader.seat for leader in state.leaders] == [0, 1, 2]
        assert [leader.fence for leader in state.leaders] == [a.fence, b.fence, c.fence]
        await b.release()
        async with group.lead("one") as d:
            assert d.seat == 1
        assert len(group.leases) == 2


async def test_a_seat_is_the_holder_s_for_the_whole_term(group: GroupElector) -> None:
    """Renewed several times, with a lower seat free: it stays where it is."""
    async with group.lead("one") as first, group.lead("one") as second:
        await first.release()
        await asyncio.sleep(2 * group.options.lease_time)
        assert second.held
        assert second.seat == 1
        assert [leader.seat for leader in (await group.state("one")).leaders] == [1]


async def test_seats_that_fall_free_at_once_go_to_as_many_waiters(
    valkey: Server, make_client: MakeClient
) -> None:
    """Three releases in one moment, three elected, in order, and each has a seat of its own."""
    async with GroupElector(make_client(valkey), quick(), seats=3) as group:
        leases = [await group.lead("one").__aenter__() for _ in range(3)]
        works = [Work() for _ in range(5)]
        waiting = group.using(wait_time=20)
        tasks = []
        for number, work in enumerate(works):
            tasks.append(asyncio.create_task(waiting.run_if_leader("one", work)))
            await wait_until(lambda number=number: len(in_line(valkey, "one")) == number + 1)  # type: ignore[misc] # bound in the loop
        assert (await group.state("one")).waiting == 5
        await asyncio.gather(*(lease.release() for lease in leases))
        await asyncio.gather(*(work.began.wait() for work in works[:3]))
        assert sorted(work.lease.seat for work in works[:3]) == [0, 1, 2]
        assert not works[3].began.is_set()
        for work in works:
            work.finish.set()
        assert await asyncio.gather(*tasks) == ["done"] * 5


async def test_groups_of_different_sizes_share_an_election(
    target: "redis.asyncio.Redis | Store",
) -> None:
    """During a roll-out: the small one knows nothing of the seats that only the large one has."""
    small, large = (GroupElector(target, quick(), seats=seats) for seats in (1, 3))
    async with small, large, large.lead("one"), large.lead("one") as second:
        assert [leader.seat for leader in (await small.state("one")).leaders] == [0]
        assert isinstance(await small.attempt("one", nothing), Skipped)
        waiting = asyncio.create_task(small.using(wait_time=20).run_if_leader("one", nothing))
        await wait_until(lambda: _waits(large))
        await second.release()
        async with large.lead("one") as third:
            assert third.seat == 1, "who waits cannot see it"
        await cancel(waiting)


async def _waits(elector: GroupElector) -> bool:
    return (await elector.state("one")).waiting == 1


async def test_a_single_leader_is_a_group_of_one(target: "redis.asyncio.Redis | Store") -> None:
    """Both kinds contend for seat 0."""
    group, leader = GroupElector(target, quick(), seats=1), LeaderElector(target, quick())
    async with group, leader, group.lead("one"):
        assert isinstance(await leader.attempt("one", nothing), Skipped)


# -- the cases -------------------------------------------------------------------------------


async def test_case_59_a_large_group_costs_no_more(
    own_server: Server, make_client: MakeClient
) -> None:
    """64 leaders and 64 waiters: nobody is dropped, and all waiters lead in the end, in order."""
    async with GroupElector(make_client(own_server), LeaderOptions(), seats=64) as group:
        leases = [await group.lead("one").__aenter__() for _ in range(64)]
        elected: list[int] = []

        async def wait(number: int) -> None:
            async with group.using(wait_time=None).lead("one"):
                elected.append(number)
                await asyncio.sleep(0.2)

        tasks: list[asyncio.Task[None]] = []
        for number in range(64):
            tasks.append(asyncio.create_task(wait(number)))
            await wait_until(lambda: len(in_line(own_server, "one")) == len(tasks))
        await asyncio.sleep(1)
        assert len(in_line(own_server, "one")) == 64
        assert (await group.state("one")).waiting == 64
        for lease in leases:
            await lease.release()
        await asyncio.gather(*tasks)
        assert elected == list(range(64))
        assert len(connections(own_server)) <= 2


async def test_case_86_a_release_that_is_not_ours_adds_no_seat(group: GroupElector) -> None:
    """Released three times each, lost ones as well: as many seats as ever."""
    leases: list[Lease] = [await group.lead("one").__aenter__() for _ in range(3)]
    for lease in leases:
        for _ in range(3):
            await lease.release()
    again = [await group.lead("one").__aenter__() for _ in range(3)]
    for lease in leases:
        await lease.release()
    assert isinstance(await group.attempt("one", nothing), Skipped)
    for lease in again:
        await lease.release()


async def test_case_87_starting_and_stopping_initialises_nothing(
    valkey: Server, make_client: MakeClient
) -> None:
    """Ten contenders come and go at random on four seats: never a fifth, and no step to begin."""
    dice = random.Random(SEED)
    leading = most = runs = 0

    async def work() -> None:
        nonlocal leading, most, runs
        leading += 1
        most, runs = max(most, leading), runs + 1
        await asyncio.sleep(dice.uniform(0, 0.01))
        leading -= 1

    async def come_and_go() -> None:
        for _ in range(8):
            async with GroupElector(make_client(valkey), quick(), seats=4, hooks=()) as group:
                await group.using(wait_time=dice.choice((0, 5))).run_if_leader("one", work)
            await asyncio.sleep(dice.uniform(0, 0.01))

    await asyncio.gather(*(come_and_go() for _ in range(10)))
    assert most == 4
    assert runs > 30
    assert seats_of(valkey) == in_line(valkey, "one") == []


@pytest.mark.parametrize("seed", range(2))
async def test_case_88_91_killed_leaders_leave_their_seats_after_a_lease(
    start_server: StartServer, make_client: MakeClient, tmp_path: Path, seed: int
) -> None:
    """SIGKILL again and again, at any step: never a fourth holder, and all three a lease later."""
    server = start_server()
    plan = {
        "seats": 3,
        "options": {"lease_time": 0.8, "request_timeout": 2.0},
        "hold": (0.0, 0.3),
        "rest": (0.0, 0.01),
    }
    dice = random.Random(seed)
    async with Crew(server, tmp_path, size=5, plan=plan, seed=seed, election="one") as crew:
        await crew.all_standing()
        for _ in range(6):
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            member = dice.choice(crew.members)
            crew.kill(member)
            crew.start(member)
        await crew.all_standing()
        await crew.stop()
        report = check(crew.records())
        report.assert_sound(min_terms=5)
        assert {term.seat for term in report.terms} == {0, 1, 2}
    async with GroupElector(make_client(server), quick(wait_time=3), seats=3) as group:
        leases = [await group.lead("one").__aenter__() for _ in range(3)]
        assert {lease.seat for lease in leases} == {0, 1, 2}  # in the order in which they lapse
        assert isinstance(await group.using(wait_time=0).attempt("one", nothing), Skipped)
        for lease in leases:
            await lease.release()


async def test_case_91_all_leases_that_lapse_at_once_are_retaken(
    valkey: Server, make_client: MakeClient
) -> None:
    """Three seats whose holders are gone: exactly three of five waiters lead, a moment later."""
    for seat in range(3):
        key = f"incumbent:{{one}}:seat:{seat}"
        valkey.cli("HSET", key, "token", "dead", "leader", "dead", "fence", 1, "since", 1)
        valkey.cli("PEXPIRE", key, 500)
    async with GroupElector(make_client(valkey), quick(wait_time=20), seats=3) as group:
        works = [Work() for _ in range(5)]
        tasks = [asyncio.create_task(group.run_if_leader("one", work)) for work in works]
        await wait_until(lambda: sum(work.began.is_set() for work in works) == 3, within=3)
        assert len(seats_of(valkey)) == 3
        await asyncio.sleep(0.1)
        assert sum(work.began.is_set() for work in works) == 3
        for work in works:
            work.finish.set()
        assert await asyncio.gather(*tasks) == ["done"] * 5


async def test_case_93_two_servers_are_two_worlds(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """The same name on two servers in one process: a release on one wakes nobody on the other."""
    servers = [start_server(), start_server()]
    one, two = (GroupElector(make_client(server), quick(), seats=1) for server in servers)
    async with one, two, two.lead("one"):
        async with one.lead("one"):
            waiting = [
                asyncio.create_task(elector.using(wait_time=20).run_if_leader("one", nothing))
                for elector in (one, two)
            ]
            await wait_until(lambda: all(in_line(server, "one") for server in servers))
        assert await asyncio.wait_for(waiting[0], 2) == "done"
        assert not waiting[1].done()
        assert in_line(servers[1], "one")
        await cancel(waiting[1])


async def test_case_96_a_free_seat_never_stays_free(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Five contenders under cuts and silences at random: when one could lead, soon one does."""
    server, dice = start_server(), random.Random(SEED)
    plan = {
        "options": {"lease_time": 0.8, "request_timeout": 0.8},
        "hold": (0.05, 0.5),
        "rest": (0.0, 0.02),
    }
    async with Crew(server, tmp_path, size=5, plan=plan, seed=SEED) as crew:
        await crew.all_standing()
        for _ in range(8):
            member = dice.choice(crew.members)
            dice.choice((crew.cut, crew.silence))(member)
            await asyncio.sleep(dice.uniform(0.1, 0.6))
            await crew.restore(member)
        last = crew.leader()
        await wait_until(lambda: crew.leader() not in (None, last), within=10)
        await crew.stop()
        report = check(crew.records())
        report.assert_sound(min_terms=5)
        assert report.take_over(1.0) < 0.8 + LATE
