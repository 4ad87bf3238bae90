"""The server's wall clock was a day ahead and is set back, at every step of a term (P1, P10).

Keys expire by it, so that what lives for seconds then lives for a day. On real servers, whose clock
is libfaketime's; `contract/test_clock_scripts.py` has what each script makes of it.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
import redis

from contract.bench import BUDGET, claim
from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    MemoryStore,
    OncePer,
    Skipped,
    StrategicElector,
    blocking,
)
from incumbent.engine import recess
from incumbent.events import AttemptSkipped, CandidateExpired, PeriodAhead, TermLost, TermRenewed
from incumbent.stores.base import Grant
from incumbent.stores.redis import RedisStore
from incumbent.stores.registry import Enrolled, Enrolment
from incumbent.strategy import Metadata, Priority
from kit.clocks import DAY, WHY_NOT, ClockServer, faketime
from kit.fixtures import CHOSEN, ELSEWHERE, MakeClient
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    Journal,
    Work,
    cancel,
    in_line,
    is_held,
    nothing,
    quick,
    seat_key,
    ttl_of,
)

SOON = 30.0
"""Seconds in which all is well again on the busiest machine; without help it would take a day."""


@pytest.fixture
def server() -> Iterator[ClockServer]:
    """A server whose clock is a day ahead."""
    if ELSEWHERE:
        pytest.skip(ELSEWHERE)
    if faketime() is None:
        pytest.skip(WHY_NOT)
    with ClockServer(CHOSEN[0], ahead=DAY) as started:
        yield started


@pytest.fixture
async def renewing(
    server: ClockServer, make_client: MakeClient
) -> "tuple[LeaderElector, Journal, Work, asyncio.Task[object]]":
    """A leader whose clock has just been set back, and what it is told."""
    journal, work = Journal(), Work()
    elector = LeaderElector(make_client(server), quick(), hooks=[journal])
    task = asyncio.create_task(elector.attempt("job", work))
    await work.began.wait()
    await journal.has(TermRenewed)
    server.set_clock(0)
    await journal.has_another(TermRenewed)
    return elector, journal, work, task


Renewing = tuple[LeaderElector, Journal, Work, "asyncio.Task[object]"]


async def test_p1_renewals_go_on_and_the_seat_lives_no_longer(
    renewing: Renewing, server: ClockServer
) -> None:
    """The holder believes what it asked for; the server is told to keep no more."""
    elector, journal, work, task = renewing
    for _ in range(3):
        await journal.has_another(TermRenewed)
        assert work.lease.remaining <= LEASE
        assert 0 < ttl_of(server, "job") <= 1000 * LEASE
    await cancel(task)
    await elector.aclose()


async def test_the_holder_hears_that_it_is_to_step_down(renewing: Renewing) -> None:
    """At its next renewal, as usual."""
    elector, _, work, task = renewing
    assert await elector.request_step_down("job") == 1
    await asyncio.wait_for(task, SOON)
    assert work.lease.loss_reason == "stepped_down"
    await elector.aclose()


async def test_p1_the_holder_hears_that_it_is_forced_out(renewing: Renewing) -> None:
    """And the seat is free for the next one soon after."""
    elector, _, work, task = renewing
    forced = await elector.force_release("job")
    assert forced is not None
    assert forced.remaining <= LEASE
    await asyncio.wait_for(task, SOON)
    assert work.lease.loss_reason == "taken"
    told = await asyncio.wait_for(elector.using(wait_time=SOON).attempt("job", nothing), SOON)
    assert isinstance(told, Elected)
    await elector.aclose()


async def test_p1_the_holder_hears_that_its_key_was_deleted(
    renewing: Renewing, server: ClockServer
) -> None:
    """What nothing makes good, but it ends within a third of the lease."""
    elector, _, work, task = renewing
    server.cli("DEL", seat_key("job"))
    await asyncio.wait_for(task, SOON)
    assert work.lease.loss_reason == "expired"
    await elector.aclose()


# -- at every step of a term -----------------------------------------------------------------

Step = Callable[[LeaderElector, Work], Awaitable[object]]


async def _long(elector: LeaderElector, work: Work) -> None:
    assert await work.lease.extend(2 * LEASE)


async def _renewal(elector: LeaderElector, work: Work) -> None:
    lease = work.lease
    ends = time.monotonic() + lease.remaining
    await wait_until(lambda: time.monotonic() + lease.remaining > ends + 0.1, within=SOON)


async def _end(elector: LeaderElector, work: Work) -> None:
    work.finish.set()
    await wait_until(lambda: not elector.leases, within=SOON)


async def _nothing(elector: LeaderElector, work: Work) -> None:
    pass


STEPS: dict[str, Step] = {
    "granted": _nothing,
    "renewed": _renewal,
    "extended": _long,
    "asked": lambda elector, _: elector.request_step_down("job"),
    "forced": lambda elector, _: elector.force_release("job"),
    "released": _end,
}


@pytest.mark.parametrize("step", STEPS)
async def test_p1_the_next_one_leads_soon_and_never_beside(
    server: ClockServer, make_client: MakeClient, step: str
) -> None:
    """At each point of a term; the fence still grows (P7)."""
    first, work = LeaderElector(make_client(server), quick(min_hold_time=LEASE)), Work()
    task = asyncio.create_task(first.attempt("job", work))
    await work.began.wait()
    lease = work.lease
    await STEPS[step](first, work)
    server.set_clock(0)
    if step not in {"asked", "forced"}:
        work.finish.set()
    beside: list[bool] = []

    async def second() -> None:
        beside.append(is_held(lease))

    other = LeaderElector(make_client(server), quick(wait_time=SOON))
    told = await asyncio.wait_for(other.attempt("job", second), 2 * SOON)
    assert isinstance(told, Elected)
    assert told.fence > lease.fence
    assert beside == [False]
    await asyncio.wait([task])
    await first.aclose()
    await other.aclose()


@pytest.mark.parametrize("queueing", [False, True], ids=["comes later", "waits already"])
@pytest.mark.parametrize("step", ["granted", "extended", "forced", "retained"])
async def test_the_seat_of_a_process_that_died_is_free_soon(
    server: ClockServer, make_client: MakeClient, step: str, queueing: bool
) -> None:
    """No holder renews it any more: a waiter cuts its TTL."""
    store, mine = RedisStore(make_client(server), "incumbent"), claim("job", lease_time=LEASE)
    grant = await store.acquire(mine, BUDGET)
    assert isinstance(grant, Grant)
    other = LeaderElector(make_client(server), quick(wait_time=SOON))
    waiting = asyncio.create_task(other.attempt("job", nothing)) if queueing else None
    if queueing:
        await wait_until(lambda: in_line(server, "job"), within=SOON)
    if step == "extended":
        await store.extend(mine, 0, 2 * LEASE, BUDGET)
    elif step == "forced":
        await store.force_release("job", 0, None, BUDGET)
    elif step == "retained":
        await store.release(mine, grant, LEASE, BUDGET)
    server.set_clock(0)
    told = await asyncio.wait_for(waiting or other.attempt("job", nothing), 2 * SOON)
    assert isinstance(told, Elected)
    assert told.fence > grant.fence
    await store.aclose()
    await other.aclose()


async def test_who_waits_is_served_in_turn_when_the_clock_is_set(
    server: ClockServer, make_client: MakeClient
) -> None:
    """Back, and ahead again: a dropped waiter is in line again, and no waiter waits a day."""
    leader = LeaderElector(make_client(server), quick())
    work, order = Work(), list[int]()
    task = asyncio.create_task(leader.attempt("job", work))
    await work.began.wait()
    electors = [LeaderElector(make_client(server), quick(wait_time=2 * SOON)) for _ in range(3)]

    async def note(number: int) -> None:
        order.append(number)

    tasks = list[asyncio.Task[object]]()
    for number, elector in enumerate(electors):
        tasks.append(asyncio.create_task(elector.attempt("job", note, number)))
        await wait_until(lambda: len(in_line(server, "job")) == len(tasks), within=SOON)
    server.set_clock(0)
    work.finish.set()
    await asyncio.wait_for(asyncio.gather(task, *tasks), 2 * SOON)
    assert order == [0, 1, 2]
    server.set_clock(DAY)
    told = await asyncio.wait_for(electors[0].attempt("job", nothing), 2 * SOON)
    assert isinstance(told, Elected)
    for each in (leader, *electors):
        await each.aclose()


# -- candidates ------------------------------------------------------------------------------


async def test_a_leader_makes_way_for_no_candidate_that_died_ahead(
    server: ClockServer, make_client: MakeClient
) -> None:
    """It is gone after its TTL, as ever; who lives stands on, and leads on."""
    journal, work, client = Journal(), Work(), make_client(server)
    elector = StrategicElector(client, quick(), strategy=Priority(), node_id="a", hooks=[journal])
    store = RedisStore(client, "incumbent")
    dead = Enrolment(
        election="job", node_id="b", ttl=LEASE, metadata=Metadata({"priority": 2}), contending=True
    )
    async with elector.candidate("job", {"priority": 1}, ttl=LEASE):
        task = asyncio.create_task(elector.campaign("job", work))
        await work.began.wait()
        assert isinstance(await store.registry.enrol(dead, BUDGET), Enrolled)
        server.set_clock(0)

        async def alone() -> bool:
            return [each.node_id for each in await elector.candidates("job")] == ["a"]

        await wait_until(alone, within=SOON)
        (mine,) = await elector.candidates("job")
        assert mine.registered_at.timestamp() < time.time() + SOON
        lost = len(journal.of(TermLost))
        for _ in range(3):
            await journal.has_another(TermRenewed)
        assert len(journal.of(TermLost)) == lost
        assert journal.of(CandidateExpired) == []
        await cancel(task)
    await store.aclose()
    await elector.aclose()


async def test_the_best_leads_soon_after_a_leader_that_died_ahead(
    server: ClockServer, make_client: MakeClient
) -> None:
    """Who watches the seat is told of its end, although nobody else comes by."""
    client, work = make_client(server), Work()
    store, dead = RedisStore(client, "incumbent"), claim("job", lease_time=LEASE)
    assert isinstance(await store.acquire(dead, BUDGET), Grant)
    elector = StrategicElector(client, quick(), strategy=Priority(), node_id="a")
    async with elector.candidate("job"):
        task = asyncio.create_task(elector.campaign("job", work))
        async for state in elector.watch("job"):
            assert [each.leader_id for each in state.leaders] == ["leader-a"]
            break
        assert await store.extend(dead, 0, LEASE, BUDGET) not in {"taken", "gone"}
        server.set_clock(0)
        await asyncio.wait_for(work.began.wait(), SOON)
        await cancel(task)
    await store.aclose()
    await elector.aclose()


async def test_who_watches_is_told_that_a_seat_is_free(
    server: ClockServer, make_client: MakeClient
) -> None:
    """Within a lease of the next look, and not after a day."""
    client = make_client(server)
    store, dead = RedisStore(client, "incumbent"), claim("job", lease_time=LEASE)
    assert isinstance(await store.acquire(dead, BUDGET), Grant)
    elector, told = LeaderElector(client, quick()), list[int]()
    async with asyncio.timeout(SOON):
        async for state in elector.watch("job"):
            told.append(len(state.leaders))
            if told == [1]:
                server.set_clock(0)
            elif told == [1, 0]:
                break
    await store.aclose()
    await elector.aclose()


# -- periods ---------------------------------------------------------------------------------


async def test_p10_a_period_that_is_yet_to_come_is_told_and_silences_one(
    server: ClockServer, make_client: MakeClient
) -> None:
    """One process is told; the next period is run as usual."""
    journal = Journal()
    elector = LeaderElector(make_client(server), quick(once_per=2), hooks=[journal])
    assert isinstance(await elector.attempt("job", nothing), Elected)
    server.set_clock(0)
    assert await elector.attempt("job", nothing) == Skipped("already_ran")
    (told,) = journal.of(PeriodAhead)
    assert DAY - SOON < told.ahead <= DAY + 2
    await wait_until_runs(elector)
    assert len(journal.of(PeriodAhead)) == 1
    await elector.aclose()


async def wait_until_runs(elector: LeaderElector) -> None:
    """Ask until the period is one that was not run."""
    ends = time.monotonic() + SOON
    while not isinstance(await elector.attempt("job", nothing), Elected):
        assert time.monotonic() < ends
        await asyncio.sleep(0.2)


async def test_a_schedule_goes_on(server: ClockServer, make_client: MakeClient) -> None:
    """It was running when the clock was ahead, and misses a tick or two."""
    runs: list[float] = []

    async def note() -> None:
        runs.append(time.monotonic())

    elector = LeaderElector(make_client(server), quick())
    task = asyncio.create_task(elector.schedule("job", every=1, action=note))
    await wait_until(lambda: len(runs) >= 2, within=SOON)
    server.set_clock(0)
    before = len(runs)
    await wait_until(lambda: len(runs) >= before + 3, within=SOON)
    await cancel(task)
    await elector.aclose()


async def test_a_schedule_in_memory_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is the clock of this machine that is set back; nothing but time tells it."""
    runs: list[float] = []

    async def note() -> None:
        runs.append(time.monotonic())

    elector, real = LeaderElector(MemoryStore(), quick()), time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + round(DAY * 1e9))
        task = asyncio.create_task(elector.schedule("job", every=1, action=note))
        await wait_until(lambda: len(runs) >= 2, within=SOON)
    before = len(runs)
    await wait_until(lambda: len(runs) >= before + 3, within=SOON)
    await cancel(task)


@pytest.mark.parametrize("turns", [0, 5])
@pytest.mark.parametrize("retry_failed", [False, True])
@pytest.mark.parametrize("kind", ["campaign", "schedule"])
async def test_in_whichever_turn_the_clock_of_this_machine_is_set_back_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, kind: str, turns: int, *, retry_failed: bool
) -> None:
    """As the sleep for the rest of a period begins, and within it."""
    runs, again, journal = list[float](), asyncio.Event(), Journal()

    async def note() -> None:
        runs.append(time.monotonic())
        if len(runs) == 2:
            again.set()

    once_per = OncePer(0.5, retry_failed=retry_failed)
    options, real = quick(restart=True, once_per=once_per), time.time_ns
    elector = LeaderElector(MemoryStore(), options, hooks=[journal])
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + round(DAY * 1e9))
        task: asyncio.Task[None] = asyncio.create_task(
            elector.campaign("job", note)
            if kind == "campaign"
            else elector.schedule("job", every=once_per, action=note)
        )
        await again.wait()
        if kind == "campaign":
            await journal.has_another(AttemptSkipped)
        for _ in range(turns):
            await asyncio.sleep(0)
    before = len(runs)
    await wait_until(lambda: len(runs) >= before + 3, within=SOON)
    await cancel(task)


async def test_a_schedule_does_not_run_what_was_somebody_else_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Set back within the period in which it began, or to the one before: neither is its own."""
    monkeypatch.setattr(recess, "LONGEST_SLEEP", 0.02)
    journal, runs = Journal(), list[int]()

    class Clock(MemoryStore):
        now = 1_000_060_000 + 50_000  # 50 s after a period of a minute has begun

        def wall_clock(self) -> int:
            return self.now

    async def note() -> None:
        runs.append(store.now)

    store = Clock()
    assert store.now % 60_000 != 0
    elector = LeaderElector(store, quick(), hooks=[journal])
    task = asyncio.create_task(elector.schedule("job", every=60, action=note))
    await asyncio.sleep(0.1)
    first = OncePer(60).period(store.now)
    for back in (first.begins + 1_000, first.begins - 30_000):
        store.now = back
        await asyncio.sleep(0.2)
    assert journal.story() == []
    store.now = first.begins + 5_000  # the period that it now knows to be the next one
    await wait_until(lambda: runs, within=SOON)
    await cancel(task)


async def test_a_period_that_is_yet_to_come_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is the clock of this machine that is set back."""
    journal = Journal()
    elector = LeaderElector(MemoryStore(), quick(once_per=2), hooks=[journal])
    real = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + round(DAY * 1e9))
        assert isinstance(await elector.attempt("job", nothing), Elected)
    assert await elector.attempt("job", nothing) == Skipped("already_ran")
    assert DAY - SOON < journal.of(PeriodAhead)[0].ahead <= DAY + 2
    await wait_until_runs(elector)
    assert len(journal.of(PeriodAhead)) == 1


# -- threads and the command line --------------------------------------------------------------


async def test_a_holder_in_a_thread_hears_that_it_is_to_step_down(
    server: ClockServer, make_client: MakeClient
) -> None:
    """The same renewals, seen from a thread."""
    began = threading.Event()

    def work() -> str | None:
        lease = blocking.current_lease()
        assert lease is not None
        began.set()
        assert lease.lost.wait(SOON)
        return lease.loss_reason

    elector = blocking.LeaderElector(redis.Redis.from_url(server.url), quick())
    task = asyncio.create_task(asyncio.to_thread(elector.attempt, "job", work))
    await wait_until(began.is_set, within=SOON)
    server.set_clock(0)
    remote = LeaderElector(make_client(server))
    assert await remote.request_step_down("job") == 1
    told = await asyncio.wait_for(task, SOON)
    assert isinstance(told, LeadershipLost)
    assert told.reason == "stepped_down"
    elector.close()
    await remote.aclose()
