"""P9: no call outlives its own budget because a server, a network or the client's retry hangs.

With `wait_time=w` the election part of a call ends within w and two `request_timeout`s; `state`,
`extend` and `release` within two.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    MemoryStore,
    NotElectedError,
    StrategicElector,
    blocking,
    clock,
)
from incumbent.events import ReleaseFailed, TermEnded, TermLost, TermStarted
from incumbent.stores.base import Budget, Busy, Claim
from incumbent.stores.redis import line
from incumbent.stores.redis.wire import HASTY
from incumbent.strategy import Fifo
from kit.clients import borrow
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    SLACK,
    Journal,
    Work,
    at_most,
    cancel,
    forever,
    in_line,
    is_held,
    nothing,
    quick,
    seat_key,
    steal,
    ttl_of,
)

T = 0.8
"""The `request_timeout` of these tests."""

CLIENTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-retry": {"retry": Retry(NoBackoff(), 0)},
    "stubborn": {"retry": Retry(ExponentialBackoff(cap=10, base=1), 100), "socket_timeout": 60},
    "hasty": {"socket_timeout": 0.05, "socket_connect_timeout": 0.05},
}


@pytest.fixture(params=list(CLIENTS))
def client_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Clients with patience of their own, which is not ours."""
    return CLIENTS[request.param]


@pytest.fixture
async def proxy(valkey: Server, make_proxy: MakeProxy) -> Proxy:
    """The way to the server, which a test may cut or silence."""
    return await make_proxy(valkey)


@pytest.mark.parametrize("wait_time", [0, 0.4])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "new"])
async def test_p9_an_election_at_a_frozen_server_ends_in_time(
    own_server: Server,
    make_client: MakeClient,
    client_options: dict[str, Any],
    wait_time: float,
    connected: bool,
) -> None:
    """redis-py's error within w and two request timeouts, whatever the client's own patience is."""
    options = quick(request_timeout=T, wait_time=wait_time, lease_time=0.4)
    work = Work()
    async with LeaderElector(make_client(own_server, **client_options), options) as elector:
        if connected:
            await elector.run_if_leader("one", nothing)
        own_server.pause()
        with at_most(wait_time + 2 * T), pytest.raises((RedisTimeoutError, RedisConnectionError)):
            await elector.run_if_leader("one", work)
        own_server.resume()
        outcome = await elector.using(wait_time=5, request_timeout=2).attempt("one", nothing)
        assert isinstance(outcome, Elected)
    assert work.runs == 0


async def test_p9_each_entry_point_ends_in_time(proxy: Proxy, make_client: MakeClient) -> None:
    """By each method that asks the server: redis-py's error, in two timeouts."""
    options = quick(request_timeout=T)
    async with LeaderElector(make_client(proxy), options) as elector:

        async def lead() -> None:
            async with elector.lead("one"):
                pass

        async def try_lead() -> None:
            async with elector.try_lead("one"):
                pass

        calls: list[Callable[[], Any]] = [
            lambda: elector.run_if_leader("one", nothing),
            lambda: elector.attempt("one", nothing),
            lead,
            try_lead,
            lambda: elector.state("one"),
        ]
        await elector.state("one")
        proxy.silence()
        for call in calls:
            with at_most(2 * T), pytest.raises(RedisTimeoutError):
                await call()
        await proxy.restore()


async def test_p9_a_request_with_a_long_budget_ends_in_time(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """A budget above that of hasty requests goes another way through the wire, and ends as well."""
    patience = HASTY + 0.2
    client = make_client(proxy, **CLIENTS["stubborn"])
    async with LeaderElector(client, quick(request_timeout=patience)) as elector:
        await elector.state("one")
        proxy.silence()
        with at_most(2 * patience), pytest.raises(RedisTimeoutError):
            await elector.state("one")
        await proxy.restore()


async def test_p9_a_holder_s_requests_end_in_time(
    proxy: Proxy, make_client: MakeClient, client_options: dict[str, Any]
) -> None:
    """`extend` raises and `release` gives up within two request timeouts each."""
    journal = Journal()
    options = quick(request_timeout=T, lease_time=8)
    client = make_client(proxy, **client_options)
    async with LeaderElector(client, options, hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            proxy.silence()
            with at_most(2 * T), pytest.raises(RedisError):
                await lease.extend(9)
            assert is_held(lease), "no answer is no loss"
            with at_most(2 * T):
                await lease.release()
            assert not is_held(lease)
        (ended,) = journal.of(TermEnded)
        assert ended.ending == "unknown"
        (failed,) = journal.of(ReleaseFailed)
        assert isinstance(failed.error, RedisError)
        await proxy.restore()


async def test_p9_the_end_of_an_action_waits_for_no_frozen_server(
    own_server: Server, make_client: MakeClient, client_options: dict[str, Any]
) -> None:
    """The server freezes while the action runs: its value comes out within two request timeouts."""
    options = quick(request_timeout=T, lease_time=8)

    async def work() -> str:
        own_server.pause()
        return "value"

    client = make_client(own_server, **client_options)
    async with LeaderElector(client, options) as elector:
        with at_most(2 * T):
            assert await elector.run_if_leader("one", work) == "value"
        own_server.resume()


async def test_p9_a_cancelled_call_at_a_frozen_server_ends_in_time(
    own_server: Server, make_client: MakeClient
) -> None:
    """The cancellation comes out when the bounded clean-up has been tried, not after a minute."""
    options = quick(request_timeout=T, wait_time=None)
    async with LeaderElector(make_client(own_server), options) as elector:
        await elector.run_if_leader("one", nothing)
        own_server.pause()
        task = asyncio.create_task(elector.run_if_leader("one", forever))
        await asyncio.wait([task], timeout=0.05)
        with at_most(2 * T):
            await cancel(task)
        own_server.resume()


async def test_p9_a_loss_at_a_frozen_server_ends_in_time(
    own_server: Server, make_client: MakeClient
) -> None:
    """The renewals hang: the action is stopped when its lease ends, and the call soon after."""
    options = quick(request_timeout=T, lease_time=4, stop_grace=1.2)
    work = Work()
    async with LeaderElector(make_client(own_server), options) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        own_server.pause()
        with at_most(4 + 2 * T):
            assert await leading == LeadershipLost("unreachable")
        own_server.resume()


async def test_p9_closing_waits_for_nobody(own_server: Server, make_client: MakeClient) -> None:
    """`aclose` with a frozen server, and with a request under way, ends at once."""
    elector = LeaderElector(make_client(own_server), quick(request_timeout=T))
    await elector.run_if_leader("one", nothing)
    own_server.pause()
    asking = asyncio.create_task(elector.state("one"))
    await asyncio.sleep(0)
    with at_most(T):
        await elector.aclose()
        await elector.aclose()
    with pytest.raises(RedisError):
        await asking
    own_server.resume()


@pytest.mark.parametrize("wait_time", [0, 0.4])
async def test_p9_a_dead_port_is_told_in_time(
    own_server: Server,
    make_client: MakeClient,
    journal: Journal,
    client_options: dict[str, Any],
    wait_time: float,
) -> None:
    """Nobody listens: redis-py's own error within the budget; the action never ran."""
    client = make_client(own_server, **client_options)
    own_server.kill()
    options = quick(request_timeout=T, wait_time=wait_time)
    async with LeaderElector(client, options, hooks=[journal]) as elector:
        with at_most(wait_time + 2 * T), pytest.raises((RedisConnectionError, RedisTimeoutError)):
            await elector.run_if_leader("one", forever)
        with at_most(2 * T), pytest.raises((RedisConnectionError, RedisTimeoutError)):
            await elector.state("one")
    assert journal.of(TermStarted) == []


async def test_p9_a_dead_port_is_called_by_its_name(
    own_server: Server, make_client: MakeClient
) -> None:
    """What comes out says that the connection was refused, not only that time was up."""
    client = make_client(own_server)
    own_server.kill()
    async with LeaderElector(client, quick(request_timeout=T)) as elector:
        with pytest.raises(RedisConnectionError, match="onnect"):
            await elector.run_if_leader("one", forever)


async def test_p9_an_exhausted_pool_is_told_in_time(
    valkey: Server, make_client: MakeClient
) -> None:
    """The caller's own commands have all connections: the pool's error, in time; then it works."""
    client = make_client(valkey, max_connections=1)
    async with LeaderElector(client, quick(request_timeout=T)) as elector:
        taken = await borrow(client.connection_pool)
        with at_most(2 * T), pytest.raises(RedisConnectionError, match=r"(?i)connections"):
            await elector.run_if_leader("one", forever)
        await client.connection_pool.release(taken)
        assert await elector.run_if_leader("one", nothing) == "done"


async def test_p9_a_blocking_pool_does_not_block_for_longer(valkey: Server) -> None:
    """A pool that lets callers wait for 20 s: we wait for our own budget only."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(valkey.url, max_connections=1, timeout=20)
    client = redis.asyncio.Redis.from_pool(pool)
    async with LeaderElector(client, quick(request_timeout=T)) as elector:
        taken = await borrow(pool)
        with at_most(2 * T), pytest.raises(RedisTimeoutError):
            await elector.run_if_leader("one", forever)
        await pool.release(taken)
        assert await elector.run_if_leader("one", nothing) == "done"
    await client.aclose()


@pytest.mark.parametrize("wait_time", [0.0, 0.3, 0.5])
async def test_p9_waiting_for_a_busy_seat_ends_in_time(
    elector: LeaderElector, valkey: Server, make_client: MakeClient, wait_time: float
) -> None:
    """Somebody leads: the wait is as long as asked for, not shorter and not longer."""
    async with (
        elector.lead("one"),
        LeaderElector(make_client(valkey), quick(wait_time=wait_time)) as other,
    ):
        began = time.monotonic()  # uvloop counts whole milliseconds
        with at_most(wait_time), pytest.raises(NotElectedError):
            async with other.lead("one"):
                pass
        assert time.monotonic() - began >= wait_time


async def test_p9_a_seat_that_falls_free_during_a_wait_is_not_missed_at_its_end(
    elector: LeaderElector, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One last try is made when the time is up, also when nobody told that a seat is free."""
    monkeypatch.setattr(line, "FIRST_TOUCH", (60.0, 60.0))
    async with elector.using(lease_time=60).lead("one") as lease:
        waiting = asyncio.create_task(
            elector.using(lease_time=60, wait_time=0.6).attempt("one", nothing)
        )
        await wait_until(lambda: in_line(valkey, "one"))
        valkey.cli("DEL", seat_key("one"))
        assert isinstance(await waiting, Elected)
        await lease.release()


async def test_p9_a_wait_survives_an_outage_within_its_time(
    own_server: Server, make_client: MakeClient
) -> None:
    """The server dies and comes back while somebody waits: elected, no error."""
    options = quick(wait_time=20, request_timeout=T)
    async with LeaderElector(make_client(own_server), options) as elector:
        await elector.run_if_leader("one", nothing)
        own_server.kill()
        waiting = asyncio.create_task(elector.attempt("one", nothing))
        await asyncio.wait([waiting], timeout=3 * T)
        assert not waiting.done()
        own_server.start()
        assert isinstance(await waiting, Elected)


async def test_p9_a_silent_renewal_has_a_budget_of_its_own(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """`request_timeout` is a minute; a renewal that hangs is tried again in time anyway."""
    journal, work = Journal(), Work()
    options = quick(request_timeout=60, lease_time=4, stop_grace=1.2)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        proxy.silence()
        lost = await journal.has(TermLost, within=4 + 2)
        assert lost.reason == "unreachable"
        await proxy.restore()
        await leading


async def test_p9_a_lost_lease_is_not_released_for_long(
    proxy: Proxy, valkey: Server, make_client: MakeClient
) -> None:
    """Taken by somebody else: there is nothing to give back, so nothing is waited for."""
    journal, work = Journal(), Work()
    options = quick(request_timeout=60)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        steal(valkey, "one")
        await journal.has(TermLost)
        proxy.silence()
        with at_most(0.5):
            assert await leading == LeadershipLost("taken")
        await proxy.restore()
    assert ttl_of(valkey, "one") > -2


# -- waits, and what is given back -----------------------------------------------------------

LONG = 4.0
"""A `request_timeout` of which two are far more than what a busy machine costs."""


@pytest.mark.parametrize("known", [False, True], ids=["unnoticed", "noticed"])
async def test_p9_a_wait_at_a_server_that_freezes_ends_in_time(
    own_server: Server, make_client: MakeClient, known: bool
) -> None:
    """Whoever finds out first: all of it, also what cannot be given back, is within the budget."""
    timeout, wait = LONG / 2, 1.5
    options = quick(request_timeout=timeout, lease_time=3)
    async with (
        LeaderElector(make_client(own_server), quick(lease_time=60)) as holder,
        LeaderElector(make_client(own_server), options) as elector,
        holder.lead("one") as lease,
    ):
        # A lease whose renewals hang: then the wait finds no connection at all.
        own = asyncio.create_task(elector.attempt("own", forever)) if known else None
        if known:
            await wait_until(lambda: elector.is_leading("own"))
        waiting = asyncio.create_task(elector.using(wait_time=wait).attempt("one", nothing))
        await wait_until(lambda: in_line(own_server, "one"))
        own_server.pause()
        with at_most(wait + 2 * timeout), pytest.raises(RedisError):
            await waiting
        if own is not None:
            await own
        own_server.resume()
        assert is_held(lease)


async def test_p9_a_cancelled_waiter_is_free_in_half_a_request(
    own_server: Server, make_client: MakeClient
) -> None:
    """It tries to leave the line for so long; then its place is dropped as stale."""
    async with (
        LeaderElector(make_client(own_server), quick(lease_time=60)) as holder,
        LeaderElector(make_client(own_server), quick(request_timeout=LONG)) as elector,
        holder.lead("one"),
    ):
        waiting = asyncio.create_task(elector.using(wait_time=None).attempt("one", nothing))
        await wait_until(lambda: in_line(own_server, "one"))
        own_server.pause()
        with at_most(min(LONG / 2, LEASE)):
            await cancel(waiting)
        own_server.resume()


@pytest.mark.parametrize(
    ("late", "left"), [(0.0, (2.0, 0.5)), (1.75, (0.25, 0.25)), (5.0, (0.0, 0.0))]
)
async def test_p9_a_late_wait_asks_for_no_more_than_is_left(
    monkeypatch: pytest.MonkeyPatch, late: float, left: tuple[float, float]
) -> None:
    """By as much as the wake-up comes late, the last request and the leave have less time."""
    now, budgets = 1000.0, list[float]()
    monkeypatch.setattr(clock, "now", lambda: now)

    class Place:
        async def called(self, until: float) -> None:
            nonlocal now
            now = until + late

        async def leave(self, budget: Budget) -> None:
            budgets.append(budget.total)

        def close(self) -> None:
            pass

    class Late(MemoryStore):
        async def stand(self, claim: Claim, budget: Budget) -> Place:
            budgets.append(budget.total)
            return Place()

        async def acquire(
            self, claim: Claim, budget: Budget, place: Any = None, *, last: bool = False
        ) -> Busy:
            budgets.append(budget.total)
            if last:
                raise RuntimeError("no answer")
            return Busy(None)

    elector = LeaderElector(Late(), quick(wait_time=0.5, request_timeout=1.0))
    with pytest.raises(RuntimeError, match="no answer"):
        await elector.attempt("one", nothing)
    # The first try, the subscription, the first request in line, the last one, the leave.
    assert budgets == [2.0, 0.5, 2.0, *left]


@pytest.mark.parametrize("closed", [False, True], ids=["goes on", "closes"])
async def test_p9_who_slept_through_its_wait_leaves_the_line(
    valkey: Server, make_client: MakeClient, closed: bool
) -> None:
    """The loop stood still until no budget was left: the caller is free, and the place goes."""
    wait, timeout = 0.5, 1.0
    options = quick(lease_time=60, request_timeout=timeout, wait_time=wait)
    async with LeaderElector(make_client(valkey), quick(lease_time=60)) as holder:
        elector = LeaderElector(make_client(valkey), options)
        async with holder.lead("one"):
            waiting = asyncio.create_task(elector.attempt("one", nothing))
            await wait_until(lambda: in_line(valkey, "one"))
            time.sleep(wait + 2 * timeout + 0.1)  # noqa: ASYNC251 - this is what is tested
            with at_most(0.0), pytest.raises(RedisError):
                await waiting
            if closed:
                await elector.aclose()
            await wait_until(lambda: not in_line(valkey, "one"), within=10.0)
        await elector.aclose()


@pytest.mark.parametrize("entry", ["attempt", "lead", "campaign"])
async def test_p9_a_cancelled_holder_is_free_in_half_a_request(
    own_server: Server, make_client: MakeClient, entry: str
) -> None:
    """However long its lease is; the seat frees itself."""
    journal = Journal()
    options = quick(request_timeout=LONG, lease_time=60)
    async with LeaderElector(make_client(own_server), options, hooks=[journal]) as elector:

        async def lead() -> None:
            async with elector.lead("one"):
                await forever()

        calls: dict[str, Callable[[], Any]] = {
            "attempt": lambda: elector.attempt("one", forever),
            "lead": lead,
            "campaign": lambda: elector.campaign("one", forever),
        }
        task = asyncio.create_task(calls[entry]())
        await journal.has(TermStarted)
        own_server.pause()
        with at_most(LONG / 2):
            await cancel(task)
        assert [each.ending for each in journal.of(TermEnded)] == ["unknown"]
        own_server.resume()


async def test_p9_a_cancelled_holder_that_notes_its_start_is_free_in_half_a_request(
    own_server: Server, make_client: MakeClient
) -> None:
    """A strategic elector notes that its work starts; the frozen server never answers that."""
    began = asyncio.Event()

    async def work() -> None:
        own_server.pause()  # in the step in which it is elected: nothing is noted yet
        began.set()
        await forever()

    options = quick(request_timeout=LONG, lease_time=60, wait_time=LONG)
    async with (
        StrategicElector(make_client(own_server), options, strategy=Fifo()) as elector,
        elector.candidate("one"),
    ):
        task = asyncio.create_task(elector.attempt("one", work))
        await began.wait()
        with at_most(LONG / 2):
            await cancel(task)
        own_server.resume()


async def test_p9_a_release_that_is_cancelled_ends_in_half_a_request(
    own_server: Server, make_client: MakeClient
) -> None:
    """From the cancellation on, however much time it would have had."""
    options = quick(request_timeout=LONG, lease_time=60)
    async with (
        LeaderElector(make_client(own_server), options) as elector,
        elector.lead("one") as lease,
    ):
        own_server.pause()
        releasing = asyncio.create_task(lease.release())
        await asyncio.wait([releasing], timeout=0.2)
        with at_most(LONG / 2):
            await cancel(releasing)
        own_server.resume()


@pytest.mark.parametrize("how", ["released", "ended"])
async def test_p9_a_release_waits_no_longer_than_the_lease_could_live(
    own_server: Server, make_client: MakeClient, how: str
) -> None:
    """What is not given back by then has freed itself."""
    options = quick(request_timeout=LONG, lease_time=1)
    async with LeaderElector(make_client(own_server), options) as elector:
        async with elector.lead("one") as lease:
            own_server.pause()
            began = time.monotonic()
            if how == "released":
                await lease.release()
        assert time.monotonic() - began < 1 + SLACK
        own_server.resume()


def test_p9_in_threads_as_well(own_server: Server) -> None:
    """The wait, and what is given back."""
    timeout, wait = LONG / 2, 0.5
    with (
        blocking.LeaderElector(own_server.url, quick(request_timeout=timeout)) as elector,
        blocking.LeaderElector(own_server.url, quick(request_timeout=LONG, lease_time=1)) as short,
    ):
        elector.run_if_leader("one", lambda: None)
        with short.lead("two") as lease:
            own_server.pause()
            with at_most(1):
                lease.release()
            with at_most(wait + 2 * timeout), pytest.raises(RedisError):
                elector.using(wait_time=wait).run_if_leader("one", lambda: None)
        own_server.resume()
