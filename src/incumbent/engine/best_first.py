"""The gate of a strategic election: the best candidate tries first, the others when it does not.

Looks, and waits between looks; what a look means is decided in `incumbent.strategy.turn`. A look
reads all candidates, so a waiting node does not look while the seat is taken: the store tells it
when the seat is free. Then the nodes further down the ranking look a little later; by then the best
has usually taken the seat.

Notes what became of the work: that it started, whether it succeeded, and whether it failed early.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from incumbent import clock, events
from incumbent.engine.candidacy import Result
from incumbent.engine.contenders import Voter
from incumbent.engine.lookout import Lookout
from incumbent.engine.polls import Polls
from incumbent.engine.reappraisal import Deference, Reappraisal
from incumbent.engine.term import Term
from incumbent.options import LeaderOptions
from incumbent.results import LossReason, Skipped
from incumbent.shield import outlast
from incumbent.stores.base import Budget
from incumbent.stores.registry import Deed
from incumbent.strategy import probation
from incumbent.strategy.turn import Outside, Taken, Try, Turn, Wait, turn

LONGEST_GRACE: Final = 1.0
AT_ONCE: Final = 3
"""So many graces ahead of its turn a candidate looks often; the others once per grace."""

SHORTEST_PAUSE: Final = 0.1
"""Seconds between two tries, when a seat that looks free is refused: others stand in its line."""

HEAD_START: Final = 0.005
"""Seconds that a look at a free seat is delayed for each better candidate of the last look: by a
third of a grace at most, because ranks may have changed since."""

OUTSIDE: Final = 1.0
"""Seconds until somebody who does not stand looks whether it does."""


def grace_of(options: LeaderOptions) -> float:
    """Seconds for which the seat is left to each better candidate."""
    return min(LONGEST_GRACE, options.lease_time / 6)


class BestFirst:
    """A gate; `deference` is given where the term is to be reappraised while it lasts."""

    def __init__(
        self,
        polls: Polls,
        voter: Voter,
        options: LeaderOptions,
        lookout: Lookout,
        *,
        records: bool,
        deference: Deference | None,
    ) -> None:
        self._polls = polls
        self._voter = voter
        self._options = options
        self._lookout = lookout
        self._records = records
        self._deference = deference
        self._grace = grace_of(options)
        self._free_since: float | None = None
        self._tried_at: float | None = None
        self._behind = 0
        self._missed = False
        self._contending = False
        self._began = 0.0
        self._early_failures = 0
        """Of this node, as the last look showed them."""
        self._tasks: list[asyncio.Task[None]] = []
        self._reappraisal: asyncio.Task[None] | None = None

    async def admit(self, give_up_at: float, budget: Budget) -> Skipped | None:
        """Look again and again; every try follows a fresh look, never one that was waited on."""
        try:
            return await self._admit(give_up_at, budget)
        finally:
            self._lookout.close()
            self._rest()

    async def _admit(self, give_up_at: float, budget: Budget) -> Skipped | None:
        while True:
            whose = await self._look(budget)
            now = clock.now()
            if isinstance(whose, Try) and not self._too_soon(now):
                self._tried_at = now
                return None
            if isinstance(whose, Outside):
                if self._options.wait_time is not None:
                    return Skipped("not_a_candidate")
                self._miss()
                await asyncio.sleep(OUTSIDE)
            elif now >= give_up_at:
                if isinstance(whose, Taken):
                    return Skipped("held", whose.leader)
                return Skipped("not_best")
            else:
                self._contend(tell=True)
                await self._wait(whose, give_up_at)
            budget = self._budget(give_up_at)

    async def _wait(self, whose: Taken | Wait | Try, give_up_at: float) -> None:
        """Return when another look is due."""
        if isinstance(whose, Taken):
            taken, self._behind = True, whose.behind
        else:
            taken = await self._taken_within(self._pause(whose), give_up_at)
        while taken:
            self._free_since = None
            if not await self._lookout.change(taken=False, until=give_up_at):
                return
            self._free_since = clock.now()
            ahead = min(self._behind * HEAD_START, self._grace / 3)
            taken = ahead > 0 and await self._taken_within(ahead, give_up_at)

    async def _taken_within(self, seconds: float, give_up_at: float) -> bool:
        until = min(clock.now() + seconds, give_up_at)
        return await self._lookout.change(taken=True, until=until)

    async def _look(self, budget: Budget) -> Turn:
        look = await self._polls.look(self._voter, budget)
        now = clock.now()
        if look.snapshot.leader is not None:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        free_for = 0.0 if self._free_since is None else now - self._free_since
        own = look.snapshot.candidate(self._voter.leader_id)
        self._early_failures = 0 if own is None else own.early_failures
        return turn(
            look.snapshot,
            look.result,
            self._voter.leader_id,
            free_for=free_for,
            grace=self._grace,
        )

    def _contend(self, *, tell: bool) -> None:
        if not self._contending:
            self._contending = True
            self._polls.contenders.enter(self._voter, tell=tell)

    def _rest(self) -> None:
        if self._contending:
            self._contending = False
            self._polls.contenders.leave(self._voter)

    def _too_soon(self, now: float) -> bool:
        return self._tried_at is not None and now < self._tried_at + SHORTEST_PAUSE

    def _pause(self, whose: Wait | Try) -> float:
        if isinstance(whose, Try):
            return SHORTEST_PAUSE
        if whose.seconds > AT_ONCE * self._grace:
            return self._grace
        # Nobody is told that a better one has gone. At last, a little later than due, so that nodes
        # whose clocks agree do not all come at once.
        return min(whose.seconds + random.random() * self._grace / 10, self._grace / 3)

    def _budget(self, give_up_at: float) -> Budget:
        """The time of two requests, and not more than that beyond the time to give up."""
        total, each = Budget.of_two(self._options.request_timeout)
        return Budget(min(total, max(0.0, give_up_at + total - clock.now())), each)

    def _miss(self) -> None:
        if not self._missed:
            self._missed = True
            self._polls.office.tell(events.NotStanding, self._voter)

    # -- the term ----------------------------------------------------------------------------

    def elected(self, term: Term) -> None:
        """Note that work starts, and begin to look for better ones."""
        self._began = clock.now()
        self._contend(tell=False)
        if self._records:
            self._tasks.append(_start(self._record("started")))
        if self._deference is not None:
            looks = Reappraisal(self._polls, self._voter, self._options, term, self._deference)
            self._reappraisal = _start(looks.run())
            self._tasks.append(self._reappraisal)

    async def close(
        self,
        deed: Result | None,
        closing: Callable[[], Awaitable[LossReason | None]],
    ) -> LossReason | None:
        """Note the result before the release, so that the node which that wakes sees it."""
        noted: list[Deed] = []
        try:
            self._rest()
            if self._reappraisal is not None:
                self._reappraisal.cancel()
            noted = self._deeds(deed)
            self._tasks += [_start(self._record(each)) for each in noted]
            if noted:
                await asyncio.sleep(0)  # in which they are sent
        finally:
            try:
                loss = await closing()
            finally:
                self._tell_of_setback(noted)
                await outlast(*self._tasks)
        return loss

    def _deeds(self, result: Result | None) -> list[Deed]:
        """What to note about a term that ends with `result`."""
        deeds: list[Deed] = [result] if self._records and result is not None else []
        short = clock.now() - self._began < max(probation.EARLY, self._options.lease_time)
        if result == "failed" and short:
            deeds.append("faltered")
        elif self._early_failures and (result == "succeeded" or not short):
            deeds.append("steadied")
        return deeds

    def _tell_of_setback(self, noted: list[Deed]) -> None:
        """After the release, because no user code may run before it."""
        if "faltered" in noted:
            times = self._early_failures + 1
            seconds = probation.penalty(times)
            self._polls.office.tell(
                events.CandidateSetBack, self._voter, times=times, seconds=seconds
            )

    async def _record(self, deed: Deed) -> None:
        # The end of the term waits for this, and a cancelled caller must soon be free.
        each = min(self._options.renewal_budget, self._options.request_timeout / 2)
        election, node_id = self._voter
        try:
            await self._polls.registry.record(election, node_id, deed, Budget(each, each))
        except Exception as error:  # noqa: BLE001 - no failed note replaces the outcome
            self._polls.office.tell(events.ResultLost, self._voter, deed=deed, error=error)


def _start(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work, name="incumbent candidate")
