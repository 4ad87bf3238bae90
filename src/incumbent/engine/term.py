"""One term: a granted lease, its renewals, and the task that must stop when the lease does.

The thin edge around `incumbent.lease`: it reads the clock, sends what the machine decides and tells
the hooks. No task group and no scope is ever held across the user's block.
"""

import asyncio
import math
import random
from collections.abc import Awaitable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from incumbent import clock, events, process
from incumbent.engine.guard import Guard
from incumbent.engine.office import Office
from incumbent.engine.outages import Outage
from incumbent.lease import LeaseMachine, Phase, Renew, Stop, Wait
from incumbent.options import LeaderOptions
from incumbent.results import LossReason
from incumbent.shield import finish, stop
from incumbent.stores.base import (
    Budget,
    Claim,
    Extended,
    Grant,
    NotYours,
    Released,
    Tenure,
    Transacting,
)


class Term:
    """From elected to ended. Made and closed by the task that runs the action."""

    __slots__ = (
        "__weakref__",
        "_alarms",
        "_attempts",
        "_cleanup_until",
        "_closed",
        "_delay",
        "_ending",
        "_guard",
        "_lost",
        "_machine",
        "_may_be_ours",
        "_office",
        "_options",
        "_outage",
        "_over",
        "_pid",
        "claim",
        "context",
        "due",
        "grant",
        "loss_detail",
        "loss_reason",
        "name",
    )

    def __init__(  # noqa: PLR0917 - to make an object by keywords takes twice the time
        self,
        office: "Office[Term]",
        options: LeaderOptions,
        name: str,
        claim: Claim,
        grant: Grant,
        current: "asyncio.Task[Any] | None" = None,
        task: "asyncio.Task[Any] | None" = None,
        outage: Outage | None = None,
    ) -> None:
        """The term of `grant`. `task` works under it; without one, the `current` task does.

        A `task` may end before the term does, which is told. The current one cannot: it runs the
        action, and then closes the term.
        """
        self.name: str = name
        self.claim: Claim = claim
        self.grant: Grant = grant
        self.loss_reason: LossReason | None = None
        self.loss_detail: str = ""
        """Why it could not be renewed, if it was lost for that."""
        self.context: Context = copy_context()
        self.due: float = math.inf
        self._office = office
        self._alarms = alarms = office.alarms
        self._options = options
        self._outage = outage
        self._guard = Guard(task, current)
        self._machine = LeaseMachine(options, grant.sent_at, grant.ttl, random.random())
        self._pid = process.pid
        # A tuple, because it is nearly always empty, and all share the one empty tuple.
        self._attempts: tuple[asyncio.Task[None], ...] = ()
        self._lost: asyncio.Event | None = None
        self._may_be_ours = True
        self._closed = False
        self._delay = ""  # why it could not be renewed, since the last renewal
        self._cleanup_until = math.inf  # known when the action is asked to stop
        self._over: asyncio.Future[None] | None = None  # made when somebody else waits for the end
        self._ending: events.Ending = "lost"
        office.terms.add(self)
        alarms.set(self, self._machine.expected)  # nothing can be due yet
        if task is not None and options.on_loss == "cancel":
            self._guard.tell_when_alone(self._tell_of_nobody, self.context)
        office.tell(events.TermStarted, self)

    @property
    def held(self) -> bool:
        """Whether the lease may be relied on now. Never in a forked child: it is its parent's."""
        return self._machine.held(clock.now()) and process.pid == self._pid

    @property
    def remaining(self) -> float:
        """Seconds for which it may still be relied on."""
        return self._machine.remaining(clock.now()) if process.pid == self._pid else 0.0

    @property
    def kept(self) -> bool:
        """Whether nothing has come between: it is held, or was until we gave it back."""
        return self.loss_reason is None and (self._closed or self.held)

    @property
    def lost(self) -> asyncio.Event:
        """Set when the term is lost or asked to end. Made when asked for: most need none."""
        if self._lost is None:
            self._lost = asyncio.Event()
            if self.loss_reason is not None:
                self._lost.set()
        return self._lost

    def ring(self) -> None:
        """The time has come for what the alarm was set for."""
        if self._machine.phase is Phase.LOST:
            self._guard.cancel()  # for the second time
        else:
            self.wake()

    def wake(self) -> None:
        """Do what the time demands, and come back when it will demand something again."""
        if process.pid != self._pid:
            return  # a forked child's copy of the timer: the lease is its parent's
        if self._machine.phase is Phase.LOST:
            return  # the alarm now belongs to the second cancellation
        now = clock.now()
        if not self._closed and self.loss_reason is None:
            if self._guard.cancelled_by_others:
                self._machine.stop(now)
            else:
                self._machine.resume()
        decision = self._machine.decide(now)
        if isinstance(decision, Wait):
            self._alarms.set(self, decision.until)
        elif isinstance(decision, Renew):
            # The alarm first: should anything fail below, it is looked at again all the same.
            self._alarms.set(self, now + decision.within)
            self._start_attempt(decision.within)
        elif isinstance(decision, Stop):
            self._note_loss(decision.reason)
            self.wake()
        else:
            self._tell_of_ignored(decision.reason)
            self._lose(decision.reason)

    async def extend(self, duration: float) -> bool:
        """Let the lease live `duration` seconds from now at least. False when it is not ours."""
        if not self.held:
            return False
        duration = self._machine.allowed(duration, clock.now())
        if not duration:
            return True
        budget = Budget.of_two(self._options.request_timeout)
        answer = await self._office.store.extend(self.claim, self.grant.seat, duration, budget)
        self._hear(answer, duration)
        return self.held

    def transaction(self, client: Any) -> Any:
        """A pipeline of `client` whose commands are done only while the seat is held."""
        store = self._office.store
        if not isinstance(store, Transacting):
            raise TypeError(f"the seats of {self.name!r} are on no server: nothing can watch them")
        budget = Budget.of_two(self._options.request_timeout)
        tenure = Tenure(self.name, self.claim, self.grant, lambda: self.held, budget)
        return store.transaction(client, tenure)

    def step_down(self) -> None:
        """Ask the action to stop; the seat is given back when it has."""
        if self._machine.phase is Phase.HELD:
            self._machine.stop(clock.now())
            self._note_loss("stepped_down")
            self.wake()

    async def hand_over(self, *, within: bool) -> None:
        """Step down, and wait for the end unless the end waits for the caller: `Lease.step_down`.

        `within`: the caller is the action, or something that the action has started.
        """
        self.step_down()
        told_only = self._options.on_loss == "notify" and within
        if self._guard.guards_current_task or self._guard.reaches_nobody or told_only:
            await asyncio.sleep(0)  # where the cancellation arrives, if there is one
        else:
            await self._see_it_end()

    def disarm(self, error: BaseException | None) -> bool:
        """The action has ended. Returns whether a `CancelledError` that left it was ours alone."""
        return self._guard.disarm(error)

    async def close(self, *, restore: bool = False, cancelled: bool = False) -> LossReason | None:
        """End the term: renew no more, and give the seat back if it may still be ours.

        With `restore` the run does not count for its period. With `cancelled` the caller was
        cancelled, and must be free within half a `request_timeout`.

        Idempotent. Returns why the term was lost, if it was. Never raises for what the store says;
        a cancellation is handed on when all is done.
        """
        if process.pid != self._pid:
            return self.loss_reason
        if self._closed:
            await self._see_it_end()  # somebody else is at it, or has done it
            return self.loss_reason
        self._guard.disarm()
        now = clock.now()
        if not self._machine.held(now) and self.loss_reason is None:
            # The loop was blocked beyond the deadline: nobody could notice before the action's end.
            self.wake()
        budget = self._release_budget(now, cancelled=cancelled)
        self._closed = True
        self._alarms.set(self, math.inf)
        self._machine.close()
        attempts = self._attempts
        for attempt in attempts:
            attempt.cancel()
        try:
            # A doubtful grant is given up also when it is lost: a late copy must find that out.
            if self._may_be_ours or self.grant.doubtful:
                self._released(await self._release(budget, restore=restore))
        except asyncio.CancelledError:
            # What was cut in mid-air is sent again, to its end: a release may be repeated.
            budget = self._release_budget(clock.now(), cancelled=True)
            await finish(partial(self._release_again, budget, restore=restore))
            raise
        except Exception as error:  # noqa: BLE001 - no failed release replaces the outcome
            self._not_released(error)
        finally:
            try:
                if attempts:
                    await stop(*attempts)
            finally:
                self._end()
        return self.loss_reason

    async def _see_it_end(self) -> None:
        """Wait until the seat is given back, or the lease has run out."""
        while self in self._office.terms and clock.now() < self._machine.deadline:
            if self._over is None:
                self._over = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._over,), timeout=self._machine.deadline - clock.now())

    def _release_budget(self, now: float, *, cancelled: bool) -> Budget:
        """Two requests' time, but no longer than the lease can still live."""
        two = Budget.of_two(self._options.request_timeout)
        left = self._machine.deadline - now
        if not cancelled and left >= two.total:
            return two
        most = two.each / 2 if cancelled else two.total
        return Budget(min(most, max(self._options.renewal_budget, left)), two.each)

    def _release(self, budget: Budget, *, restore: bool) -> Awaitable[Released]:
        keep = max(0.0, self._options.min_hold_time - (clock.now() - self.grant.sent_at))
        return self._office.store.release(self.claim, self.grant, keep, budget, restore=restore)

    async def _release_again(self, budget: Budget, *, restore: bool) -> None:
        try:
            await self._release(budget, restore=restore)
        except Exception as error:  # noqa: BLE001 - no failed release replaces the outcome
            self._not_released(error)
        else:
            # The first may have done it, so that "not yours" tells nothing.
            self._released("released")

    def _released(self, answer: Released) -> None:
        self._ending = "lost" if answer == "taken" else answer
        if answer == "taken" and self.loss_reason is None:
            self._note_loss("taken")

    def _not_released(self, error: Exception) -> None:
        self._ending = "unknown"
        self._office.tell(events.ReleaseFailed, self, error=error)

    def _end(self) -> None:
        self._office.terms.discard(self)
        self._office.tell(
            events.TermEnded,
            self,
            ending=self._ending,
            duration=clock.now() - self.grant.sent_at,
        )
        if self._over is not None:
            self._over.set_result(None)

    def _start_attempt(self, within: float) -> None:
        task = asyncio.get_running_loop().create_task(
            self._attempt(within), name="incumbent renewal"
        )
        self._attempts += (task,)
        task.add_done_callback(self._forget)

    def _forget(self, attempt: asyncio.Task[None]) -> None:
        self._attempts = tuple(other for other in self._attempts if other is not attempt)

    async def _attempt(self, within: float) -> None:
        duration = self._options.lease_time
        try:
            answer = await self._office.store.extend(
                self.claim, self.grant.seat, duration, Budget(within, within)
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            self._machine.failed(clock.now(), random.random())
            self._delay = self._office.store.reason(error)
            if self.held:
                if self._outage is None:
                    claim = self.claim
                    self._outage = Outage(self._office, claim.election, claim.leader_id)
                self._outage.failed(events.RenewalDelayed, self, error, remaining=self.remaining)
            self.wake()
        else:
            self._hear(answer, duration)

    def _hear(self, answer: Extended | NotYours, duration: float) -> None:
        """Take the store's answer to an extension; one that comes after the end changes nothing."""
        self._delay = ""
        if self._outage is not None:
            self._outage.over()
        if isinstance(answer, Extended):
            self._machine.confirmed(answer.sent_at, answer.ttl, duration)
            if self.held:
                self._office.tell(events.TermRenewed, self, remaining=self.remaining)
            if answer.asked:
                self.step_down()
            self.wake()
        elif self._machine.refused():
            self._may_be_ours = False
            self._lose("taken" if answer == "taken" else "expired")

    def _lose(self, reason: LossReason) -> None:
        asked_before = self.loss_reason is not None
        self._note_loss(reason)
        again_at = math.inf
        if self._options.on_loss == "cancel":
            # An action that swallowed its cancellation, or cleans up for too long, is cancelled
            # once more, when the lease's end has come; not before it has had its grace.
            again_at = self._cleanup_until
            if not asked_before:
                again_at = max(again_at, self._machine.deadline)
        self._alarms.set(self, again_at)

    def _tell_of_ignored(self, reason: LossReason) -> None:
        """Tell if it ran out because the action was cancelled by others, and has not ended."""
        renewing = self._options.auto_extend and self.loss_reason is None and reason == "expired"
        if renewing and self._guard.cancelled_by_others:
            self._office.tell(events.CancellationIgnored, self)

    def _tell_of_nobody(self, _task: "asyncio.Task[Any]") -> None:
        self._office.tell(events.NobodyToStop, self)

    def _note_loss(self, reason: LossReason) -> None:
        """The first reason counts, and is told once."""
        if self.loss_reason is not None:
            return
        self.loss_reason = reason
        self.loss_detail = self._delay if reason == "unreachable" else ""
        self._cleanup_until = clock.now() + self._options.stop_grace
        if self._lost is not None:
            self._lost.set()
        if self._options.on_loss == "cancel":
            self._guard.cancel()
        self._office.tell(events.TermLost, self, reason=reason, detail=self.loss_detail)

    @property
    def names(self) -> events.TermNames:
        """What every event of this term says."""
        return {
            "election": self.claim.election,
            "leader_id": self.claim.leader_id,
            "seat": self.grant.seat,
            "fence": self.grant.fence,
        }
