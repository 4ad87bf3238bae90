"""The life of one lease, as a state machine: time and answers go in, decisions come out.

Pure: no clock, no I/O, no randomness; every method is told the time. Times are seconds of one clock
that also counts suspend (`incumbent.clock`). The rules:

1. A lease is valid until the send time of the answered request + 0.99 TTL - 2 ms (`valid_until`),
   where the TTL counts for no more than the request asked for: a server whose clock was set back
   may name a TTL of any length.
2. An attempt to renew ends in one of three ways: confirmed, refused ("not yours"), failed
   (unknown). Only a confirmation moves the deadline, and never back.
3. The next renewal is due when two thirds of the lease time are left, and a third of it after the
   last one at the latest, however long the lease was extended by hand: renewals are how a holder
   hears that it is asked to step down, or has lost the seat. The time is snapped down to a grid
   that all leases of the process share, so that they leave in one pipeline. A lease's first renewal
   comes early by chance, so that leases which began together are soon spread over the grid.
4. A failed attempt, whatever the error, is tried again after a jittered back-off as long as the
   lease lasts.
5. If nothing is confirmed until `stop_grace` before the deadline, the holder is asked to stop
   (`STOPPING`). This is told as a loss, but the lease stays valid for the cleanup. At the deadline
   it is lost. A refused lease is lost at once.
6. A holder that was asked to stop may use the lease up to its deadline, and has it renewed for one
   lease time at most. A renewal that succeeds gives its cleanup more time, but a loss that was told
   stays a loss. If somebody else asked and withdraws it (a timeout within the action that
   the action itself handles looks like that), it goes on as before. No extension by hand reaches
   beyond `max_hold_time`, or beyond that one lease time, by more than a renewal does.
7. A lost or closed lease never comes back: late answers are ignored. Illegal input raises and
   changes nothing.

::

                            STOP                       STOP: asked to, max_hold_time is over,
      granted ──▶ HELD ────────────────▶ STOPPING      or the deadline is `stop_grace` away
                  │  │ ◀──────────────── │      │
                  │  │      RESUME       │      │      CONFIRMED and FAILED
                  │  └───────┬───────────┘      │      change no phase
                  │          │ REFUSED, RAN_OUT │
                  │          ▼                  │
                  │        LOST                 │      late answers are ignored
                  │          │                  │      in LOST and CLOSED
                  └──────────┼──────────────────┘
                             │ CLOSE
                             ▼
                           CLOSED
"""

import enum
import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from incumbent.backoff import pause_after
from incumbent.options import DRIFT_SECONDS, DRIFT_SHARE, LeaderOptions
from incumbent.results import LossReason
from incumbent.values import Value

GRID: Final = 0.05
"""Seconds between the instants at which renewals leave."""

LATE: Final = 0.05
"""Seconds after which (and after `stop_grace`) a late wake-up means that the process slept."""


class Phase(enum.IntEnum):
    """Where a lease is in its life."""

    HELD = enum.auto()
    STOPPING = enum.auto()
    LOST = enum.auto()
    CLOSED = enum.auto()


_ALIVE: Final = (Phase.HELD, Phase.STOPPING)


class Input(enum.IntEnum):
    """What can happen to a lease."""

    CONFIRMED = enum.auto()
    REFUSED = enum.auto()
    FAILED = enum.auto()
    STOP = enum.auto()
    RESUME = enum.auto()
    RAN_OUT = enum.auto()
    CLOSE = enum.auto()


TABLE: Final[Mapping[Phase, Mapping[Input, Phase]]] = {
    Phase.HELD: {
        Input.CONFIRMED: Phase.HELD,
        Input.REFUSED: Phase.LOST,
        Input.FAILED: Phase.HELD,
        Input.STOP: Phase.STOPPING,
        Input.RESUME: Phase.HELD,
        Input.RAN_OUT: Phase.LOST,
        Input.CLOSE: Phase.CLOSED,
    },
    Phase.STOPPING: {
        Input.CONFIRMED: Phase.STOPPING,
        Input.REFUSED: Phase.LOST,
        Input.FAILED: Phase.STOPPING,
        Input.STOP: Phase.STOPPING,
        Input.RESUME: Phase.HELD,
        Input.RAN_OUT: Phase.LOST,
        Input.CLOSE: Phase.CLOSED,
    },
    Phase.LOST: {
        Input.CONFIRMED: Phase.LOST,
        Input.REFUSED: Phase.LOST,
        Input.FAILED: Phase.LOST,
        Input.STOP: Phase.LOST,
        Input.RESUME: Phase.LOST,
        Input.CLOSE: Phase.CLOSED,
    },
    Phase.CLOSED: {
        Input.CONFIRMED: Phase.CLOSED,
        Input.REFUSED: Phase.CLOSED,
        Input.FAILED: Phase.CLOSED,
    },
}
"""Every legal step. What is not here raises `IllegalInputError`."""


class IllegalInputError(RuntimeError):
    """The machine was told something that cannot happen in its phase: a bug of its driver."""


class Wait(Value):
    """Nothing to do before `until` (infinity: nothing any more)."""

    __slots__ = __match_args__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until: float = until


class Renew(Value):
    """Send a renewal now; it has `within` seconds."""

    __slots__ = __match_args__ = ("within",)

    def __init__(self, within: float) -> None:
        self.within: float = within


class Stop(Value):
    """Ask the action to stop; the lease is still held."""

    __slots__ = __match_args__ = ("reason",)

    def __init__(self, reason: LossReason) -> None:
        self.reason: LossReason = reason


class Lose(Value):
    """The lease is lost as of now."""

    __slots__ = __match_args__ = ("reason",)

    def __init__(self, reason: LossReason) -> None:
        self.reason: LossReason = reason


Decision: TypeAlias = Wait | Renew | Stop | Lose


def valid_until(sent_at: float, ttl: float) -> float:
    """Until when a lease may be trusted that the server, asked at `sent_at`, gave `ttl` seconds."""
    return sent_at + (1 - DRIFT_SHARE) * ttl - DRIFT_SECONDS


class LeaseMachine:
    """One lease from grant to end."""

    __slots__ = (
        "_failures",
        "_max_hold_at",
        "_options",
        "_renew_at",
        "_renew_until",
        "deadline",
        "expected",
        "phase",
    )

    def __init__(
        self, options: LeaderOptions, sent_at: float, ttl: float, early: float = 0.0
    ) -> None:
        """Begin with a grant; `early` (0 to 1) is by how much the first renewal comes early."""
        self._options = options
        self.phase: Phase = Phase.HELD
        self.deadline: float = -math.inf
        self._failures = 0
        self._renew_until = math.inf
        self._max_hold_at = (
            math.inf if options.max_hold_time is None else sent_at + options.max_hold_time
        )
        self._confirm(sent_at, ttl, options.lease_time, early / 3)
        self.expected: float = self._wake_at()

    def held(self, now: float) -> bool:
        """Whether the lease may be relied on at `now`."""
        return self.phase in _ALIVE and now < self.deadline

    def remaining(self, now: float) -> float:
        """Seconds for which the lease may still be relied on; 0 when not held."""
        return self.deadline - now if self.held(now) else 0.0

    def confirmed(self, sent_at: float, ttl: float, asked: float) -> None:
        """The server said "yours, for `ttl` seconds" to a request sent at `sent_at`.

        `asked` is how many seconds that request asked for.
        """
        self._step(Input.CONFIRMED)
        if self.phase in _ALIVE:
            self._confirm(sent_at, ttl, asked)

    def refused(self) -> bool:
        """The server said "not yours". Returns whether this is what ends the lease."""
        was = self.phase
        self._step(Input.REFUSED)
        return self.phase is not was

    def failed(self, now: float, jitter: float) -> None:
        """An attempt to renew ended without an answer; `jitter` is from 0 to 1."""
        self._step(Input.FAILED)
        period = self._options.renewal_period
        self._renew_at = now + pause_after(
            self._failures, first=period / 16, longest=period, jitter=jitter
        )
        last_call = self._stop_at - self._options.renewal_budget
        if now < last_call < self._renew_at:
            self._renew_at = last_call

    def allowed(self, duration: float, now: float) -> float:
        """How much of an extension by hand may be asked for at `now`; 0 if none may be."""
        if now >= self._renew_until:
            return 0.0
        left = min(self._max_hold_at, self._renew_until) - now
        return min(duration, max(self._options.lease_time, left))

    def stop(self, now: float) -> None:
        """The action was asked to stop: from here on the lease serves its cleanup."""
        if self.phase is Phase.HELD:
            self._renew_until = now + self._options.lease_time
        self._step(Input.STOP)

    def resume(self) -> None:
        """The request to stop was withdrawn."""
        self._step(Input.RESUME)
        self._renew_until = math.inf

    def close(self) -> None:
        """The term is over."""
        self._step(Input.CLOSE)

    def decide(self, now: float) -> Decision:
        """What to do at `now`; to be asked again at the time of a `Wait`, and after an attempt."""
        decision = self._decide(now)
        if isinstance(decision, Wait):
            self.expected = decision.until
        return decision

    def _decide(self, now: float) -> Decision:
        if self.phase not in _ALIVE:
            return Wait(math.inf)
        if now >= self.deadline:
            self._step(Input.RAN_OUT)
            return Lose(self._why_it_ran_out(now))
        if now >= self._stop_at:
            why = self._why_it_ran_out(now)
            self.stop(now)
            return Stop(why)
        if now >= self._max_hold_at and self.phase is Phase.HELD:
            self.stop(now)
            return Stop("max_hold_time")
        if now >= self._renew_at and self._renewing(now):
            within = min(self._options.renewal_budget, self._stop_at - now)
            self._failures += 1  # until it is confirmed
            self._renew_at = self.expected = now + within
            return Renew(within)
        return Wait(self._wake_at(now))

    @property
    def _stop_at(self) -> float:
        return self.deadline - (self._options.stop_grace if self.phase is Phase.HELD else 0.0)

    def _wake_at(self, now: float = -math.inf) -> float:
        wake_at = self._stop_at
        if self._renew_at < wake_at and self._renewing(now):
            wake_at = self._renew_at
        if self._max_hold_at < wake_at and self.phase is Phase.HELD:
            wake_at = self._max_hold_at
        return wake_at

    def _renewing(self, now: float) -> bool:
        return self._options.auto_extend and now < self._renew_until

    def _confirm(self, sent_at: float, ttl: float, asked: float, early: float = 0.0) -> None:
        # Without `min` and `max`, which would take half of the time that an election spends here.
        self._failures = 0
        given = ttl if ttl < asked else asked  # noqa: FURB136 - see above
        until = valid_until(sent_at, given)
        if until > self.deadline:  # noqa: PLR1730 - see above
            self.deadline = until
        options = self._options
        due = sent_at + (1 - early) * options.renewal_period
        if ttl < options.lease_time:
            due -= options.lease_time - ttl
        if given < options.lease_time:
            # What is short does not move the deadline: two attempts must fit before that.
            due = min(due, self.deadline - options.stop_grace - 2 * options.renewal_budget)
        self._renew_at = math.floor(due / GRID) * GRID

    def _why_it_ran_out(self, now: float) -> LossReason:
        if not self._renewing(now):
            return "expired"
        if not self._failures or now - self.expected > max(self._options.stop_grace, LATE):
            return "stalled"
        return "unreachable"

    def _step(self, happened: Input) -> None:
        try:
            self.phase = TABLE[self.phase][happened]
        except KeyError:
            raise IllegalInputError(
                f"{happened.name} cannot happen to a lease that is {self.phase.name}"
            ) from None
