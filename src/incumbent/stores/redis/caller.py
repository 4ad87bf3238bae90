"""Running scripts on the server: which connection, how often, and for how long.

Knows what can go wrong between here and the server; not what a script does.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from itertools import count
from typing import Final

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from incumbent import clock
from incumbent.backoff import pause_after
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.stores.redis.scripts import Script
from incumbent.stores.redis.wire import Reply, Request, Wire

FIRST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 0.25
"""Seconds before a request is sent again: the first time, and the most."""


class Caller:
    """The way to the server of `client`: one wire per event loop and process."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._wire: Wire | None = None
        self._home: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._closed = False

    async def run(
        self,
        script: Script,
        keys: Sequence[bytes],
        args: Sequence[bytes],
        budget: Budget,
        request: Request | None = None,
    ) -> Reply:
        """Run `script`, again and again while a fresh connection may help and there is time.

        `request` tells afterwards when the answered one was sent, and how many had no answer.
        """
        request = request or Request()
        deadline = clock.now() + budget.total
        said: redis_errors.RedisError | None = None
        for attempt in count(1):
            within = min(budget.each, deadline - clock.now())
            try:
                return await self._run_once(script, keys, args, request, within)
            except redis_errors.RedisError as error:
                pause = pause_after(
                    attempt, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random()
                )
                if not isinstance(error, redis_errors.TimeoutError):
                    said = error
                if not faults.worth_sending_again(error) or clock.now() + pause >= deadline:
                    # A last try that is cut short must not hide what was said before.
                    raise said or error from None
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Give the connection back; a call that is still to come opens one for itself."""
        self._closed = True
        home = asyncio.get_running_loop(), os.getpid()
        if self._wire is not None and self._home == home:
            await self._wire.retire()

    async def _run_once(
        self,
        script: Script,
        keys: Sequence[bytes],
        args: Sequence[bytes],
        request: Request,
        within: float,
    ) -> Reply:
        if not script.seldom:
            try:
                request.command = script.by_digest(keys, args)
                return await self._send(request, within)
            except redis_errors.NoScriptError:
                pass
        request.command = script.by_text(keys, args)
        return await self._send(request, within)

    async def _send(self, request: Request, within: float) -> Reply:
        if within <= 0:
            raise redis_errors.TimeoutError("no time was left to ask the server")
        wire = await self._open_wire()
        try:
            return await wire.send(request, within)
        finally:
            if self._closed and not wire.busy:
                await wire.retire()

    async def _open_wire(self) -> Wire:
        home = asyncio.get_running_loop(), os.getpid()
        if self._wire is not None and self._home is not None and self._home != home:
            wire, self._wire = self._wire, None
            if self._home[1] == home[1]:  # in a forked child the connection is its parent's
                await wire.forsake()
        if self._wire is None or self._wire.retired:
            self._wire, self._home = Wire(self._client.connection_pool), home
        return self._wire
