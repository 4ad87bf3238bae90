"""One stand for one election: try, wait as long as agreed, hold the term, and tell how it ended.

The only way to a lease, for every elector and every entry point.
"""

import asyncio
import math
import os
import random
from typing import Final, NamedTuple

from incumbent import clock, events
from incumbent.backoff import pause_after
from incumbent.engine import handle
from incumbent.engine.handle import Lease
from incumbent.engine.office import Office
from incumbent.engine.term import Term
from incumbent.options import LeaderOptions
from incumbent.results import LossReason, Skipped
from incumbent.stores.base import Budget, Busy, Claim, Grant

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds between attempts that fail: the first, and the most after doubling."""

LOOK_AGAIN: Final = (0.05, 0.15)
"""Seconds between two looks at a taken seat, at random."""

SOON: Final = 0.002
"""Seconds after a lease has run out on the server at which it is worth trying."""


class Verdict(NamedTuple):
    """How a term ended for its action."""

    loss: LossReason | None
    stopped: bool
    """Whether the `CancelledError` that left the action was ours, and nobody else's."""


class Candidacy:
    """A candidate for one seat of one election, once."""

    __slots__ = (
        "_lease",
        "_office",
        "_term",
        "election",
        "leader_id",
        "name",
        "options",
        "seats",
    )

    def __init__(
        self,
        office: Office[Term],
        options: LeaderOptions,
        *,
        name: str,
        election: str,
        seats: int,
        leader_id: str,
    ) -> None:
        self.options: LeaderOptions = options
        self.name: str = name
        self.election: str = election
        self.seats: int = seats
        self.leader_id: str = leader_id
        self._office = office
        self._term: Term | None = None
        self._lease: Lease | None = None

    @property
    def elected(self) -> bool:
        """Whether there is a term to leave."""
        return self._term is not None

    async def enter(self) -> Lease | Skipped:
        """Stand for the seat, for `wait_time` at most."""
        if self._term is not None:
            raise RuntimeError("this block is entered already: make another one with lead()")
        options, store = self.options, self._office.store
        give_up_at = math.inf if options.wait_time is None else clock.now() + options.wait_time
        budget = Budget.of_two(options.request_timeout)
        failures = 0
        while True:
            claim = self._claim()
            try:
                answer = await store.acquire(claim, budget)
            except Exception as error:
                failures += 1
                pause = pause_after(
                    failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random()
                )
                if not store.passing(error) or clock.now() + pause >= give_up_at:
                    raise
                self._tell_delay(error, pause)
            else:
                if isinstance(answer, Grant):
                    return self._take(claim, answer)
                if clock.now() >= give_up_at:
                    return self._skip(answer)
                failures = 0
                pause = min(answer.holder.remaining + SOON, random.uniform(*LOOK_AGAIN))
            await asyncio.sleep(min(pause, max(0.0, give_up_at - clock.now())))

    async def leave(self, error: BaseException | None) -> Verdict:
        """The action has ended, with `error` or without: end the term."""
        term, lease = self._term, self._lease
        self._term = self._lease = None
        if term is None or lease is None:
            raise RuntimeError("not elected, so there is nothing to leave")
        stopped = term.disarm() and isinstance(error, asyncio.CancelledError)
        handle.drop(lease)
        if isinstance(error, Exception):
            self._office.tell(events.ActionRaised, **term.names, error=error)
        await term.close()
        return Verdict(term.loss_reason, stopped)

    def _claim(self) -> Claim:
        options = self.options
        return Claim(
            self.election,
            self.seats,
            os.urandom(16).hex(),
            self.leader_id,
            options.lease_time,
            options.stop_grace,
        )

    def _take(self, claim: Claim, grant: Grant) -> Lease:
        self._term = Term(self._office, self.options, self.name, claim, grant)
        self._lease = Lease(self._term)
        handle.push(self._lease)
        return self._lease

    def _skip(self, answer: Busy) -> Skipped:
        self._office.tell(
            events.AttemptSkipped,
            election=self.election,
            leader_id=self.leader_id,
            reason="held",
            holder=answer.holder,
        )
        return Skipped("held", answer.holder)

    def _tell_delay(self, error: Exception, pause: float) -> None:
        self._office.tell(
            events.AttemptDelayed,
            election=self.election,
            leader_id=self.leader_id,
            error=error,
            retry_in=pause,
        )
