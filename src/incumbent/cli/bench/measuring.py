"""The measurements: each lasts about as long as it is told to, and measures once at least."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, TypeVar

from incumbent import LeaderElector
from incumbent.cli.bench.figures import Measurement
from incumbent.stores.redis import Client
from incumbent.stores.redis.survey import ping

T = TypeVar("T")

LONE: Final = "lone"
TURNS: Final = "turns"
LOOK: Final = 0.001
"""Seconds between two looks whether somebody stands in line."""


def elections(at_once: int) -> list[str]:
    """The names of all elections that are held here."""
    return [LONE, TURNS, *map(_side, range(at_once))]


async def pings(client: Client, seconds: float, within: float) -> Measurement:
    """Round trips of `client`, each of which may take the time `within`."""
    took, lasted = await _repeat(lambda: ping(client, within), seconds)
    return Measurement("PING", took, lasted)


async def lone(elector: LeaderElector, seconds: float) -> Measurement:
    """Elections one after another, in which nobody else stands."""
    await elector.run_if_leader(LONE, _nothing)  # connects, and loads the scripts
    took, lasted = await _repeat(lambda: elector.run_if_leader(LONE, _nothing), seconds)
    return Measurement("one by one", took, lasted)


async def side_by_side(elector: LeaderElector, at_once: int, seconds: float) -> Measurement:
    """As many elections at the same time."""

    async def one(number: int) -> list[float]:
        name = _side(number)
        return (await _repeat(lambda: elector.run_if_leader(name, _nothing), seconds))[0]

    began = perf_counter()
    each = await _all_of(*map(one, range(at_once)))
    lasted = perf_counter() - began
    took = [seconds for some in each for seconds in some]
    return Measurement("at once", took, lasted, at_once)


async def turns(one: LeaderElector, other: LeaderElector, seconds: float) -> Measurement:
    """Two electors in turn: one leads until the other stands in line."""
    took = list[float]()
    left: float | None = None
    ends = perf_counter() + seconds

    def over() -> bool:
        return bool(took) and perf_counter() > ends

    async def lead(elector: LeaderElector) -> None:
        nonlocal left
        if left is not None:
            took.append(perf_counter() - left)
        # Looked for, because nobody is told of who comes, only of who leads.
        while not over():
            if (await elector.state(TURNS)).waiting:
                break
            await asyncio.sleep(LOOK)
        left = perf_counter()

    async def stand(elector: LeaderElector) -> None:
        patient = elector.using(wait_time=None)
        while not over():
            await patient.run_if_leader(TURNS, lead, elector)

    await _all_of(stand(one), stand(other))
    return Measurement("hand-over", took)


async def _repeat(
    act: Callable[[], Awaitable[object]], seconds: float
) -> tuple[list[float], float]:
    """How long each act took, and all of them."""
    took = list[float]()
    began = then = perf_counter()
    while not took or then < began + seconds:
        await act()
        now = perf_counter()
        took.append(now - then)
        then = now
    return took, then - began


async def _all_of(*acts: Awaitable[T]) -> list[T]:
    tasks = [asyncio.ensure_future(act) for act in acts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing() -> None:
    pass


def _side(number: int) -> str:
    return f"side-{number}"
