"""`Durability`: a lease and a renewal count only when replicas have them."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from durability.conftest import MakeElector
from durability.scene import BRIEF, PATIENT, House, lasting, standing
from incumbent import (
    Durability,
    Elected,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    Lease,
    MemoryStore,
    NotDurableError,
    StrategicElector,
    clock,
)
from incumbent.blocking import LeaderElector as BlockingElector
from incumbent.events import (
    AttemptDelayed,
    Event,
    RenewalDelayed,
    TermEnded,
    TermLost,
    TermRenewed,
    TermStarted,
)
from incumbent.strategy import Priority
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    cancel,
    forever,
    gone_key,
    in_line,
    nothing,
    token_of,
    ttl_of,
)

KINDS = ["leader", "group", "strategic"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lease_counts_when_a_replica_has_it(
    house: House, make_elector: MakeElector, kind: str
) -> None:
    """As long as the replica has not got it nobody is elected; when it has, the work begins."""
    async with standing(make_elector(house.primary, kind=kind), "one") as elector:
        house.relay.hold()
        work = Work()
        task = asyncio.create_task(elector.run_if_leader("one", work))
        await wait_until(lambda: token_of(house.primary, "one"), within=10)
        assert token_of(house.replica, "one") is None
        assert not work.began.is_set()
        house.relay.release()
        await asyncio.wait_for(work.began.wait(), 10)
        token = token_of(house.primary, "one")
        assert token is not None
        assert token_of(house.replica, "one") == token
        work.finish.set()
        assert await task == "done"
        assert token_of(house.primary, "one") is None


async def test_without_a_replica_the_seat_is_given_back(
    own_server: Server, make_elector: MakeElector, journal: Journal
) -> None:
    """`NotDurableError` says how many answered; the seat is free at once, for whoever comes."""
    primary, work = own_server, Work()

    async def play(name: str) -> None:
        async with standing(make_elector(primary, lasting(BRIEF), kind=name), name) as elector:
            for way in (elector.run_if_leader, elector.attempt):
                with pytest.raises(NotDurableError) as said:
                    await way(name, work)
                assert (said.value.replicas, said.value.acknowledged) == (1, 0)
                assert said.value.election == name
                assert token_of(primary, name) is None
                assert primary.cli("ZCARD", gone_key(name)) > 0, "it was left in full"
            for block in (elector.lead, elector.try_lead):
                with pytest.raises(NotDurableError):
                    async with block(name):
                        raise AssertionError("nobody leads")
                assert token_of(primary, name) is None
            assert (await elector.state(name)).leaders == ()
            assert work.runs == 0
            assert not [event for event in journal.of(TermStarted) if event.election == name]
            plain = elector.using(durability=None)
            assert await plain.run_if_leader(name, nothing) == "done"

    await asyncio.gather(*(play(kind) for kind in KINDS))


async def test_too_few_replicas_are_counted(house: House, make_elector: MakeElector) -> None:
    """One of two answered, and the error says so."""
    two = Durability(replicas=2, timeout=1)
    with pytest.raises(NotDurableError, match="1 of 2 replicas") as said:
        await make_elector(house.primary, lasting(two)).run_if_leader("one", nothing)
    assert (said.value.replicas, said.value.acknowledged) == (2, 1)


async def test_a_frozen_replica_does_not_answer(house: House, make_elector: MakeElector) -> None:
    """It is connected, and that is not enough."""
    house.replica.pause()
    assert house.primary.admin.info("replication")["connected_slaves"] == 1
    elector = make_elector(house.primary, lasting(BRIEF))
    with pytest.raises(NotDurableError, match="0 of 1"):
        await elector.run_if_leader("one", nothing)
    house.replica.resume()
    house.in_step()
    assert await elector.using(durability=PATIENT).run_if_leader("one", nothing) == "done"


async def test_p2_a_lease_is_counted_from_before_it_was_asked_for(
    house: House, make_elector: MakeElector
) -> None:
    """The time in which replicas are waited for is no time of the lease."""
    elector = make_elector(house.primary)
    house.relay.hold()
    work = Work()
    task = asyncio.create_task(elector.run_if_leader("one", work))
    await wait_until(lambda: token_of(house.primary, "one"), within=10)
    granted = clock.now()
    await asyncio.sleep(0.2)
    house.relay.release()
    await asyncio.wait_for(work.began.wait(), 10)
    assert clock.now() + work.lease.remaining <= granted + 0.99 * 60
    work.finish.set()
    await task


async def test_a_grant_is_confirmed_by_a_write_also_when_that_changes_nothing(
    house: House, make_elector: MakeElector
) -> None:
    """The counter of fences was evicted, the TTL is as it is: WAIT must have something to wait for.

    A WAIT without a write of its own on that connection would be answered at once, by the replica
    that has all that was written there: nothing.
    """
    elector = make_elector(house.primary, lasting(Durability(timeout=1)))
    async with elector.lead("one") as lease:
        await lease.extend(120)
        house.relay.hold()
        house.primary.cli("DEL", "incumbent:{one}:fence")
        with pytest.raises(NotDurableError):
            await lease.extend(1)
        house.relay.release()


async def test_who_is_next_in_line_gets_the_seat_that_was_given_back(
    own_server: Server, make_elector: MakeElector
) -> None:
    """The one that wants replicas has its turn, gives it back, and the other is called at once."""
    primary = own_server
    holder = make_elector(primary, lasting(None))
    fussy = make_elector(primary, lasting(BRIEF, wait_time=60))
    easy = make_elector(primary, lasting(None, wait_time=60))
    async with holder.lead("one"):
        waiting: list[asyncio.Task[Any]] = []
        for elector in (fussy, easy):
            waiting.append(asyncio.create_task(elector.run_if_leader("one", forever)))
            await wait_until(
                lambda: len(in_line(primary, "one")) == len(waiting),
                within=10,
                what="it stands in line",
            )

    async def leads() -> bool:
        leaders = (await holder.state("one")).leaders
        return bool(leaders) and leaders[0].leader_id == easy.leader_id

    await wait_until(leads, within=10, what="the easy one leads")
    assert not waiting[0].done(), "it waits on, as long as it may"
    for task in waiting:
        await cancel(task)
    assert in_line(primary, "one") == []


async def test_a_campaign_goes_on_until_there_is_a_replica(
    house: House, make_elector: MakeElector, journal: Journal
) -> None:
    """It says what is missing, backs off, and leads when the replica is there."""

    def refused() -> dict[str, int]:
        errors = [each.error for each in journal.of(AttemptDelayed) if each.retry_in > 0]
        return Counter(each.election for each in errors if isinstance(each, NotDurableError))

    works = {kind: Work() for kind in KINDS}
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[Any]] = []
        house.relay.hold()
        for kind, work in works.items():
            options = lasting(Durability(timeout=0.3))
            elector = make_elector(house.primary, options, kind=kind)
            await stack.enter_async_context(standing(elector, kind))
            tasks.append(asyncio.create_task(elector.campaign(kind, work)))
        await wait_until(lambda: all(refused().get(kind, 0) > 1 for kind in KINDS), within=30)
        assert [work.runs for work in works.values()] == [0, 0, 0]
        house.relay.release()
        for work in works.values():
            await asyncio.wait_for(work.began.wait(), 30)
        for task in tasks:
            await cancel(task)
    assert [token_of(house.primary, kind) for kind in KINDS] == [None] * 3


async def test_a_schedule_goes_on_without_a_replica(
    house: House, make_elector: MakeElector, journal: Journal
) -> None:
    """The tick is told as delayed, does not count as run, and is run when the replica is there."""
    elector = make_elector(house.primary, lasting(Durability(timeout=0.3)))
    house.relay.hold()
    work = Work()
    task = asyncio.create_task(elector.schedule("one", every=1, action=work))
    delayed = await journal.has(AttemptDelayed)
    assert isinstance(delayed.error, NotDurableError)
    house.relay.release()
    await asyncio.wait_for(work.began.wait(), 20)
    await cancel(task)


async def test_a_run_that_was_given_back_does_not_count_for_its_period(
    house: House, make_elector: MakeElector
) -> None:
    """Who was not elected has not run."""
    elector = make_elector(house.primary, lasting(BRIEF, once_per=86_400))
    house.relay.hold()
    with pytest.raises(NotDurableError):
        await elector.attempt("one", nothing)
    house.relay.release()
    outcome = await elector.using(durability=PATIENT).attempt("one", nothing)
    assert isinstance(outcome, Elected)


async def test_an_extension_without_a_replica_moves_no_deadline(
    house: House, make_elector: MakeElector
) -> None:
    """It raises, the lease is what it was; when the replica is back the same extension counts."""
    leases: list[Lease] = []
    async with AsyncExitStack() as stack:
        for kind in KINDS:
            elector = make_elector(house.primary, lasting(Durability(timeout=1)), kind=kind)
            await stack.enter_async_context(standing(elector, kind))
            leases.append(await stack.enter_async_context(elector.lead(kind)))
        assert all(await asyncio.gather(*(lease.extend(120) for lease in leases)))
        before = [lease.remaining for lease in leases]
        assert min(before) > 60
        house.replica.pause()
        errors = await asyncio.gather(
            *(lease.extend(600) for lease in leases), return_exceptions=True
        )
        assert [type(error) for error in errors] == [NotDurableError] * len(KINDS)
        for lease, was in zip(leases, before, strict=True):
            assert lease.held
            assert 0 < lease.remaining <= was
            assert ttl_of(house.primary, lease.name) > 500_000, "the server tells it to others"
        house.replica.resume()
        house.in_step()
        assert all(await asyncio.gather(*(lease.extend(600) for lease in leases)))
        assert min(lease.remaining for lease in leases) > 500


async def test_leaders_without_a_replica_stop_before_their_leases_end_there(
    house: House, make_elector: MakeElector, journal: Journal
) -> None:
    """Renewals reach the primary and no replica: lost as `unreachable`, while both keep the seat.

    The replica's copy is what would be promoted, and it has what was confirmed last.
    """
    left: dict[str, tuple[int, int]] = {}

    def look(event: Event) -> None:
        if isinstance(event, TermLost):
            name = event.election
            left[name] = ttl_of(house.replica, name), ttl_of(house.primary, name)

    options = LeaderOptions(lease_time=4, wait_time=60, durability=Durability(timeout=0.2))
    works = {kind: Work() for kind in KINDS}
    async with AsyncExitStack() as stack:
        tasks: dict[str, asyncio.Task[Any]] = {}
        for kind, work in works.items():
            elector = make_elector(house.primary, options, kind=kind, hook=look)
            await stack.enter_async_context(standing(elector, kind))
            tasks[kind] = asyncio.create_task(elector.attempt(kind, work))
        for work in works.values():
            await asyncio.wait_for(work.began.wait(), 20)
        house.relay.hold()
        outcomes = {kind: await task for kind, task in tasks.items()}
        house.relay.release()
    assert outcomes == {kind: LeadershipLost("unreachable", error=None) for kind in KINDS}
    for kind in KINDS:
        assert works[kind].cleaned == 1
        on_replica, on_primary = left[kind]
        assert on_replica > 0, "the work went on when somebody else could lead"
        assert on_primary > on_replica, "the primary was renewed, which counted for nothing"
    errors = [each.error for each in journal.of(RenewalDelayed)]
    assert {each.election for each in errors if isinstance(each, NotDurableError)} == set(KINDS)
    assert {each.ending for each in journal.of(TermEnded)} == {"released"}


async def test_leaders_go_on_when_the_replica_is_back_in_time(
    house: House, make_elector: MakeElector, journal: Journal
) -> None:
    """A replica that was frozen for a while costs some renewals, and nobody the lease."""
    options = LeaderOptions(lease_time=9, wait_time=60, durability=Durability(timeout=0.3))
    works = {kind: Work() for kind in KINDS}

    def failed() -> bool:
        return {each.election for each in journal.of(RenewalDelayed)} == set(KINDS)

    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[Any]] = []
        for kind, work in works.items():
            elector = make_elector(house.primary, options, kind=kind)
            await stack.enter_async_context(standing(elector, kind))
            tasks.append(asyncio.create_task(elector.run_if_leader(kind, work)))
        for work in works.values():
            await asyncio.wait_for(work.began.wait(), 20)
        house.replica.pause()
        renewed = len(journal.of(TermRenewed))
        await wait_until(failed, within=20, what="renewals fail")
        assert len(journal.of(TermRenewed)) == renewed
        house.replica.resume()
        await wait_until(
            lambda: {each.election for each in journal.of(TermRenewed)[renewed:]} == set(KINDS),
            within=20,
            what="renewals succeed",
        )
        for work in works.values():
            work.finish.set()
        assert await asyncio.gather(*tasks) == ["done"] * len(KINDS)
    assert not journal.of(TermLost)


# -- where there can be no replicas ------------------------------------------------------------


def test_a_store_in_memory_is_refused() -> None:
    """A single process has no replicas: said before the first election, also by `using`."""
    durable = LeaderOptions(durability=Durability())
    message = r"^Durability\(replicas=1, timeout=0\.2\) needs a server: <MemoryStore .* replicas$"
    with pytest.raises(ValueError, match=message):
        LeaderElector(MemoryStore(), durable)
    with pytest.raises(ValueError, match=message):
        StrategicElector(MemoryStore(), durable, strategy=Priority())
    with pytest.raises(ValueError, match=message):
        LeaderElector(MemoryStore()).using(durability=Durability())


async def test_threads_have_it_as_well(house: House) -> None:
    """The blocking twin raises the same error, and leads when the replica is there."""

    def lead() -> list[object]:
        found: list[object] = []
        with BlockingElector(house.primary.url, lasting()) as elector:
            found.append(elector.run_if_leader("one", lambda: "done"))
            try:
                elector.using(durability=Durability(replicas=2, timeout=1)).run_if_leader(
                    "one", lambda: "done"
                )
            except NotDurableError as error:
                found.append(error.acknowledged)
        return found

    assert await asyncio.to_thread(lead) == ["done", 1]
