"""The types of strategic elections. Never run: mypy and pyright check each `assert_type`."""

from collections.abc import Mapping
from typing import assert_type

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from incumbent import LeaderOptions, Outcome, StrategicElector, blocking
from incumbent.strategy import (
    Candidate,
    ElectionResult,
    IdleTime,
    LeastLoaded,
    MetaValue,
    Scored,
    Snapshot,
    Sticky,
    Strategy,
    Weighted,
)


async def count(of: str) -> int:
    return len(of)


def count_now(of: str) -> int:
    return len(of)


def scorer(candidate: Candidate, _: Snapshot) -> float:
    return candidate.number("ready") or 0.0


async def made(redis: "Redis", sync: "SyncRedis") -> None:
    strategy: Strategy = Sticky(Scored(Weighted([(scorer, 1), (IdleTime(), 0.5)])), margin=5)
    options = LeaderOptions()
    assert_type(StrategicElector(redis, options, strategy=strategy), StrategicElector)
    StrategicElector(redis)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    for_threads = blocking.StrategicElector(sync, strategy=LeastLoaded("load"), node_id="amber")
    assert_type(for_threads, blocking.StrategicElector)


async def called(elector: StrategicElector) -> None:
    assert_type(await elector.run_if_leader("one", count, "x"), int | None)
    assert_type(await elector.attempt("one", count, "x"), Outcome[int])
    assert_type(elector.for_tenant("acme"), StrategicElector)
    assert_type(elector.using(wait_time=1), StrategicElector)
    assert_type(elector.node_id, str)
    assert_type(elector.strategy, Strategy)
    assert_type(await elector.candidates("one"), tuple[Candidate, ...])
    assert_type(await elector.elect("one"), ElectionResult)
    assert_type(await elector.record_result("one", success=True), bool)
    async with elector.candidate("one", {"load": 0.2, "zone": "a"}, ttl=30) as me:
        assert_type(me.node_id, str)
        assert_type(me.metadata, Mapping[str, MetaValue])
        await me.update(load=0.7)
        await me.update(load=[1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await elector.record_result("one", True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def called_by_threads(elector: blocking.StrategicElector) -> None:
    assert_type(elector.run_if_leader("one", count_now, "x"), int | None)
    assert_type(elector.attempt("one", count_now, "x"), Outcome[int])
    assert_type(elector.for_tenant("acme"), blocking.StrategicElector)
    assert_type(elector.using(wait_time=1), blocking.StrategicElector)
    assert_type(elector.node_id, str)
    assert_type(elector.strategy, Strategy)
    assert_type(elector.candidates("one"), tuple[Candidate, ...])
    assert_type(elector.elect("one"), ElectionResult)
    assert_type(elector.record_result("one", success=True), bool)
    with elector.candidate("one", {"load": 0.2, "zone": "a"}, ttl=30) as me:
        assert_type(me.node_id, str)
        assert_type(me.metadata, Mapping[str, MetaValue])
        me.update(load=0.7)
        me.update(load=[1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def decided(result: ElectionResult) -> None:
    assert_type(result.winner, Candidate | None)
    assert_type(result.ranking, tuple[Candidate, ...])
    assert_type(result.scores, Mapping[str, float])
    assert_type(result.reasons, Mapping[str, str])
