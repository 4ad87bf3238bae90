"""Those of this process who stand in line for one election, and what calls them.

Subscribe, have it confirmed, then ask: so no wake-up is lost. One timer for all of them says that
the process is there, and notices what nobody publishes: a seat whose lease ran out, a place that
was dropped, an inbox that has gone deaf.
"""

import asyncio
import math
import random
from typing import Final, NamedTuple, Protocol

from redis import exceptions as redis_errors

from incumbent.backoff import pause_after
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.stores.redis.place import ServerPlace

LONGEST_PERIOD: Final = 10.0
"""The most seconds between two touches."""

FIRST_TOUCH: Final = (0.3, 0.5)
"""Seconds after it began to listen at which a line finds out whether it is heard, at random."""

SILENT: Final = (0.1, 0.3)
"""Seconds between two touches as long as nothing is heard, at random."""

A_LITTLE_LATER: Final = (0.001, 0.008)
"""Seconds after a lease's end at which it is looked at, at random."""

PROBE_WITHIN: Final = 0.5
"""Seconds in which a probe must come back."""

LINGER: Final = 1.0
"""Seconds for which an empty line goes on listening, for those who will stand again at once."""


class Touch(NamedTuple):
    """What the server says to a touch."""

    standing: bool
    """Whether the place that was asked about is still in line."""
    free: int
    """How many seats are free."""
    soonest: float
    """Seconds until the next one may be, or is no longer kept for the waiter that was called to it.

    Infinite when none has an end.
    """


class Desk(Protocol):
    """What a line needs of the process that it belongs to."""

    def listen(self, line: "Line") -> None:
        """Tell the line what is published to its channel."""
        ...

    def dismiss(self, line: "Line") -> None:
        """The line is over."""
        ...

    def distrust(self, line: "Line") -> None:
        """The connection that the line is subscribed on is deaf: make another one."""
        ...

    def start_touch(self, line: "Line") -> None:
        """Run the line's `touch` in a task of its own."""
        ...

    def start_leave(self, line: "Line", place: bytes) -> None:
        """Let `place` leave the line, without waiting for it."""
        ...

    async def ask_touch(self, line: "Line", place: ServerPlace, probe: int) -> Touch:
        """Send a touch."""
        ...

    async def leave(self, line: "Line", place: bytes, budget: Budget) -> None:
        """Take `place` out of the line, and pass on what was due to it."""
        ...


class Line:
    """The places of one election in this process. Listens to the channel that wakes them."""

    def __init__(self, desk: Desk, election: str) -> None:
        self.election: str = election
        self.seats: int = 0
        """As many as the waiter that sees most can see."""
        self.period: float = LONGEST_PERIOD
        """Seconds between two touches when there is nothing else to look at."""
        self._desk = desk
        self._places: dict[bytes, ServerPlace] = {}
        self._hearing = False
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it is known whether calls are heard."""
        self._timer: asyncio.TimerHandle | None = None
        self._touch_at = math.inf
        """When a touch is due, by the loop's clock, whatever is known of seats."""
        self._free_at = math.inf
        """When a seat may be free, by the server's latest word."""
        self._linger: asyncio.TimerHandle | None = None
        self._touching = False
        self._failures = 0
        self._probes = 0
        self._probe_heard = 0
        self._probes_unheard = 0
        """As many were sent before it began to listen: they say nothing."""
        self._probe_alarm: asyncio.TimerHandle | None = None
        desk.listen(self)

    # -- places ------------------------------------------------------------------------------

    def add(self, place: ServerPlace, lease_time: float) -> None:
        """Take in a place."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._places[place.name] = place
        self.seats = max(self.seats, place.seats)
        self.period = min(self.period, lease_time / 3)
        if self._settled.done() and not self._hearing:
            self._touch_within(random.uniform(*SILENT))

    def remove(self, place: ServerPlace) -> None:
        """Forget a place; the last one ends the line, a little later."""
        del self._places[place.name]
        if not self._places:
            self._stop_timers()
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(LINGER if self._hearing else 0, self._end)

    async def leave(self, place: ServerPlace, budget: Budget) -> None:
        """Take a place out of the line on the server."""
        await self._desk.leave(self, place.name, budget)

    def start_leave(self, place: ServerPlace) -> None:
        """The same, without waiting for it."""
        self._desk.start_leave(self, place.name)

    async def settled(self, within: float) -> None:
        """Wait until it is known whether calls are heard."""
        if not self._settled.done():  # `wait` sets a timer and suspends in any case
            await asyncio.wait((self._settled,), timeout=within)

    def expect(self, soonest: float) -> None:
        """A seat may be free in so many seconds: the server's latest word, and no earlier one."""
        loop = asyncio.get_running_loop()
        self._free_at = loop.time() + soonest + random.uniform(*A_LITTLE_LATER)
        if not self._hearing:
            self._touch_within(random.uniform(*SILENT))
        elif self._probes == self._probes_unheard:
            self._touch_within(random.uniform(*FIRST_TOUCH))
        else:
            self._touch_within(self.period)

    def _end(self) -> None:
        self._linger = None
        self._desk.dismiss(self)

    # -- what is heard -----------------------------------------------------------------------

    def listening(self) -> None:
        """Whatever was published before this was not heard: everybody asks again."""
        self._hearing = True
        self._probes_unheard = self._probes
        self._stop_timers()  # each answer to those who ask sets them anew
        self._settle()
        self._call_all()

    def deaf(self) -> None:
        """From now on, time has to do it."""
        self._hearing = False
        self._settle()
        self._touch_within(random.uniform(*SILENT))

    def _settle(self) -> None:
        if not self._settled.done():
            self._settled.set_result(None)

    def heard(self, message: bytes) -> None:
        """A word from a script."""
        word, _, rest = message.partition(b" ")
        if word == b"wake":
            place = self._places.get(rest)
            if place is not None:
                place.call()
            else:
                self._desk.start_leave(self, rest)
        elif word == b"nudge":
            self._touch_within(0)
        elif word == b"probe":
            self._probe_heard = int(rest)

    def _call_all(self) -> None:
        for place in tuple(self._places.values()):
            place.call()

    # -- touching ----------------------------------------------------------------------------

    async def touch(self) -> None:
        """Say that this process is there, and look whether anything went unheard."""
        self._touch_at = self._free_at = math.inf
        oldest = min(
            (place for place in self._places.values() if place.arrival),
            key=lambda place: place.arrival,
            default=None,
        )
        if oldest is None:
            return  # the first refusal sets the timer
        self._touching = True
        self._probes += 1
        try:
            answer = await self._desk.ask_touch(self, oldest, self._probes)
        except redis_errors.RedisError as error:
            self._failed(oldest, error)
        else:
            self._failures = 0
            self._learn(oldest, answer)
        finally:
            self._touching = False
            self._touch_within(self.period)

    def _learn(self, oldest: ServerPlace, answer: Touch) -> None:
        if not self._hearing:
            if answer.free or not answer.standing:
                oldest.call()
            self._touch_within(random.uniform(*SILENT))
            return
        if not answer.standing and oldest.open:
            self._call_all()
        self.expect(answer.soonest)
        if self._probe_alarm is None and self._places:
            self._probe_alarm = asyncio.get_running_loop().call_later(
                PROBE_WITHIN, self._look_for_probe, self._probes
            )

    def _failed(self, oldest: ServerPlace, error: redis_errors.RedisError) -> None:
        """The waiters' own requests find out what is wrong, and tell it."""
        if faults.passing(error):
            oldest.call()
        else:
            self._call_all()
        self._failures += 1
        self._touch_within(
            pause_after(self._failures, first=0.1, longest=self.period, jitter=random.random())
        )

    def _look_for_probe(self, probe: int) -> None:
        self._probe_alarm = None
        if self._hearing and probe > max(self._probe_heard, self._probes_unheard):
            self._desk.distrust(self)

    def _touch_within(self, seconds: float) -> None:
        """Touch in so many seconds, or earlier if that is agreed already."""
        self._touch_at = min(self._touch_at, asyncio.get_running_loop().time() + seconds)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        when = min(self._touch_at, self._free_at)
        if self._places and when < math.inf:
            self._timer = asyncio.get_running_loop().call_at(when, self._start_touch)

    def _start_touch(self) -> None:
        self._timer = None
        if not self._touching:  # else what is due stays due, and the touch's end sets the timer
            self._desk.start_touch(self)

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._probe_alarm):
            if timer is not None:
                timer.cancel()
        self._timer = self._probe_alarm = None
        self._touch_at = self._free_at = math.inf
