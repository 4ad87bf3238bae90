"""Field cases G: processes and deployment.

77 and 78 (web frameworks) and what `schedule` and the command line add come with their issues.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import incumbent
from incumbent import Elected, LeaderElector, Skipped
from kit.checker import LATE, check
from kit.crew import Crew
from kit.fixtures import MakeClient
from kit.leftovers import keys_without_ttl
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Work,
    all_keys,
    cancel,
    fence_key,
    nothing,
    quick,
    seat_key,
    token_of,
    ttl_of,
)

SOURCE = Path(incumbent.__file__).parents[1]
TESTS = Path(__file__).parents[1]
FORKING = Path(__file__).with_name("forking.py")


def forked(scenario: str, server: Server) -> dict[str, Any]:
    """Run a scenario of `forking.py` in a process of its own; what its two processes saw."""
    run = subprocess.run(
        [sys.executable, str(FORKING), scenario, server.url],
        capture_output=True,
        text=True,
        timeout=40,
        env=os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}"},
    )
    assert run.returncode == 0, run.stderr
    facts: dict[str, Any] = json.loads(run.stdout)
    return facts


def test_case_75_an_elector_from_before_a_fork_works_in_both(valkey: Server) -> None:
    """Preloaded and forked, as web servers do: each has an id and a connection of its own."""
    facts = forked("preloaded", valkey)
    assert facts["child"]["led"], facts
    assert facts["parent"]["led"]
    assert facts["child"]["leader_id"] != facts["parent"]["leader_id"]
    assert facts["parent"]["fence"] > facts["child"]["fence"]
    assert all_keys(valkey) == {fence_key("free")}


def test_case_75_a_used_elector_is_rebuilt_in_the_child(valkey: Server) -> None:
    """Its connections are the parent's: the child opens its own, and the parent's stay sound."""
    facts = forked("used", valkey)
    assert facts["child"].get("led"), facts
    assert facts["before"]["fence"] < facts["child"]["fence"] < facts["parent"]["fence"]
    assert facts["own"] == "b'x'"


def test_case_75_a_child_never_touches_its_parent_s_lease(valkey: Server) -> None:
    """The copy of the lease is worth nothing, and the parent leads on without noticing anything."""
    facts = forked("leading", valkey)
    child = facts["child"]
    assert "error" not in child, child
    assert (child["held"], child["remaining"], child["is_leading"]) == (False, 0, False)
    assert (child["leases"], child["extended"]) == (0, False)
    assert child["outcome"] == "Skipped", "the parent leads"
    assert child["led"], "the child may lead another election"
    assert child["leader_id"] != facts["leader_id"]
    assert child["events"] == ["AttemptSkipped", "TermStarted", "TermEnded"]
    assert facts["held"]
    assert set(facts["events"]) == {"TermStarted", "TermRenewed", "TermEnded"}
    assert all_keys(valkey) == {fence_key("one"), fence_key("free")}


def test_case_75_who_stands_in_line_may_fork(valkey: Server) -> None:
    """The child has an inbox of its own and stands behind its parent: each is woken in its turn."""
    facts = forked("waiting", valkey)
    assert facts["child"].get("led"), facts
    assert facts["parent"]["fence"] < facts["child"]["fence"]
    assert all_keys(valkey) == {fence_key("one")}


async def test_case_79_sigterm_frees_the_seat_at_once(own_server: Server, tmp_path: Path) -> None:
    """A lease of a minute, SIGTERM to the leader, one stands by: hand-over in under a second."""
    plan = {"options": {"lease_time": 60}, "hold": (60, 60)}
    async with Crew(own_server, tmp_path, size=2, election="crew", plan=plan) as crew:
        await crew.all_standing()
        leader = await wait_until(crew.leader)
        assert await crew.terminate(leader) == 0
        await wait_until(lambda: crew.leader() not in (None, leader), what="the other leads")
        await crew.stop()
        report = check(crew.records())
        report.assert_sound(min_terms=2)
        assert len(report.take_overs) == 1
        assert report.take_overs[0] < 1
    assert ttl_of(own_server, "crew") == -2


async def test_case_79_a_cancelled_leader_hands_over_at_once(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Inside one process: cancel is what a signal handler does; the next leads long before 60 s."""
    work = Work()
    leading = asyncio.create_task(elector.using(lease_time=60).campaign("one", work))
    await work.began.wait()
    async with LeaderElector(make_client(valkey), quick()) as other:
        following = asyncio.create_task(other.campaign("one", nothing))
        await asyncio.wait([following], timeout=0.1)
        await cancel(leading)
        assert await asyncio.wait_for(following, 2) == "done"


async def test_case_80_a_killed_process_leaves_no_lasting_key(
    own_server: Server, tmp_path: Path
) -> None:
    """SIGKILL at random moments of short terms, eight times: every key that is left will end."""
    options = {"lease_time": 1.5, "request_timeout": 5}
    plan = {"options": options, "hold": (0.0, 0.02), "way": "run_if_leader"}
    async with Crew(own_server, tmp_path, size=2, election="crew", plan=plan) as crew:
        await crew.all_standing()
        for turn in range(8):
            await wait_until(crew.leader)
            member = crew.members[turn % 2]
            crew.kill(member)
            assert keys_without_ttl(own_server) == []
            assert ttl_of(own_server, "crew") <= 1500
            crew.start(member)
        await crew.all_standing()
        await crew.stop()
        check(crew.records()).assert_sound()
    await wait_until(lambda: ttl_of(own_server, "crew") == -2)


async def test_case_81_a_second_instance_wipes_nothing_at_its_start(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Made, closed, looked at, tried: the leader's seat and strangers' keys are as they were."""
    valkey.cli("SET", "incumbent:stranger", "x", "PX", 60_000)
    valkey.cli("SET", "mine", "y")
    async with elector.using(auto_extend=False, lease_time=20).lead("one") as lease:
        seat = valkey.cli("HGETALL", seat_key("one"))
        keys = all_keys(valkey)
        for _ in range(3):
            async with LeaderElector(make_client(valkey), quick()) as second:
                await second.state("one")
                assert isinstance(await second.attempt("one", nothing), Skipped)
        assert valkey.cli("HGETALL", seat_key("one")) == seat
        assert all_keys(valkey) == keys
        assert ttl_of(valkey, "one") > 10_000
        assert await lease.extend(20)
    assert valkey.cli("GET", "mine") == "y"
    assert valkey.cli("GET", "incumbent:stranger") == "x"


async def five_wake_up(electors: list[LeaderElector], **options: Any) -> int:
    """Five contenders want a job of a millisecond within 50 ms of each other; how often it ran."""
    runs = 0

    async def job() -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0.001)

    async def wake_up(number: int, elector: LeaderElector) -> None:
        await asyncio.sleep(number * 0.0125)
        await elector.using(**options).run_if_leader("one", job)

    await asyncio.gather(*(wake_up(*each) for each in enumerate(electors)))
    return runs


@pytest.mark.parametrize("lease_time", [0.9, 30])
async def test_case_83_a_very_short_job_runs_once_in_a_slot(
    valkey: Server, make_client: MakeClient, lease_time: float
) -> None:
    """A minimum hold keeps the seat after the job, so that who wakes a little later skips it."""
    electors = [LeaderElector(make_client(valkey), quick()) for _ in range(5)]
    assert await five_wake_up(electors, lease_time=lease_time, min_hold_time=0.5) == 1
    await wait_until(lambda: ttl_of(valkey, "one") == -2)
    assert await five_wake_up(electors, lease_time=lease_time, min_hold_time=0.5) == 1
    await wait_until(lambda: ttl_of(valkey, "one") == -2)
    for elector in electors:  # without it, one after the other
        assert await elector.run_if_leader("one", nothing) == "done"
        await elector.aclose()


async def test_case_84_a_minimum_hold_is_a_setting_of_each_election(
    elector: LeaderElector, valkey: Server
) -> None:
    """0 by default, so that it holds up no faster schedule; another election's is its own."""
    held = elector.using(lease_time=2, min_hold_time=2)
    assert elector.options.min_hold_time == 0
    assert await held.run_if_leader("slow", nothing) == "done"
    for _ in range(5):
        assert await elector.run_if_leader("fast", nothing) == "done"
        assert await held.run_if_leader("slow", nothing) is None
    assert token_of(valkey, "fast") is None
    assert ttl_of(valkey, "slow") > 0


async def test_case_84_a_tick_after_the_minimum_hold_runs(elector: LeaderElector) -> None:
    """Ticks that come more slowly than the minimum hold are all run."""
    held = elector.using(min_hold_time=0.1)
    for _ in range(3):
        assert await held.run_if_leader("one", nothing) == "done"
        assert await held.run_if_leader("one", nothing) is None
        await wait_until_free(elector)


async def wait_until_free(elector: LeaderElector) -> None:
    """Until nobody has a seat of the election."""

    async def free() -> bool:
        return not (await elector.state("one")).leaders

    await wait_until(free)


async def test_case_85_a_crash_blocks_the_work_for_a_lease_not_for_the_job(
    own_server: Server, tmp_path: Path
) -> None:
    """A job of an hour is killed: another leads after the lease, which is half a second."""
    options = {"lease_time": 0.5, "max_hold_time": 7200}
    plan = {"options": options, "hold": (3600, 3600)}
    async with Crew(own_server, tmp_path, size=2, election="crew", plan=plan) as crew:
        await crew.all_standing()
        leader = await wait_until(crew.leader)
        crew.kill(leader)
        await wait_until(lambda: crew.leader() not in (None, leader), what="the other leads")
        await crew.stop()
        report = check(crew.records())
        report.assert_sound(min_terms=2)
        assert report.take_over(1.0) < 0.5 + LATE


async def test_case_85_a_leader_that_lost_its_process_is_followed_within_one_process(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """The same seen from a standby: it waits for the rest of the lease, and no longer."""
    valkey.cli("HSET", seat_key("one"), "token", "dead", "leader", "dead", "fence", 1, "since", 1)
    valkey.cli("PEXPIRE", seat_key("one"), 400)
    outcome = await asyncio.wait_for(elector.using(wait_time=60).attempt("one", nothing), 3)
    assert isinstance(outcome, Elected)
    assert outcome.fence > 1
