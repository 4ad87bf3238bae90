"""What a storm does to the server itself, and so to all of a crew at once: one thing at a time.

The server must be the kit's own, with its data kept (`aof=True`). Its wall clock is left alone:
that cannot be stepped for one process, and P1 asks for a clock that does not step forward.
"""

import asyncio
import random

from kit.crew import Crew, Member
from kit.faults import Fault


async def forget_scripts(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SCRIPT FLUSH."""
    crew.server.cli("SCRIPT", "FLUSH")


async def lose_counter(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """The keys of the last fences are gone, as after an eviction."""
    keys = list(crew.server.admin.scan_iter(match="incumbent:*:fence", count=1000))
    if keys:
        crew.server.cli("DEL", *keys)


async def drop_clients(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """The server resets the connections of all, of calls and of subscriptions."""
    with crew.all_cut():
        for kind in ("pubsub", "normal"):
            crew.server.cli("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


async def freeze_server(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGSTOP of the server for less than the lease, or somewhat more."""
    with crew.all_cut():
        crew.server.pause()
        await asyncio.sleep(draw.uniform(0.1, 1.2) * lease)
        crew.server.resume()


async def kill_server(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGKILL, and a new one on the same port with the same data."""
    with crew.all_cut():
        crew.server.kill()
        await asyncio.sleep(draw.uniform(0.0, 0.5) * lease)
        await asyncio.to_thread(crew.server.start)


async def restart_server(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGTERM, and a new one on the same port with the same data."""
    with crew.all_cut():
        await asyncio.to_thread(crew.server.restart, keep=True)


OF_SERVER: tuple[tuple[Fault, int], ...] = (
    (forget_scripts, 1),
    (lose_counter, 1),
    (drop_clients, 1),
    (freeze_server, 1),
    (kill_server, 1),
    (restart_server, 1),
)
