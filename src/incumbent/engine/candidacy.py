"""One stand for one election: try, wait as long as agreed, hold the term, and tell how it ended.

The only way to a lease, for every elector and every entry point.
"""

import asyncio
import math
import os
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias

from incumbent import clock, events
from incumbent.backoff import pause_after
from incumbent.engine import handle
from incumbent.engine.handle import Lease
from incumbent.engine.office import Office
from incumbent.engine.outages import Outage
from incumbent.engine.term import Term
from incumbent.engine.waits import Wait, Waits
from incumbent.options import LeaderOptions
from incumbent.results import LossReason, Skipped
from incumbent.shield import finish
from incumbent.stores.base import Budget, Busy, Claim, Grant, Place, Ran

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds between attempts that fail: the first, and the most after doubling."""


Result: TypeAlias = Literal["succeeded", "failed"]
"""What the work of a term came to."""


class Gate(Protocol):
    """What may stand between a candidacy and the seat: it has a say in who tries when.

    Never in who leads. One gate is for one candidacy, from its first look to the end of its term.
    """

    async def admit(self, give_up_at: float, budget: Budget) -> Skipped | None:
        """Return None when the candidacy may ask for the seat, or why it did not in time.

        Asked again after a refusal. What the store raises comes out.
        """
        ...

    def elected(self, term: Term) -> None:
        """The candidacy has the seat."""
        ...

    async def close(
        self, deed: Result | None, closing: Callable[[], Awaitable[LossReason | None]]
    ) -> LossReason | None:
        """The action has ended, with a result or without: see to it, and to ``closing()``.

        Returns what that returns.
        """
        ...


class Candidacy(Wait):
    """A candidate for one seat of one election, once. It waits until it is elected, or gives up."""

    __slots__ = (
        "_after",
        "_gate",
        "_lease",
        "_mark",
        "_office",
        "_outage",
        "_place",
        "_task",
        "_term",
        "election",
        "leader_id",
        "name",
        "options",
        "ran_until",
        "seats",
    )

    def __init__(  # noqa: PLR0917 - to make an object by keywords takes twice the time
        self,
        office: Office[Term],
        options: LeaderOptions,
        name: str,
        election: str,
        seats: int,
        leader_id: str,
        waits: Waits,
        after: int = 0,
        gate: Gate | None = None,
        outage: Outage | None = None,
    ) -> None:
        """It stands for as long as `waits` is open. `outage` is shared by a campaign's candidacies.

        With `once_per`, `after` leaves out the periods that begin before it: ms, epoch. With a
        `gate` it does not stand in line, but asks when the gate lets it.
        """
        super().__init__(waits)
        self.options: LeaderOptions = options
        self.name: str = name
        self.election: str = election
        self.seats: int = seats
        self.leader_id: str = leader_id
        self.ran_until: int | None = None
        """The end of the period that was found to have been run, if any: milliseconds, epoch."""
        self._after = after
        self._gate = gate
        self._office = office
        self._outage = outage
        self._term: Term | None = None
        self._lease: Lease | None = None
        self._mark: handle.Mark | None = None
        self._place: Place | None = None
        self._task: asyncio.Task[Any] | None = None

    @property
    def names(self) -> events.Names:
        """What every event of this candidate says."""
        return {"election": self.election, "leader_id": self.leader_id}

    @property
    def elected(self) -> bool:
        """Whether there is a term to leave."""
        return self._term is not None

    @property
    def lease(self) -> Lease:
        """What the action has in hand."""
        if self._lease is None:
            raise RuntimeError("not elected, so there is no lease")
        return self._lease

    def enter(self, task: "asyncio.Task[Any] | None" = None) -> Coroutine[Any, Any, Term | Skipped]:
        """Stand for the seat, for `wait_time` at most.

        A loss cancels `task` while the term lasts, or the task that runs this if none is given.
        """
        if self._term is not None:
            raise RuntimeError("this block is entered already: make another one with lead()")
        self.loop: asyncio.AbstractEventLoop | None = self._office.come_home()
        self._task = task
        wait = self.options.wait_time
        give_up_at = math.inf if wait is None else clock.now() + wait
        return self._stand(give_up_at)

    async def _stand(self, give_up_at: float) -> Term | Skipped:
        """Try once, then stand in line: ask when called, and once more when the time is up."""
        store, budget = self._office.store, Budget.of_two(self.options.request_timeout)
        claim, failures = self._claim(), 0
        with self:
            try:
                while True:
                    last = clock.now() >= give_up_at
                    try:
                        answer = await self._ask(claim, budget, give_up_at, last=last)
                    except Exception as error:
                        claim, failures = self._claim(), failures + 1
                        pause = _pause_after(failures)
                        if not store.passing(error) or clock.now() + pause >= give_up_at:
                            raise
                        self.tell_delay(error, pause)
                        await self._pause(clock.now() + pause)
                    else:
                        if self._outage is not None and self._proves_health(answer):
                            self._outage.over()
                        if isinstance(answer, Grant):
                            return self._take(claim, answer)
                        # In line, the answer to the last request is the end, and nothing before it.
                        over = last or (self._place is None and clock.now() >= give_up_at)
                        if over or not isinstance(answer, Busy):
                            return self._skip(answer)
                        if answer.spent:
                            claim = self._claim()
                        failures = 0
                        await self._wait(claim, give_up_at)
                    budget = self._budget(give_up_at)
            finally:
                if self._place is not None:
                    await self._leave_line(self._place, give_up_at)

    def _proves_health(self, answer: Grant | Busy | Ran | Skipped) -> bool:
        """Whether the server takes writes: that a seat is taken it says without one, at first."""
        return not isinstance(answer, Busy) or self._place is not None or self._gate is not None

    async def _wait(self, claim: Claim, give_up_at: float) -> None:
        """Take a place in line; who has one waits there to be called, who has a gate at that."""
        if self._gate is not None:
            return
        if self._place is None:
            self._place = await self._office.store.stand(claim, self._until(give_up_at))
        else:
            await self._place.called(give_up_at)

    async def _leave_line(self, place: Place, give_up_at: float) -> None:
        """Within the call's own budget, and within half a `request_timeout` if it was cancelled."""
        self._place = None
        options = self.options
        most = min(options.request_timeout / 2, options.lease_time)
        left = min(most, self._budget(give_up_at).total)
        try:
            await finish(partial(place.leave, Budget(left, left)))
        finally:
            place.close()

    def _ask(
        self, claim: Claim, budget: Budget, give_up_at: float, *, last: bool
    ) -> Awaitable[Grant | Busy | Ran | Skipped]:
        if self._gate is not None:
            return self._ask_when_admitted(self._gate, claim, budget, give_up_at)
        return self._office.store.acquire(claim, budget, self._place, last=last)

    async def _ask_when_admitted(
        self, gate: Gate, claim: Claim, budget: Budget, give_up_at: float
    ) -> Grant | Busy | Ran | Skipped:
        refusal = await gate.admit(give_up_at, budget)
        if refusal is not None:
            return refusal
        return await self._office.store.acquire(claim, self._budget(give_up_at))

    async def _pause(self, until: float) -> None:
        """Wait after an error; who stands in line all the same is not called in vain."""
        if self._place is not None:
            await self._place.called(until)
        else:
            await asyncio.sleep(until - clock.now())

    def _budget(self, give_up_at: float) -> Budget:
        """The time of two requests, and not more than that beyond the time to give up."""
        total, each = Budget.of_two(self.options.request_timeout)
        return Budget(min(total, max(0.0, give_up_at + total - clock.now())), each)

    def _until(self, give_up_at: float) -> Budget:
        """The time of one request, or less if the time to give up comes before."""
        each = self.options.request_timeout
        return Budget(min(each, max(0.0, give_up_at - clock.now())), each)

    async def leave(
        self, error: BaseException | None, *, counts: bool = True
    ) -> tuple[bool, LossReason | None, str]:
        """End the term: the action has ended, with `error` or without.

        Returns whether the `CancelledError` that left the action was ours, and nobody else's; why
        the term was lost, if it was; and why it could not be renewed, if it was lost for that.

        The hooks are told of the error first, so that no user code runs from then to the release,
        and none can keep the seat from being given back. If the action does not count, its period
        stays open, and no result is noted.
        """
        term, self._term, self._task = self._term, None, None
        if term is None:
            raise RuntimeError("not elected, so there is nothing to leave")
        if isinstance(error, Exception):
            self._office.tell(events.ActionRaised, term, error=error)
        stopped = False
        try:
            stopped = term.disarm(error) and isinstance(error, asyncio.CancelledError)
            self._put_down()
        finally:
            cancelled = error is not None and not (stopped or isinstance(error, Exception))
            restore = not counts or self._may_be_tried_again(term, error)
            if self._gate is None:
                loss = await term.close(restore=restore, cancelled=cancelled)
            else:
                closing = partial(term.close, restore=restore, cancelled=cancelled)
                loss = await self._gate.close(_deed(term, error) if counts else None, closing)
        return stopped, loss, term.loss_detail

    def _put_down(self) -> None:
        """The action no longer has the lease in hand. What it was known by is not kept either."""
        lease, mark = self._lease, self._mark
        self._lease = self._mark = None
        if lease is not None and mark is not None:
            handle.drop(lease, mark)

    def _may_be_tried_again(self, term: Term, error: BaseException | None) -> bool:
        once_per = self.options.once_per
        if once_per is None or not once_per.retry_failed:
            return False
        return error is not None or term.loss_reason is not None

    def _claim(self) -> Claim:
        options = self.options
        return Claim(
            self.election,
            self.seats,
            os.urandom(16).hex(),
            self.leader_id,
            options.lease_time,
            options.stop_grace,
            options.once_per,
            self._after,
            options.durability,
        )

    def _take(self, claim: Claim, grant: Grant) -> Term:
        self._place = None
        term = self._term = Term(
            self._office,
            self.options,
            self.name,
            claim,
            grant,
            self.task,
            self._task,
            self._outage,
        )
        if self._gate is not None:
            self._gate.elected(term)
        if grant.doubts:
            self._office.tell(events.DurabilityWeakened, self, findings=grant.doubts)
        self._lease = Lease(term)
        self._mark = handle.push(self._lease)
        return term

    def _skip(self, answer: Busy | Ran | Skipped) -> Skipped:
        self._place = None  # the server has taken it out of the line
        if isinstance(answer, Busy):
            answer = Skipped("held", answer.holder)
        elif isinstance(answer, Ran):
            self.ran_until = answer.ends
            if answer.ahead:
                self._office.tell(events.PeriodAhead, self, ahead=answer.ahead)
            answer = Skipped("already_ran")
        self._office.tell(events.AttemptSkipped, self, reason=answer.reason, holder=answer.holder)
        return answer

    def tell_delay(self, error: Exception, pause: float) -> None:
        """Tell that `error` came in place of an answer, and that the next try is after `pause`."""
        if self._outage is None:
            self._outage = Outage(self._office, self.election, self.leader_id)
        self._outage.failed(events.AttemptDelayed, self, error, retry_in=pause)


def _deed(term: Term, error: BaseException | None) -> Result | None:
    """What the work came to; nothing when it was cancelled, or its lease lost."""
    if not term.kept or (error is not None and not isinstance(error, Exception)):
        return None
    return "succeeded" if error is None else "failed"


def _pause_after(failures: int) -> float:
    return pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random())
