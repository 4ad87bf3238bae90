"""P4, P9: cancelled at each suspension point in turn, nothing is left and nothing is swallowed.

Each run has a fresh elector, client and election; the k-th run is struck at its k-th suspension,
until a run ends before it comes to be struck.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.connection import BlockingConnectionPool

from cancellation import ways
from cancellation.stage import (
    ENTRIES,
    Action,
    Entry,
    Stage,
    Theatre,
    enter,
    in_use,
    nothing,
    renew_soon,
)
from cancellation.stepping import Stepped
from cancellation.ways import FOUR, HARDER, Way, obeyed
from incumbent import ElectorClosedError, LeaderElector, NotElectedError, current_lease, events
from incumbent.stores.redis import wire as wires
from kit.clients import borrow
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

MOST = 300
Record = Callable[[str, object], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What the election is like when the candidate comes."""

    cold: bool = False
    wait_time: float = 0.0
    held_for: float = 0.0

    @property
    def wins(self) -> bool:
        """Whether the candidate is elected when nobody cancels it."""
        return self.held_for <= self.wait_time


PLOTS = {
    "free": Plot(),
    "free, cold": Plot(cold=True),
    "held": Plot(held_for=60),
    "held, cold": Plot(held_for=60, cold=True),
    "waits in vain": Plot(held_for=60, wait_time=0.02),
    "waits in vain, cold": Plot(held_for=60, wait_time=0.02, cold=True),
    "waits and wins": Plot(held_for=0.01, wait_time=5),
    "waits and wins, cold": Plot(held_for=0.02, wait_time=5, cold=True),
}
WINS = {name: plot for name, plot in PLOTS.items() if plot.wins}
SOME = {name: PLOTS[name] for name in ("free, cold", "held", "waits in vain", "waits and wins")}
PLAYED = {
    "run_if_leader": PLOTS,
    "lead": PLOTS,
    "attempt": SOME,
    "try_lead": SOME,
    "campaign": WINS,
}
"""What each entry point plays: all of it where the ways part, which is in the caller's task."""


async def strike_each(
    theatre: Theatre, entry: Entry, plot: Plot, way: Way, *, late: bool = False
) -> list[str]:
    """Strike a run at each of its suspensions in turn; where these were."""
    for at in range(1, MOST):
        run = await strike(theatre, entry, plot, way, at, late=late)
        if not run.struck:
            return run.places
    raise AssertionError(f"{MOST} suspensions and no end")


async def strike(
    theatre: Theatre, entry: Entry, plot: Plot, way: Way, at: int, *, late: bool = False
) -> Stepped[Any]:
    """One run, struck at its suspension number `at`, and all that must hold after it."""
    stage = await theatre.stage(cold=plot.cold, wait_time=plot.wait_time)
    if plot.held_for:
        stage.occupy(plot.held_for)
    action = Action(shielded=way is ways.by_scope)
    run = await asyncio.create_task(way(partial(stage.enter, entry, action), at, late=late))
    assert obeyed(run, way), f"swallowed at {run.places[at - 1]}: {run.value!r}, {run.error!r}"
    if not run.struck:
        _as_if_nothing_had_been(run, entry, plot)
    if action.cancelled and way not in HARDER.values():
        assert action.cleaned, "an await in the action's own cleanup was cut"
        assert action.held_to_the_end, "no lease any more for the action's own cleanup"
    await stage.empty()
    return run


def _as_if_nothing_had_been(run: Stepped[Any], entry: Entry, plot: Plot) -> None:
    if plot.wins:
        assert run.value == "done", run.error
    elif entry == "lead":
        assert isinstance(run.error, NotElectedError)
    else:
        assert run.value is None
        assert run.error is None


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
@pytest.mark.parametrize("entry", ENTRIES)
async def test_p4_at_each_point(
    theatre: Theatre, entry: Entry, way: Way, record_property: Record
) -> None:
    """Cancelled while it waits there, each call leaves nothing: free, held, waiting, cold, warm."""
    points = 0
    for name, plot in PLAYED[entry].items():
        places = await strike_each(theatre, entry, plot, way)
        assert places, name
        points += len(places)
    record_property("points", points)


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
@pytest.mark.parametrize("entry", ["run_if_leader", "lead"])
async def test_p4_at_each_point_too_late(
    theatre: Theatre, entry: Entry, way: Way, record_property: Record
) -> None:
    """Cancelled when what it waits for has just come, the call leaves nothing all the same."""
    points = 0
    for plot in (PLOTS["free, cold"], PLOTS["waits and wins"]):
        points += len(await strike_each(theatre, entry, plot, way, late=True))
    record_property("points", points)


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", HARDER.values(), ids=HARDER)
async def test_p4_at_each_point_harder(
    theatre: Theatre, way: Way, late: bool, record_property: Record
) -> None:
    """Cancelled over and over, or with every task of ours as at a shutdown: nothing is left."""
    points = 0
    for name in ("free", "waits and wins, cold"):
        points += len(await strike_each(theatre, "run_if_leader", PLOTS[name], way, late=late))
    record_property("points", points)


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
async def test_p4_campaign_that_stands_by(theatre: Theatre, way: Way) -> None:
    """Cancelled in its first try, on its way into the line or there, a campaign is gone."""
    for cold in (False, True):
        # The seat falls free for those who stood by with fewer suspensions than the run before.
        plot = Plot(held_for=1, wait_time=5, cold=cold)
        places: list[str] = []
        at = 0
        while "Bell.wait" not in places:
            at += 1
            run = await strike(theatre, "campaign", plot, way, at)
            places = [place.partition(":")[0] for place in run.places]


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
async def test_p4_at_each_point_of_the_lease(
    theatre: Theatre, way: Way, record_property: Record
) -> None:
    """Cancelled in `extend`, `state` or an early `release`, the block leaves nothing."""

    class Busy(Action):
        async def body(self) -> None:
            lease = current_lease()
            assert lease is not None
            assert await lease.extend(20)
            assert len((await stage.elector.state(stage.name)).leaders) == 1
            await lease.release()
            await asyncio.sleep(0)
            assert not lease.held

    points = 0
    for cold in (False, True):
        for at in range(1, MOST):
            stage = await theatre.stage(cold=cold)
            action = Busy(shielded=way is ways.by_scope)
            work = partial(stage.enter, "lead", action)
            run = await asyncio.create_task(way(work, at))
            assert obeyed(run, way)
            assert action.cleaned or not action.cancelled
            await stage.empty()
            if not run.struck:
                assert run.value == "done"
                points += len(run.places)
                break
    record_property("points", points)


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
async def test_p4_at_each_point_of_a_renewal(
    theatre: Theatre, way: Way, record_property: Record
) -> None:
    """Cancelled while a renewal is on its way, there or back, the call leaves nothing."""

    class Patient(Action):
        async def body(self) -> None:
            renew_soon(current_lease())
            while not renewed.is_set():
                await renewed.wait()

    points = 0
    for at in range(1, MOST):
        renewed = asyncio.Event()
        stage = await theatre.stage(cold=False)
        stage.hear(events.TermRenewed, renewed.set)
        action = Patient(shielded=way is ways.by_scope)
        run = await asyncio.create_task(way(partial(stage.enter, "lead", action), at))
        assert run.cancelled == run.seen
        assert action.cleaned or not action.cancelled
        await stage.empty()
        if not run.struck:
            assert renewed.is_set()
            assert "incumbent renewal" in run.tasks
            points = len(run.places)
            break
    record_property("points", points)


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", (FOUR | HARDER).values(), ids=FOUR | HARDER)
async def test_p4_at_each_point_of_aclose(
    theatre: Theatre, way: Way, late: bool, record_property: Record
) -> None:
    """Cancelled while it closes, an elector has given everything back all the same."""
    points = 0
    for at in range(1, MOST):
        stage = await theatre.stage(cold=False)
        run = await asyncio.create_task(way(stage.elector.aclose, at, late=late))
        assert obeyed(run, way)
        assert in_use(stage.client) == 0
        await stage.close()
        if not run.struck:
            points = len(run.places)
            break
    record_property("points", points)


@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
async def test_p4_at_each_point_of_a_life(
    theatre: Theatre, way: Way, record_property: Record
) -> None:
    """Cancelled anywhere in ``async with elector``, with others under way: nothing is left."""

    async def life(elector: LeaderElector, name: str, action: Action) -> Any:
        async with elector, elector.using(wait_time=1) as sibling:
            return await enter(sibling, "run_if_leader", name, action)

    points = 0
    for at in range(1, MOST):
        stage = await theatre.stage(cold=True)
        action = Action(shielded=way is ways.by_scope)
        run = await asyncio.create_task(way(partial(life, stage.elector, stage.name, action), at))
        assert obeyed(run, way)
        await stage.empty(lent=0)
        if not run.struck:
            assert run.value == "done"
            points = len(run.places)
            break
    record_property("points", points)


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", FOUR.values(), ids=FOUR)
async def test_p4_at_each_point_in_company(
    theatre: Theatre, way: Way, late: bool, record_property: Record
) -> None:
    """Cancelled among others on the same connection, the call leaves nothing; they go on."""

    async def another(stage: Stage, number: int) -> int:
        rounds = 0
        while not ended.is_set():
            assert await stage.elector.run_if_leader(f"{stage.name}-{number}", nothing) == "done"
            rounds += 1
        return rounds

    points = 0
    for plot in (PLOTS["free"], PLOTS["free, cold"], PLOTS["waits and wins"]):
        for at in range(1, MOST):
            stage = await theatre.stage(cold=plot.cold, wait_time=plot.wait_time)
            if plot.held_for:
                stage.occupy(plot.held_for)
            ended = asyncio.Event()
            work = partial(stage.enter, "run_if_leader", Action(shielded=way is ways.by_scope))
            async with asyncio.TaskGroup() as group:
                others = [group.create_task(another(stage, number)) for number in range(3)]
                await asyncio.sleep(0)
                run = await group.create_task(way(work, at, late=late))
                ended.set()
            assert all(other.result() for other in others)
            # It may have ended before a cancellation came that was sent while another was served.
            assert run.cancelled == run.seen
            await stage.empty()
            points += run.struck
            if not run.struck:
                break
    record_property("points", points)


async def test_p4_closed_while_it_waits(theatre: Theatre) -> None:
    """Cancelled after its elector was closed, a call that still waits leaves nothing either."""
    for late in (False, True):
        for at in range(1, MOST):
            stage = await theatre.stage(cold=False, wait_time=5)
            stage.occupy(0.01)
            work = partial(stage.enter, "run_if_leader", Action())
            running = asyncio.create_task(ways.by_task(work, at, late=late))
            await asyncio.sleep(0)
            await stage.elector.aclose()
            run = await running
            closed = isinstance(run.error, ElectorClosedError)
            assert closed or obeyed(run, ways.by_task)
            await stage.empty(lent=0)
            if not run.struck:
                assert closed
                break


@pytest.mark.parametrize("way", (FOUR | HARDER).values(), ids=FOUR | HARDER)
async def test_p4_at_each_point_of_aclose_of_two_wires(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy, make_client: MakeClient, way: Way
) -> None:
    """Cancelled while a silent connection lingers beside the current one, `aclose` ends both."""
    monkeypatch.setattr(wires, "LINGER", 120.0)  # a machine that stands still ends no silent one
    for at in range(1, MOST):
        client = make_client(proxy)
        elector = LeaderElector(client)
        await elector.run_if_leader("warm", nothing)
        while in_use(client) < 2:  # the time may be over before anything was sent
            proxy.silence()
            asked = [elector.using(request_timeout=0.03).state("silence") for _ in range(3)]
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(answer, redis.TimeoutError)
            await proxy.restore(reset=False)
            await elector.state("silence")
        run = await asyncio.create_task(way(elector.aclose, at))
        assert obeyed(run, way)
        assert in_use(client) == 0
        await client.aclose()
        proxy.cut()
        if not run.struck:
            break


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", [ways.by_task, ways.by_timeout], ids=["cancel", "timeout"])
async def test_p4_at_each_point_with_a_blocking_pool(valkey: Server, way: Way, late: bool) -> None:
    """Cancelled while its pool has no connection to lend, the call does not spoil the pool."""

    async def lend(pool: BlockingConnectionPool) -> None:
        connection = await borrow(pool)
        lent.set()
        await asyncio.sleep(0.005)
        await connection.disconnect()  # so that who waits for it has to log in
        await pool.release(connection)

    for at in range(1, MOST):
        pool = BlockingConnectionPool.from_url(valkey.url, max_connections=1, timeout=2)
        client = redis.asyncio.Redis.from_pool(pool)
        elector = LeaderElector(client)
        lent = asyncio.Event()
        lending = asyncio.create_task(lend(pool))
        await lent.wait()
        action = Action(shielded=way is ways.by_scope)
        call = partial(elector.run_if_leader, "blocking", action)
        run = await asyncio.create_task(way(call, at, late=late))
        await lending
        assert obeyed(run, way)
        assert not valkey.cli("EXISTS", "incumbent:{blocking}:seat:0")
        await elector.aclose()
        assert await asyncio.wait_for(client.echo("x"), 30) == b"x"
        await client.aclose()
        if not run.struck:
            assert run.value == "done"
            break


@pytest.mark.parametrize("timeout", [0.03, 0.6], ids=["hasty", "alone"])
async def test_p9_overdue(proxy: Proxy, make_client: MakeClient, timeout: float) -> None:
    """A connection whose answer is overdue goes back to its pool soon, and `aclose` has it all."""
    client = make_client(proxy)
    elector = LeaderElector(client)
    await elector.run_if_leader("warm", nothing)
    proxy.silence()
    with pytest.raises(redis.TimeoutError):
        await elector.using(request_timeout=timeout).state("silence")
    await proxy.restore(reset=False)
    await elector.state("silence")
    await wait_until(lambda: in_use(client) == 1, within=3, what="the silent one is given back")
    await elector.aclose()
    assert in_use(client) == 0


async def test_p4_every_task_before_the_sender_began(theatre: Theatre) -> None:
    """Who cancels every task also hits those that have not begun: nothing is lost by that."""
    stage = await theatre.stage(cold=False)
    struck: list[object] = []

    def new_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task = asyncio.Task(work, loop=loop, **options)
        if "_send_queue" in work.__qualname__:
            struck.append(task)
            for each in (task, *calls):
                each.cancel()
        return task

    calls: list[asyncio.Task[Any]] = []
    asyncio.get_running_loop().set_task_factory(new_task)
    calls += [asyncio.create_task(stage.elector.state(stage.name)) for _ in range(3)]
    await asyncio.wait(calls)
    asyncio.get_running_loop().set_task_factory(None)
    assert struck
    assert all(call.cancelled() for call in calls)
    assert await stage.elector.run_if_leader(stage.name, nothing) == "done"
    await stage.empty()


async def test_p4_who_was_alone_is_cancelled_before_a_crowd(
    proxy: Proxy, make_client: MakeClient
) -> None:
    """It costs the connection on which the crowd has been sent as well, and no election."""
    client = make_client(proxy)
    elector = LeaderElector(client)
    await elector.run_if_leader("warm", nothing)
    proxy.hold_replies()
    alone = asyncio.create_task(elector.state("warm"))
    await wait_until(lambda: proxy.held == 1)
    names = [f"crowd-{number}" for number in range(300)]
    crowd = [asyncio.create_task(elector.run_if_leader(name, nothing)) for name in names]
    await asyncio.sleep(0)
    alone.cancel()
    proxy.release()
    assert await asyncio.gather(*crowd) == ["done"] * len(names)
    assert alone.cancelled()
    await elector.aclose()
    assert in_use(client) == 0
