"""`campaign` with `once_per`: it sleeps for the rest of a period that has been run."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from incumbent import (
    ActionFailed,
    Elected,
    ElectorClosedError,
    GroupElector,
    LeaderElector,
    MemoryStore,
    OncePer,
    Skipped,
    StrategicElector,
)
from incumbent.blocking import LeaderElector as BlockingElector
from incumbent.engine.recess import Recess
from incumbent.engine.waits import Waits
from incumbent.events import AttemptSkipped
from incumbent.stores.base import Ran
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, Work, cancel, here, nothing, quick

YEAR = timedelta(days=366)
"""A period that does not end while a test runs: the next one begins in 2027."""

PATIENCE = 1.5
"""Seconds in which a campaign that polls would have asked a dozen times."""

Make = Callable[..., Any]


@pytest.fixture(params=["valkey", "memory"])
async def make(
    request: pytest.FixtureRequest, valkey: Server, make_client: MakeClient
) -> AsyncIterator[Make]:
    """Makes electors, each as if it were in a process of its own."""
    async with AsyncExitStack() as stack:
        memory = MemoryStore()

        def made(kind: Any = LeaderElector, /, *, hook: Journal | None = None, **more: Any) -> Any:
            its = {name: more.pop(name) for name in ("seats", "strategy") if name in more}
            store: Any = memory if request.param == "memory" else make_client(valkey)
            elector = kind(store, quick(**more), hooks=[] if hook is None else [hook], **its)
            stack.push_async_callback(elector.aclose)
            return elector

        yield made


@pytest.fixture
def requests(valkey: Server) -> Callable[[], int]:
    """How many scripts the server has run so far."""

    def count() -> int:
        told: Any = valkey.cli("INFO", "commandstats")
        return sum(
            told[name]["calls"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in told
        )

    return count


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("kind", ["leader", "group", "strategic"])
async def test_p8_it_asks_no_more_when_the_period_has_been_run(
    make: Make, requests: Callable[[], int], kind: str, restart: bool
) -> None:
    """By itself or by another: one question, one answer, and then nothing until the next one."""
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "leader": (LeaderElector, {}),
        "group": (GroupElector, {"seats": 3}),
        "strategic": (StrategicElector, {"strategy": Fifo()}),
    }
    journal, (its, more) = Journal(), kinds[kind]
    elector = make(its, hook=journal, once_per=YEAR, restart=restart, **more)
    async with AsyncExitStack() as stack:
        if kind == "strategic":
            await stack.enter_async_context(elector.candidate("report", ttl=600))
        if not restart:
            assert isinstance(await elector.attempt("report", nothing), Elected)
        task = asyncio.create_task(elector.campaign("report", nothing))
        await journal.has(AttemptSkipped)
        before = requests()
        await asyncio.wait([task], timeout=PATIENCE)
        asked = requests() - before
        await cancel(task)
    assert [each.reason for each in journal.of(AttemptSkipped)] == ["already_ran"]
    assert asked == 0


async def test_p8_a_campaign_of_a_thread_asks_no_more_either(valkey: Server) -> None:
    """`incumbent.blocking` sleeps in the same way."""
    journal = Journal()
    options = quick(once_per=YEAR, restart=True)
    with BlockingElector(valkey.url, options, hooks=[journal]) as elector:

        def stand() -> None:
            with pytest.raises(BaseException):  # noqa: B017, PT011 - however it is ended
                elector.campaign("report", print)

        thread = threading.Thread(target=stand, daemon=True)
        thread.start()
        await journal.has(AttemptSkipped)
        await asyncio.to_thread(time.sleep, PATIENCE)
        assert len(journal.of(AttemptSkipped)) == 1


async def test_each_period_is_run_by_one_of_the_fleet(make: Make) -> None:
    """With `restart`, a quick action is run in one period after the other, with no back-off."""
    journal, runs = Journal(), list[int]()
    every, began = 0.5, time.monotonic()

    async def act() -> None:
        runs.append(int(here().acquired_at.timestamp() // every))

    fleet = [make(hook=journal, once_per=every, restart=True) for _ in range(3)]
    tasks = [asyncio.create_task(each.campaign("tick", act)) for each in fleet]
    await wait_until(lambda: len(runs) >= 10, within=60)
    periods = (time.monotonic() - began) / every  # not those of the runs: a clock may be set
    for task in tasks:
        await cancel(task)
    assert len(set(runs)) == len(runs)
    # Doubling pauses up to half a minute would leave most of them out.
    assert periods < 4 * len(runs)
    assert len(journal.of(AttemptSkipped)) <= 2 * len(fleet) * (periods + 2)


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_p8_it_sleeps_when_a_period_was_run_before_it_began(
    make: Make, retry_failed: bool
) -> None:
    """Another one was early, within the tolerance: that is no clock that was set back."""
    begins = round(1000 * (time.time() + 40))
    length = begins // (begins // (200 * 86_400_000)) / 1000
    early = OncePer(length, tolerance=60, retry_failed=retry_failed)
    assert early.window(round(1000 * time.time())).opens < 1000 * time.time()
    journal = Journal()
    assert isinstance(await make(once_per=early).attempt("report", nothing), Elected)
    elector = make(hook=journal, once_per=early, restart=True)
    task = asyncio.create_task(elector.campaign("report", nothing))
    await journal.has(AttemptSkipped)
    await asyncio.wait([task], timeout=PATIENCE)
    await cancel(task)
    # With `retry_failed` it looks once more: a term that fails would open the period again.
    assert len(journal.of(AttemptSkipped)) <= 1 + retry_failed


async def test_a_recess_ends_the_back_off() -> None:
    """An action that ends at once in each period is not run too soon: no pause grows by it."""
    runs, every = list[float](), 0.3
    elector = LeaderElector(MemoryStore(), quick(once_per=every, restart=True), hooks=[])

    async def act() -> None:
        runs.append(time.monotonic())  # the clock that counts the periods may be set

    task = asyncio.create_task(elector.campaign("tick", act))
    await wait_until(lambda: len(runs) >= 10, within=60)
    await cancel(task)
    # Nine pauses that double would leave out at least eighty.
    assert (runs[9] - runs[0]) / every < 3 * 10


@pytest.mark.parametrize("ahead", [-0.7, 0.7])
async def test_the_next_period_is_that_of_the_server(
    valkey: Server, make_client: MakeClient, ahead: float
) -> None:
    """A process whose clock is wrong by most of a period misses none by that."""
    every, runs = 1.0, list[int]()

    async def act() -> None:
        runs.append(int(here().acquired_at.timestamp() // every))

    options = quick(once_per=every, restart=True)
    async with LeaderElector(make_client(valkey), options, hooks=[]) as elector:
        store: Any = elector._office.store
        store._ahead += ahead * every
        task = asyncio.create_task(elector.campaign("tick", act))
        await wait_until(lambda: len(runs) >= 4, within=60)
        await cancel(task)
    assert len(set(runs)) == len(runs)


async def test_a_period_that_ends_with_the_answer_is_not_slept_through() -> None:
    """The end of the period that was asked about counts, not that of the one which came since."""

    class Slow(MemoryStore):
        ahead = 0

        def wall_clock(self) -> int:
            return super().wall_clock() + self.ahead

        async def acquire(self, *args: Any, **kwargs: Any) -> Any:
            answer = await super().acquire(*args, **kwargs)
            if isinstance(answer, Ran):  # when this is read, the next period has begun
                self.ahead += answer.ends - self.wall_clock()
            return answer

    elector = LeaderElector(Slow(), quick(once_per=YEAR), hooks=[])
    assert isinstance(await elector.attempt("report", nothing), Elected)
    assert await asyncio.wait_for(elector.campaign("report", nothing), 30) == "done"


async def test_a_failed_run_is_taken_over_by_who_sleeps(make: Make) -> None:
    """With `retry_failed`, processes that were told that it was run hear when it has failed."""
    journal, work = Journal(), Work()
    once = OncePer(YEAR, retry_failed=True)
    fail = asyncio.Event()

    async def fails() -> None:
        await fail.wait()
        raise ValueError("mine")

    bad, good = make(once_per=once), make(hook=journal, once_per=once)
    failing = asyncio.create_task(bad.attempt("report", fails))
    await wait_until(lambda: bool(bad.leases))
    campaigning = asyncio.create_task(good.campaign("report", work))
    await journal.has(AttemptSkipped)
    await asyncio.wait([campaigning], timeout=PATIENCE)
    assert len(journal.of(AttemptSkipped)) <= 2
    assert work.runs == 0
    fail.set()
    assert isinstance(await failing, ActionFailed)
    await asyncio.wait_for(work.began.wait(), 30)
    work.finish.set()
    assert await campaigning == "done"


async def test_p8_a_period_that_was_run_well_is_asked_about_once_more(make: Make) -> None:
    """With `retry_failed` too: when the run has ended, and then no more."""
    journal = Journal()
    once = OncePer(YEAR, retry_failed=True)
    elector = make(hook=journal, once_per=once, restart=True)
    task = asyncio.create_task(elector.campaign("report", nothing))
    await journal.has(AttemptSkipped)
    await asyncio.wait([task], timeout=PATIENCE)
    await cancel(task)
    assert 1 <= len(journal.of(AttemptSkipped)) <= 3


async def test_p4_a_recess_ends_with_its_campaign(make: Make, valkey: Server) -> None:
    """Cancelled while it sleeps: at once, and what it watched by is given back."""
    for once in (OncePer(YEAR), OncePer(YEAR, retry_failed=True)):
        journal = Journal()
        elector = make(hook=journal, once_per=once)
        await elector.attempt("report", nothing)
        task = asyncio.create_task(elector.campaign("report", nothing))
        await journal.has(AttemptSkipped)
        await asyncio.sleep(0.05)  # it watches, if it does
        await cancel(task)
        await wait_until(lambda: not valkey.cli("PUBSUB", "CHANNELS", "*{report}*"))
        assert await elector.attempt("report", nothing) == Skipped("already_ran")


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_closing_ends_a_campaign_in_its_recess(make: Make, retry_failed: bool) -> None:
    """At once and in words, whether it only sleeps or watches as well; its maker goes on."""
    journal = Journal()
    maker = make(hook=journal, once_per=OncePer(YEAR, retry_failed=retry_failed))
    assert isinstance(await maker.attempt("report", nothing), Elected)
    elector = maker.using(restart=True)
    task = asyncio.create_task(elector.campaign("report", nothing))
    await journal.has(AttemptSkipped)
    await asyncio.sleep(0.05)  # it looks, if it does, and sleeps
    await elector.aclose()
    assert task.done(), "closing waits until it has ended"
    with pytest.raises(ElectorClosedError, match="this elector is closed"):
        await task
    assert await maker.attempt("report", nothing) == Skipped("already_ran")


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_closing_ends_a_schedule_in_its_recess(make: Make, retry_failed: bool) -> None:
    """Its tick was run by another, and the next one is far away."""
    every, journal = OncePer(YEAR, retry_failed=retry_failed), Journal()
    maker = make(hook=journal, once_per=every)
    assert isinstance(await maker.attempt("report", nothing), Elected)
    elector = maker.using(wait_time=0)
    # The tick that was answered last is another one, so that the present one is asked for.
    store: Any = elector._office.store
    now = store.wall_clock
    store.wall_clock = lambda: now() - 2 * int(YEAR.total_seconds()) * 1000
    task = asyncio.create_task(elector.schedule("report", every=every, action=nothing))
    await asyncio.sleep(0)
    store.wall_clock = now
    await journal.has(AttemptSkipped)
    await asyncio.sleep(0.05)
    await elector.aclose()
    with pytest.raises(ElectorClosedError, match="this elector is closed"):
        await asyncio.wait_for(task, 10)


async def test_closing_ends_the_recess_of_a_thread(valkey: Server) -> None:
    """By `incumbent.blocking`: the call raises in its own thread."""
    journal, raised = Journal(), list[BaseException]()
    options = quick(once_per=YEAR, restart=True)
    elector = BlockingElector(valkey.url, options, hooks=[journal])

    def stand() -> None:
        try:
            elector.campaign("report", print)
        except ElectorClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=stand, daemon=True)
    thread.start()
    await journal.has(AttemptSkipped)
    await asyncio.sleep(0.05)
    await asyncio.to_thread(elector.close)
    await asyncio.to_thread(thread.join, 10)
    assert [str(error) for error in raised] == ["this elector is closed"]


@pytest.mark.parametrize("retry_failed", [False, True])
@pytest.mark.parametrize("turns", range(4))
async def test_a_clock_that_is_set_back_ends_a_recess_whenever_it_happens(
    monkeypatch: pytest.MonkeyPatch, turns: int, *, retry_failed: bool
) -> None:
    """Also in the turn of the loop in which the recess begins: nobody sleeps for a day then."""
    day, real = 86_400 * 10**9, time.time_ns
    monkeypatch.setattr("incumbent.engine.recess.LONGEST_SLEEP", 0.3)
    options = quick(once_per=OncePer(60, retry_failed=retry_failed))
    store = MemoryStore()
    elector = LeaderElector(store, quick())
    async with elector.lead("job"):  # nobody's term ends meanwhile
        with monkeypatch.context() as ahead, Recess(store, Waits(), "job", 1, options) as recess:
            ahead.setattr(time, "time_ns", lambda: real() + day)
            recessing = asyncio.create_task(recess.over(store.wall_clock() + 500))
            for _ in range(turns + 1):
                await asyncio.sleep(0)
            ahead.undo()
            await asyncio.wait_for(recessing, timeout=30)
