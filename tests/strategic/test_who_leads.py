"""The strategy picks who may try, the lease decides: W30 to W39 end to end, ranks and graces."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import pytest
import redis.asyncio

from incumbent import (
    Elected,
    GroupElector,
    LeaderElector,
    LeaderOptions,
    MemoryStore,
    NotElectedError,
    Skipped,
    StrategicElector,
    current_lease,
    events,
)
from incumbent.engine import best_first
from incumbent.engine.contenders import Voter
from incumbent.strategy import (
    Candidate,
    ElectionResult,
    Fifo,
    IdleTime,
    LeastLoaded,
    Priority,
    Random,
    Rendezvous,
    Scored,
    Snapshot,
)
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import at_most, cancel, nothing, queue_key, seat_key
from strategic.scene import GRACE, LEASE, Log, Town, running


async def test_the_best_leads_and_the_others_are_skipped(town: Town) -> None:
    """With one look each, only the winner runs."""
    async with AsyncExitStack() as stack:
        for name, priority in (("a", 1), ("b", 3), ("c", 2)):
            await stack.enter_async_context(
                town.node(name).candidate("job", {"priority": priority})
            )
        outcomes = {
            name: await node.attempt("job", nothing) for name, node in town.electors.items()
        }
        assert outcomes["a"] == outcomes["c"] == Skipped("not_best")
        assert isinstance(outcomes["b"], Elected)
        assert outcomes["b"].leader_id == "b"


@pytest.mark.parametrize("wait_time", [0, 5])
async def test_who_does_not_stand_never_leads(town: Town, wait_time: float) -> None:
    """It is told at once, also when nobody else is there."""
    a, b = town.node("a", wait_time=wait_time), town.node("b")
    with at_most(0.3):
        assert await a.attempt("job", nothing) == Skipped("not_a_candidate")
    with pytest.raises(NotElectedError, match="not_a_candidate"):
        async with a.lead("job"):
            pass
    async with b.candidate("job"):
        assert await a.attempt("job", nothing) == Skipped("not_a_candidate")
        async with a.try_lead("job") as lease:
            assert lease is None


async def test_a_campaign_waits_until_it_stands(town: Town) -> None:
    """It says once that it does not, and leads when it does."""
    a, log = town.node("a"), Log()
    async with running(a.campaign("job", log)):
        await town.journals["a"].has(events.NotStanding)
        await asyncio.sleep(0.3)
        assert log.terms == []
        async with a.candidate("job"):
            await wait_until(lambda: log.terms == ["a"])
    assert len(town.journals["a"].of(events.NotStanding)) == 1


# -- W30 to W39 -------------------------------------------------------------------------------


async def test_w30_three_nodes_at_once_are_one_run(town: Town) -> None:
    """W30: every node thinks itself the best, and one leads all the same."""
    log = Log()

    def selfish(name: str) -> "Selfish":
        return Selfish(name)

    async with AsyncExitStack() as stack:
        nodes = [town.node(name, selfish(name)) for name in "abc"]
        for node in nodes:
            await stack.enter_async_context(node.candidate("job"))
        for _ in range(10):
            outcomes = await asyncio.gather(*(node.attempt("job", log, 0.05) for node in nodes))
            assert sum(isinstance(outcome, Elected) for outcome in outcomes) == 1
            assert {outcome.reason for outcome in outcomes if isinstance(outcome, Skipped)} == {
                "held"
            }
    assert len(log.terms) == 10


class Selfish:
    """A strategy by which one node is always the best."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """That node first."""
        return ElectionResult.of(
            sorted(snapshot.candidates, key=lambda each: each.node_id != self.name)
        )


async def test_w30_one_node_twice_is_one_run(town: Town) -> None:
    """W30: the same node calling twice at once gets one lease."""
    a, log = town.node("a"), Log()
    async with a.candidate("job"):
        outcomes = await asyncio.gather(*(a.attempt("job", log, 0.1) for _ in range(5)))
    assert sum(isinstance(outcome, Elected) for outcome in outcomes) == 1
    assert log.terms == ["a"]


async def test_w31_one_trigger_runs_once_although_the_scores_changed(town: Town) -> None:
    """W31: A's run makes B the most idle; `once_per` keeps the same tick from running again."""
    log = Log()
    strategy = Scored(IdleTime())
    a, b = (town.node(name, strategy, once_per=3600) for name in "ab")
    async with a.candidate("job"):
        await asyncio.sleep(0.02)
        async with b.candidate("job"):
            assert isinstance(await a.attempt("job", log, 0.05), Elected)
            winner = (await b.elect("job")).winner
            assert winner is not None
            assert winner.node_id == "b", "the premise: now the other one is the best"
            assert await b.attempt("job", log, 0.05) == Skipped("already_ran")
            free = b.using(once_per=None)
            assert isinstance(await free.attempt("job", log, 0.05), Elected)
    assert log.terms == ["a", "b"]


async def test_w31_a_schedule_runs_once_per_tick(town: Town) -> None:
    """W31: whoever is the best when it looks, each tick has one run in the whole fleet."""
    runs: list[datetime] = []

    async def run() -> None:
        lease = current_lease()
        assert lease is not None
        runs.append(lease.acquired_at)

    async with AsyncExitStack() as stack:
        nodes = [town.node(name, Scored(IdleTime())) for name in "abc"]
        for node in nodes:
            await stack.enter_async_context(node.candidate("tick"))
        async with running(*(node.schedule("tick", every=1, action=run) for node in nodes)):
            await wait_until(lambda: len(runs) >= 3, within=30)
    ticks = [int(run.timestamp()) for run in runs]
    assert len(ticks) == len(set(ticks)), ticks


async def test_w32_when_the_winner_is_dead_the_next_leads(town: Town) -> None:
    """W32: after one grace, not never; when its record is over, at once."""
    a, b = town.node("a"), town.node("b", wait_time=5)
    async with b.candidate("job", {"priority": 1}):
        me = a.candidate("job", {"priority": 2}, ttl=0.6)
        async with me:
            assert me._heart is not None
            me._heart.cancel()  # it is gone without a word
            await asyncio.wait([me._heart])
            began = time.monotonic()
            async with b.lead("job"):
                waited = time.monotonic() - began
            assert waited >= GRACE

            async def gone() -> bool:
                return len(await b.candidates("job")) == 1

            await wait_until(gone, within=30, every=0.02)
            assert isinstance(await b.using(wait_time=0).attempt("job", nothing), Elected)


async def test_w33_elections_do_not_mix(town: Town) -> None:
    """W33: candidates of ``job:eu`` or of a tenant are none of ``job``."""
    a, b = town.node("a"), town.node("b")
    async with a.candidate("job:eu"), b.candidate("job"), b.for_tenant("x").candidate("job:eu"):
        assert [each.node_id for each in await a.candidates("job")] == ["b"]
        assert [each.node_id for each in await a.candidates("job:eu")] == ["a"]
        assert isinstance(await b.attempt("job", nothing), Elected)
        assert isinstance(await a.attempt("job:eu", nothing), Elected)
        assert isinstance(await b.for_tenant("x").attempt("job:eu", nothing), Elected)
        assert await a.for_tenant("x").attempt("job:eu", nothing) == Skipped("not_a_candidate")


async def test_w34_an_election_is_two_requests(city: Town, valkey: Server) -> None:
    """W34: one snapshot and one acquire, whatever else is in the database."""
    for number in range(100):
        valkey.cli("SET", f"other:{number}", "x", "EX", 60)
    a = city.node("a")
    async with a.candidate("job"):
        assert isinstance(await a.attempt("job", nothing), Elected)  # scripts are loaded
        before = valkey.admin.info("commandstats")
        async with a.lead("job"):
            pass
        after = valkey.admin.info("commandstats")

    def count(stats: "dict[str, dict[str, int]]", command: str) -> int:
        return stats.get(f"cmdstat_{command}", {}).get("calls", 0)

    # snapshot, acquire, started, succeeded, release
    assert count(after, "evalsha") - count(before, "evalsha") == 5
    for command in ("scan", "keys", "mget"):
        assert count(after, command) == count(before, command)


async def test_w35_heartbeats_keep_the_order_and_the_counts(town: Town) -> None:
    """W35: the first stays first, and what it did stays counted, however often others beat."""
    a, b = town.node("a", Fifo()), town.node("b", Fifo())
    async with a.candidate("job", ttl=0.3) as first:
        await asyncio.sleep(0.01)
        async with b.candidate("job", ttl=0.3):
            assert isinstance(await a.attempt("job", nothing), Elected)
            for number in range(10):
                await first.update(load=number)
                await asyncio.sleep(0.05)
            result = await b.elect("job")
            assert [each.node_id for each in result.ranking] == ["a", "b"]
            assert result.ranking[0].successes == 1


async def test_w36_clocks_of_nodes_do_not_matter(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W36: with this node's wall clock an hour off, it comes to the same scores."""
    strategy = Scored(IdleTime())
    a, b = town.node("a", strategy), town.node("b", strategy)
    if isinstance(a._office.store, MemoryStore):
        pytest.skip("in memory the node's clock is the store's")
    async with a.candidate("job"), b.candidate("job"):
        await asyncio.sleep(0.3)
        right = await a.elect("job")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 3600)
        wrong = await b.elect("job")
        monkeypatch.undo()
    assert [each.node_id for each in wrong.ranking] == [each.node_id for each in right.ranking]
    for node, score in right.scores.items():
        assert abs(wrong.scores[node] - score) < 5


async def test_w38_chance_has_one_winner(town: Town) -> None:
    """W38: every node draws the same, and each round draws anew."""
    async with AsyncExitStack() as stack:
        nodes = [town.node(name, Random()) for name in "abc"]
        for node in nodes:
            await stack.enter_async_context(node.candidate("job"))
        winners: list[str] = []
        for _ in range(30):
            outcomes = [await node.attempt("job", nothing) for node in nodes]
            # Who comes after a run draws in the next round.
            elected = [each.leader_id for each in outcomes if isinstance(each, Elected)]
            results = [await node.elect("job") for node in nodes]
            assert len({result.winner for result in results}) == 1
            winners += elected
    assert set(winners) == {"a", "b", "c"}


CALLS: dict[str, Callable[[StrategicElector], Awaitable[object]]] = {
    "attempt": lambda a: a.attempt("job", nothing),
    "run_if_leader": lambda a: a.run_if_leader("job", nothing),
    "lead": lambda a: a.lead("job").__aenter__(),
    "elect": lambda a: a.elect("job"),
    "candidates": lambda a: a.candidates("job"),
    "record_result": lambda a: a.record_result("job", success=True),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_w39_errors_of_the_store_come_out(
    start_server: StartServer,
    make_client: MakeClient,
    city: Town,
    call: Callable[[StrategicElector], Awaitable[object]],
) -> None:
    """W39: a server that is gone is an error, not "somebody else leads"."""
    server = start_server()
    a = city.node("a", store=make_client(server), request_timeout=0.8)
    server.kill()
    with at_most(1.5), pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        await call(a)


async def test_w39_a_bad_name_is_refused(town: Town) -> None:
    """W39: before any request, by all methods."""
    a = town.node("a")
    for work in (a.elect, a.candidates):
        with pytest.raises(ValueError, match="must"):
            await work("{")
    with pytest.raises(ValueError, match="must"):
        await a.attempt("", nothing)


# -- ranks and graces -------------------------------------------------------------------------


async def test_the_next_in_rank_tries_in_order_each_after_a_grace(town: Town) -> None:
    """With the first two silent, the third leads after two graces, and not before."""
    async with AsyncExitStack() as stack:
        for name, priority in (("a", 3), ("b", 2), ("c", 1)):
            node = town.node(name, wait_time=5)
            node._polls.contenders.enter(Voter("job", name), tell=False)  # its campaign hangs
            await stack.enter_async_context(node.candidate("job", {"priority": priority}))
        began = time.monotonic()
        async with town.electors["c"].lead("job"):
            assert 2 * GRACE <= time.monotonic() - began < 2 * GRACE + 3
        began = time.monotonic()
        async with town.electors["b"].lead("job"):
            assert GRACE <= time.monotonic() - began < GRACE + 3


async def test_who_only_stands_takes_no_rank(town: Town) -> None:
    """Twenty better nodes that never campaign cost one grace together, and not twenty."""
    async with AsyncExitStack() as stack:
        for number in range(20):
            node = town.node(f"idle-{number}", lease_time=12)
            await stack.enter_async_context(node.candidate("job", {"priority": 9}))
        a, log = town.node("a", lease_time=12), Log()
        async with a.candidate("job", {"priority": 1}), running(a.campaign("job", log)):
            began = time.monotonic()
            await log.reaches("a")
            # A grace is 1 s, so that twenty would be 20 s.
            assert 0.9 < time.monotonic() - began < 10


async def test_a_heartbeat_tells_at_once_who_contends(town: Town) -> None:
    """From the first wait on, not a third of the TTL later; and soon no longer when it gave up."""
    a, b = town.node("a", wait_time=None), town.node("b", wait_time=5)

    async def contends() -> bool:
        return [each.contending for each in await b.candidates("job")] == [True, False]

    best = {"priority": 9}
    async with a.candidate("job", ttl=3600), b.candidate("job", best, ttl=3600), b.lead("job"):
        assert not await contends()
        async with running(a.attempt("job", nothing)):
            await wait_until(contends)
        assert Voter("job", "a") not in a._polls.contenders

        async def rests() -> bool:
            return not await contends()

        await wait_until(rests)
    assert Voter("job", "b") not in b._polls.contenders


async def test_with_all_there_the_best_gets_the_seat(town: Town) -> None:
    """All stand by; at each release the best of those who wait leads next, in order."""
    log = Log()
    async with AsyncExitStack() as stack:
        for name, priority in (("a", 1), ("b", 2), ("c", 3)):
            node = town.node(name, wait_time=10)
            await stack.enter_async_context(node.candidate("job", {"priority": priority}))
        nodes = town.electors
        async with nodes["c"].lead("job"):
            waiting = [asyncio.create_task(nodes[name].attempt("job", log, 0.05)) for name in "ab"]
            await asyncio.sleep(0.2)
        outcomes = await asyncio.gather(*waiting)
    assert all(isinstance(outcome, Elected) for outcome in outcomes)
    assert log.terms == ["b", "a"]


async def test_when_the_better_one_withdraws_the_next_moves_up(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh look, not the old rank: it is the first now, and waits no grace."""
    monkeypatch.setattr(best_first, "LONGEST_GRACE", 6.0)
    a, b = town.node("a", lease_time=120), town.node("b", lease_time=120, wait_time=60)
    async with b.candidate("job", {"priority": 1}):
        me = a.candidate("job", {"priority": 2})
        async with me, running(b.attempt("job", nothing)) as (task,):
            await asyncio.sleep(0.2)
            assert not task.done()
            began = time.monotonic()
            await me.__aexit__(None, None, None)
            assert isinstance(await task, Elected)
            assert time.monotonic() - began < 5  # of a grace of 6 s


async def test_each_time_the_seat_is_free_the_graces_begin_anew(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was left of a grace when a better one came is not what is left when it has gone."""
    grace = 4.0
    monkeypatch.setattr(best_first, "LONGEST_GRACE", grace)
    a, b = town.node("a", lease_time=60), town.node("b", lease_time=60, wait_time=60)
    async with (
        a.candidate("job", {"priority": 2}),
        b.candidate("job", {"priority": 1}),
        running(b.attempt("job", nothing)) as (task,),
    ):
        await asyncio.sleep(grace / 2)
        async with a.lead("job"):
            await asyncio.sleep(0.3)
        freed_at = time.monotonic()
        assert isinstance(await task, Elected)
        assert time.monotonic() - freed_at >= 0.95 * grace


async def test_the_time_to_become_the_best_counts(town: Town) -> None:
    """`wait_time` is kept while better ones are due, and while the seat is held."""
    a, b = town.node("a"), town.node("b", lease_time=6, wait_time=0.5)
    async with a.candidate("job", {"priority": 2}), b.candidate("job", {"priority": 1}):
        with at_most(0.5):
            assert await b.attempt("job", nothing) == Skipped("not_best")
        async with a.lead("job"):
            with at_most(0.5):
                outcome = await b.attempt("job", nothing)
            assert isinstance(outcome, Skipped)
            assert outcome.reason == "held"
            assert outcome.holder is not None
            assert outcome.holder.leader_id == "a"


async def test_whom_the_strategy_leaves_out_never_leads(town: Town) -> None:
    """Also when nobody else takes the seat."""

    def only_big(snapshot: Snapshot, /) -> ElectionResult:
        return ElectionResult.of(
            each for each in snapshot.candidates if (each.number("size") or 0) > 5
        )

    a = town.node("a", only_big, wait_time=0.6)
    async with a.candidate("job", {"size": 3}) as me:
        assert await a.attempt("job", nothing) == Skipped("not_best")
        await me.update(size=6)
        assert isinstance(await a.attempt("job", nothing), Elected)


async def test_a_holder_that_dies_is_followed_by_the_best(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, city: Town
) -> None:
    """Its lease and its record end; the free seat is not idle longer than both together."""
    proxy = await make_proxy(valkey)
    a = city.node("a", store=make_client(proxy))
    b, c, log = city.node("b"), city.node("c"), Log()
    async with b.candidate("job", {"priority": 1}), c.candidate("job", {"priority": 2}):
        me = a.candidate("job", {"priority": 3}, ttl=0.6)
        await me.__aenter__()
        async with running(a.campaign("job", Log())):
            await city.leads("a")
            async with running(b.campaign("job", log), c.campaign("job", log)):
                await asyncio.sleep(0.3)
                proxy.cut(refuse=True)
                cut_at = time.monotonic()
                await wait_until(lambda: bool(log.terms), within=30)
                assert log.terms == ["c"]
                assert time.monotonic() - cut_at < LEASE + 0.6 + 3.0
        await proxy.restore()
        await me.__aexit__(None, None, None)


async def test_a_seat_that_is_due_to_the_line_is_not_asked_for_all_the_time(
    city: Town, valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """It looks free, and is kept for a plain elector in line that does not come."""
    proxy = await make_proxy(valkey)
    a, log = city.node("a", lease_time=3, wait_time=5), Log()
    options = LeaderOptions(lease_time=3, wait_time=30, request_timeout=0.8)
    plain = LeaderElector(make_client(proxy), options)

    def calls() -> int:
        return int(valkey.admin.info("commandstats")["cmdstat_evalsha"]["calls"])

    async with (
        a.candidate("job"),
        a.lead("job") as lease,
        running(plain.attempt("job", log, 9)) as (waiting,),
    ):
        await wait_until(lambda: valkey.cli("EXISTS", queue_key("job")))
        await asyncio.sleep(0.1)
        proxy.hold_requests()
        before = calls()
        await lease.release()
        assert isinstance(await a.attempt("job", nothing), Elected)
        assert calls() - before < 120
        await proxy.restore()
        await cancel(waiting)
    await plain.aclose()


async def test_a_seat_that_somebody_persisted_ends_again(city: Town, valkey: Server) -> None:
    """By the first look, as in the line; and nothing polls whether it has ended."""
    valkey.cli("HSET", seat_key("job"), "token", "dead", "leader", "dead", "fence", 5, "since", 1)
    a = city.node("a", wait_time=1.5)

    def calls() -> int:
        stats = valkey.admin.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))

    async with a.candidate("job"):
        before = calls()
        outcome = await a.attempt("job", nothing)
        assert isinstance(outcome, Skipped)
        assert outcome.holder is not None
        assert outcome.holder.remaining > 60
        assert valkey.cli("PTTL", seat_key("job")) > 60_000
        assert calls() - before < 20
        valkey.cli("PEXPIRE", seat_key("job"), 1)
        assert isinstance(await a.attempt("job", nothing), Elected)


async def test_a_seat_that_lives_too_long_is_cut_by_a_look(city: Town, valkey: Server) -> None:
    """No longer than its holder asked for: the server's clock was ahead, and is set back."""
    valkey.cli(
        *("HSET", seat_key("job"), "token", "dead", "leader", "dead", "fence", 5, "since", 1),
        *("longest", 1200),
    )
    valkey.cli("PEXPIRE", seat_key("job"), 86_400_000)
    await city.node("a").elect("job")
    assert 0 < valkey.cli("PTTL", seat_key("job")) <= 1200


# -- told, not polled --------------------------------------------------------------------------


async def test_p8_standing_by_is_quiet_and_the_hand_over_quick(city: Town, valkey: Server) -> None:
    """P8: nobody asks while somebody leads, and a release wakes the best at once."""
    a, b, log = city.node("a", lease_time=30), city.node("b", lease_time=30), Log()

    def calls() -> int:
        stats = valkey.admin.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))

    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        async with a.using(wait_time=5).lead("job"), running(b.campaign("job", log)):
            await asyncio.sleep(0.3)
            before = calls()
            await asyncio.sleep(1)
            assert calls() == before
        began = time.monotonic()
        async with running(b.campaign("job", log)):
            await wait_until(lambda: bool(log.terms))
            assert time.monotonic() - began < 10
    assert log.terms == ["b"]


async def test_a_release_between_the_look_and_the_watch_is_not_missed(town: Town) -> None:
    """What a watcher is told first is what is now; without it a whole lease time would go by."""
    a = town.node("a", lease_time=20)
    b, log = town.node("b", lease_time=20, wait_time=10), Log()
    store: Any = b._office.store
    watch = store.watch
    async with (
        a.candidate("job", {"priority": 1}),
        b.candidate("job", {"priority": 2}),
        AsyncExitStack() as stack,
    ):
        await stack.enter_async_context(a.using(wait_time=2).lead("job"))

        async def late(*args: Any) -> None:
            store.watch = watch
            await stack.aclose()
            await watch(*args)

        store.watch = late
        with at_most(2.5):
            assert isinstance(await b.attempt("job", log, 0), Elected)


async def test_nothing_is_watched_any_more_when_it_leads_or_gives_up(town: Town) -> None:
    """P4: the subscription is for who waits."""
    a, b = town.node("a"), town.node("b", wait_time=0.3)
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        async with a.using(wait_time=3).lead("job"):
            assert isinstance(await b.attempt("job", nothing), Skipped)
            async with running(b.campaign("job", nothing)):
                await asyncio.sleep(0.1)
        store: Any = b._office.store
        watching = store._watching
        hubs = getattr(watching, "_hubs", None) or watching.hubs
        await wait_until(lambda: not hubs._hubs)


async def test_cancelled_at_any_turn_an_attempt_leaves_nothing(city: Town, valkey: Server) -> None:
    """P4: no seat, no term and no task, wherever the cancellation comes."""
    a = city.node("a")
    async with a.candidate("job"):
        await a.attempt("job", nothing)
        for turns in range(60):
            task = asyncio.create_task(a.attempt("job", nothing))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cancel(task)
            assert valkey.cli("EXISTS", seat_key("job")) == 0, turns
            assert a.leases == ()


async def test_cancelled_while_it_waits_it_watches_no_more(town: Town) -> None:
    """P4: at each turn of the first ones, and when it has waited."""
    a, b = town.node("a"), town.node("b", wait_time=None)
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        async with a.using(wait_time=3).lead("job"):
            for turns in (*range(30), 300):
                task = asyncio.create_task(b.attempt("job", nothing))
                for _ in range(turns):
                    await asyncio.sleep(0)
                await cancel(task)
                assert task.cancelled()
        assert isinstance(await b.attempt("job", nothing), Elected)


# -- the elector itself -----------------------------------------------------------------------


async def test_a_dry_run_tells_scores_and_reasons(town: Town) -> None:
    """`elect` changes nothing, and says for each loser why."""
    a, b = town.node("a", LeastLoaded("load")), town.node("b", LeastLoaded("load"))
    async with a.candidate("job", {"load": 0.9}), b.candidate("job", {"load": 0.1}):
        result = await a.elect("job")
        assert result.winner is not None
        assert result.winner.node_id == "b"
        assert result.scores == {"a": -0.9, "b": -0.1}
        assert result.reasons == {"a": "has load 0.9, 'b' has load 0.1"}
        assert (await a.state("job")).leaders == ()


async def test_nobody_stands_nobody_wins(town: Town) -> None:
    """An empty election has no winner and raises nothing."""
    result = await town.node("a").elect("job")
    assert (result.winner, result.ranking) == (None, ())


async def test_many_elections_are_spread(town: Town) -> None:
    """With `Rendezvous` each of three nodes leads some of thirty elections, all at one time."""
    names = [f"job-{number}" for number in range(30)]
    async with AsyncExitStack() as stack:
        nodes = [town.node(name, Rendezvous()) for name in "abc"]
        for node in nodes:
            for name in names:
                await stack.enter_async_context(node.candidate(name))
        outcomes = await asyncio.gather(
            *(node.attempt(name, nothing) for node in nodes for name in names)
        )
    leaders = [outcome.leader_id for outcome in outcomes if isinstance(outcome, Elected)]
    assert len(leaders) == 30
    assert min(leaders.count(name) for name in "abc") >= 3


async def test_the_elector_says_who_it_is(town: Town) -> None:
    """The node id is the leader id; siblings share the strategy and the candidates."""
    a = town.node("a", LeastLoaded("load"))
    assert (a.node_id, a.leader_id, a.strategy) == ("a", "a", LeastLoaded("load"))
    assert repr(a).startswith("<StrategicElector prefix='incumbent' leader_id='a'")
    sibling = a.using(wait_time=1)
    async with sibling.candidate("job"):
        assert isinstance(await a.attempt("job", nothing), Elected)
    await sibling.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        sibling.candidate("job")


def test_what_is_no_strategy_is_refused() -> None:
    """So is a node id that is no name, or a store that has no candidates."""
    with pytest.raises(TypeError, match="strategy must be callable"):
        StrategicElector(MemoryStore(), strategy="fifo")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"strategy must be made first, not the class: Fifo\("):
        StrategicElector(MemoryStore(), strategy=Fifo)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a coroutine function"):
        StrategicElector(MemoryStore(), strategy=later)  # type: ignore[arg-type]
    for other in (5, b"web", ["web"]):
        with pytest.raises(TypeError, match="node_id must be a str"):
            StrategicElector(MemoryStore(), strategy=Fifo(), node_id=other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="node_id"):
        StrategicElector(MemoryStore(), strategy=Fifo(), node_id=" ")
    with pytest.raises(TypeError, match="redis must be"):
        StrategicElector(object(), strategy=Fifo())  # type: ignore[arg-type]


class Moody:
    """A strategy that does what its `mood` is."""

    def __init__(self) -> None:
        self.mood: Callable[[Snapshot], Any] = Priority()

    def __call__(self, snapshot: Snapshot, /) -> ElectionResult:
        """In that mood."""
        return self.mood(snapshot)  # type: ignore[no-any-return] # that is the point


def raises(snapshot: Snapshot) -> None:
    """What somebody's metadata may make of a function."""
    raise KeyError("load")


def cancels(snapshot: Snapshot) -> None:
    """As if somebody had cancelled us."""
    raise asyncio.CancelledError


async def later(snapshot: Snapshot) -> None:
    """Not what a strategy is."""


def nothing_at_all(snapshot: Snapshot) -> None:
    """A forgotten return."""


def invents(snapshot: Snapshot) -> ElectionResult:
    """A node that is no candidate."""
    return ElectionResult.of([Candidate(node_id="nobody", registered_at=snapshot.now)])


@pytest.mark.parametrize("mood", [raises, cancels, later, invents, nothing_at_all])
async def test_whatever_a_strategy_does_elections_go_on(
    town: Town, mood: Callable[[Snapshot], Any]
) -> None:
    """By seniority; it is told once, and a dry run raises the error."""
    strategies = {name: Moody() for name in "ab"}
    a, b = (town.node(name, strategies[name]) for name in "ab")
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        assert await a.attempt("job", nothing) == Skipped("not_best")
        for strategy in strategies.values():
            strategy.mood = mood
        for _ in range(3):
            assert isinstance(await a.attempt("job", nothing), Elected)
            assert await b.attempt("job", nothing) == Skipped("not_best")
        assert len(town.journals["a"].of(events.StrategyFailed)) == 1
        with pytest.raises((Exception, asyncio.CancelledError)):
            await a.elect("job")


async def test_a_leader_survives_a_strategy_that_fails(town: Town) -> None:
    """The campaign goes on, and makes way only for an older candidate."""
    strategy, log = Moody(), Log()
    a, b = town.node("a", strategy, lease_time=3), town.node("b", strategy)
    async with (
        a.candidate("job", {"priority": 2}),
        b.candidate("job", {"priority": 1}),
        running(a.campaign("job", log), b.campaign("job", log)),
    ):
        await log.reaches("a")
        strategy.mood = raises
        await town.journals["a"].has(events.StrategyFailed)
        await asyncio.sleep(LEASE)
        assert log.terms == ["a"]
        assert len(town.journals["a"].of(events.StrategyFailed)) == 1


async def test_doubtful_scores_are_told_when_they_begin(town: Town) -> None:
    """Not at every look; and again when they were right in between."""
    a = town.node("a", LeastLoaded("load"))
    async with a.candidate("job") as me:
        for _ in range(3):
            assert isinstance(await a.attempt("job", nothing), Elected)
        (told,) = town.journals["a"].of(events.ScoresDoubtful)
        assert told.problems == (("a", "has no number 'load'"),)
        await me.update(load=1)
        await a.attempt("job", nothing)
        await me.update(load="much")
        await a.attempt("job", nothing)
    assert len(town.journals["a"].of(events.ScoresDoubtful)) == 2


async def test_a_group_and_a_strategy_share_seat_0(town: Town) -> None:
    """One lease decides for every kind of elector."""
    a = town.node("a", Priority())
    store = a._office.store
    group = GroupElector(store, LeaderOptions(lease_time=LEASE), seats=2)
    async with a.candidate("job"), a.lead("job"), group.lead("job") as lease:
        assert lease.seat == 1


# -- what is amiss ----------------------------------------------------------------------------


async def test_nodes_with_other_strategies_are_told_once(town: Town) -> None:
    """Each goes by its own: nobody is obeyed blindly, and the lease keeps them apart."""
    a, b = town.node("a", LeastLoaded("load")), town.node("b", LeastLoaded("cpu"))
    async with a.candidate("job", {"load": 1, "cpu": 1}), b.candidate("job", {"load": 2, "cpu": 0}):
        for _ in range(3):
            assert isinstance(await a.attempt("job", nothing), Elected)
            assert isinstance(await b.attempt("job", nothing), Elected)
    for node, other in (("a", "b"), ("b", "a")):
        told = town.journals[node].of(events.StrategiesDiffer)
        assert [event.nodes for event in told] == [(other,)]


async def test_an_unreadable_record_is_told_once(city: Town, valkey: Server) -> None:
    """It takes no part, and breaks no election."""
    a = city.node("a")
    async with a.candidate("job"):
        valkey.cli("HSET", "incumbent:{job}:candidates", "odd", "hello")
        for _ in range(3):
            assert isinstance(await a.attempt("job", nothing), Elected)
    (told,) = city.journals["a"].of(events.RecordsUnreadable)
    assert told.nodes == ("odd",)
