"""The benchmark's command line: starts a server, measures part by part, prints the figures."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable

from redis.asyncio import Redis

from bench import candidates, capacity, crowd, held, imports, lone, place, queue
from bench.counts import FULL, QUICK, SMOKE, Counts
from bench.figures import Figure, table
from bench.raw import RawCycle
from kit.servers import Server

PARTS = ("lone", "crowd", "held", "queue", "candidates", "capacity", "import")


async def measure(server: Server, counts: Counts, parts: Iterable[str]) -> list[Figure]:
    """Measure the named parts, one after another."""
    figures: list[Figure] = []
    async with Redis.from_url(server.url) as client:
        raw = await RawCycle.watch(server, client)
        for part in parts:
            print(f"measuring: {part} ...", file=sys.stderr, flush=True)
            if part == "lone":
                figures += await lone.measure(client, raw, counts)
            elif part == "crowd":
                figures += await crowd.measure(server, raw, counts)
            elif part == "held":
                figures += await held.measure(server, counts)
            elif part == "candidates":
                figures += await candidates.measure(server, counts)
            elif part == "capacity":
                figures += await capacity.measure(server, counts)
            elif part == "queue":
                figures += await queue.measure(server, counts)
            else:
                figures += imports.measure(counts)
    return figures


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", const=QUICK, dest="counts", help="rougher")
    size.add_argument(
        "--smoke", action="store_const", const=SMOKE, dest="counts", help="only see that it runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 when a figure falls short")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (default: all)"
    )
    parser.set_defaults(counts=FULL)
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return chosen


def main() -> int:
    """Run it; 0 unless something is broken or, with --check, short."""
    chosen = arguments()
    with Server() as server:
        where = place.describe(server)
        figures = asyncio.run(measure(server, chosen.counts, chosen.parts or PARTS))
    if chosen.json:
        print(json.dumps({**where, "figures": [one.as_json() for one in figures]}, indent=2))
    else:
        print("\n".join(f"{name + ':':<13}{value}" for name, value in where.items()))
        print(table(figures))
    short = [figure for figure in figures if figure.met is False]
    return 1 if chosen.check and short else 0


if __name__ == "__main__":
    sys.exit(main())
