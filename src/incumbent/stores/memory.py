"""A store inside the process: for users' unit tests and for development with a single process.

Keeps the same contract as the server's store, with no server: nothing here is shared between
processes.
"""

import asyncio
import time
from bisect import insort
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from incumbent import clock
from incumbent.results import LeaderInfo, LeaderState
from incumbent.stores.base import (
    Budget,
    Busy,
    Claim,
    Extended,
    Grant,
    NotYours,
    Place,
    Ran,
    Released,
    grace_of,
    instant,
)
from incumbent.stores.bell import Bell
from incumbent.stores.board import Message, SeatFreed, SeatRetained, SeatTaken, Snapshot
from incumbent.stores.mailbox import Mailbox

if TYPE_CHECKING:
    from incumbent.stores.local import LocalWatching
    from incumbent.stores.memory_registry import MemoryRegistry


@dataclass(slots=True)
class _Seat:
    token: str | None = field(repr=False)
    leader_id: str
    fence: int
    since_ms: float
    ends_at: float
    asked: bool = False


class _Run(NamedTuple):
    """The last run of an election with periods."""

    begins: int
    """When its period began."""
    token: str
    """Whose run it was."""
    before: int
    """When the period of the run before began; put back if this run does not count."""


_NEVER: Final = _Run(-1, "", -1)


@dataclass(slots=True, eq=False)
class _Place:
    store: "MemoryStore" = field(repr=False)
    election: str
    seats: int
    arrival: int
    grace: float
    bell: Bell = field(default_factory=Bell, repr=False)
    kept_until: float = 0.0
    """Until when a seat is kept for it; 0 as long as it is not its turn."""

    async def called(self, until: float) -> None:
        await self.bell.wait(until)

    async def leave(self, budget: Budget) -> None:
        self.close()

    def close(self) -> None:
        self.store.forget(self)


class MemoryStore:
    """Leases in this process. Electors that share one `MemoryStore` contend with each other.

    >>> elector = LeaderElector(MemoryStore())
    """

    def __init__(self) -> None:
        self._seats: dict[str, dict[int, _Seat]] = {}
        self._fences: dict[str, int] = {}
        self._runs: dict[str, _Run] = {}
        """The last run that counts for a period."""
        self._lines: dict[str, list[_Place]] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._arrivals = count(1)
        self._registry: MemoryRegistry | None = None
        self._watching: LocalWatching | None = None

    @property
    def registry(self) -> "MemoryRegistry":
        """Who stands in strategic elections: one for all electors that share this store."""
        # Here, because most programs never ask: a quarter of what this library costs to import.
        from incumbent.stores.memory_registry import MemoryRegistry  # noqa: PLC0415 - see above

        if self._registry is None:
            self._registry = MemoryRegistry(self, lambda election: self._fences.get(election, 0))
        return self._registry

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {sum(map(len, self._seats.values()))} seats>"

    @property
    def replicates(self) -> bool:
        return False

    async def acquire(
        self, claim: Claim, budget: Budget, place: Place | None = None, *, last: bool = False
    ) -> Grant | Busy | Ran:
        now = clock.now()
        mine = self._ours(place)
        taken = self._taken(claim.election, claim.seats, now)
        for number, seat in taken.items():
            if seat.token == claim.token:
                seat.ends_at = max(seat.ends_at, now + claim.lease_time)
                self._leave_line(mine)
                return self._grant(number, seat, now)
        ran = self._ran(claim)
        if ran is not None:
            if mine is not None:
                self.forget(mine)
            return ran
        if mine is not None:
            self._join_line(mine)
        due, left = self._walk(claim.election, now, mine, claim.seats)
        if mine is None and left:
            due = left[0]
        if due is not None:
            self._leave_line(mine)
            seat = self._sit(claim, due, now)
            self._tell(claim.election, _told(due, seat, claim.lease_time))
            return self._grant(due, seat, now)
        if last:
            self._leave_line(mine)
        self._set_alarm(claim.election, now)
        if not taken:
            return Busy(None)
        number = min(taken, key=lambda number: taken[number].ends_at)
        return Busy(self._info(number, taken[number], now))

    async def stand(self, claim: Claim, budget: Budget) -> Place:
        return _Place(
            self, claim.election, claim.seats, next(self._arrivals), grace_of(claim.lease_time)
        )

    async def extend(
        self, claim: Claim, seat: int, duration: float, budget: Budget
    ) -> Extended | NotYours:
        now = clock.now()
        held = self._taken(claim.election, claim.seats, now).get(seat)
        if held is None:
            return "gone"
        if held.token != claim.token:
            return "taken"
        held.ends_at = max(held.ends_at, now + duration)
        return Extended(_left(held, now), now, asked=held.asked)

    async def release(
        self, claim: Claim, grant: Grant, keep: float, budget: Budget, *, restore: bool = False
    ) -> Released:
        now = clock.now()
        held = self._taken(claim.election, claim.seats, now).get(grant.seat)
        if held is None:
            return "gone"
        if held.token != claim.token:
            return "taken"
        if restore:
            self._restore(claim)
        if keep > 0:
            held.token = None
            held.ends_at = min(held.ends_at, now + keep)
            left = _left(held, now)
            self._tell(claim.election, SeatRetained(grant.seat, held.fence, left))
        else:
            self._free(claim.election, grant.seat)
            self._tell(claim.election, SeatFreed(grant.seat, held.fence))
        self._look(claim.election)
        return "released"

    async def leave(self, claim: Claim, budget: Budget) -> None:
        self._restore(claim)
        for number, seat in self._taken(claim.election, claim.seats, clock.now()).items():
            if seat.token == claim.token:
                self._free(claim.election, number)
                self._tell(claim.election, SeatFreed(number, seat.fence))
        self._look(claim.election)

    async def ask_to_step_down(
        self, election: str, seats: int, seat: int | None, budget: Budget
    ) -> int:
        taken = self._taken(election, seats, clock.now())
        asked = [
            held
            for number, held in taken.items()
            if held.token is not None and seat in {None, number}
        ]
        for held in asked:
            held.asked = True
        return len(asked)

    async def force_release(
        self, election: str, seat: int, fence: int | None, budget: Budget
    ) -> LeaderInfo | None:
        now = clock.now()
        held = self._taken(election, seat + 1, now).get(seat)
        if held is None or held.token is None or fence not in {None, held.fence}:
            return None
        held.token = None
        self._tell(election, SeatRetained(seat, held.fence, _left(held, now)))
        return self._info(seat, held, now)

    def wall_clock(self) -> int:
        return time.time_ns() // 1_000_000

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        now = clock.now()
        taken = self._taken(election, seats, now)
        return LeaderState(
            election,
            tuple(self._info(number, taken[number], now) for number in sorted(taken)),
            waiting=len(self._lines.get(election, ())),
        )

    async def watch(self, election: str, seats: int, budget: Budget, mailbox: Mailbox) -> None:
        if self._watching is None:
            from incumbent.stores.local import LocalWatching  # noqa: PLC0415 - few will watch

            self._watching = LocalWatching(self._snapshot)
        self._watching.join(election, seats, budget, mailbox)

    def reason(self, error: Exception) -> str:
        return str(error)

    def passing(self, error: Exception) -> bool:
        return False

    async def aclose(self) -> None:
        """End who watches. The leases live as long as the store."""
        if self._watching is not None:
            await self._watching.aclose()

    def _tell(self, election: str, message: Message) -> None:
        if self._watching is not None:
            self._watching.heard(election, message)

    async def _snapshot(self, election: str, seats: int) -> Snapshot:
        state = await self.state(election, seats, Budget(0, 0))
        return Snapshot(state, self._fences.get(election, 0))

    def forget(self, place: _Place) -> None:
        """Take `place` out of its line; what was due to it goes to the next."""
        if place in self._lines.get(place.election, ()):
            self._leave_line(place)
            self._look(place.election)

    # -- the line ----------------------------------------------------------------------------

    def _ours(self, place: Place | None) -> _Place | None:
        if place is None or (isinstance(place, _Place) and place.store is self):
            return place
        raise TypeError(f"a place of another store: {place!r}")

    def _join_line(self, place: _Place) -> None:
        place.bell.mute()
        place.kept_until = 0.0
        line = self._lines.setdefault(place.election, [])
        if place not in line:
            insort(line, place, key=lambda each: each.arrival)

    def _leave_line(self, place: _Place | None) -> None:
        if place is None:
            return
        line = self._lines.get(place.election, [])
        if place in line:
            line.remove(place)
        if not line:
            self._lines.pop(place.election, None)
            self._set_alarm(place.election, 0.0)

    def _walk(
        self, election: str, now: float, mine: _Place | None = None, seats: int = 0
    ) -> tuple[int | None, list[int]]:
        """Call everybody in line to whom a free seat is due.

        Returns the seat that is due to `mine`, and what the line leaves of the first `seats`.
        """
        line = self._lines.get(election, [])
        line[:] = [place for place in line if not 0 < place.kept_until <= now]
        size = max(seats, *(place.seats for place in line), 0)
        taken = self._taken(election, size, now)
        free = [number for number in range(size) if number not in taken]
        due: int | None = None
        for place in line:
            if not free:
                break
            if free[0] >= place.seats:
                continue
            number = free.pop(0)
            if place is mine:
                due = number
            elif not place.kept_until:
                place.kept_until = now + place.grace
                place.bell.ring()
        return due, [number for number in free if number < seats]

    def _look(self, election: str) -> None:
        """A seat may be free: call whose turn it is, and look again when another may be."""
        now = clock.now()
        self._walk(election, now)
        self._set_alarm(election, now)

    def _set_alarm(self, election: str, now: float) -> None:
        alarm = self._alarms.pop(election, None)
        if alarm is not None:
            alarm.cancel()
        line = self._lines.get(election)
        if not line:
            return
        taken = self._taken(election, max(place.seats for place in line), now)
        ends = [seat.ends_at for seat in taken.values()]
        ends += [place.kept_until for place in line if place.kept_until]
        if ends:
            self._alarms[election] = asyncio.get_running_loop().call_later(
                max(0.0, min(ends) - now), self._look, election
            )

    # -- seats -------------------------------------------------------------------------------

    def _taken(self, election: str, seats: int, now: float) -> dict[int, _Seat]:
        known = self._seats.get(election, {})
        for number in [number for number, seat in known.items() if seat.ends_at <= now]:
            self._free(election, number)
        return {number: known[number] for number in sorted(known) if number < seats}

    def _free(self, election: str, number: int) -> None:
        known = self._seats[election]
        del known[number]
        if not known:
            del self._seats[election]

    def _sit(self, claim: Claim, number: int, now: float) -> _Seat:
        seats = self._seats.setdefault(claim.election, {})
        seat = seats[number] = _Seat(
            claim.token,
            claim.leader_id,
            self._next_fence(claim.election),
            time.time() * 1000,
            now + claim.lease_time,
        )
        if claim.once_per is not None:
            last = self._runs.get(claim.election, _NEVER)
            before = last.before if last.token == claim.token else last.begins
            begins = claim.once_per.window(self.wall_clock()).period.begins
            self._runs[claim.election] = _Run(begins, claim.token, before)
        return seat

    def _ran(self, claim: Claim) -> Ran | None:
        if claim.once_per is None:
            return None
        now = self.wall_clock()
        period = claim.once_per.window(now).period
        last = self._runs.get(claim.election, _NEVER)
        # A run of this token without a seat is none: the lease ran out before the grant was known.
        if last.token == claim.token or last.begins < period.begins:
            return Ran(period.ends) if claim.after >= period.begins else None
        if last.begins <= period.ends:
            return Ran(period.ends)
        # The clock was ahead at that time: the run counts for the present period.
        self._runs[claim.election] = last._replace(begins=period.begins)
        return Ran(period.ends, (last.begins - now) / 1000)

    def _restore(self, claim: Claim) -> None:
        """The claim's run does not count for its period, if it is still the last one."""
        last = self._runs.get(claim.election, _NEVER)
        if last.token == claim.token:
            self._runs[claim.election] = _Run(last.before, "", -1)

    def _next_fence(self, election: str) -> int:
        fence = max(self._fences.get(election, 0) + 1, time.time_ns() // 1000)
        self._fences[election] = fence
        return fence

    @staticmethod
    def _grant(number: int, seat: _Seat, now: float) -> Grant:
        return Grant(number, seat.fence, seat.since_ms, _left(seat, now), now, doubtful=False)

    @staticmethod
    def _info(number: int, seat: _Seat, now: float) -> LeaderInfo:
        return LeaderInfo(
            leader_id=seat.leader_id,
            seat=number,
            fence=seat.fence,
            since=instant(seat.since_ms),
            remaining=_left(seat, now),
            retained=seat.token is None,
        )


def _told(number: int, seat: _Seat, ttl: float) -> SeatTaken:
    return SeatTaken(number, seat.fence, instant(seat.since_ms), ttl, seat.leader_id)


def _left(seat: _Seat, now: float) -> float:
    """Seconds that `seat` has left; the clock's last digits must not add to what was asked for."""
    return round(seat.ends_at - now, 6)
