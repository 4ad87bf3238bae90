"""`schedule`: once per tick in the whole fleet, whatever an action or a server does."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, ResponseError

from incumbent import (
    ActionFailed,
    Elected,
    LeaderElector,
    LeaderOptions,
    MemoryStore,
    OncePer,
    Skipped,
    clock,
)
from incumbent.engine import recess
from incumbent.events import ActionRaised, AttemptDelayed, AttemptSkipped
from incumbent.periods import Period
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, cancel, here, nothing, quick, seat_key

TICK = 1.0


class Book:
    """Notes in which period each run began, by the server's clock, however late it is written."""

    def __init__(self) -> None:
        self.runs: list[int] = []
        self._began: list[float] = []

    async def __call__(self) -> None:
        """The action."""
        self.runs.append(number(here().acquired_at.timestamp()))
        self._began.append(clock.now())

    def assert_each_tick_once(self) -> None:
        """None twice, and none left out by a clock that is never set: the server's may be."""
        assert len(set(self.runs)) == len(self.runs)
        ticks = (self._began[-1] - self._began[0]) / TICK
        assert ticks < len(self.runs) - 1 + 0.9, self.runs


def number(instant: float) -> int:
    """The number of the period in which `instant` lies."""
    return int(instant // TICK)


def ticking(elector: LeaderElector, action: Any, every: Any = TICK) -> "asyncio.Task[Any]":
    """The schedule, in a task."""
    return asyncio.create_task(elector.schedule("tick", every=every, action=action))


@pytest.mark.parametrize("kind", ["valkey", "memory"])
async def test_each_tick_is_answered_once_by_the_fleet(
    kind: str, valkey: Server, make_client: MakeClient
) -> None:
    """Four replicas, one run per tick, none left out; the first is that of the next tick."""
    async with AsyncExitStack() as stack:
        memory = MemoryStore()
        electors = [
            await stack.enter_async_context(
                LeaderElector(memory if kind == "memory" else make_client(valkey), quick())
            )
            for _ in range(4)
        ]
        book, first = Book(), number(time.time())
        tasks = [ticking(each, book) for each in electors]
        await wait_until(lambda: len(book.runs) >= 5, within=30)
        for task in tasks:
            await cancel(task)
    assert book.runs[0] > first
    book.assert_each_tick_once()


async def test_it_survives_what_actions_do(valkey: Server, make_client: MakeClient) -> None:
    """An error, a timeout of the action's own, and a cancellation from within are told, no more."""
    journal, runs = Journal(), Counter[str]()

    async def act() -> None:
        kind = ("error", "timeout", "cancelled", "fine")[min(runs.total(), 3)]
        runs[kind] += 1
        if kind == "error":
            raise ValueError("mine")
        if kind == "timeout":
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        if kind == "cancelled":
            inner = asyncio.ensure_future(asyncio.sleep(5))
            inner.cancel()
            await inner

    async with LeaderElector(make_client(valkey), quick(), hooks=[journal]) as elector:
        task = ticking(elector, act)
        await wait_until(lambda: runs["fine"] >= 2, within=30)
        assert not task.done()
        await cancel(task)
    assert [type(each.error) for each in journal.of(ActionRaised)] == [
        ValueError,
        TimeoutError,
        RuntimeError,
    ]


async def test_the_callers_cancellation_ends_it(valkey: Server, make_client: MakeClient) -> None:
    """While it sleeps and while the action runs: never swallowed, the seat given back."""
    began = asyncio.Event()

    async def act() -> None:
        began.set()
        await asyncio.Event().wait()

    async with LeaderElector(make_client(valkey), quick()) as elector:
        task = ticking(elector, act)
        await asyncio.sleep(0)
        await cancel(task)
        assert task.cancelled()
        task = ticking(elector, act)
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert valkey.cli("EXISTS", seat_key("tick")) == 0


async def test_a_long_run_makes_the_ticks_in_between_fall_out(
    valkey: Server, make_client: MakeClient
) -> None:
    """No two runs at once, no backlog: after a run of two periods the present one is answered."""
    running = most = 0
    starts: list[int] = []

    async def act() -> None:
        nonlocal running, most
        starts.append(number(here().acquired_at.timestamp()))
        running += 1
        most = max(most, running)
        await asyncio.sleep(2.2 * TICK)
        running -= 1

    async with (
        LeaderElector(make_client(valkey), quick()) as one,
        LeaderElector(make_client(valkey), quick()) as two,
    ):
        tasks = [ticking(one, act), ticking(two, act)]
        await wait_until(lambda: len(starts) >= 4, within=30)
        for task in tasks:
            await cancel(task)
    assert most == 1
    steps = [later - earlier for earlier, later in pairwise(starts)]
    assert all(2 <= step <= 3 for step in steps), starts


async def test_an_outage_is_survived(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Ticks without a server are told as delayed; afterwards it goes on by itself."""
    proxy = await make_proxy(valkey)
    journal = Journal()
    client = make_client(proxy)
    options = quick(request_timeout=0.8)
    async with LeaderElector(client, options, hooks=[journal]) as elector:
        book = Book()
        task = ticking(elector, book)
        await wait_until(lambda: book.runs, within=30)
        proxy.cut(refuse=True)
        await journal.has(AttemptDelayed, 2)
        before = len(book.runs)
        await proxy.restore()
        await wait_until(lambda: len(book.runs) > before + 1, within=30)
        await cancel(task)
    assert len(set(book.runs)) == len(book.runs)


async def test_what_will_not_pass_ends_it(valkey: Server, make_client: MakeClient) -> None:
    """A key of a wrong type is an error of the program, and comes out."""
    valkey.cli("SET", "incumbent:{tick}:fence", "no number", "PX", 60_000)
    async with LeaderElector(make_client(valkey), quick(), hooks=[]) as elector:
        with pytest.raises((ResponseError, AuthenticationError)):
            await asyncio.wait_for(ticking(elector, nothing), 10)


async def test_a_clock_that_is_ahead_misses_no_tick(
    valkey: Server, make_client: MakeClient
) -> None:
    """The first question is asked too early; then the server's clock is known."""
    async with LeaderElector(make_client(valkey), quick()) as elector:
        store: Any = elector._office.store
        store._ahead += 0.6 * TICK
        book = Book()
        task = ticking(elector, book)
        await wait_until(lambda: len(book.runs) >= 5, within=30)
        await cancel(task)
    book.assert_each_tick_once()


async def test_a_late_answer_does_not_set_the_clock_back(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """That a tick was run is told late: the time in that answer is older than the present."""
    proxy = await make_proxy(valkey)
    options = LeaderOptions(once_per=86_400, request_timeout=60)
    async with (
        LeaderElector(make_client(valkey), options) as first,
        LeaderElector(make_client(proxy), options) as late,
    ):

        def ahead() -> float:
            """Of a clock that nobody sets."""
            return late._office.store.wall_clock() / 1000 - clock.now()

        assert isinstance(await first.attempt("daily", nothing), Elected)
        await late.state("daily")  # it is connected
        before = ahead()
        proxy.delay(3.0)
        assert isinstance(await late.attempt("daily", nothing), Skipped)
        assert ahead() > before - 1


@pytest.mark.parametrize("hold", [0.0, 1.5 * TICK])
async def test_case_84_no_minimum_hold_stands_in_the_way(
    valkey: Server, make_client: MakeClient, hold: float
) -> None:
    """A minimum hold is a matter of the election: the default of none lets every tick run."""
    runs = list[datetime]()

    async def act() -> None:
        runs.append(here().acquired_at)

    async with LeaderElector(make_client(valkey), quick(min_hold_time=hold)) as elector:
        task = ticking(elector, act)
        await wait_until(lambda: len(runs) >= 4, within=60)
        await cancel(task)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(runs)]
    assert all(gap >= hold - 0.01 for gap in gaps)
    assert hold or min(gaps) < 1.5 * TICK


@pytest.mark.parametrize(
    ("every", "action", "error"),
    [
        (0, nothing, ValueError),
        ("nonsense", nothing, ValueError),
        ([], nothing, TypeError),
        (60, "no function", TypeError),
        (OncePer(60, tolerance=1), nothing, ValueError),
    ],
)
async def test_bad_input_is_refused_before_any_io(every: Any, action: Any, error: type) -> None:
    """Nothing is awaited for a wrong period, action or name."""
    elector = LeaderElector(MemoryStore(), hooks=[])
    with pytest.raises(error):
        await elector.schedule("tick", every=every, action=action)
    with pytest.raises(ValueError, match="blank"):
        await elector.schedule(" ", every=60, action=nothing)


async def test_a_run_that_fails_late_is_retried_within_its_tick(
    valkey: Server, make_client: MakeClient
) -> None:
    """With `retry_failed`, a process that was told that the tick was run hears of a failure."""
    every, journal, runs = OncePer(4.0, retry_failed=True), Journal(), list[int]()

    async def fail() -> None:
        await journal.has(AttemptSkipped)  # the other one has come too late to stand in line
        raise ValueError("no")

    async def work() -> None:
        runs.append(every.period(round(here().acquired_at.timestamp() * 1000)).begins)

    async with (
        asyncio.timeout(90),
        LeaderElector(make_client(valkey), quick(once_per=every), hooks=[]) as bad,
        LeaderElector(make_client(valkey), quick(), hooks=[journal]) as good,
    ):
        task, failed = ticking(good, work, every), 0
        while failed not in runs:
            now = round(time.time() * 1000)
            await asyncio.sleep((every.period(now).ends - now) / 1000)
            journal.events.clear()
            outcome = await bad.attempt("tick", fail)
            if isinstance(outcome, ActionFailed):  # else the other one was first
                failed = every.period(round(time.time() * 1000)).begins
                await asyncio.sleep(0.5)
        await cancel(task)


async def test_the_loop_turns_between_two_runs_whatever_the_action_does() -> None:
    """An action that never awaits, and takes longer than a period, leaves a turn to the others."""
    beats, seen = 0, list[int]()

    class EnoughError(BaseException):
        pass

    class Late(MemoryStore):
        """The next tick is always over by more than it is answered late."""

        now = round(time.time() * 1000)

        def wall_clock(self) -> int:
            return self.now

    store = Late()

    async def act() -> None:
        seen.append(beats)
        if len(seen) == 5:
            raise EnoughError
        store.now += 150

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    task = ticking(LeaderElector(store, hooks=[]), act, 0.1)
    await asyncio.sleep(0)
    store.now += 150  # the first tick has come
    heart = asyncio.create_task(beat())
    with pytest.raises(EnoughError):
        await asyncio.wait_for(task, 30)
    await cancel(heart)
    assert all(before < after for before, after in pairwise(seen)), seen


async def test_a_period_that_is_over_does_not_stop_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if a zone's clock does something unexpected, other tasks get their turns."""
    monkeypatch.setattr(OncePer, "period", lambda self, now: Period(0, now - 60_000))
    task = ticking(LeaderElector(MemoryStore(), hooks=[]), nothing)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not task.done()
    await cancel(task)


async def test_a_schedule_goes_on_in_the_hour_that_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 02:05 for the second time, the job of 02:30 is due tomorrow, and the loop turns."""
    monkeypatch.setattr(recess, "LONGEST_SLEEP", 0.5)
    start = datetime(2026, 10, 25, 1, 5, tzinfo=UTC).timestamp()
    began = time.monotonic()
    monkeypatch.setattr(
        MemoryStore,
        "wall_clock",
        lambda self: round(1000 * (start + time.monotonic() - began)),
    )
    elector = LeaderElector(MemoryStore(), hooks=[])
    nightly = OncePer("30 2 * * *", tz="Europe/Berlin")
    runs = Counter[str]()

    async def act() -> None:
        runs["run"] += 1

    task = ticking(elector, act, nightly)
    for _ in range(100):
        await asyncio.sleep(0)
    start += 24.5 * 3600  # 02:35 of the next day; the schedule looks at the clock now and then
    await wait_until(lambda: runs["run"] == 1, within=60)
    await cancel(task)
    assert await elector.using(once_per=nightly).attempt("tick", nothing) == Skipped("already_ran")


async def test_a_failed_run_is_retried_within_its_tick(
    valkey: Server, make_client: MakeClient
) -> None:
    """With `retry_failed`, a replica whose own tick is open still takes it over."""
    runs = Counter[str]()

    async def fail() -> None:
        runs["failed"] += 1
        await asyncio.sleep(0.05)  # so that the other one stands in line
        raise ValueError("no")

    async def work() -> None:
        runs["fine"] += 1

    every = OncePer(TICK, retry_failed=True)
    async with (
        LeaderElector(make_client(valkey), quick(), hooks=[]) as bad,
        LeaderElector(make_client(valkey), quick(), hooks=[]) as good,
    ):
        tasks = [ticking(bad, fail, every), ticking(good, work, every)]
        await wait_until(lambda: runs["failed"] >= 2 and runs["fine"] >= 4, within=30)
        for task in tasks:
            await cancel(task)
