"""campaign re-evaluates while leading: it makes way for a better one, in order, no flapping."""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent import LeaderInfo, LeaderOptions, events
from incumbent.engine.polls import Look, Voter
from incumbent.engine.reappraisal import Deference, Reappraisal
from incumbent.strategy import (
    Candidate,
    ElectionResult,
    LeastLoaded,
    Priority,
    Snapshot,
    Sticky,
)
from kit.waiting import wait_until
from promises.scene import Journal
from strategic.scene import LEASE, Log, Town, running

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def losses(journal: Journal) -> list[str]:
    """Why terms were lost."""
    return [event.reason for event in journal.of(events.TermLost)]


async def test_the_leader_makes_way_for_a_better_one(town: Town) -> None:
    """P3: its action is stopped and cleaned up before the other one's begins; nobody overlaps."""
    a, b, log = town.node("a"), town.node("b"), Log()
    async with a.candidate("job", {"priority": 1}), running(a.campaign("job", log)):
        await log.reaches("a")
        async with b.candidate("job", {"priority": 2}), running(b.campaign("job", log)):
            await log.reaches("a", "b")
            assert log.cleaned == ["a"]
            assert losses(town.journals["a"]) == ["stepped_down"]
        await log.reaches("a", "b", "a")
    assert log.terms == ["a", "b", "a"]


async def test_metadata_that_change_move_the_leadership(town: Town) -> None:
    """The load of the leader grows: the other one leads."""
    a, b, log = town.node("a", LeastLoaded()), town.node("b", LeastLoaded()), Log()
    async with (
        a.candidate("job", {"load": 0.1}) as me,
        b.candidate("job", {"load": 0.5}),
        running(a.campaign("job", log), b.campaign("job", log)),
    ):
        await log.reaches("a")
        await me.update(load=0.9)
        await log.reaches("a", "b")
    assert log.terms == ["a", "b"]


async def test_one_look_is_not_enough(town: Town) -> None:
    """A better one that is there for one look only does not stop the work."""
    a, b, log = town.node("a"), town.node("b"), Log()
    may_look, looked = asyncio.Semaphore(0), asyncio.Semaphore(0)
    look = a._polls.look

    async def by_turns(*args: object) -> object:
        await may_look.acquire()
        seen = await look(*args)  # type: ignore[arg-type]
        looked.release()
        return seen

    async with a.candidate("job", {"priority": 1}), running(a.campaign("job", log)):
        await log.reaches("a")
        a._polls.look = by_turns  # type: ignore[method-assign, assignment]
        for _ in range(3):
            async with b.candidate("job", {"priority": 2}):
                may_look.release()
                await looked.acquire()
            may_look.release()
            await looked.acquire()
        assert log.terms == ["a"]
        assert losses(town.journals["a"]) == []


async def test_only_a_campaign_makes_way(town: Town) -> None:
    """A single run is not interrupted for a better candidate."""
    a, b, log = town.node("a"), town.node("b"), Log()
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        task = asyncio.create_task(a.using(wait_time=5).attempt("job", log, 3 * LEASE))
        await task
    assert losses(town.journals["a"]) == []


async def test_who_left_the_candidates_makes_way(town: Town) -> None:
    """The lease goes on, but two looks later the other one may have it."""
    a, b, log = town.node("a"), town.node("b"), Log()
    me = a.candidate("job", {"priority": 2})
    async with (
        me,
        b.candidate("job", {"priority": 1}),
        running(a.campaign("job", log), b.campaign("job", log)),
    ):
        await log.reaches("a")
        await me.__aexit__(None, None, None)
        await log.reaches("a", "b")
    assert log.terms == ["a", "b"]


async def test_an_offer_that_nobody_takes_is_not_made_again_and_again(town: Town) -> None:
    """A better candidate that only stands, and never campaigns, interrupts less and less."""
    a, b, log = town.node("a", lease_time=0.6), town.node("b"), Log()
    async with (
        a.candidate("job", {"priority": 1}),
        b.candidate("job", {"priority": 2}),
        running(a.campaign("job", log)),
    ):
        await asyncio.sleep(5)
    # Two looks a term would make eight of them.
    assert 2 <= len(log.terms) <= 4


def test_deference_doubles_until_the_offer_is_taken() -> None:
    """Told by when the candidate last started some work."""
    deference, better = Deference(), Candidate(node_id="b", registered_at=NOW)
    waits: list[float] = []
    for _ in range(4):
        waits.append(deference.wait("job", better, 10.0))
        deference.offer("job", better)
    assert waits == [0.0, 10.0, 20.0, 40.0]
    assert deference.wait("other", better, 10.0) == 0.0
    came = Candidate(node_id="b", registered_at=NOW, last_started_at=NOW + timedelta(seconds=1))
    assert deference.wait("job", came, 10.0) == 0.0
    deference.offer("job", came)
    assert deference.wait("job", came, 10.0) == 10.0


@pytest.mark.parametrize(("fence", "expected"), [(7, "b"), (8, None), (None, None)])
async def test_a_look_at_another_term_says_nothing(fence: int | None, expected: str | None) -> None:
    """Who has lost the seat learns it by its renewal: the better one may be there already."""
    term: Any = SimpleNamespace(grant=SimpleNamespace(fence=7))
    nobody: Any = None
    reappraisal = Reappraisal(nobody, Voter("job", "a"), LeaderOptions(), term, Deference())
    leader = None
    if fence is not None:
        leader = LeaderInfo(leader_id="a", seat=0, fence=fence, since=NOW, remaining=1)
    better = Candidate(node_id="b", registered_at=NOW)
    snapshot = Snapshot(election="job", candidates=(better,), now=NOW, leader=leader)
    winner = reappraisal._winner(Look(snapshot, ElectionResult.of([better])))
    assert (winner and winner.node_id) == expected


@given(times=st.integers(1, 60))
def test_deference_has_a_bound(times: int) -> None:
    """However often, it stays a number of lease times."""
    deference, better = Deference(), Candidate(node_id="b", registered_at=NOW)
    for _ in range(times):
        deference.offer("job", better)
    assert 1.0 <= deference.wait("job", better, 1.0) <= 1024.0


async def test_sticky_keeps_the_leader_while_scores_jitter(town: Town) -> None:
    """Within the margin the leader never changes; clearly beyond, it does."""
    strategy = Sticky(LeastLoaded("load"), margin=0.2)
    chance, log = random.Random(7), Log()
    async with AsyncExitStack() as stack:
        nodes = [town.node(name, strategy) for name in "abc"]
        mine = [
            await stack.enter_async_context(node.candidate("job", {"load": 0.5})) for node in nodes
        ]
        async with running(*(node.campaign("job", log) for node in nodes)):
            await wait_until(lambda: bool(log.terms))
            (leader,) = log.terms
            for _ in range(60):
                for me in mine:
                    await me.update(load=0.5 + chance.uniform(-0.1, 0.1))
                await asyncio.sleep(0.04)
            assert log.terms == [leader]
            await mine["abc".index(leader)].update(load=0.9)
            await wait_until(lambda: len(log.terms) > 1)


async def test_case_97_a_preferred_node_that_comes_and_goes(town: Town) -> None:
    """Case 97: it enrols and leaves again and again; with hysteresis the leader changes once."""
    strategy = Sticky(Priority(), margin=0.0, min_tenure=60)
    a, b, log = town.node("a", strategy), town.node("b", strategy), Log()
    async with a.candidate("job", {"priority": 1}), running(a.campaign("job", log)):
        await log.reaches("a")
        for _ in range(5):
            async with b.candidate("job", {"priority": 9}), running(b.campaign("job", log)):
                await asyncio.sleep(LEASE)
            await asyncio.sleep(0.1)
    assert log.terms == ["a"]


async def test_case_97_without_hysteresis_it_is_followed_each_time(town: Town) -> None:
    """Case 97, the other side: without `Sticky` the preferred node gets its seat each time."""
    a, b, log = town.node("a"), town.node("b"), Log()
    async with a.candidate("job", {"priority": 1}), running(a.campaign("job", log)):
        await log.reaches("a")
        for terms in range(1, 3):
            async with b.candidate("job", {"priority": 9}), running(b.campaign("job", log)):
                await log.reaches(*["a", "b"] * terms)
            await log.reaches(*["a", "b"] * terms, "a")
    assert log.terms == ["a", "b", "a", "b", "a"]
