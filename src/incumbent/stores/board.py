"""What one watcher knows of an election: snapshots and messages go in, states to be told come out.

Pure: `now` is given. The fences order everything, for they grow through all seats of an election.

1. What was heard before a snapshot was asked for is in it, so a snapshot takes the place of all
   that is known. What was heard since then is told at once, and once more applied to the snapshot.
2. A seat's taking counts if its fence is newer than any that is known, the snapshot's counter among
   them. Its freeing and its retention count if the fence is that of the seat as it is known.
3. As long as the stream is whole, a snapshot whose counter is ahead of it is early, not news: it
   waits for the messages that are on their way, so that every change is told, each by itself.
4. What a snapshot shows to be changed is told seat by seat: first who is gone, then who has come.
   Nothing is told twice: `remaining` and `waiting` alone make no new state.
"""

import math
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, TypeAlias

from incumbent.results import LeaderInfo, LeaderState


class SeatTaken(NamedTuple):
    """Somebody was elected."""

    seat: int
    fence: int
    since: datetime
    ttl: float
    leader_id: str


class SeatFreed(NamedTuple):
    """A seat was given back."""

    seat: int
    fence: int


class SeatRetained(NamedTuple):
    """The work is over; a minimum hold keeps the seat for `ttl` seconds."""

    seat: int
    fence: int
    ttl: float


Message: TypeAlias = SeatTaken | SeatFreed | SeatRetained
"""What is published when a seat changes; nobody publishes that a lease ran out."""


class Snapshot(NamedTuple):
    """An election as the server saw it, and the last fence that it had given then."""

    state: LeaderState
    fence: int


class _Held(NamedTuple):
    leader_id: str
    fence: int
    since: datetime
    retained: bool
    ends_at: float

    def looks_like(self, other: "_Held | None") -> bool:
        return other is not None and self[:4] == other[:4]


_Seats: TypeAlias = dict[int, _Held]


class Board:
    """The first `seats` seats of an election, as one watcher knows them."""

    def __init__(self, election: str, seats: int) -> None:
        self.seats: int = seats
        self._election = election
        self._held: _Seats = {}
        self._waiting = 0
        self._last_fence = 0
        self._known = False
        self._whole = False
        """Whether everything was heard since the snapshot that was taken in last."""
        self._asked = False
        self._since_asked: list[tuple[Message, float]] = []
        self._early: tuple[Snapshot, float] | None = None

    @property
    def early(self) -> bool:
        """Whether a snapshot waits for messages that are still on their way."""
        return self._early is not None

    @property
    def soonest(self) -> float:
        """When the first of the known leases ends, if nobody renewed it; infinite without any."""
        return min((held.ends_at for held in self._held.values()), default=math.inf)

    def present(self, now: float) -> LeaderState | None:
        """The election as it is known now; None before the first snapshot."""
        return self._state(self._held, now) if self._known else None

    def interrupt(self) -> None:
        """Messages may have been missed: only a snapshot that is asked for from now on helps."""
        self._whole = self._asked = False
        self._early = None
        self._since_asked.clear()

    def ask(self) -> None:
        """A snapshot is about to be asked for."""
        self._asked, self._early = True, None
        self._since_asked.clear()

    def answer(self, snapshot: Snapshot, now: float) -> list[LeaderState]:
        """The snapshot is here; it is ignored if none was asked for, or not since a cut."""
        if not self._asked:
            return []
        self._asked, self._early = False, (snapshot, now)
        if self._whole and snapshot.fence > self._last_fence:
            return []
        return self.settle(now)

    def heard(self, message: Message, now: float) -> list[LeaderState]:
        """A message has come."""
        if self._asked or self._early is not None:
            self._since_asked.append((message, now))
        if not self._known:
            return []
        held = dict(self._held)
        self._last_fence = self._apply(message, now, held, self._last_fence)
        states = self._turn_to(held, now)
        if self._early is not None and self._early[0].fence <= self._last_fence:
            states += self.settle(now)
        return states

    def settle(self, now: float) -> list[LeaderState]:
        """Wait for messages no longer: take in the snapshot that waits for them."""
        if self._early is None:
            return []
        (state, fence), seen_at = self._early
        held = {info.seat: _held(info, seen_at) for info in state.leaders if info.seat < self.seats}
        self._waiting = state.waiting
        states: list[LeaderState] = []
        first, self._known = not self._known, True
        if first:
            self._held = dict(held)
            states.append(self._state(held, now))
        for message, heard_at in self._since_asked:
            # Told already, as long as there was something to tell it of.
            fence = self._apply(message, heard_at, held, fence)
            if first:
                states += self._turn_to(dict(held), now)
        states += self._turn_to(held, now)
        self._early = None
        self._since_asked.clear()
        self._last_fence, self._whole = fence, True
        return states

    def _apply(self, message: Message, now: float, held: _Seats, last_fence: int) -> int:
        """Let `message` change the seats, if it is news; returns the last fence."""
        if isinstance(message, SeatTaken):
            if message.fence <= last_fence:
                return last_fence
            if message.seat < self.seats:
                ends_at = now + message.ttl
                held[message.seat] = _Held(
                    message.leader_id, message.fence, message.since, retained=False, ends_at=ends_at
                )
            return message.fence
        known = held.get(message.seat)
        if known is not None and known.fence == message.fence:
            if isinstance(message, SeatFreed):
                del held[message.seat]
            else:
                ends_at = min(known.ends_at, now + message.ttl)
                held[message.seat] = known._replace(retained=True, ends_at=ends_at)
        return last_fence

    def _turn_to(self, held: _Seats, now: float) -> list[LeaderState]:
        old, self._held = self._held, held
        return [self._state(step, now) for step in _steps(old, held)]

    def _state(self, held: _Seats, now: float) -> LeaderState:
        infos = [_info(seat, held[seat], now) for seat in sorted(held)]
        return LeaderState(self._election, tuple(infos), self._waiting)


def _steps(old: _Seats, new: _Seats) -> Iterator[_Seats]:
    """One step for each change: first who is gone, then who has come, in the order of fences."""
    gone = [seat for seat in sorted(old) if seat not in new or new[seat].fence != old[seat].fence]
    come = [seat for seat in new if not new[seat].looks_like(old.get(seat))]
    # A seat that is the same is shown with its newer end.
    shown = {**old, **{seat: held for seat, held in new.items() if seat not in come}}
    for seat in gone:
        del shown[seat]
        yield shown
    for seat in sorted(come, key=lambda seat: new[seat].fence):
        shown[seat] = new[seat]
        yield shown


def _held(info: LeaderInfo, now: float) -> _Held:
    return _Held(info.leader_id, info.fence, info.since, info.retained, now + info.remaining)


def _info(seat: int, held: _Held, now: float) -> LeaderInfo:
    return LeaderInfo(
        leader_id=held.leader_id,
        seat=seat,
        fence=held.fence,
        since=held.since,
        remaining=max(0.0, round(held.ends_at - now, 6)),
        retained=held.retained,
    )
