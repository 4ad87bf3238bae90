"""A chaos run from the command line: ``python -m kit.chaos --seconds 60 --seed 7``.

Processes contend for one leader, or for the seats of a group, on a real server while a storm of
faults goes over them.
Prints what happened and what was proven; ends with 1 when a promise was broken.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.checker import Report, check
from kit.crew import Crew
from kit.faults import Storm
from kit.records import now
from kit.register import RegisterReport, check_register
from kit.servers import KINDS, Server, locate

IDLE_BEYOND_LEASE = 0.5  # seconds: a free election is taken within the lease time plus this
SETTLE = 0.25  # seconds that a candidate may need to notice that its network is back

SHOWN = 20  # findings; a broken promise breaks often


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that a run showed."""

    seconds: float
    seed: int
    lease_time: float
    faults: Counter[str]
    report: Report
    candidate_ttl: float = 0.0
    registers: tuple[RegisterReport, ...]
    """By seat."""

    @property
    def stale(self) -> tuple[str, ...]:
        """Writes that no honest holder sends."""
        return tuple(write for register in self.registers for write in register.stale)

    @property
    def max_idle(self) -> float:
        """How long a free seat may stay free."""
        return self.lease_time + self.candidate_ttl + IDLE_BEYOND_LEASE

    @property
    def sound(self) -> bool:
        """Whether all promises were kept, and there was something to keep them in."""
        idle = self.report.longest_idle > self.max_idle
        bad = self.report.violations or self.stale or idle
        used = all(register.accepted for register in self.registers)
        return not bad and bool(self.report.terms) and used

    def assert_sound(self) -> None:
        """AssertionError with all that was found."""
        self.report.assert_sound(max_idle=self.max_idle)
        for register in self.registers:
            register.assert_sound()

    def __str__(self) -> str:
        report = self.report
        accepted, late = (
            sum(log.accepted for log in self.registers),
            sum(log.late for log in self.registers),
        )
        rows = {
            "elections": str(len(report.terms)),
            "faults": f"{self.faults.total()}: {_counts(self.faults)}",
            "overlaps": str(len(report.overlaps)),
            "fence violations": str(len(report.fence_violations)),
            "stray work": str(len(report.stray_work)),
            "seats": str(len(self.registers)),
            "register writes": f"{accepted} accepted, {late} late, {len(self.stale)} stale",
            "take-over": ", ".join(
                f"{name} {_ms(report.take_over(share))}"
                for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
            ),
            "longest idle": f"{_ms(report.longest_idle)} of {_ms(self.max_idle)} allowed",
        }
        lines = [
            f"{self.seconds:g} s, seed {self.seed}, lease time {self.lease_time:g} s",
            *(f"  {name:<17}{value}" for name, value in rows.items()),
            *(f"! {finding}" for finding in (*report.violations, *self.stale)[:SHOWN]),
            *([f"! idle: {report.idle_detail}"] if report.longest_idle > self.max_idle else []),
            "sound" if self.sound else "BROKEN",
        ]
        return "\n".join(lines)


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
) -> Outcome:
    """One storm over one crew; all its processes have ended when it returns.

    With a `candidate_ttl` it is a strategic election, among candidates whose loads change.

    The server must have `aof=True`: it is killed as well, and P1 asks that the data survive.
    """
    plan: dict[str, Any] = {"hold": (0.05, 2 * lease_time), "seats": seats}
    plan |= {"options": {"lease_time": lease_time}, "client": {"socket_timeout": lease_time}}
    plan |= {"candidate_ttl": candidate_ttl, "jitter": float(size)} if candidate_ttl else {}
    # Who was out of reach too long stands again with its next heartbeat.
    settle = SETTLE + candidate_ttl / 3
    crew = Crew(server, folder, size=size, seed=seed, plan=plan)
    async with crew:
        await crew.all_standing()
        storm = Storm(crew, seconds=seconds, lease_time=lease_time, seed=seed)
        faults = await storm.rage()
        calm = lease_time + candidate_ttl + IDLE_BEYOND_LEASE + settle
        await asyncio.sleep(calm)  # somebody leads again
        until = now()
    return Outcome(
        seconds=seconds,
        seed=seed,
        lease_time=lease_time,
        faults=faults,
        report=check(crew.records(), until=until, settle=settle),
        registers=tuple(check_register(crew.register(seat)) for seat in range(seats)),
        candidate_ttl=candidate_ttl,
    )


def _counts(faults: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in faults.most_common())


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


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
    parser.add_argument("--server", choices=KINDS, default=KINDS[0], help="kind of server")
    parser.add_argument("--keep", type=Path, help="a folder for the records and logs")
    given = parser.parse_args(arguments)
    if locate(given.server).path is None:
        parser.error(f"no {given.server} here: {locate(given.server).reason}")
    with Server(given.server, aof=True) as server, tempfile.TemporaryDirectory() as scratch:
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
            )
        )
    print(outcome)
    return 0 if outcome.sound else 1


if __name__ == "__main__":
    sys.exit(main())
