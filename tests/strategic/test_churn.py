"""Real processes that come, go, freeze and change their minds: never two leaders, seldom none."""

import asyncio
from pathlib import Path

from kit import chaos
from kit.crew import Crew
from kit.fixtures import StartServer
from kit.register import check_register
from kit.servers import Server
from kit.waiting import wait_until

TTL = 1.2


async def test_eight_processes_under_churn(start_server: StartServer, tmp_path: Path) -> None:
    """P1 with a strategy: no overlap, and a free seat waits no longer than TTL + lease time.

    The five minutes of it: ``scripts/chaos --minutes 5 --processes 8 --candidate-ttl 1.2``.
    """
    outcome = await chaos.run(
        start_server(aof=True), tmp_path, seconds=8, seed=11, size=8, candidate_ttl=TTL
    )
    print(outcome)
    outcome.assert_sound()


async def test_with_stable_input_the_best_leads(own_server: Server, tmp_path: Path) -> None:
    """The best of the living ones: when it is killed the next, when it is back it again."""
    plan = {"options": {"lease_time": 0.8}, "candidate_ttl": TTL, "hold": (60.0, 60.0)}
    async with Crew(own_server, tmp_path, size=4, plan=plan) as crew:
        first, second, *_ = crew.members

        async def leads(place: str) -> None:
            def so() -> bool:
                leader = crew.leader()
                return leader is not None and leader.place == place

            await wait_until(so, within=30, every=0.05, what=f"{place} leads")

        await crew.all_standing()
        await leads("a")
        crew.kill(first)
        await leads("b")
        crew.pause(second)
        await leads("c")
        crew.resume(second)
        await leads("b")
        crew.start(first)
        await leads("a")
        await asyncio.sleep(1)
        await leads("a")
    check_register(crew.register()).assert_sound()
