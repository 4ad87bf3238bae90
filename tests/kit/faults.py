"""A seeded schedule of faults for a crew: kills, freezes, bad networks, a server that comes back.

The same seed draws the same faults in the same order. Whom they hit depends on who leads and who
is well, and what they meet is up to the moment. At least `well` members are always left alone, so
that a free seat can be asked to be taken. The server must be the kit's own, with `aof=True`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from kit.crew import Crew, Member

Fault = Callable[[Crew, Member, random.Random, float], Awaitable[None]]


async def kill(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGKILL, and another life a little later."""
    crew.kill(member)
    await asyncio.sleep(draw.uniform(0.0, lease / 2))
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


async def forget_scripts(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SCRIPT FLUSH on the server."""
    async with crew.server_in_hand:
        crew.server.cli("SCRIPT", "FLUSH")


async def lose_counter(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """The key of the last fence is gone, as after an eviction."""
    async with crew.server_in_hand:
        crew.server.cli("DEL", f"incumbent:{{{crew.election}}}:fence")


async def freeze_server(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGSTOP of the server for less than the lease, or somewhat more."""
    async with crew.server_in_hand:
        with crew.all_cut():
            crew.server.pause()
            await asyncio.sleep(draw.uniform(0.1, 1.2) * lease)
            crew.server.resume()


async def bounce_server(crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
    """SIGKILL of the server, and a new one on the same port with the same data."""
    async with crew.server_in_hand:
        with crew.all_cut():
            crew.server.kill()
            await asyncio.sleep(draw.uniform(0.0, 0.5) * lease)
            crew.server.start()


FAULTS: tuple[tuple[Fault, int], ...] = (
    (kill, 4),
    (freeze, 4),
    (slow_freeze, 3),
    (doze, 2),
    (cut, 3),
    (blink, 2),
    (silence, 3),
    (lose_reply, 3),
    (delay_requests, 2),
    (forget_scripts, 1),
    (lose_counter, 2),
    (freeze_server, 1),
    (bounce_server, 1),
)


def _deck(draw: random.Random) -> Iterator[Fault]:
    """Each kind once, in any order, so that a short storm has them all; then by their weights."""
    once = [fault for fault, _ in FAULTS]
    yield from draw.sample(once, len(once))
    while True:
        yield from draw.choices(once, [weight for _, weight in FAULTS])


@dataclass(slots=True)
class Storm:
    """Faults one after another, some at the same time, for `seconds`. Await `rage()`."""

    crew: Crew
    seconds: float
    lease_time: float
    seed: int = 0
    pause: tuple[float, float] = (0.05, 0.4)
    well: int = 2
    at_leader: float = 0.6  # this share of the faults is for who leads at that moment
    happened: Counter[str] = field(default_factory=Counter)
    _hit: set[Member] = field(default_factory=set)

    async def rage(self) -> Counter[str]:
        """All faults are over when it returns; returns how many there were of each kind."""
        draw, faults = random.Random(self.seed), _deck(random.Random(self.seed))
        end = asyncio.get_running_loop().time() + self.seconds
        async with asyncio.TaskGroup() as group:
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(draw.uniform(*self.pause))
                member = self._victim(draw)
                if member is not None:
                    strike = self._strike(next(faults), member, random.Random(draw.random()))
                    group.create_task(strike)
        return self.happened

    def _victim(self, draw: random.Random) -> Member | None:
        well = [member for member in self.crew.members if member not in self._hit]
        chosen, aim = draw.choice(self.crew.members), draw.random() < self.at_leader
        if len(well) <= self.well:
            return None
        leader = self.crew.leader() if aim else None
        wanted = leader or chosen
        return wanted if wanted in well else None

    async def _strike(self, fault: Fault, member: Member, draw: random.Random) -> None:
        self._hit.add(member)
        self.happened[getattr(fault, "__name__", "fault")] += 1
        try:
            await fault(self.crew, member, draw, self.lease_time)
        finally:
            self._hit.discard(member)
