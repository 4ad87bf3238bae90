"""Those of this process who watch one election: one subscription, one task, one snapshot for all.

Knows when to look at the server, not what a look shows. It listens, has that confirmed, then takes
a snapshot, so that nothing is lost between the two; it looks again when it may have missed
something, when a known lease has ended (which nobody publishes), and now and then, to find out
that it is deaf.
"""

import asyncio
import math
import random
from contextvars import Context
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, Protocol

import anyio

from incumbent import clock, process
from incumbent.backoff import pause_after
from incumbent.results import LeaderState, Outage
from incumbent.shield import outlast
from incumbent.stores.base import Budget
from incumbent.stores.bell import Bell
from incumbent.stores.board import Board, Message, Snapshot
from incumbent.stores.mailbox import Mailbox

LONGEST_PERIOD: Final = 10.0
"""The most seconds between two looks, while messages are heard."""

TOGETHER: Final = 0.25
"""Looks are put off to multiples of so many seconds: those of many elections leave as one."""

ENDS_TOGETHER: Final = 0.05
"""The same for looks at the ends of leases, which are not put off for as long."""

SLOW: Final = 1.0
"""Seconds without an answer to a look that count as an outage."""

SILENT: Final = 1.0
"""Seconds between two looks while none is."""

ON_THEIR_WAY: Final = 0.25
"""Seconds in which messages must come that the server has already counted."""

STALLED: Final = 0.05
"""Seconds by which this must be late to be no accident."""

A_LITTLE_LATER: Final = 0.005
"""Seconds after a lease's end at which it is looked at."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds between looks that fail: the first, and the most after doubling."""

SOON: Final = 0.1
"""Seconds after a look that failed, at least, until the next one, though the server is heard."""


class Source(Protocol):
    """What hubs need of their store."""

    def listen(self, hub: "Hub") -> None:
        """Tell the hub what is published."""
        ...

    def dismiss(self, hub: "Hub") -> None:
        """Tell it no more."""
        ...

    def distrust(self, hub: "Hub") -> None:
        """What was published was not heard: listen anew."""
        ...

    async def snapshot(self, election: str, seats: int, budget: Budget) -> Snapshot:
        """The election as it is now."""
        ...

    def passing(self, error: Exception) -> bool:
        """Whether `error` may pass by itself."""
        ...


class _Watcher(NamedTuple):
    board: Board
    budget: Budget


class Hub:
    """The watchers of one election. It ends with the last of them, and is then of no more use.

    It is dismissed in the same step in which it ends, so that no watcher can join a hub that has
    ended: later watchers get another one.
    """

    def __init__(self, source: Source, election: str) -> None:
        self.election: str = election
        self._source = source
        self._watchers: dict[Mailbox, _Watcher] = {}
        self._bell = Bell()
        self._scope = anyio.CancelScope()
        self._loop = asyncio.get_running_loop()
        self._dismissed = False
        self._hearing = False
        self._settled = False
        """Whether it is known if messages are heard."""
        self._wanted = True
        """Whether somebody needs a look, whatever the time."""
        self._opened_at = clock.now()
        self._heard_at = datetime.now(UTC)
        """When the server was heard last; as long as it has not been, when this began."""
        self._asked_at = math.inf
        """When the look began that is under way."""
        self._error: Exception | None = None
        """What the last look met, if it failed."""
        self._looked_at = self._failed_at = self._retry_at = -math.inf
        self._early_until = math.inf
        self._waited_longer = False
        self._failures = 0
        self._unheard = 0
        """How often the server had counted more than was heard, in a row."""

    def join(self, mailbox: Mailbox, seats: int, budget: Budget) -> None:
        """Tell `mailbox` what is now, and what changes."""
        self._watchers[mailbox] = _Watcher(Board(self.election, seats), budget)
        mailbox.joined(self)
        self._want()

    @property
    def outage(self) -> Outage | None:
        """Since when the server has not been heard, and why."""
        error = self._error
        if error is None and clock.now() > self._asked_at + SLOW:
            error = TimeoutError("the server has not answered yet")
        return None if error is None else Outage(self._heard_at, error)

    def present(self, mailbox: Mailbox) -> LeaderState | None:
        """What is known now; None before the first look."""
        watcher = self._watchers.get(mailbox)
        return None if watcher is None else watcher.board.present(clock.now())

    def leave(self, mailbox: Mailbox) -> None:
        """It has ended."""
        self._watchers.pop(mailbox, None)
        if not self._watchers:
            # By way of the loop: mailboxes are also ended outside of it.
            self._loop.call_soon_threadsafe(self._close_if_empty)

    def _close_if_empty(self) -> None:
        if not self._watchers:
            self.close()

    def close(self, error: Exception | None = None) -> None:
        """End all mailboxes and the task. Idempotent."""
        if not self._dismissed:
            self._dismissed = True
            self._source.dismiss(self)
        for mailbox in tuple(self._watchers):
            mailbox.end(error)
        self._scope.cancel()

    # -- what is heard -----------------------------------------------------------------------

    def listening(self) -> None:
        """Messages are heard from now on; earlier ones may have been missed."""
        self._hearing = self._settled = True
        self._interrupt()
        self._hasten()
        self._want()

    def deaf(self) -> None:
        """From now on, looks have to do it."""
        news = self._hearing or not self._settled
        self._hearing, self._settled = False, True
        if news:
            self._interrupt()
            self._want()

    def heard(self, message: Message) -> None:
        """A message has come."""
        self._unheard = 0
        self._heard_at = datetime.now(UTC)
        now = clock.now()
        for mailbox, (board, _) in tuple(self._watchers.items()):
            mailbox.put(board.heard(message, now))
        self._expect_early(now)
        self._hasten()
        self._bell.ring()

    def _interrupt(self) -> None:
        for board, _ in self._watchers.values():
            board.interrupt()
        self._early_until = math.inf

    def _hasten(self) -> None:
        """The server is there: a look that failed need not be put off for long any more."""
        self._retry_at = min(self._retry_at, self._failed_at + SOON)

    def _want(self) -> None:
        self._wanted = True
        self._bell.ring()

    # -- looking -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Look when it is time, until nobody watches any more."""
        with self._scope:
            try:
                while self._watchers:
                    due = self._due()
                    if due > clock.now():
                        self._bell.mute()
                        await self._bell.wait(due)
                    elif self._early_until < math.inf:
                        self._settle()
                    else:
                        await self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, the watchers are to hear it
                self.close(error)
            finally:
                self.close()

    def _due(self) -> float:
        if self._early_until < math.inf:
            return self._early_until
        if self._wanted:
            return self._retry_at if self._settled else self._opened_at + SILENT
        quiet = self._hearing and not self._unheard
        due = _grid(self._looked_at + (LONGEST_PERIOD if quiet else SILENT), TOGETHER)
        end = min(board.soonest for board, _ in self._watchers.values())
        if end <= self._looked_at:
            # One that was past when it was seen may be that of a key without any: no hurry.
            end = self._looked_at + SILENT
        due = min(due, _grid(end + A_LITTLE_LATER, ENDS_TOGETHER))
        return max(due, self._retry_at)

    async def _look(self) -> None:
        self._wanted, self._settled = False, True
        watchers = tuple(self._watchers.values())
        for board, _ in watchers:
            if not self._hearing:
                board.interrupt()
            board.ask()
        seats = max(board.seats for board, _ in watchers)
        budget = max(budget for _, budget in watchers)
        self._asked_at = clock.now()
        try:
            snapshot = await self._source.snapshot(self.election, seats, budget)
        except Exception as error:
            if not self._source.passing(error):
                raise
            self._error = error
            self._failures += 1
            pause = pause_after(
                self._failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random()
            )
            self._wanted, self._failed_at = True, clock.now()
            self._retry_at = self._failed_at + pause
            return
        finally:
            self._asked_at = math.inf
        self._failures, self._retry_at, self._error = 0, -math.inf, None
        self._heard_at = datetime.now(UTC)
        self._looked_at = now = clock.now()
        for mailbox, (board, _) in tuple(self._watchers.items()):
            mailbox.put(board.answer(snapshot, now))
        self._expect_early(now)

    def _expect_early(self, now: float) -> None:
        """Keep an eye on snapshots that wait for messages, as long as there are any."""
        if not any(board.early for board, _ in self._watchers.values()):
            self._early_until = math.inf
        elif self._early_until == math.inf:
            self._early_until, self._waited_longer = now + ON_THEIR_WAY, False

    def _settle(self) -> None:
        """The messages have not come: go by what was seen, and doubt the subscription."""
        now = clock.now()
        if now > self._early_until + STALLED and not self._waited_longer:
            # The loop stood still: they may have come, and nobody has read them yet.
            self._early_until, self._waited_longer = now + ON_THEIR_WAY, True
            return
        self._early_until = math.inf
        self._unheard += 1
        for mailbox, (board, _) in tuple(self._watchers.items()):
            mailbox.put(board.settle(now))
        # Once: if it helps not, it is those who are elected that may not publish.
        if self._unheard == 1:
            self._source.distrust(self)


def _grid(time: float, step: float) -> float:
    """The first multiple of `step` that is not before `time`."""
    return math.ceil(time / step) * step if math.isfinite(time) else time


class Hubs:
    """The hubs of one store, by election; for one event loop of one process."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._hubs: dict[str, Hub] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._pid = process.pid

    @property
    def at_home(self) -> bool:
        """Whether this is the event loop and the process that it was made in."""
        return self._pid == process.pid and self._loop is asyncio.get_running_loop()

    def leave_home(self) -> None:
        """Raise if its event loop still runs: what it has there must not be left behind."""
        process.leave(self._loop, self._pid)

    def join(self, election: str, seats: int, budget: Budget, mailbox: Mailbox) -> None:
        """Tell `mailbox` what is now, and what changes."""
        if mailbox.ended or mailbox.loop is not None:
            return
        hub = self._hubs.get(election)
        if hub is not None:
            hub.join(mailbox, seats, budget)
            return
        hub = self._hubs[election] = Hub(self._source, election)
        hub.join(mailbox, seats, budget)
        self._source.listen(hub)
        # In a context of its own: this lives longer than what its first watcher has in theirs.
        task = self._loop.create_task(hub.run(), name="incumbent watch", context=Context())
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, hub))

    def _ended(self, hub: Hub, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        hub.close()  # a task that was cancelled, as programs end, may not even have begun

    def heard(self, election: str, message: Message) -> None:
        """Something has changed."""
        hub = self._hubs.get(election)
        if hub is not None:
            hub.heard(message)

    def forget(self, hub: Hub) -> None:
        """The hub is over."""
        if self._hubs.get(hub.election) is hub:
            del self._hubs[hub.election]

    async def aclose(self) -> None:
        """End all watchers quietly, and wait for no hub that is made meanwhile."""
        for hub in tuple(self._hubs.values()):
            hub.close()
        if self._tasks:
            await outlast(*self._tasks)
