"""campaign re-evaluates while leading: it makes way for a better one, in order, no flapping."""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import incumbent.engine.reappraisal as reappraisal_module
from incumbent import (
    ActionFailed,
    Elected,
    LeaderInfo,
    LeaderOptions,
    Skipped,
    StrategicElector,
    events,
)
from incumbent.engine.contenders import Voter
from incumbent.engine.polls import Look
from incumbent.engine.reappraisal import Deference, Reappraisal
from incumbent.strategy import (
    Candidate,
    ElectionResult,
    LeastLoaded,
    Priority,
    Snapshot,
    Sticky,
    probation,
)
from kit.waiting import wait_until
from promises.scene import Journal, nothing
from strategic.scene import LEASE, Log, Town, fail, running

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
    a, b, log = town.node("a", lease_time=3), town.node("b"), Log()
    b._polls.contenders.enter(Voter("job", "b"), tell=False)  # or nobody would make way for it
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
    a, b, log = town.node("a", lease_time=3), town.node("b"), Log()
    async with a.candidate("job", {"priority": 1}), b.candidate("job", {"priority": 2}):
        task = asyncio.create_task(a.using(wait_time=5).attempt("job", log, 3.0))
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
    """A better candidate that contends, and never comes, interrupts less and less."""
    a, b, log = town.node("a", lease_time=0.6), town.node("b"), Log()
    b._polls.contenders.enter(Voter("job", "b"), tell=False)  # its campaign hangs
    journal = town.journals["a"]
    async with (
        a.candidate("job", {"priority": 1}),
        b.candidate("job", {"priority": 2}),
        running(a.campaign("job", log)),
    ):
        await wait_until(lambda: losses(journal).count("stepped_down") >= 3, within=60)
        await journal.has(events.TermEnded, len(losses(journal)))
    terms = zip(losses(journal), journal.of(events.TermEnded), strict=False)  # one may go on
    _, second, third = [term.duration for reason, term in terms if reason == "stepped_down"][:3]
    # Two looks would make each of them last for two thirds of a lease.
    assert second >= 0.6
    assert third >= 2 * 0.6


async def test_nobody_makes_way_for_who_only_stands(town: Town) -> None:
    """A better candidate that never campaigns stops no work."""
    a, b, log = town.node("a", lease_time=3), town.node("b"), Log()
    looks, look = 0, a._polls.look

    async def counted(*args: object) -> object:
        nonlocal looks
        looks += 1
        return await look(*args)  # type: ignore[arg-type]

    a._polls.look = counted  # type: ignore[method-assign, assignment]
    async with (
        a.candidate("job", {"priority": 1}),
        b.candidate("job", {"priority": 2}),
        running(a.campaign("job", log)),
    ):
        await log.reaches("a")
        seen = looks
        await wait_until(lambda: looks >= seen + 3, what="two looks, and what follows from them")
        assert losses(town.journals["a"]) == []
        async with running(b.campaign("job", log)):
            await log.reaches("a", "b")


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
    better = Candidate(node_id="b", registered_at=NOW, contending=True)
    snapshot = Snapshot(election="job", candidates=(better,), now=NOW, leader=leader)
    ahead = reappraisal._ahead(Look(snapshot, ElectionResult.of([better])))
    assert [each.node_id for each in ahead] == ([expected] if expected else [])


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


# -- rivals that fluctuate -------------------------------------------------------------------


LEADER = LeaderInfo(leader_id="bad", seat=0, fence=7, since=NOW, remaining=1)


class Looks:
    """What the looks of a reappraisal show, one after the other; then its term is over."""

    def __init__(self, *rankings: str) -> None:
        self._rankings = list(rankings)
        self.stepped_down_after: int | None = None
        self.looked = 0
        self.held = True
        self.grant = SimpleNamespace(fence=7)

    async def look(self, *args: object) -> Look:
        """The next one: letters are nodes that contend, best first, `x` is the leader."""
        ranking = [
            Candidate(
                node_id="bad" if letter == "x" else letter.lower(),
                registered_at=NOW,
                contending=letter.islower(),
            )
            for letter in self._rankings[self.looked]
        ]
        self.looked += 1
        self.held = self.looked < len(self._rankings)
        snapshot = Snapshot(election="job", candidates=tuple(ranking), now=NOW, leader=LEADER)
        return Look(snapshot, ElectionResult.of(ranking))

    def step_down(self) -> None:
        """The leader makes way."""
        self.stepped_down_after = self.looked


@pytest.mark.parametrize(
    ("rankings", "after"),
    [
        (("abx", "bax"), 2),  # today's best was better before, if not the best
        (("ax", "bax", "xab"), None),  # b is new
        (("ax", "bax", "bax"), 3),
        (("ax", "xa", "ax"), None),  # not two in a row
        (("abcdx", "dcbax"), 2),
        (("ax", "bx", "cx", "dx"), None),  # each of them has just come
        (("ABx", "ABx"), None),  # they only stand
        (("Abx", "bAx"), 2),
        (("bcx", "Abx"), 2),  # the best of those that would come
        (("x", "x"), None),
    ],
)
async def test_it_makes_way_when_the_best_of_today_was_better_in_both_looks(
    rankings: tuple[str, ...], after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many good nodes that change places are no reason to stay."""
    monkeypatch.setattr(reappraisal_module, "SHORTEST_PERIOD", 0.0)
    looks: Any = Looks(*rankings)
    options = LeaderOptions(lease_time=0.25)
    await Reappraisal(looks, Voter("job", "bad"), options, looks, Deference()).run()
    assert looks.stepped_down_after == after


async def test_fluctuating_rivals_do_not_keep_a_bad_leader(town: Town) -> None:
    """Twelve rivals whose loads change between any two looks, all far below the leader's."""
    chance, log = random.Random(3), Log()
    bad = town.node("bad", LeastLoaded("load"))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bad.candidate("job", {"load": 0.99}))
        looked, look = 0, bad._polls.look
        await stack.enter_async_context(running(bad.campaign("job", log)))
        await log.reaches("bad")
        rivals = [town.node(f"w{number}", LeastLoaded("load")) for number in range(12)]
        mine = [
            await stack.enter_async_context(each.candidate("job", {"load": 0.1})) for each in rivals
        ]
        await stack.enter_async_context(running(*(each.campaign("job", log) for each in rivals)))
        await wait_until(
            lambda: all(Voter("job", w.node_id) in w._polls.contenders for w in rivals)
        )
        last = ""

        async def shaken(*args: Any) -> Look:
            """A look after which somebody else is the best."""
            nonlocal looked, last
            if len(log.terms) == 1:
                looked += 1
                best = chance.choice([each for each in mine if each.node_id != last])
                last = best.node_id
                loads = {me: 0.01 if me is best else chance.uniform(0.05, 0.2) for me in mine}
                await asyncio.gather(*(me.update(load=load) for me, load in loads.items()))
            return await look(*args)

        bad._polls.look = shaken  # type: ignore[method-assign, assignment]
        await wait_until(lambda: len(log.terms) > 1, within=60)
        assert log.terms[1] != "bad"
        assert looked <= 10


# -- a broken node that is the best ----------------------------------------------------------


async def test_a_broken_node_stops_a_healthy_one_less_and_less(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails at once, so it is the least loaded: each failure doubles the time it is left alone.

    When it works again it leads, and its failures are forgotten.
    """
    monkeypatch.setattr(probation, "FIRST", 0.5)
    monkeypatch.setattr(probation, "LONGEST", 2.0)
    monkeypatch.setattr(probation, "EARLY", 3.0)
    good, log = town.node("good", lease_time=3), Log()
    bad = town.node("bad", lease_time=3, restart=True)
    tries: list[float] = []
    works = False

    async def broken() -> None:
        tries.append(asyncio.get_running_loop().time())
        if not works:
            raise ConnectionError("no database")
        await log()

    async with (
        good.candidate("job", {"priority": 1}),
        bad.candidate("job", {"priority": 2}),
        running(good.campaign("job", log), bad.campaign("job", broken)),
    ):
        await wait_until(lambda: len(tries) >= 5, within=60)
        told = town.journals["bad"].of(events.CandidateSetBack)
        assert [each.times for each in told[:4]] == [1, 2, 3, 4]
        assert [each.seconds for each in told[:4]] == [0.5, 1.0, 2.0, 2.0]
        pauses = [after - before for before, after in pairwise(tries)]
        for pause, least in zip(pauses, (0.5, 1.0, 2.0, 2.0), strict=False):
            assert pause >= least - 0.1, pauses
        works = True
        await wait_until(lambda: "bad" in log.terms, within=60)

        await asyncio.sleep(3.5)  # longer than what counts as early
        assert log.running == ["bad"]

    async with bad.candidate("job", {"priority": 2}):
        (found,) = await bad.candidates("job")
        # It was cancelled, after longer than what counts as early.
        assert found.early_failures == 0


async def test_who_fails_early_is_not_the_best_of_a_run_either(town: Town) -> None:
    """`attempt` on the broken node is skipped while a healthy one stands; alone it runs."""
    a, b = town.node("a"), town.node("b")
    async with a.candidate("job", {"priority": 2}):
        async with b.candidate("job", {"priority": 1}):
            assert isinstance(await a.attempt("job", fail), ActionFailed)
            assert await a.attempt("job", nothing) == Skipped("not_best")
            assert isinstance(await b.attempt("job", nothing), Elected)
            reasons = (await b.elect("job")).reasons
            assert "failed 1 times in a row soon after the start" in reasons["a"]
        assert isinstance(await a.attempt("job", nothing), Elected)
        (found,) = await a.candidates("job")
        assert found.early_failures == 0, "a success ends the row"


async def test_it_needs_no_results_to_be_counted(town: Town) -> None:
    """`record_results=False` is about counts for scorers."""
    store = town.node("b")._office.store
    journal = Journal()
    async with (
        StrategicElector(
            store, strategy=Priority(), node_id="a", hooks=[journal], record_results=False
        ) as a,
        a.candidate("job"),
    ):
        assert isinstance(await a.attempt("job", fail), ActionFailed)
        (found,) = await a.candidates("job")
        assert (found.failures, found.early_failures) == (0, 1)
    assert len(journal.of(events.CandidateSetBack)) == 1
