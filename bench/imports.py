"""What `import incumbent` takes in a fresh process that has imported redis.asyncio and anyio."""

import os
import subprocess
import sys
from statistics import median

from bench.counts import Counts
from bench.figures import Figure

PROGRAM = """
from time import perf_counter
began = perf_counter()
import redis.asyncio, anyio
between = perf_counter()
import incumbent
print(1000 * (between - began), 1000 * (perf_counter() - between))
"""


def measure(counts: Counts) -> list[Figure]:
    """The median of many processes, after one that leaves the compiled files behind."""
    times = [_once() for _ in range(1 + counts.imports)][1:]
    theirs, ours = (median(column) for column in zip(*times, strict=True))
    part = "Import"
    return [
        Figure(part=part, what="incumbent, beyond these two", value=ours, unit="ms", below=25),
        Figure(part=part, what="redis.asyncio and anyio", value=theirs, unit="ms"),
    ]


def _once() -> tuple[float, float]:
    # Where this is set, each process would compile everything anew.
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(command, check=True, capture_output=True, env=variables)
    theirs, ours = said.stdout.split()
    return float(theirs), float(ours)
