"""kit.crew, kit.contender, kit.faults: real processes contend, and suffer as they are meant to."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kit import chaos
from kit.checker import Report, Term, check
from kit.crew import Crew, Member
from kit.faults import Fault
from kit.fixtures import CHOSEN, StartServer
from kit.outcome import Outcome
from kit.records import Recorder
from kit.register import RegisterReport, check_register
from kit.servers import Server
from kit.storm import Storm
from kit.topologies import OverCluster, OverSentinels, Topology
from kit.waiting import wait_until

LEASE = 2.0
PLAN = {"options": {"lease_time": LEASE}, "hold": (30.0, 30.0)}


async def _leader(crew: Crew) -> Member:
    return await wait_until(crew.leader, within=60, what="somebody leads")


async def test_a_crew_contends(valkey: Server, tmp_path: Path) -> None:
    """Contenders take turns; all that they wrote is sound, and they end when they are told."""
    plan = {"options": {"lease_time": LEASE}, "hold": (0.02, 0.05)}
    async with Crew(valkey, tmp_path, size=2, plan=plan) as crew:

        def shared() -> bool:
            crew.assert_running()
            elected = {each.process for each in crew.records() if each.kind == "elected"}
            return elected == {"a1", "b1"}

        await wait_until(shared, within=60, every=0.05, what="both have led")
    check(crew.records()).assert_sound(min_terms=2)
    check_register(crew.register()).assert_sound(min_writes=2)
    kinds = Counter(record.kind for record in crew.records())
    assert kinds["away"] == 2  # in order, by SIGTERM
    assert kinds["work"] >= kinds["elected"] >= 2


async def test_what_is_done_to_a_leader(valkey: Server, tmp_path: Path) -> None:
    """Killed, frozen or cut off, a leader is followed by another, and each is on record."""
    async with Crew(valkey, tmp_path, size=3, plan=PLAN) as crew:
        await crew.all_standing()
        killed = await _leader(crew)
        crew.kill(killed)
        assert not killed.running
        frozen = await _follower(crew, killed)
        crew.start(killed)
        crew.pause(frozen)
        cut = await _follower(crew, frozen)
        crew.resume(frozen)
        crew.silence(cut)
        last = await _follower(crew, cut)
        await crew.restore(cut)
        assert await crew.terminate(last) == 0
    check(crew.records()).assert_sound(max_idle=LEASE + 3, min_terms=4)
    check_register(crew.register()).assert_sound(min_writes=4)
    lost = {each.process for each in crew.records() if each.kind == "lost"}
    assert lost >= {frozen.process, cut.process}
    kinds = Counter(record.kind for record in crew.records())
    for kind in ("killed", "paused", "resumed", "cut", "restored"):
        assert kinds[kind] == 1


async def test_what_a_leader_does_to_itself(valkey: Server, tmp_path: Path) -> None:
    """Its loop stalls, its clock jumps, its call is cancelled: each ends its term, on record."""
    async with Crew(valkey, tmp_path, size=2, plan=PLAN) as crew:
        await crew.all_standing()
        for order, kind in (("stall", "lost"), ("step", "lost"), ("cancel", "stopped")):
            leader = await _leader(crew)
            before = len(_ends(crew))
            crew.order(leader, order, 2 * LEASE)
            await _more(partial(_ends, crew), before)
            assert _ends(crew)[before] == (leader.process, kind)
            await _more(partial(_elected, crew), before + 1)
    check(crew.records()).assert_sound(max_idle=LEASE + 3, min_terms=4)
    assert sum(each.kind == "paused" for each in crew.records()) == 2


def _ends(crew: Crew) -> list[tuple[str, str]]:
    ends = {"lost", "stopped"}
    return [(each.process, each.kind) for each in crew.records() if each.kind in ends]


def _elected(crew: Crew) -> list[str]:
    return [each.process for each in crew.records() if each.kind == "elected"]


async def _more(found: Callable[[], Sequence[object]], than: int) -> None:
    await wait_until(lambda: len(found()) > than, within=60, every=0.05)


async def _follower(crew: Crew, before: Member) -> Member:
    return await wait_until(
        lambda: leader if (leader := crew.leader()) not in (None, before) else None,
        within=60,
        what=f"another than {before.process} leads",
    )


async def test_who_has_just_been_started_ends_in_order(valkey: Server, tmp_path: Path) -> None:
    """SIGTERM waits until the contender can hear it, however slowly its interpreter starts."""
    async with Crew(valkey, tmp_path, size=1, plan=PLAN) as crew:
        (member,) = crew.members
        assert await crew.terminate(member) == 0
    assert next(each.kind for each in crew.records()) == "standing"


async def test_a_contender_that_fails_is_told(valkey: Server, tmp_path: Path) -> None:
    """A process that ended by an error fails the test, with its traceback."""
    crew = Crew(valkey, tmp_path, size=1, plan={"options": {"lease_time": 0.01}})
    await crew.__aenter__()
    (member,) = crew.members
    await wait_until(lambda: not member.running, within=60)
    with pytest.raises(AssertionError, match=r"(?s)a1 ended .*lease_time must be"):
        await crew.__aexit__()


async def test_a_storm_repeats_by_its_seed(tmp_path: Path) -> None:
    """One seed, one list of faults; another seed, another; some members stay well."""

    class Still(Crew):
        def leader(self, election: str = "", seat: int = 0) -> Member | None:
            return None

    async def blow(seed: int) -> list[tuple[str, str]]:
        crew = Still(Server(), tmp_path)  # never started
        crew._recorder = crew._stack.enter_context(Recorder(tmp_path / "crew.jsonl"))
        crew.members = [Member(place, None) for place in "abcd"]  # type: ignore[arg-type] # unused
        seen: list[tuple[str, str]] = []

        def fake(name: str) -> Fault:
            async def fault(_: Crew, member: Member, draw: random.Random, lease: float) -> None:
                seen.append((name, member.place))
                assert len(storm._hit) <= 2
                await asyncio.sleep(0)

            return fault

        deck = [(fake("x"), 1), (fake("y"), 2)]
        storm = Storm(
            crew, seconds=1, lease_time=1, seed=seed, every=0.001, deck=deck, on_server=()
        )
        async with crew._stack:
            assert (await storm.rage()).total() == len(seen)
        return seen[:10]

    first, again, other = await blow(1), await blow(1), await blow(2)
    assert first == again
    assert first != other
    assert len(first) == 10


def test_a_chaos_run_ends_with_its_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report says what was found, and the exit code is 1 as soon as one promise was broken."""
    term = Term(process="a1", election="crew", seat=0, fence=1, start=1, end=2)
    fine = Outcome(
        seconds=1,
        seed=1,
        lease_time=0.8,
        faults=Counter(kill=2),
        report=Report(
            terms=(term,), overlaps=(), fence_violations=(), stray_work=(), take_overs=(0.25,),
            longest_idle=0.2,
        ),
        registers=(RegisterReport(accepted=9, late=1, stale=()),),
    )  # fmt: skip
    broken = {
        "two holders": replace(fine, report=replace(fine.report, overlaps=("two holders",))),
        "older fence": replace(
            fine, registers=(replace(fine.registers[0], stale=("older fence",)),)
        ),
        "idle": replace(fine, report=replace(fine.report, longest_idle=1.4)),
        "elections        0": replace(fine, report=replace(fine.report, terms=())),
    }
    for word, outcome, code in [
        ("p50 250 ms", fine, 0),
        *((word, outcome, 1) for word, outcome in broken.items()),
    ]:

        async def run(*_: object, given: Outcome = outcome, **__: object) -> Outcome:
            return given

        monkeypatch.setattr(chaos, "run", run)
        monkeypatch.setattr(chaos, "Server", lambda *_, **__: nullcontext())
        assert chaos.main([]) == code
        said = capsys.readouterr().out
        assert word in said
        assert said.endswith("BROKEN\n" if code else "sound\n")


async def test_p1_a_group_of_three_has_never_a_fourth_holder(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Ten processes under kills, freezes and a bad network: three seats, and no seat lost."""
    outcome = await chaos.run(
        start_server(aof=True), tmp_path, seconds=8, seed=3, lease_time=1.2, size=10, seats=3
    )
    print(outcome)
    outcome.assert_sound()
    assert outcome.sound
    assert {term.seat for term in outcome.report.terms} == {0, 1, 2}


async def test_ten_seconds_of_chaos(start_server: StartServer, tmp_path: Path) -> None:
    """P1, P2, P7: under kills, freezes and a bad network there is one holder at a time."""
    outcome = await chaos.run(start_server(aof=True), tmp_path, seconds=10, seed=7)
    print(outcome)
    outcome.assert_sound()
    assert outcome.sound
    assert len(outcome.report.terms) > 5
    assert outcome.faults.total() > 5


async def test_all_electors_at_once(start_server: StartServer, tmp_path: Path) -> None:
    """P1, P4, P7: one leader, a group, candidates, a schedule and short elections in one storm."""
    mill = {"shared": 8, "grouped": 2, "own": 4}
    outcome = await chaos.run(
        start_server(aof=True),
        tmp_path,
        seconds=8,
        seed=11,
        lease_time=1.2,
        everything=True,
        mill=mill,
        patience=10,
    )
    print(outcome)
    outcome.assert_sound()
    assert outcome.short.elections > 100
    assert outcome.short.handed_over > 10
    assert outcome.ticks.runs > 1
    assert {term.election for term in outcome.report.terms} == {"crew", "seats", "best"}


@pytest.mark.parametrize("kind", [OverCluster, partial(OverSentinels, orderly=False)])
async def test_more_than_one_server(
    start_server: StartServer, tmp_path: Path, kind: Callable[[str], Topology]
) -> None:
    """P1, P4, P7 on who Sentinels say is the primary, and on a cluster whose slots move."""
    with kind(CHOSEN[0]) as topology:
        outcome = await chaos.run(
            start_server(aof=True),
            tmp_path,
            seconds=10,  # until the primary's turn has come, also on a busy machine
            seed=5,
            lease_time=2.0,
            topology=topology,
            patience=10,
        )
    print(outcome)
    outcome.assert_sound()
    assert outcome.faults["kill_primary"]


def test_chaos_needs_nothing_that_only_tests_need() -> None:
    """`scripts/chaos` runs in the environment of the demo, which has no test tools."""
    tools = ["httpx", "hypothesis", "psutil", "psycopg", "pytest", "trustme", "uvloop"]
    code = f"import sys; sys.modules.update(dict.fromkeys({tools})); import kit.chaos"
    kit = str(Path(chaos.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": kit}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (run.returncode, run.stderr) == (0, "")
