"""P1: at no instant do two leases of one seat both say `held`, whatever happens to them."""

import asyncio
import random
from pathlib import Path

import pytest

from incumbent import Elected, LeaderElector, Lease, MemoryStore, Skipped
from kit.checker import check
from kit.crew import Crew
from kit.fixtures import MakeClient, StartServer
from kit.register import check_register
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    all_keys,
    cancel,
    fence_key,
    forever,
    here,
    quick,
    seat_key,
)

LEASE = 0.6


class Turnstile:
    """An action that fails when somebody else is inside, and notes the fences of those who came."""

    def __init__(self) -> None:
        self.inside: list[Lease] = []
        self.fences: list[int] = []

    async def __call__(self) -> None:
        lease = here()
        assert not [other for other in self.inside if other.held], "two holders at once"
        self.inside.append(lease)
        self.fences.append(lease.fence)
        try:
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0.001)
                assert [other.fence for other in self.inside if other.held] == [lease.fence]
        finally:
            self.inside.remove(lease)


async def test_p1_of_many_who_try_at_once_one_leads(
    server: Server, make_client: MakeClient
) -> None:
    """Twenty tries on five connections at the same time: one is elected, the others skipped."""
    electors = [LeaderElector(make_client(server), quick()) for _ in range(5)]
    work = Work()
    tries = [
        asyncio.create_task(elector.attempt("one", work)) for elector in electors for _ in range(4)
    ]
    await wait_until(lambda: sum(each.done() for each in tries) == 19)
    assert work.runs == 1
    work.finish.set()
    outcomes = await asyncio.gather(*tries)
    assert sum(isinstance(each, Elected) for each in outcomes) == 1
    assert sum(isinstance(each, Skipped) for each in outcomes) == 19
    for elector in electors:
        await elector.aclose()


async def test_p1_hand_overs_never_overlap(valkey: Server, make_client: MakeClient) -> None:
    """Five electors wait for each other's seat a hundred times: one is inside, the fences grow."""
    electors = [LeaderElector(make_client(valkey), quick(wait_time=None)) for _ in range(5)]
    turnstile = Turnstile()

    async def come_again(elector: LeaderElector) -> None:
        for _ in range(20):
            assert isinstance(await elector.attempt("door", turnstile), Elected)

    await asyncio.gather(*(come_again(elector) for elector in electors))
    assert len(turnstile.fences) == 100
    assert turnstile.fences == sorted(set(turnstile.fences))
    for elector in electors:
        await elector.aclose()
    assert all_keys(valkey) <= {fence_key("door")}


async def test_p1_cancelled_candidates_and_holders_let_in_one_at_a_time(
    valkey: Server, make_client: MakeClient
) -> None:
    """Candidates and holders are cancelled at random: nobody is inside together with another."""
    electors = [LeaderElector(make_client(valkey), quick(wait_time=None)) for _ in range(4)]
    turnstile = Turnstile()
    chance = random.Random(1)

    async def come_again(elector: LeaderElector) -> None:
        for _ in range(25):
            task = asyncio.create_task(elector.attempt("door", turnstile))
            await asyncio.wait([task], timeout=chance.choice([0.001, 0.003, 0.01, 0.2]))
            await cancel(task)

    await asyncio.gather(*(come_again(elector) for elector in electors))
    assert turnstile.fences
    assert turnstile.fences == sorted(set(turnstile.fences))
    for elector in electors:
        await elector.aclose()
    assert not [key for key in all_keys(valkey) if ":seat:" in key]


async def test_p1_holds_between_siblings_and_in_nested_calls(elector: LeaderElector) -> None:
    """The same process, even the same task: what is held is nobody else's, nor ours again."""
    async with elector.lead("one") as lease:
        assert await elector.run_if_leader("one", forever) is None
        assert await elector.using(lease_time=2).run_if_leader("one", forever) is None
        async with elector.try_lead("one") as second:
            assert second is None
        assert lease.held
    assert not lease.held


async def test_p1_holds_in_the_memory_store() -> None:
    """The store without a server keeps the same promise."""
    store = MemoryStore()
    electors = [LeaderElector(store, quick(wait_time=None)) for _ in range(3)]
    turnstile = Turnstile()

    async def come_again(elector: LeaderElector) -> None:
        for _ in range(5):
            await elector.attempt("door", turnstile)

    await asyncio.gather(*(come_again(elector) for elector in electors))
    assert len(turnstile.fences) == 15
    assert turnstile.fences == sorted(set(turnstile.fences))


async def test_p1_a_restarted_server_that_kept_its_data_keeps_the_seat(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """SIGKILL and restart of a server with its data while A leads: A stays, B is not elected."""
    server = start_server(aof=True)
    journal, work = Journal(), Work()
    options = quick(lease_time=6, request_timeout=1)
    async with (
        LeaderElector(make_client(server), options, hooks=[journal]) as a,
        LeaderElector(make_client(server), options) as b,
    ):
        leading = asyncio.create_task(a.attempt("one", work))
        await work.began.wait()
        server.kill()
        server.start()
        assert isinstance(await b.attempt("one", forever), Skipped)
        assert work.lease.held
        assert await work.lease.extend(6)
        work.finish.set()
        assert isinstance(await leading, Elected)
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_p1_a_seat_without_ttl_is_not_cut_short(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Somebody took the seat's TTL away: a contender with a shorter lease does not get in."""
    async with elector.using(lease_time=30).lead("one") as lease:
        valkey.cli("PERSIST", seat_key("one"))
        async with LeaderElector(make_client(valkey), quick(lease_time=0.25)) as other:
            both: list[bool] = []

            async def work() -> None:
                both.append(lease.held)

            await other.using(wait_time=1).attempt("one", work)
        assert not any(both), "two holders at once"
        assert lease.held
        assert await lease.extend(30)


@pytest.mark.timeout(90)
async def test_p1_processes_that_are_frozen_killed_and_cut_off_never_overlap(
    own_server: Server, tmp_path: Path
) -> None:
    """Four processes; each leader is frozen beyond its lease, killed, or cut off in turn."""
    options = {"lease_time": LEASE, "request_timeout": 0.8}
    async with Crew(own_server, tmp_path, election="crew", plan={"options": options}) as crew:
        await crew.all_standing()
        for deed in ("freeze", "cut", "kill", "freeze", "silence"):
            leader = await wait_until(crew.leader, what="somebody leads")
            fence = crew.register()[-1].fence
            if deed == "freeze":
                crew.pause(leader)
            elif deed == "kill":
                crew.kill(leader)
            elif deed == "cut":
                crew.cut(leader)
            else:
                crew.silence(leader)
            await wait_until(
                lambda fence=fence: crew.register()[-1].fence > fence,  # type: ignore[misc]
                within=LEASE + 5,
                what=f"somebody else leads after {deed}",
            )
            if deed == "freeze":
                crew.resume(leader)
            elif deed == "kill":
                crew.start(leader)
            else:
                await crew.restore(leader)
        await wait_until(lambda: len({each.fence for each in crew.register()}) >= 8)
        await crew.stop()
        check(crew.records()).assert_sound(min_terms=6)
        check_register(crew.register()).assert_sound(min_writes=20)
