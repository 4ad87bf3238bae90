"""What `bench` does: measures under a prefix of its own, tells, and leaves no key behind."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from incumbent import LeaderElector
from incumbent.cli.asking import Where, ask, reaching
from incumbent.cli.bench import figures, measuring
from incumbent.cli.bench.figures import Measurement
from incumbent.cli.output import tell, tell_json
from incumbent.cli.terminating import until_terminated
from incumbent.stores.redis import traces

PARTS: Final = 4
"""Measurements, which have the same time each, but for the first."""
MOST_PINGS: Final = 1.0
"""Seconds, after which more of them would tell nothing new."""


def bench(where: Where, seconds: float, at_once: int, *, as_json: bool) -> None:
    """Measure for about `seconds`, and show it."""
    measured = ask(where, lambda where: until_terminated(_measure(where, seconds, at_once)))
    if as_json:
        tell_json({"measurements": [figures.value(each) for each in measured]})
        return
    for line in figures.lines(measured):
        tell(line)


async def _measure(where: Where, seconds: float, at_once: int) -> list[Measurement]:
    # Below the given prefix, because users with few rights have no others.
    where = replace(where, prefix=f"{where.prefix}:bench-{secrets.token_hex(4)}")
    part = seconds / PARTS
    async with reaching(where) as client:
        try:
            async with _elector(where) as one, _elector(where) as other:
                return [
                    await measuring.pings(client, min(part, MOST_PINGS), where.timeout),
                    await measuring.lone(one, part),
                    await measuring.side_by_side(one, at_once, part),
                    await measuring.turns(one, other, part),
                ]
        finally:
            names = measuring.elections(at_once)
            await traces.remove(client, where.prefix, names, where.timeout)


@asynccontextmanager
async def _elector(where: Where) -> AsyncGenerator[LeaderElector]:
    """An elector with connections of its own, as another process would have."""
    async with (
        reaching(where) as client,
        LeaderElector(client, where.options, prefix=where.prefix, hooks=()) as elector,
    ):
        yield elector
