"""What a storm does to a crew: kills, freezes, bad networks, and what processes do to themselves.

Each fault is one coroutine that ends when the fault is over. What is done to the server, and so
to all at once, is in `kit.server_faults`; in what order things happen, in `kit.storm`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from kit.crew import Crew, Member

Fault = Callable[[Crew, Member, random.Random, float], Awaitable[None]]


async def kill(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGKILL, and another life a little later."""
    crew.kill(member)
    await asyncio.sleep(draw.uniform(0.0, lease / 2))
    crew.start(member)


async def restart(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGTERM, an orderly end, and another life."""
    code = await crew.terminate(member)
    assert code == 0, f"{member.process} ended with {code}:\n{crew.log(member)}"
    crew.start(member)


async def freeze(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGSTOP for longer than the lease: it wakes as a holder that is none any more."""
    crew.pause(member)
    await asyncio.sleep(draw.uniform(1.1, 1.8) * lease)
    crew.resume(member)


async def slow_freeze(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """Answers come late, then it is frozen: a lease that counts from their arrival is too long."""
    crew.hinder(member)
    member.proxy.delay(draw.uniform(0.1, 0.16) * lease)
    await asyncio.sleep(draw.uniform(0.45, 0.6) * lease)  # a renewal, and its answer
    await freeze(crew, member, draw, lease)
    await crew.restore(member)


async def doze(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGSTOP for less than the lease."""
    crew.pause(member)
    await asyncio.sleep(draw.uniform(0.05, 0.9) * lease)
    crew.resume(member)


async def stall(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """Its event loop is blocked, for less than the lease or for longer."""
    seconds = draw.uniform(0.2, 1.8) * lease
    crew.order(member, "stall", seconds)
    await asyncio.sleep(seconds)


async def step_clock(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """The library's clock jumps ahead and no timer ran, as after a suspend."""
    crew.order(member, "step", draw.uniform(0.3, 2.0) * lease)
    await asyncio.sleep(0.3 * lease)


async def cancel(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """One of its long calls is cancelled, wherever it is."""
    crew.order(member, "cancel")
    await asyncio.sleep(draw.uniform(0.0, 0.2) * lease)


async def cut(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """Connections are reset and refused for a while."""
    crew.cut(member)
    await asyncio.sleep(draw.uniform(0.1, 1.8) * lease)
    await crew.restore(member)


async def blink(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """Connections are reset once; the next ones work."""
    crew.cut(member, refuse=False)
    await crew.restore(member)


async def silence(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """Nothing comes through for a while, in both directions or only back."""
    crew.silence(member, requests=draw.random() < 0.5)
    await asyncio.sleep(draw.uniform(0.2, 1.8) * lease)
    await crew.restore(member)


async def lose_reply(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """What it asks next is done, and the answer is lost with the connection."""
    crew.hinder(member)
    member.proxy.drop_replies(draw.randint(1, 2), cut=True)
    await asyncio.sleep(draw.uniform(0.2, 0.6) * lease)
    await crew.restore(member)


async def delay_requests(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """What it asks arrives late, perhaps after it gave up and asked something else."""
    crew.hinder(member)
    member.proxy.delay(draw.uniform(0.05, 0.5) * lease, "requests")
    await asyncio.sleep(draw.uniform(0.5, 1.5) * lease)
    await crew.restore(member)


OF_PROCESSES: tuple[tuple[Fault, int], ...] = (
    (kill, 2),
    (restart, 1),
    (freeze, 2),
    (doze, 1),
    (stall, 1),
    (step_clock, 1),
    (cancel, 1),
)
"""With how many of each there are in a deck."""

OF_NETWORKS: tuple[tuple[Fault, int], ...] = (
    (slow_freeze, 1),
    (cut, 1),
    (blink, 1),
    (silence, 1),
    (lose_reply, 1),
    (delay_requests, 1),
)
