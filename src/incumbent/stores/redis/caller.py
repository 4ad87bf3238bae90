"""Running scripts on the server: which connection, how often, and for how long.

Knows what can go wrong between here and the server; not what a script does.
"""

import asyncio
import copy
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool

from incumbent import clock, process
from incumbent.backoff import pause_after
from incumbent.shield import finish
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.stores.redis.scripts import PackedKeys, Script
from incumbent.stores.redis.wire import ElsewhereError, Reply, Request, Wire

MakeWire: TypeAlias = Callable[[ConnectionPool], Wire]

FIRST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 0.25
"""Seconds before a request is sent again: the first time, and the most."""

MOST_RETIRED: Final = 5
"""How many slow wires may end in peace beside the one that is used; a frozen server makes many."""


class Call:
    """What became of the requests of one call, each sent once."""

    __slots__ = ("_earlier", "_last")

    def __init__(self) -> None:
        self._last: Request | None = None
        self._earlier: tuple[Request, ...] = ()  # hardly ever any

    def add(self, request: Request) -> None:
        """`request` is about to be sent."""
        if self._last is not None:
            self._earlier += (self._last,)
        self._last = request

    @property
    def sent_at(self) -> float:
        """When the last one was sent, which is the one that was answered; 0 if none was."""
        return self._last.sent_at if self._last is not None else 0.0

    @property
    def sent(self) -> bool:
        """Whether any of them may have reached the server."""
        return self.sent_at > 0 or any(request.sent_at for request in self._earlier)

    @property
    def doubtful(self) -> bool:
        """Whether any of them had no answer, so that it may yet arrive."""
        if self._last is None:
            return False
        return self._last.unanswered or any(request.unanswered for request in self._earlier)


class Caller:
    """The way to the server of `client`: one wire per event loop and process."""

    def __init__(self, client: Redis, make_wire: MakeWire = Wire) -> None:
        self._pool: ConnectionPool = client.connection_pool
        self._make_wire = make_wire
        self._pid = process.pid
        self._wire: Wire | None = None
        self._retired: list[Wire] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def beside(self, make_wire: MakeWire) -> "Caller":
        """Another way to the same server, by wires of another make."""
        other = copy.copy(self)  # which knows as well whose process the pool's connections are
        vars(other).update(_make_wire=make_wire, _wire=None, _retired=[])
        return other

    async def run(
        self,
        script: Script,
        keys: PackedKeys,
        args: Sequence[bytes],
        budget: Budget,
        call: Call | None = None,
    ) -> Reply:
        """Run `script`, again and again while a fresh connection may help and there is time.

        `call` tells afterwards, also after an error, what was sent.
        """
        call = call or Call()
        within, deadline = min(budget), clock.now() + budget.total
        command = script.command(keys, args)
        said: redis_errors.RedisError | None = None
        failures = 0
        while True:
            try:
                if within <= 0:
                    raise redis_errors.TimeoutError("no time was left to ask the server")
                wire = self._wire
                if wire is None or wire.retired or not self._at_home():
                    wire = await self._new_wire()
                request = Request(command)
                call.add(request)
                try:
                    reply = await wire.send(request, within)
                    if not isinstance(reply, Exception):
                        return reply
                    raise reply
                finally:
                    if self._closed and not wire.busy:
                        await wire.retire()
            except redis_errors.NoScriptError:
                command = script.command(keys, args, by_text=True)
            except ElsewhereError:
                pass
            except redis_errors.RedisError as error:
                failures += 1
                pause = pause_after(
                    failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random()
                )
                said = said if isinstance(error, redis_errors.TimeoutError) else error
                if not faults.worth_sending_again(error) or clock.now() + pause >= deadline:
                    # A last try that is cut short must not hide what was said before.
                    raise said or error from None
                await asyncio.sleep(pause)
            within = min(budget.each, deadline - clock.now())

    async def pool(self) -> ConnectionPool:
        """The pool that connections are to be taken from, in this process."""
        if not self._at_home():
            await self._come_home()
        return self._pool

    async def aclose(self) -> None:
        """Give the connection back; a call that is still to come opens one for itself."""
        self._closed = True
        if not self._at_home():
            await self._come_home()
        await finish(self._retire)

    async def _new_wire(self) -> Wire:
        """A new wire. Old ones that still have something under way are remembered, but not many."""
        if not self._at_home():
            await self._come_home()
        old = (*self._retired, self._wire)
        self._retired = [wire for wire in old if wire is not None and wire.busy]
        new = self._wire = self._make_wire(self._pool)
        while len(self._retired) > MOST_RETIRED:
            await self._retired.pop(0).drop()
        return new

    async def _retire(self) -> None:
        for wire in (*self._retired, self._wire):
            if wire is not None:
                await wire.retire()

    def _at_home(self) -> bool:
        return self._pid == process.pid and self._loop is asyncio.get_running_loop()

    async def _come_home(self) -> None:
        """Let go of what belongs to another event loop, or to the process that forked this one."""
        if self._pid != process.pid:
            # All open connections are our parent's: the wire's and those that are idle in the pool.
            self._pid, self._wire, self._retired = process.pid, None, []
            self._pool = copy.copy(self._pool)
            self._pool.reset()  # type: ignore[no-untyped-call]  # redis-py left it without
        wires, self._wire, self._retired = (*self._retired, self._wire), None, []
        self._loop = asyncio.get_running_loop()
        for wire in wires:
            if wire is not None:
                await wire.forsake()
