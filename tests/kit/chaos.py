"""A chaos run from the command line: ``python -m kit.chaos --minutes 1 --seed 7``.

Processes contend on a real server while a storm of faults goes over them: for one leader, or for
the seats of a group, or as candidates; with `--all` for all of these at once, beside a schedule
and as many short elections as they get done.
Prints what happened and what was proven; ends with 1 when a promise was broken.
"""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kit.crew import Crew
from kit.faults import OF_PROCESSES
from kit.judge import Case, judged
from kit.observer import observe
from kit.outcome import IDLE_BEYOND_LEASE, Outcome
from kit.records import now
from kit.server_faults import OF_SERVER
from kit.servers import KINDS, Server, locate
from kit.storm import ON_PROCESSES, Storm
from kit.topologies import TOPOLOGIES, Topology

SETTLE = 0.25  # seconds that a candidate may need to notice that its network is back
TICK, TICKS = 1.0, "tick"
BEST, SEATED = "best", "seats"

SERVER_ARGS = (
    # Who is killed leaves what it wrote: the kernel has it. Only a power cut would need an fsync.
    *("--appendfsync", "no"),
    *("--auto-aof-rewrite-min-size", "2mb"),  # else it reads for seconds when it comes back
)


async def run(
    server: Server,
    folder: Path,
    *,
    seconds: float,
    seed: int,
    lease_time: float = 0.8,
    size: int = 4,
    candidate_ttl: float = 0.0,
    seats: int = 1,
    everything: bool = False,
    mill: dict[str, Any] | None = None,
    topology: Topology | None = None,
    every: float = 0.25,
    patience: float = 0.0,
) -> Outcome:
    """One storm over one crew; all its processes have ended when it returns.

    With a `candidate_ttl` it is a strategic election, among candidates whose loads change. With
    `everything` each process stands for one leader, for two seats of a group and as a candidate,
    runs a schedule, and `mill`s (fields of `kit.plan.MillPlan`).

    The server must have `aof=True`: it is killed as well, and P1 asks that the data survive. With
    a `topology` the elections are there, and nothing happens to the server, which has the register.
    With `patience` (seconds) a busy machine is not taken for a seat that nobody takes.
    """
    seated = [("crew", seat) for seat in range(seats)]
    plan: dict[str, Any] = {"hold": (0.05, 2 * lease_time), "seats": seats, "mill": mill}
    plan |= {"options": {"lease_time": lease_time}, "client": {"socket_timeout": lease_time}}
    plan |= _candidate(candidate_ttl, size)
    if everything:
        candidate_ttl = candidate_ttl or lease_time
        plan |= {"beside": _beside(plan, candidate_ttl, size), "work_every": 0.04}
        seated += [(SEATED, 0), (SEATED, 1), (BEST, 0)]
    # Who was out of reach too long stands again with its next heartbeat.
    settle = SETTLE + candidate_ttl / 3
    url = topology.url if topology else ""
    storm = Storm(
        Crew(server, folder, size=size, seed=seed, plan=plan, url=url),
        seconds=seconds,
        lease_time=lease_time,
        seed=seed,
        every=every,
        seats=seated,
        deck=OF_PROCESSES if topology else ON_PROCESSES,
        on_server=topology.deck if topology else OF_SERVER,
    )
    began = time.monotonic()
    calm = lease_time + candidate_ttl + IDLE_BEYOND_LEASE + settle
    until = await _live_through(storm, calm, topology, TICKS if everything else "")
    return await judged(
        Case(
            crew=storm.crew,
            storm=storm,
            topology=topology,
            mill=mill,
            schedule=TICKS if everything else "",
            tick=TICK,
            candidate_ttl=candidate_ttl,
            settle=settle,
            patience=patience,
            took=time.monotonic() - began,
            until=until,
        )
    )


async def _live_through(
    storm: Storm, calm: float, topology: Topology | None, schedule: str
) -> float:
    """From the first process to the last; returns when the calm after the storm ended."""
    until = 0.0
    try:
        async with storm.crew:
            await storm.crew.all_standing()
            watching = asyncio.create_task(observe(storm.crew, schedule, topology))
            await storm.rage()
            await asyncio.sleep(calm)  # somebody leads again
            until = now()
            watching.cancel()
    except AssertionError as error:  # one did not end in order: that is a finding like others
        if not until:
            raise
        storm.failures.append(str(error))
    return until


def _candidate(ttl: float, size: int) -> dict[str, Any]:
    return {"candidate_ttl": ttl, "jitter": float(size)} if ttl else {}


def _beside(plan: dict[str, Any], candidate_ttl: float, size: int) -> tuple[dict[str, Any], ...]:
    """What each process stands for as well."""
    return (
        {"election": SEATED, "seats": 2},
        {"election": BEST, "seats": 1, "change": (0.5, 2.0)} | _candidate(candidate_ttl, size),
        {
            "election": TICKS,
            "way": "schedule",
            "tick": TICK,
            "seats": 1,
            "options": plan["options"] | {"min_hold_time": TICK / 3},
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--minutes", type=float, default=0.0, help="in place of --seconds")
    parser.add_argument("--seed", type=int, default=1, help="which faults (default: 1)")
    parser.add_argument("--lease-time", type=float, default=0.8, help="seconds (default: 0.8)")
    parser.add_argument("--processes", type=int, default=4, help="contenders (default: 4)")
    parser.add_argument(
        "--candidate-ttl", type=float, default=0.0, help="seconds: the best candidate leads"
    )
    parser.add_argument("--seats", type=int, default=1, help="leaders at once (default: 1)")
    parser.add_argument(
        "--all", action="store_true", help="all electors, a schedule and short elections at once"
    )
    parser.add_argument(
        "--every", type=float, default=0.25, help="seconds between faults (default: 0.25)"
    )
    parser.add_argument(
        "--topology", choices=TOPOLOGIES, help="in place of one server, which is then left alone"
    )
    parser.add_argument("--server", choices=KINDS, default=KINDS[0], help="kind of server")
    parser.add_argument("--keep", type=Path, help="a folder for the records and logs")
    given = parser.parse_args(arguments)
    if locate(given.server).path is None:
        parser.error(f"no {given.server} here: {locate(given.server).reason}")
    with ExitStack() as stack:
        server = stack.enter_context(Server(given.server, aof=True, args=SERVER_ARGS))
        topology: Topology | None = None
        if given.topology:
            topology = stack.enter_context(TOPOLOGIES[given.topology](given.server))
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(
            run(
                server,
                folder,
                seconds=given.minutes * 60 or given.seconds,
                seed=given.seed,
                lease_time=given.lease_time,
                size=given.processes,
                candidate_ttl=given.candidate_ttl,
                seats=given.seats,
                everything=given.all,
                mill={} if given.all else None,
                topology=topology,
                every=given.every,
            )
        )
    print(f"peak memory of this process: {_peak_megabytes():.0f} MB")
    print(outcome)
    return 0 if outcome.sound else 1


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main())
