"""Contestants that take turns in one run, so that a busy machine slows all of them alike."""

import gc
import random
from collections.abc import Awaitable, Callable, Mapping
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

Contestant = Callable[[], Awaitable[None]]


class Lap(NamedTuple):
    """How long a contestant took, at the median."""

    wall: float
    """Seconds that went by."""
    cpu: float
    """Seconds of this process's own work: without the server's, and without waiting for it."""


async def race(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, Lap]:
    """Run each contestant once per round, in changing order."""
    laps: dict[str, list[Lap]] = {name: [] for name in contestants}
    order = list(contestants)
    for contestant in contestants.values():
        await contestant()  # connections, caches, scripts
    gc.collect()
    gc.freeze()  # what the benchmark itself holds is nobody's garbage
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            wall, cpu = perf_counter(), process_time()
            await contestants[name]()
            laps[name].append(Lap(perf_counter() - wall, process_time() - cpu))
    gc.unfreeze()
    return {name: Lap(*map(median, zip(*run, strict=True))) for name, run in laps.items()}
