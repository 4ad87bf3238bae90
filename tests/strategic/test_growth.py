"""What a fleet costs grows as the fleet, not as its square: counted on a real server."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis

from contract.bench import Watch
from incumbent import LeaderInfo, LeaderOptions, StrategicElector, clock, current_lease
from incumbent.engine.best_first import BestFirst
from incumbent.engine.contenders import Contenders, Voter
from incumbent.engine.polls import Look
from incumbent.stores.base import Budget
from incumbent.strategy import Candidate, ElectionResult, Priority, Snapshot
from kit.fixtures import StartServer
from kit.servers import Server
from kit.waiting import wait_until

LEASE = 4.0
SIZES = (10, 60)
BUDGET = Budget(60.0, 30.0)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Cost:
    """What the server did meanwhile."""

    commands: int
    bytes_out: int


def spent(server: Server) -> Cost:
    """Scripts that were run, and bytes that were sent by the server, up to now."""
    stats, totals = server.admin.info("commandstats"), server.admin.info("stats")
    calls = sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))
    return Cost(calls, int(totals["total_net_output_bytes"]))


class Fleet:
    """Nodes with a connection each, which all campaign; the higher its number, the better."""

    def __init__(self, server: Server, size: int) -> None:
        self._clients = [Redis.from_url(server.url) for _ in range(size)]
        # Candidates live longer than the test: their heartbeats are not what is counted here.
        self.nodes = [
            StrategicElector(
                client,
                LeaderOptions(lease_time=LEASE, request_timeout=0.25 * LEASE),
                strategy=Priority(),
                node_id=f"node-{number:03}",
                hooks=[],
            )
            for number, client in enumerate(self._clients)
        ]
        self.terms: list[str] = []

    async def serve(self) -> None:
        """Lead for ever."""
        lease = current_lease()
        assert lease is not None
        self.terms.append(lease.leader_id)
        await asyncio.Event().wait()


@asynccontextmanager
async def fleet_of(server: Server, size: int) -> AsyncIterator[Fleet]:
    """A fleet, whose best node leads and whose others stand by."""
    fleet = Fleet(server, size)
    async with AsyncExitStack() as stack:
        for client in fleet._clients:
            stack.push_async_callback(client.aclose)
        for number, node in enumerate(fleet.nodes):
            await stack.enter_async_context(node)
            me = node.candidate("job", {"priority": number}, ttl=3600)
            await stack.enter_async_context(me)
        tasks = []
        for node in reversed(fleet.nodes):  # the best one first
            tasks.append(asyncio.create_task(node.campaign("job", fleet.serve)))
            if len(tasks) == 1:
                await wait_until(lambda: fleet.terms)
        try:
            await wait_until(lambda: all(map(_contends, fleet.nodes)), within=60)
            await asyncio.sleep(LEASE)
            yield fleet
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def _contends(node: StrategicElector) -> bool:
    return Voter("job", node.node_id) in node._polls.contenders


async def test_standing_by_reads_no_candidates(start_server: StartServer) -> None:
    """Per lease time each standby asks once who has the seat; only the leader reads candidates.

    So the fleet's commands and bytes grow as its size, and not as its square.
    """
    looks: dict[int, int] = {}
    commands: dict[int, int] = {}
    sent: dict[int, int] = {}

    async def count(size: int, server: Server) -> None:
        async with fleet_of(server, size) as fleet:
            before = spent(server)
            await asyncio.sleep(4 * LEASE)
            after = spent(server)
            watch = Watch(server)  # which is sent each command as well
            with watch():
                await asyncio.sleep(2 * LEASE)
            assert set(fleet.terms) == {fleet.nodes[-1].node_id}
            looks[size] = sum(run.script == "snapshot" for run in watch.runs)
            commands[size] = after.commands - before.commands
            sent[size] = after.bytes_out - before.bytes_out

    async with asyncio.TaskGroup() as both:
        for size in SIZES:
            both.create_task(count(size, start_server()))
    print(f"in four lease times, by the size of the fleet: {commands=} {sent=} {looks=}")
    for size in SIZES:
        # The leader looks every third of a lease time, whatever the size of its fleet: six times in
        # two lease times, and a few more when the machine is slow to end the watch.
        assert looks[size] <= 12, looks
        # A look at the seat at its end; the leader's renewals and looks come on top, once for all.
        assert commands[size] <= 6 * size + 40, commands
    small, large = SIZES
    growth = large / small
    assert sent[large] <= 2 * growth * sent[small], sent


# -- when the seat becomes free ---------------------------------------------------------------


class Told:
    """A lookout that says what it is told to say."""

    def __init__(self, *answers: tuple[bool, bool]) -> None:
        self._answers = list(answers)
        self.waits: list[float] = []

    async def change(self, *, taken: bool, until: float) -> bool:
        """The next answer, which has to be one to this question."""
        self.waits.append(until - clock.now())
        asked, answer = self._answers.pop(0)
        assert asked is taken
        return answer

    def close(self) -> None:
        """Nothing to do."""
        assert self._answers == []


class Election:
    """An election in which somebody leads at the first look, and nobody is left at the next."""

    def __init__(self, better: int) -> None:
        self.contenders = Contenders()
        self.looks = 0
        names = [*(f"better-{number:04}" for number in range(better)), "me"]
        self._candidates = [
            Candidate(node_id=name, registered_at=NOW, contending=True) for name in names
        ]

    async def look(self, *args: object) -> Look:
        """The next one."""
        self.looks += 1
        first = self.looks == 1
        candidates = tuple(self._candidates if first else self._candidates[-1:])
        leader = LEADER if first else None
        snapshot = Snapshot(election="job", candidates=candidates, now=NOW, leader=leader)
        return Look(snapshot, ElectionResult.of(candidates))


LEADER = LeaderInfo(leader_id="better-0000", seat=0, fence=1, since=NOW, remaining=1e-3)
FREE, TAKEN, NOT_TAKEN = (False, True), (True, True), (True, False)


async def admitted(election: Any, lookout: Told) -> None:
    """Let a candidate through its gate."""
    options = LeaderOptions(lease_time=12)  # a grace is 1 s
    voter = Voter("job", "me")
    gate = BestFirst(election, voter, options, lookout, records=False, deference=None)
    assert await gate.admit(math.inf, BUDGET) is None


async def test_nobody_looks_while_others_take_the_seat_from_each_other() -> None:
    """The store tells of three hand-overs; there is one look before them, and one after."""
    election = Election(better=2)
    await admitted(election, Told(FREE, TAKEN, FREE, TAKEN, FREE, TAKEN, FREE, NOT_TAKEN))
    assert election.looks == 2


@pytest.mark.parametrize(("better", "seconds"), [(2, 0.005), (11, 0.05), (1000, 1 / 3)])
async def test_those_further_down_look_later(better: int, seconds: float) -> None:
    """By 5 ms for each that is better, the leader not counted: a third of a grace at most."""
    election, lookout = Election(better), Told(FREE, NOT_TAKEN)
    await admitted(election, lookout)
    assert lookout.waits[1] == pytest.approx(seconds, abs=0.003)


async def test_the_best_looks_at_once() -> None:
    """With nobody better than the leader that goes."""
    election = Election(better=1)
    await admitted(election, Told(FREE))
    assert election.looks == 2
