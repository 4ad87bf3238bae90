"""A store inside the process: for users' unit tests and for development with a single process.

Keeps the same contract as the server's store, with no server: nothing here is shared between
processes.
"""

import time
from dataclasses import dataclass, field

from incumbent import clock
from incumbent.results import LeaderInfo, LeaderState
from incumbent.stores.base import Budget, Busy, Claim, Extended, Grant, NotYours, Released, instant


@dataclass(slots=True)
class _Seat:
    token: str | None = field(repr=False)
    leader_id: str
    fence: int
    since_ms: float
    ends_at: float


class MemoryStore:
    """Leases in this process. Electors that share one `MemoryStore` contend with each other.

    >>> elector = LeaderElector(MemoryStore())
    """

    def __init__(self) -> None:
        self._seats: dict[tuple[str, int], _Seat] = {}
        self._fences: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._seats)} seats>"

    async def acquire(self, claim: Claim, budget: Budget) -> Grant | Busy:
        now = clock.now()
        taken = self._taken(claim.election, claim.seats, now)
        for number, seat in taken.items():
            if seat.token == claim.token:
                seat.ends_at = max(seat.ends_at, now + claim.lease_time)
                return self._grant(number, seat, now)
        for number in range(claim.seats):
            if number not in taken:
                seat = _Seat(
                    claim.token,
                    claim.leader_id,
                    self._next_fence(claim.election),
                    time.time() * 1000,
                    now + claim.lease_time,
                )
                self._seats[claim.election, number] = seat
                return self._grant(number, seat, now)
        number = min(taken, key=lambda number: taken[number].ends_at)
        return Busy(self._info(number, taken[number], now))

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
        return Extended(_left(held, now), now)

    async def release(self, claim: Claim, grant: Grant, keep: float, budget: Budget) -> Released:
        now = clock.now()
        held = self._taken(claim.election, claim.seats, now).get(grant.seat)
        if held is None:
            return "gone"
        if held.token != claim.token:
            return "taken"
        if keep > 0:
            held.token = None
            held.ends_at = min(held.ends_at, now + keep)
        else:
            del self._seats[claim.election, grant.seat]
        return "released"

    async def leave(self, claim: Claim, budget: Budget) -> None:
        for number, seat in self._taken(claim.election, claim.seats, clock.now()).items():
            if seat.token == claim.token:
                del self._seats[claim.election, number]

    async def state(self, election: str, seats: int, budget: Budget) -> LeaderState:
        now = clock.now()
        taken = self._taken(election, seats, now)
        return LeaderState(
            election, tuple(self._info(number, taken[number], now) for number in sorted(taken))
        )

    def passing(self, error: Exception) -> bool:
        return False

    async def aclose(self) -> None:
        """Nothing to give back: the leases live as long as the store."""

    def _taken(self, election: str, seats: int, now: float) -> dict[int, _Seat]:
        taken: dict[int, _Seat] = {}
        for number in range(seats):
            seat = self._seats.get((election, number))
            if seat is None:
                continue
            if seat.ends_at <= now:
                del self._seats[election, number]
            else:
                taken[number] = seat
        return taken

    def _next_fence(self, election: str) -> int:
        fence = max(self._fences.get(election, 0) + 1, time.time_ns() // 1000)
        self._fences[election] = fence
        return fence

    @staticmethod
    def _grant(number: int, seat: _Seat, now: float) -> Grant:
        return Grant(
            number, seat.fence, instant(seat.since_ms), _left(seat, now), now, doubtful=False
        )

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


def _left(seat: _Seat, now: float) -> float:
    """Seconds that `seat` has left; the clock's last digits must not add to what was asked for."""
    return round(seat.ends_at - now, 6)
