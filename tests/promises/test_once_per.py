"""`once_per`: at most one run per period in the whole fleet, by the server's clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from redis.exceptions import RedisError

from incumbent import (
    ActionFailed,
    Elected,
    GroupElector,
    LeaderElector,
    LeadershipLost,
    MemoryStore,
    OncePer,
    Skipped,
)
from incumbent.events import AttemptSkipped
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import Journal, Work, forever, in_line, nothing, quick, seat_key

YEAR = timedelta(days=366)
"""A period that does not end while a test runs: the next one begins in 2027."""

RAN = Skipped("already_ran")

Replica = Callable[..., LeaderElector]


@pytest.fixture(params=["valkey", "memory"])
async def replica(
    request: pytest.FixtureRequest, valkey: Server, make_client: MakeClient
) -> AsyncIterator[Replica]:
    """Makes electors of processes of their own, as far as one process can: each has its client."""
    async with AsyncExitStack() as stack:
        memory = MemoryStore()

        def make(journal: Journal | None = None, **options: Any) -> LeaderElector:
            store: Any = memory
            if request.param == "valkey":
                store = make_client(valkey)
            hooks = [] if journal is None else [journal]
            elector = LeaderElector(store, quick(once_per=YEAR, **options), hooks=hooks)
            stack.push_async_callback(elector.aclose)
            return elector

        yield make


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets this process's wall clock ahead; the server's goes on as it does."""
    real = time.time

    def ahead(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return ahead


async def test_once_per_period_over_all_replicas(replica: Replica) -> None:
    """Ten replicas ask one after another: one runs, nine are told that it has been."""
    outcomes = [await replica().attempt("report", nothing) for _ in range(10)]
    assert isinstance(outcomes[0], Elected)
    assert outcomes[1:] == [RAN] * 9


async def test_case_83_contenders_at_one_moment_and_a_very_short_job(replica: Replica) -> None:
    """Five wake at the same time and each would be done in no time: it is run once."""
    electors = [replica() for _ in range(5)]
    outcomes = await asyncio.gather(*(each.attempt("report", nothing) for each in electors))
    assert sum(isinstance(outcome, Elected) for outcome in outcomes) == 1
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, Skipped)} <= {
        "already_ran",
        "held",
    }
    assert await electors[0].attempt("report", nothing) == RAN


async def test_hooks_are_told_why(replica: Replica) -> None:
    """The event of a skipped attempt has the reason."""
    journal = Journal()
    await replica().attempt("report", nothing)
    await replica(journal).attempt("report", nothing)
    (skipped,) = journal.of(AttemptSkipped)
    assert (skipped.reason, skipped.holder) == ("already_ran", None)
    assert await replica().run_if_leader("report", nothing) is None


async def test_who_stands_in_line_leaves_it_when_it_has_run(replica: Replica) -> None:
    """Rule 8: waiters of a period that is over for them go at once, and pass the wake-up on."""
    holder = replica()
    async with holder.using(once_per=None).lead("report"):
        waiters = [
            asyncio.create_task(replica(wait_time=30).attempt("report", nothing)) for _ in range(4)
        ]

        async def all_stand() -> bool:
            return (await holder.state("report")).waiting == 4

        await wait_until(all_stand)
    outcomes = await asyncio.wait_for(asyncio.gather(*waiters), 5)
    assert sum(isinstance(outcome, Elected) for outcome in outcomes) == 1
    assert outcomes.count(RAN) == 3
    assert (await holder.state("report")).waiting == 0


async def test_the_seats_of_a_group_share_the_period(
    valkey: Server, make_client: MakeClient
) -> None:
    """Three free seats, and yet one run."""
    options = quick(once_per=YEAR)
    async with GroupElector(make_client(valkey), options, seats=3) as group:
        work = Work()
        running = asyncio.create_task(group.attempt("report", work))
        await work.began.wait()
        assert await group.attempt("report", nothing) == RAN
        work.finish.set()
        assert isinstance(await running, Elected)
        assert await group.attempt("report", nothing) == RAN


async def test_a_failed_run_counts_unless_it_is_to_be_retried(replica: Replica) -> None:
    """By default a run counts from its start; with `retry_failed` the next candidate tries."""

    async def fail() -> None:
        raise ValueError("no")

    assert isinstance(await replica().attempt("one", fail), ActionFailed)
    assert await replica().attempt("one", nothing) == RAN
    again = OncePer(YEAR, retry_failed=True)
    assert isinstance(await replica().using(once_per=again).attempt("two", fail), ActionFailed)
    assert isinstance(await replica().using(once_per=again).attempt("two", nothing), Elected)
    assert await replica().using(once_per=again).attempt("two", nothing) == RAN


async def test_a_cancelled_run_may_be_retried_too(replica: Replica) -> None:
    """A replica that is shut down in the middle leaves the period to the others."""
    again = OncePer(YEAR, retry_failed=True)
    work = Work()
    running = asyncio.create_task(replica().using(once_per=again).attempt("report", work))
    await work.began.wait()
    running.cancel()
    await asyncio.wait([running])
    assert isinstance(await replica().using(once_per=again).attempt("report", nothing), Elected)


async def test_electors_without_a_period_are_not_bound_by_it(replica: Replica) -> None:
    """The period is a matter of who asks; and who does not ask for it does not use it up."""
    elector = replica()
    for _ in range(2):
        assert isinstance(await elector.using(once_per=None).attempt("report", nothing), Elected)
    assert isinstance(await elector.attempt("report", nothing), Elected)
    assert isinstance(await elector.using(once_per=None).attempt("report", nothing), Elected)
    assert await elector.attempt("report", nothing) == RAN


async def test_the_next_period_is_open_again(replica: Replica) -> None:
    """Short periods: runs again and again, never twice in one."""
    elector = replica().using(once_per=0.3)
    runs: list[int] = []

    async def run() -> None:
        runs.append(elector._office.store.wall_clock() // 300)

    async with asyncio.timeout(60):
        while len(runs) < 4:
            await elector.attempt("report", run)
            await asyncio.sleep(0.01)
    # The clock of the run is a little later than that of the grant.
    assert len(runs) <= runs[-1] - runs[0] + 2


@pytest.mark.parametrize("ahead", [7200.0, -7200.0, 400 * 86_400.0])
async def test_the_servers_clock_decides(
    valkey: Server, make_client: MakeClient, frozen: Callable[[float], None], ahead: float
) -> None:
    """A replica whose clock is hours off takes part in the same periods as the others."""
    hour = quick(once_per="0 * * * *")
    frozen(ahead)
    wrong = LeaderElector(make_client(valkey), hour)
    frozen(0)
    right = LeaderElector(make_client(valkey), hour)
    async with wrong, right:
        assert isinstance(await wrong.attempt("one", nothing), Elected)
        assert await right.attempt("one", nothing) == RAN
        frozen(ahead)
        assert isinstance(await right.attempt("two", nothing), Elected)
        assert await wrong.attempt("two", nothing) == RAN


async def test_p4_an_abandoned_claim_uses_no_period_up(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Granted, the reply lost, given up: the period is as it was before."""
    proxy = await make_proxy(valkey)
    options = quick(once_per=YEAR, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options) as elector:
        await elector.attempt("warm", nothing)
        proxy.drop_replies(100, "EVALSHA")
        with pytest.raises(RedisError):
            await elector.attempt("report", nothing)
        proxy.drop_replies(0, "EVALSHA")
    await proxy.restore()
    async with LeaderElector(make_client(valkey), quick(once_per=YEAR)) as other:

        async def open_again() -> bool:
            return isinstance(await other.attempt("report", nothing), Elected)

        await wait_until(open_again)


async def test_p5_a_lost_reply_is_not_taken_for_a_run_of_others(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The period was used up by this very request: sent again, it is elected."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), quick(once_per=YEAR, lease_time=10)) as elector:
        await elector.attempt("warm", nothing)
        proxy.drop_replies(1, "EVALSHA")
        assert isinstance(await elector.attempt("report", nothing), Elected)
        assert await elector.attempt("report", nothing) == RAN


async def test_a_lost_run_counts(valkey: Server, make_client: MakeClient) -> None:
    """Whoever lost the seat cannot give the period back: it may have done its work."""
    again = OncePer(YEAR, retry_failed=True)
    async with LeaderElector(make_client(valkey), quick(once_per=again)) as elector:
        running = asyncio.create_task(elector.attempt("report", forever))
        await wait_until(lambda: valkey.cli("EXISTS", seat_key("report")) == 1)
        valkey.cli("DEL", seat_key("report"))
        assert isinstance(await running, LeadershipLost)
        assert await elector.attempt("report", nothing) == RAN
        assert not in_line(valkey, "report")
