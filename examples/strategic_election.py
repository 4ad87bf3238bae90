"""Five nodes choose who runs a maintenance task: who is ready, reliable and idle.

    python examples/strategic_election.py [redis://localhost]

Without an address it starts a server of its own (``pip install incumbent[embedded]``). The nodes
share a process here to keep it short; in real life each is a process, or a machine.
"""

import asyncio
import sys
from contextlib import AsyncExitStack

from redis.asyncio import Redis

from incumbent import Elected, StrategicElector
from incumbent.cli.demo.server import Server
from incumbent.cli.demo.warden import Warden
from incumbent.strategy import (
    Candidate,
    ElectionResult,
    IdleTime,
    Scored,
    Snapshot,
    SuccessRate,
    Weighted,
)

TASK = "maintenance"

# By node: how ready it says it is (0 to 1), and what its last runs came to.
NODES = {
    "amber": (0.90, [True, False, False, False]),
    "birch": (0.95, [True, True, True, True]),
    "cedar": (0.50, [True, True, True, True]),
    "delta": (0.20, [True, True, True, False]),
    "ember": (0.85, [True, True, False, True]),
}


def readiness(candidate: Candidate, _: Snapshot) -> float:
    """A scorer of our own: from 0 to 100, by what the node says about itself."""
    return 100 * (candidate.number("ready") or 0.0)


STRATEGY = Scored(Weighted([(readiness, 0.50), (SuccessRate(), 0.35), (IdleTime(), 0.15)]))


async def vacuum(node: str) -> str:
    """The work."""
    await asyncio.sleep(0.1)
    return f"{node} has cleaned up"


def show(result: ElectionResult) -> None:
    """The table: who has how many points, and why the others were not chosen."""
    print(f"  {'node':<8}{'score':>6}  why not")
    for candidate in result.ranking:
        node = candidate.node_id
        reason = result.reasons.get(node, "(the best)")
        print(f"  {node:<8}{result.scores[node]:>6.1f}  {reason}")


async def main(url: str) -> None:
    """Let the nodes stand, look at the election, and let every node try to run the task."""
    async with Redis.from_url(url) as redis, AsyncExitStack() as stack:
        electors = {
            node: StrategicElector(redis, strategy=STRATEGY, node_id=node) for node in NODES
        }
        stands = {
            node: electors[node].candidate(TASK, {"ready": ready})
            for node, (ready, _) in NODES.items()
        }
        for node, (_, results) in NODES.items():
            await stack.enter_async_context(electors[node])
            await stack.enter_async_context(stands[node])
            for success in results:
                await electors[node].record_result(TASK, success=success)

        print("Who is the best?")
        await run_once(electors)
        print("birch is busy now, and says so.")
        await stands["birch"].update(ready=0.1)
        await run_once(electors)


async def run_once(electors: dict[str, StrategicElector]) -> None:
    """All try at once, as a cron job on five machines would; one of them runs the task."""
    await asyncio.sleep(0.3)  # some time goes by, in which all are idle
    show(await electors["amber"].elect(TASK))
    outcomes = await asyncio.gather(
        *(elector.attempt(TASK, vacuum, node) for node, elector in electors.items())
    )
    elected = [outcome.value for outcome in outcomes if isinstance(outcome, Elected)]
    assert len(elected) == 1
    print(f"=> {elected[0]}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with Warden() as warden:
            asyncio.run(main(Server(warden).url))
