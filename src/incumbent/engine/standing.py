"""To stand in an election: enrolled on entry, kept alive by heartbeats, withdrawn on exit.

Knows records, not seats: who stands need not want to lead now.
"""

import asyncio
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from incumbent import clock, events
from incumbent.backoff import pause_after
from incumbent.engine.contenders import Voter
from incumbent.engine.outages import Outage
from incumbent.engine.polls import Polls
from incumbent.engine.waits import Waits
from incumbent.shield import finish, stop
from incumbent.stores.base import Budget
from incumbent.stores.bell import Bell
from incumbent.stores.registry import Enrolment
from incumbent.strategy import Metadata, MetaValue

GRID: Final = 0.05
"""Seconds between the instants at which heartbeats leave, so that many leave as one command."""

FIRST_PAUSE: Final = 0.1

A_MOMENT: Final = 1.0
"""Seconds until a node that contends no more tells it: its campaign may only be pausing."""


class Standing:
    """A candidate, for a block: see `StrategicElector.candidate`. Not to be entered twice."""

    def __init__(
        self,
        polls: Polls,
        voter: Voter,
        *,
        metadata: Mapping[str, MetaValue],
        ttl: float,
        request_timeout: float,
        waits: Waits,
    ) -> None:
        """It can be entered as long as `waits` is open."""
        self._polls = polls
        self._waits = waits
        self._voter = voter
        self._enrolment = Enrolment(
            election=voter.election,
            node_id=voter.leader_id,
            ttl=ttl,
            metadata=Metadata(metadata),
            strategy=polls.fingerprint,
        )
        self._request_timeout = request_timeout
        self._one_at_a_time = asyncio.Lock()
        self._bell = Bell()
        self._shared = False
        self._heart: asyncio.Task[None] | None = None
        self._over = False
        self._registered_at: datetime | None = None

    @property
    def node_id(self) -> str:
        """Who stands, and may lead by this name."""
        return self._enrolment.node_id

    @property
    def election(self) -> str:
        """The election in which it stands."""
        return self._voter.election

    @property
    def metadata(self) -> Mapping[str, MetaValue]:
        """What it says about itself."""
        return self._enrolment.metadata

    async def update(self, **changes: MetaValue) -> None:
        """Change some of the metadata, for all who look from now on: ``await me.update(load=0.7)``.

        When it raises for the store's sake, the next heartbeat tells it.

        Raises:
            TypeError, ValueError: not usable as metadata; nothing has changed.
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            RuntimeError: the block is not entered, or over, or the elector is closed.
        """
        self._waits.check()
        if self._heart is None or self._over:
            raise RuntimeError("this candidate does not stand: update it within its block")
        metadata = Metadata({**self.metadata, **changes})
        self._enrolment = replace(self._enrolment, metadata=metadata)
        await self._enrol(Budget.of_two(self._request_timeout))

    async def __aenter__(self) -> Self:
        if self._heart is not None or self._over:
            raise RuntimeError("this block is entered already: make another one with candidate()")
        try:
            await self._waits.run(partial(self._enrol, Budget.of_two(self._request_timeout)))
        except BaseException:
            self._over = True
            await finish(self._withdraw)  # the request may be on its way all the same
            raise
        self._polls.contenders.stand(self._voter, self._beat_soon)
        self._heart = asyncio.get_running_loop().create_task(
            self._beat(), name="incumbent heartbeat"
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.withdraw()

    async def withdraw(self) -> None:
        """Stand no longer, although the block may go on. Idempotent."""
        if self._heart is not None and not self._over:
            self._over = True
            self._polls.contenders.withdraw(self._voter, self._beat_soon)
            await finish(self._leave)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node_id!r} in {self._voter.election!r}>"

    async def _leave(self) -> None:
        if self._heart is not None:
            await stop(self._heart)
        await self._withdraw()

    def _beat_soon(self) -> None:
        """Tell others whether this node contends, unless the last heartbeat has told it.

        At once when it contends; a little later when it stopped, as it may begin again soon.
        """
        if not self._stale:
            return
        if self._enrolment.contending:
            asyncio.get_running_loop().call_later(A_MOMENT, self._beat_if_stale)
        else:
            self._bell.ring()

    def _beat_if_stale(self) -> None:
        if self._stale and not self._over:
            self._bell.ring()

    @property
    def _stale(self) -> bool:
        return self._enrolment.contending != (self._voter in self._polls.contenders)

    async def _beat(self) -> None:
        """Enrol every third of the TTL; after a failure again, with back-off, for ever."""
        ttl, failures = self._enrolment.ttl, 0
        voter = self._voter
        outage = Outage(self._polls.office, voter.election, voter.leader_id)
        each = min(self._request_timeout, ttl / 6)
        pause = _until_next(ttl / 3)
        while not self._over:
            await self._bell.wait(clock.now() + pause)
            self._bell.mute()
            try:
                await self._enrol(Budget(each, each))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                failures += 1
                pause = pause_after(
                    failures, first=FIRST_PAUSE, longest=ttl / 3, jitter=random.random()
                )
                outage.failed(events.HeartbeatDelayed, voter, error, retry_in=pause)
            else:
                outage.over()
                pause, failures = _until_next(ttl / 3), 0

    async def _enrol(self, budget: Budget) -> None:
        """One at a time: what was said last is to count."""
        async with self._one_at_a_time:
            contending = self._voter in self._polls.contenders
            self._enrolment = enrolment = replace(self._enrolment, contending=contending)
            enrolled = await self._polls.registry.enrol(enrolment, budget)
            if enrolled == "gone":
                return
            # By the time, and not by what this answer says: the one before it may have been lost.
            before, self._registered_at = self._registered_at, enrolled.registered_at
        if before is not None and before < enrolled.registered_at:
            self._tell(events.CandidateExpired)
        if enrolled.shared:
            self._tell_shared()

    async def _withdraw(self) -> None:
        # A cancelled caller must be free soon; the record expires anyway.
        each = min(self._request_timeout / 2, self._enrolment.ttl)
        try:
            became = await self._polls.registry.withdraw(self._enrolment, Budget(each, each))
        except Exception as error:  # noqa: BLE001 - the record ends by itself, after its TTL
            self._tell(events.WithdrawalFailed, error=error)
        else:
            if became == "taken":
                self._tell_shared()

    def _tell_shared(self) -> None:
        if not self._shared:
            self._shared = True
            self._tell(events.NodeIdShared)

    def _tell(self, kind: type[events.Event], **details: Any) -> None:
        self._polls.office.tell(kind, self._voter, **details)


def _until_next(period: float) -> float:
    """Seconds until the next heartbeat, which leaves on the grid."""
    now = clock.now()
    return max(0.0, math.floor((now + period) / GRID) * GRID - now)
