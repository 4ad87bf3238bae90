"""A seeded schedule of faults for a crew.

The same seed draws the same faults in the same order. Whom they hit depends on who leads and who
is well, and what they meet is up to the moment. At least `well` members are always left alone, so
that a free seat can be asked to be taken.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import redis

from kit.crew import Crew, Member
from kit.faults import OF_NETWORKS, OF_PROCESSES, Fault
from kit.server_faults import OF_SERVER

Deck = Sequence[tuple[Fault, int]]

ON_PROCESSES: Deck = (*OF_PROCESSES, *OF_NETWORKS)


def name_of(fault: Fault) -> str:
    """As it stands in records and reports."""
    return getattr(fault, "__name__", "fault")


def drawn(deck: Deck, draw: random.Random) -> Iterator[Fault]:
    """Each kind once, in any order, so that a short storm has them all; then whole decks."""
    once = [fault for fault, _ in deck]
    yield from draw.sample(once, len(once))
    cards = [fault for fault, count in deck for _ in range(count)]
    while True:
        yield from draw.sample(cards, len(cards))


@dataclass(slots=True)
class Storm:
    """Faults one after another, some at the same time, for `seconds`. Await `rage()`."""

    crew: Crew
    seconds: float
    lease_time: float
    seed: int = 0
    deck: Deck = ON_PROCESSES
    on_server: Deck = OF_SERVER  # one at a time
    every: float = 0.25  # seconds from one fault to the next, on average
    well: int = 2
    at_leader: float = 0.6  # this share of the faults is for who leads at that moment
    seats: Sequence[tuple[str, int]] = (("", 0),)  # elections and seats whose leaders are aimed at
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)  # what ended by itself, or did not end
    _end: float = 0.0
    _hit: set[Member] = field(default_factory=set)

    async def rage(self) -> Counter[str]:
        """All faults are over when it returns; returns how many there were of each kind."""
        draw, faults = random.Random(self.seed), self._faults()
        self._end = end = asyncio.get_running_loop().time() + self.seconds
        async with asyncio.TaskGroup() as group:
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(draw.uniform(0.2, 1.8) * self.every)
                member = self._victim(draw)
                if member is not None:
                    strike = self._strike(next(faults), member, random.Random(draw.random()))
                    group.create_task(strike)
        return self.happened

    def _faults(self) -> Iterator[Fault]:
        return drawn((*self.deck, *self.on_server), random.Random(self.seed))

    def _victim(self, draw: random.Random) -> Member | None:
        well = [member for member in self.crew.members if member not in self._hit]
        chosen, aim = draw.choice(self.crew.members), draw.random() < self.at_leader
        seat = draw.choice(self.seats)
        if len(well) <= self.well:
            return None
        leader = self.crew.leader(*seat) if aim and not self.crew.server_in_hand.locked() else None
        wanted = leader or chosen
        return wanted if wanted in well else None

    async def _strike(self, fault: Fault, member: Member, draw: random.Random) -> None:
        if fault in {each for each, _ in self.on_server}:
            async with self.crew.server_in_hand:
                if asyncio.get_running_loop().time() < self._end:  # others may have taken long
                    await self._happen("", fault, member, draw)
            return
        self._hit.add(member)
        try:
            await self._happen(member.process, fault, member, draw)
        finally:
            self._hit.discard(member)

    async def _happen(
        self, process: str, fault: Fault, member: Member, draw: random.Random
    ) -> None:
        self.happened[name_of(fault)] += 1
        try:
            # The server may be too busy to hear what we want to do to it.
            with self.crew.fault(name_of(fault), process), contextlib.suppress(redis.RedisError):
                await fault(self.crew, member, draw, self.lease_time)
        except (AssertionError, RuntimeError) as error:  # told at the end: a long run goes on
            self.failures.append(f"{name_of(fault)}: {error}")
            self.crew.revive(member)
