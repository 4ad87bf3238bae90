"""Standing in line: from a release to the next holder's first line, and many waiters drained.

Two processes contend, so that nothing is known to the waiter but what the server tells.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import pairwise
from statistics import median, quantiles

from redis.asyncio import Redis

from bench import rival
from bench.counts import Counts
from bench.figures import Figure
from bench.race import race
from bench.raw import nothing
from bench.rival import FIFO_LOCK, HELD_FOR, LOCK, OURS, REDIS_LOCK, Plan, Turn
from incumbent import GroupElector, LeaderElector, LeaderOptions
from kit.servers import Server
from kit.waiting import wait_until

RIVALS = (OURS, LOCK, REDIS_LOCK, FIFO_LOCK)
PROCESSES = 2
SEATS = 64
TOGETHER = 8
"""Seats that expire at one moment."""


async def measure(server: Server, counts: Counts) -> list[Figure]:
    """All four parts."""
    return [
        *await _hand_over(server, counts),
        *await _drain(server, counts),
        *await _groups(server, counts),
        *await _expire(server, counts),
    ]


# -- from one holder to the next ------------------------------------------------------------------


async def _hand_over(server: Server, counts: Counts) -> list[Figure]:
    times: dict[str, list[float]] = {kind: [] for kind in RIVALS if rival.installed(kind)}
    trips: list[float] = []
    hot: list[float] = []
    for number in range(counts.queue_rounds):
        for kind, seen in times.items():
            turns = counts.hand_overs if kind == OURS else counts.slow_hand_overs
            plan = Plan(kind=kind, url=server.url, name=f"hand-over-{number}", turns=turns)
            seen.extend(_gaps(await _run([plan] * PROCESSES)))
        trips += await _round_trips(server, counts.hand_overs, rest=HELD_FOR)
        hot += await _round_trips(server, counts.hand_overs)
    trip = median(trips)
    part = "From a release to the next holder's first line, two processes"
    ours = times[OURS]
    figures = [
        Figure(part=part, what="median, in raw round trips", value=median(ours) / trip, below=4),
        Figure(part=part, what="p99, in raw round trips", value=_p99(ours) / trip, below=12),
        Figure(part=part, what="raw round trip (PING) after rest", value=1000 * trip, unit="ms"),
        Figure(part=part, what="one right after another", value=1000 * median(hot), unit="ms"),
    ]
    for kind, seen in times.items():
        figures += [
            Figure(part=part, what=f"{kind}, median", value=1000 * median(seen), unit="ms"),
            Figure(part=part, what=f"{kind}, p99", value=1000 * _p99(seen), unit="ms"),
        ]
    return figures


def _gaps(turns: Iterable[Turn]) -> list[float]:
    """From each release to the next first line, where these are of the same lock's one sequence."""
    in_order = sorted(turns, key=lambda turn: turn.had)
    # The first ones start up, and at the end one is alone.
    return [after.had - before.gave for before, after in pairwise(in_order)][
        2 : -len(in_order) // 4
    ]


async def _round_trips(server: Server, count: int, *, rest: float = 0.0) -> list[float]:
    """Each after a rest: to wake from one costs as much as a trip, and who waits has to."""
    trips: list[float] = []
    async with Redis.from_url(server.url) as client:
        for _ in range(count):
            if rest:
                await asyncio.sleep(rest)
            began = time.monotonic()
            await client.ping()
            trips.append(time.monotonic() - began)
    return trips


# -- a thousand waiters ---------------------------------------------------------------------------


async def _drain(server: Server, counts: Counts) -> list[Figure]:
    rates: dict[str, list[float]] = {OURS: [], LOCK: []}
    each = counts.waiters // PROCESSES
    for number in range(counts.queue_rounds):
        for kind, seen in rates.items():
            name = f"drain-{number}"
            plan = Plan(kind=kind, url=server.url, name=name, turns=1, waiters=each, hold=0)
            async with rival.taker(plan) as take:
                async with take():
                    running = [asyncio.create_task(_one(plan)) for _ in range(PROCESSES)]
                    await _all_wait(server, kind, name, each * PROCESSES)
                    released = time.monotonic()
                turns = [turn for run in await asyncio.gather(*running) for turn in run]
            seen.append(len(turns) / (max(turn.gave for turn in turns) - released))
    part = f"{counts.waiters:,} waiters drained, two processes"
    ours, locks = median(rates[OURS]), median(rates[LOCK])
    return [
        Figure(
            part=part, what="rate, as a multiple of redis-py's Lock", value=ours / locks, at_least=8
        ),
        *(
            Figure(part=part, what=kind, value=median(seen), unit="/s")
            for kind, seen in rates.items()
        ),
    ]


async def _all_wait(server: Server, kind: str, name: str, count: int) -> None:
    if kind == OURS:
        queue = f"incumbent:{{{name}}}:queue"
        await wait_until(
            lambda: server.cli("ZCARD", queue) == count, within=60, every=0.05, what="all stand"
        )
    else:
        await asyncio.sleep(2)  # nobody can see who waits for a Lock; by then all have begun


# -- groups ---------------------------------------------------------------------------------------


async def _groups(server: Server, counts: Counts) -> list[Figure]:
    async with Redis.from_url(server.url) as client:
        single, group = LeaderElector(client), GroupElector(client, seats=SEATS)

        async def run(elector: LeaderElector | GroupElector) -> None:
            for _ in range(counts.lone_cycles):
                if not await elector.run_if_leader("group-rate", nothing):
                    raise RuntimeError("an uncontended election was not won")

        laps = await race(
            {"one leader": lambda: run(single), "a group": lambda: run(group)}, counts.lone_rounds
        )
        await single.aclose()
        await group.aclose()
    return [
        Figure(
            part=f"A group of {SEATS} seats",
            what="rate, as a multiple of the single leader's",
            value=laps["one leader"].wall / laps["a group"].wall,
            at_least=0.6,
        )
    ]


async def _expire(server: Server, counts: Counts) -> list[Figure]:
    """Seats whose holders are gone end at one moment: how long until each has a new holder."""
    longest: list[float] = []
    for number in range(counts.queue_rounds):
        name = f"expire-{number}"
        # Nobody renews these, as if their processes were gone.
        options = LeaderOptions(lease_time=counts.gone_after, auto_extend=False, on_loss="notify")
        async with (
            Redis.from_url(server.url) as client,
            GroupElector(client, options, seats=TOGETHER, hooks=()) as group,
            AsyncExitStack() as held,
        ):
            for _ in range(TOGETHER):
                await held.enter_async_context(group.lead(name))
            ends = time.time() + counts.gone_after
            for seat in range(TOGETHER):
                server.cli("PEXPIREAT", f"incumbent:{{{name}}}:seat:{seat}", round(1000 * ends))
            plan = Plan(
                kind=OURS, url=server.url, name=name, turns=1, waiters=TOGETHER // PROCESSES,
                seats=TOGETHER, hold=0.5,
            )  # fmt: skip
            turns = await _run([plan] * PROCESSES)
            ended = time.monotonic() + ends - time.time()
            longest.append(max(turn.had for turn in turns) - ended)
    return [
        Figure(
            part=f"{TOGETHER} seats expire together, as many waiters in two processes",
            what="until the last one is retaken, median",
            value=1000 * median(longest),
            unit="ms",
            below=30,
        )
    ]


# -- processes ------------------------------------------------------------------------------------


async def _run(plans: Iterable[Plan]) -> list[Turn]:
    return [turn for turns in await asyncio.gather(*map(_one, plans)) for turn in turns]


async def _one(plan: Plan) -> list[Turn]:
    child = await asyncio.create_subprocess_exec(
        *plan.command(), stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": _path()}
    )
    said, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"{plan.kind} ended with {child.returncode}")
    return [Turn(**turn) for turn in json.loads(said.splitlines()[-1])]


def _path() -> str:
    return os.pathsep.join(each for each in sys.path if each)


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98] if len(times) > 1 else times[0]
