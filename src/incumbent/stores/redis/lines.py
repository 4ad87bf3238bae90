"""All lines in which this process stands: their one inbox, their requests, their tasks.

Belongs to one event loop and one process; what comes after a fork, or in another loop, makes
another one.
"""

import asyncio
import math
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import count
from typing import Any, Final

from incumbent import process
from incumbent.shield import close_with_loop, stop
from incumbent.stores.base import Budget, Claim, grace_of
from incumbent.stores.redis import scripts
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.keys import Keys, channels_of, keys_of
from incumbent.stores.redis.line import Line, Touch
from incumbent.stores.redis.place import ServerPlace
from incumbent.stores.redis.scripts import ms
from incumbent.stores.redis.way import Ears

PATIENCE: Final = Budget(4.0, 2.0)
"""For requests that nobody waits for."""

PARTING: Final = 0.5
"""Seconds for which a closing waits for those among them that give a place back."""


class Lines:
    """The lines of one process, by election."""

    def __init__(self, caller: Caller, prefix: str, ears: Ears) -> None:
        self._caller = caller
        self._prefix = prefix
        self._process = os.urandom(4).hex().encode()
        self._tickets = count(1)
        self._inbox = ears
        self._lines: dict[str, Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._pid = process.pid
        close_with_loop(self)

    @property
    def at_home(self) -> bool:
        """Whether this is the event loop and the process that it was made in."""
        return self._pid == process.pid and self._loop is asyncio.get_running_loop()

    @property
    def inbox(self) -> Ears:
        """What this process listens by."""
        return self._inbox

    async def stand(self, claim: Claim, within: float) -> ServerPlace:
        """A place for `claim`, as soon as it is known whether calls will be heard."""
        line = self._lines.get(claim.election)
        if line is None:
            line = self._lines[claim.election] = Line(self, claim.election)
        own = self._process, ms(grace_of(claim.lease_time)), next(self._tickets)
        name = b"%d:%b:%b:%d" % (claim.seats, *own)
        place = ServerPlace(line, claim.seats, name)
        line.add(place, claim.lease_time)
        try:
            await line.settled(within)
        except BaseException:
            place.close()
            raise
        return place

    async def aclose(self) -> None:
        """End the inbox and all tasks. Who still stands in line goes by time from now on."""
        self._closed = True
        await self._inbox.aclose()
        if self._leaving:  # one round trip, from a server that answers
            await asyncio.wait(self._leaving, timeout=PARTING)
        await stop(*self._tasks, *self._leaving)

    async def forsake(self) -> None:
        """Let go of what belongs to a loop that is gone, or to the process that forked this one."""
        if self._pid == process.pid:
            await self._inbox.forsake()

    # -- what a line asks for ----------------------------------------------------------------

    def listen(self, line: Line) -> None:
        """Tell `line` what is published to its channel."""
        self._inbox.open(self._channel(line), line)

    def dismiss(self, line: Line) -> None:
        """The line is over."""
        if self._lines.get(line.election) is line:
            del self._lines[line.election]
            self._inbox.close(self._channel(line))
        if self._closed and not self._lines:
            for task in self._tasks:
                task.cancel()  # a server that does not answer must not keep it

    def distrust(self, line: Line) -> None:
        """The inbox is deaf."""
        self._inbox.distrust(self._channel(line))

    def start_touch(self, line: Line) -> None:
        """Run the line's `touch` in a task of its own."""
        self._start(self._tasks, line.touch, "incumbent touch")

    def start_leave(self, line: Line, place: bytes) -> None:
        """Let `place` leave the line in a task of its own; it is somebody else's turn."""
        self._start(self._leaving, partial(self._leave_quietly, line, place), "incumbent leave")

    async def ask_touch(self, line: Line, place: ServerPlace, probe: int) -> Touch:
        """Send a touch."""
        stale, database = ms(place.stale_after), self._caller.database
        args = (self._process, place.name, stale, database, b"%d" % probe)
        reply = await self._caller.run(scripts.TOUCH, self._keys(line).touch, args, PATIENCE)
        standing, free, soonest = (int(each) for each in reply)
        return Touch(standing > 0, free, soonest / 1000 if soonest >= 0 else math.inf)

    async def leave(self, line: Line, place: bytes, budget: Budget) -> None:
        """Take `place` out of the line, and pass on what was due to it."""
        args = (b"", place, self._caller.database)
        await self._caller.run(scripts.LEAVE, self._keys(line).acquire, args, budget)

    async def _leave_quietly(self, line: Line, place: bytes) -> None:
        with suppress(Exception):  # it is dropped after its grace
            await self.leave(line, place, PATIENCE)

    def _keys(self, line: Line) -> Keys:
        return keys_of(self._prefix, line.election, line.seats)

    def _channel(self, line: Line) -> bytes:
        channels = channels_of(self._prefix, line.election, self._caller.database)
        return channels + b"inbox:" + self._process

    def _start(
        self,
        tasks: set[asyncio.Task[None]],
        work: Callable[[], Coroutine[Any, Any, None]],
        name: str,
    ) -> None:
        task = self._loop.create_task(work(), name=name, context=Context())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
