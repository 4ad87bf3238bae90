"""What the workers of `application` wrote down, and what it says about ticks that were missed."""

import itertools
from dataclasses import dataclass
from math import inf

from kit.servers import Server


@dataclass(frozen=True)
class Tick:
    """One, by the server's clock."""

    period: int
    pid: int
    at: float


@dataclass
class Life:
    """From when to when a worker could lead."""

    began: float
    ended: float = inf


def server_time(server: Server) -> float:
    """The server's clock."""
    seconds, micros = server.cli("TIME")
    return int(seconds) + int(micros) / 1e6


def ticks(server: Server) -> list[Tick]:
    """Each tick so far."""
    lines = map(str.split, server.cli("LRANGE", "ticks", 0, -1))
    return [Tick(int(period), int(pid), float(at)) for period, pid, at in lines]


def pairs(server: Server, key: str) -> list[tuple[float, float]]:
    """A list of two numbers per line."""
    lines = map(str.split, server.cli("LRANGE", key, 0, -1))
    return [(float(first), float(second)) for first, second in lines]


def lives(server: Server, killed: dict[int, float]) -> dict[int, Life]:
    """Each worker's, by its number; those that were `killed` could not say when they ended."""
    known = {int(pid): Life(at) for at, pid in pairs(server, "starts")}
    ends = {int(pid): at for at, pid in pairs(server, "ends")}
    for pid, at in (ends | killed).items():
        if pid in known:
            known[pid].ended = at
    return known


def idle_times(server: Server, killed: dict[int, float]) -> list[float]:
    """How long nobody ticked without an excuse, for each two ticks in a row.

    One excuse is that there was no worker yet: it counts from when the first one began of those
    that still lived at the second tick. The other is by how much the workers' looks at the clock,
    ten times a second, came too late: so long their process, the server or the machine stood still.
    """
    workers, stalls = lives(server, killed).values(), pairs(server, "stalls")
    found: list[float] = []
    for first, second in itertools.pairwise(tick.at for tick in ticks(server)):
        could = [max(first, life.began) for life in workers if life.began < second < life.ended]
        excuse = sum(late for seen, late in stalls if first < seen and seen - late < second)
        found.append(second - min(could, default=second) - excuse)
    return found
