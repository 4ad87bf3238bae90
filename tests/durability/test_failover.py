"""A failover to a replica that has not seen the last elections: with `Durability`, and without."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from durability.conftest import MakeElector
from durability.scene import BRIEF, NO_DELAY, PATIENT, House, follow, lasting, standing
from incumbent import LeadershipLost, NotDurableError
from incumbent.events import AttemptDelayed
from kit.checker import check
from kit.crew import Crew, Member
from kit.fixtures import MakeProxy, StartServer
from kit.records import now
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, Work, cancel

KINDS = ["leader", "group", "strategic"]


class Street(House):
    """A house with a spare server behind the replica, which stays with it when it is promoted."""

    def __init__(self, primary: Server, replica: Server, spare: Server) -> None:
        super().__init__(primary, replica)
        self.attach()
        follow(spare, replica.host, replica.port)


@pytest.fixture
def street(start_server: StartServer) -> Iterator[Street]:
    """Three servers of this test's own."""
    made = Street(*(start_server(args=NO_DELAY) for _ in range(3)))
    yield made
    made.relay.close()


# -- an election that the replica never heard of -----------------------------------------------


async def test_without_durability_there_may_be_two_and_the_fence_tells_them_apart(
    street: Street, make_elector: MakeElector, make_proxy: MakeProxy
) -> None:
    """What a failover forgot, somebody else is given: with a larger fence, and the first learns it.

    This is what `Durability` is for. Should it fail, the failover is not what it is meant to be.
    """
    proxy = await make_proxy(street.primary)
    old = {kind: make_elector(proxy, lasting(None), kind=kind) for kind in KINDS}
    new = {
        kind: make_elector(street.replica, lasting(None, wait_time=60), kind=kind) for kind in KINDS
    }
    works = {kind: Work() for kind in KINDS}
    async with AsyncExitStack() as stack:
        for kind in KINDS:
            await stack.enter_async_context(standing(old[kind], kind))
        street.relay.hold()
        tasks = {kind: asyncio.create_task(old[kind].attempt(kind, works[kind])) for kind in KINDS}
        for work in works.values():
            await asyncio.wait_for(work.began.wait(), 20)
        street.promote()
        for kind in KINDS:
            async with standing(new[kind], kind), new[kind].lead(kind) as second:
                first = works[kind].lease
                assert first.held
                assert second.held, "two of them"
                assert second.fence > first.fence
                proxy.target = street.replica
                proxy.cut()
                assert not await first.extend(60)
                assert await tasks[kind] == LeadershipLost("taken", error=None)
                assert second.held
            proxy.target = street.primary
            proxy.cut()
        proxy.target = street.replica
        proxy.cut()


async def test_with_durability_nobody_leads_by_what_the_replica_never_heard_of(
    street: Street, make_elector: MakeElector, journal: Journal
) -> None:
    """The old primary goes on granting seats, and none of them counts: before and after."""

    async def given_back(kind: str) -> None:
        """Once more."""
        before = len(refusals(journal, kind))
        await wait_until(lambda: len(refusals(journal, kind)) > before, within=30, what=kind)

    works = {kind: Work() for kind in KINDS}
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[Any]] = []
        street.relay.hold()
        for kind in KINDS:
            elector = make_elector(street.primary, lasting(BRIEF), kind=kind)
            await stack.enter_async_context(standing(elector, kind))
            tasks.append(asyncio.create_task(elector.campaign(kind, works[kind])))
            await given_back(kind)
        street.promote()
        for kind in KINDS:
            elector = make_elector(street.replica, lasting(PATIENT, wait_time=60), kind=kind)
            async with standing(elector, kind), elector.lead(kind) as lease:
                await given_back(kind)
                assert lease.held
        for task in tasks:
            await cancel(task)
    assert [work.runs for work in works.values()] == [0, 0, 0]


def refusals(journal: Journal, kind: str) -> list[AttemptDelayed]:
    """The seats of that election that were given back."""
    return [
        event
        for event in journal.of(AttemptDelayed)
        if event.election == kind and isinstance(event.error, NotDurableError)
    ]


# -- real processes, cut off while they lead ---------------------------------------------------

BRISK: dict[str, Any] = {"options": {"lease_time": 3}, "hold": (600, 600)}
DURABLE = BRISK | {"durability": {"replicas": 1, "timeout": 0.14}}
PLANS: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (2, BRISK),
    "leader": (2, DURABLE),
    "group": (3, DURABLE | {"seats": 2}),
}
"""How many processes stand for each election, and how."""

TURNS = {"elected", "lost", "stopped"}


@asynccontextmanager
async def crews(server: Server, folder: Path) -> AsyncIterator[dict[str, Crew]]:
    """A crew for each of `PLANS`, all at once."""
    async with AsyncExitStack() as stack:
        made: dict[str, Crew] = {}
        for name, (size, plan) in PLANS.items():
            (folder / name).mkdir()
            crew = Crew(server, folder / name, size=size, election=name, plan=plan)
            made[name] = await stack.enter_async_context(crew)
        yield made


@pytest.mark.timeout(200)  # seven processes
async def test_with_durability_no_two_lead_over_a_failover(street: Street, tmp_path: Path) -> None:
    """Replication is held back while they lead; the replica is promoted; the others go to it.

    Without durability the old leader goes on renewing at the old primary, beside the new one, until
    it is told where to ask. With it, each old leader has stopped before anybody else begins.
    """
    async with crews(street.primary, tmp_path) as companies:
        for name, crew in companies.items():
            await all_taken(crew, PLANS[name][1].get("seats", 1))
        street.relay.hold()
        since = now()
        old = {name: leading(crew) for name, crew in companies.items()}
        street.promote()
        for name, crew in companies.items():
            redirect([each for each in crew.members if each.process not in old[name]], street)
        for name, crew in companies.items():
            others = {member.process for member in crew.members} - old[name]
            await noted(crew, "elected", others, since)
        await asyncio.sleep(0.2)  # in which both would work, and some do
        for name, crew in companies.items():
            redirect(crew.members, street)
            for process in old[name]:
                await noted(crew, "lost", {process}, since)
    reports = {name: check(crew.records()) for name, crew in companies.items()}
    assert reports["plain"].overlaps, "the failover did not make two leaders: nothing is shown"
    assert reports["plain"].fence_violations == ()
    assert reports["leader"].violations == ()
    assert reports["group"].violations == ()


def leading(crew: Crew) -> set[str]:
    """Who leads now, as all have noted."""
    crew.assert_running()
    last = {each.process: each.kind for each in crew.records() if each.kind in TURNS}
    return {process for process, kind in last.items() if kind == "elected"}


async def all_taken(crew: Crew, seats: int) -> None:
    """Wait until all stand, and so many lead."""
    await crew.all_standing(within=40)
    what = f"{seats} lead in {crew.election}"
    await wait_until(lambda: len(leading(crew)) == seats, within=40, every=0.05, what=what)


async def noted(crew: Crew, kind: str, by: set[str], since: float) -> None:
    """Wait until one of those has noted such a thing, since then."""

    def found() -> bool:
        crew.assert_running()
        those = [each for each in crew.records() if each.kind == kind and each.at >= since]
        return any(each.process in by for each in those)

    await wait_until(found, within=40, every=0.05, what=f"{kind} by {by} in {crew.election}")


def redirect(members: list[Member], street: Street) -> None:
    """What they ask for is asked at the replica from now on."""
    for member in members:
        member.proxy.target = street.replica
        member.proxy.cut()
