"""Running scripts on the server: how often, and for how long.

Knows what can go wrong between here and the server; not what a script does, nor, where there are
several servers, which one has whose keys: that is the way's affair.
"""

import asyncio
import copy
import random
from typing import Final

from redis import exceptions as redis_errors
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from incumbent import clock, process
from incumbent.backoff import pause_after
from incumbent.shield import finish
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.stores.redis.discretion import discreet
from incumbent.stores.redis.primary import Primary
from incumbent.stores.redis.scripts import PackedKeys, Script
from incumbent.stores.redis.server import Server
from incumbent.stores.redis.way import Way
from incumbent.stores.redis.wire import ElsewhereError, MakeWire, Reply, Request, Wire

FIRST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 0.25
"""Seconds before a request is sent again: the first time, and the most."""

MOST_REDIRECTS: Final = 3
"""How often in a row a request follows a server's word without a pause."""


class Caller:
    """The way to the server of `client`, or to its cluster, for one event loop and one process."""

    def __init__(self, client: Redis | RedisCluster) -> None:
        self.database: bytes = database_of(client)
        """The number of the client's database, as scripts are told it."""
        self._way: Way = _way_of(client)
        self._sharded = isinstance(client, RedisCluster)
        self._told: set[Script] = set()
        """The seldom used scripts whose text was sent already."""
        self._pid = process.pid
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def beside(self, make_wire: MakeWire) -> "Caller":
        """Another way to the same server, by wires of another make."""
        other = copy.copy(self)  # which knows as well whose process the connections are
        vars(other).update(_way=self._way.beside(make_wire))
        return other

    async def run(
        self,
        script: Script,
        keys: PackedKeys,
        args: tuple[bytes, ...],
        budget: Budget,
        request: Request | None = None,
    ) -> Reply:
        """Run `script`, again and again while a fresh connection may help and there is time.

        `request` is what is sent first: it tells afterwards, also after an error, what was sent.
        """
        request = request or Request()
        total, each = budget
        deadline = clock.now() + total
        within = each if each < total else total  # noqa: FURB136 - `min` takes five times as long
        script = script.sharded if self._sharded else script
        by_text = script.seldom and self._new(script)
        request.command = command = script.command(keys, args, by_text=by_text)
        said: redis_errors.RedisError | None = None
        detour: Wire | None = None
        failures = 0
        while True:
            try:
                if within <= 0:
                    raise redis_errors.TimeoutError("no time was left to ask the server")
                wire = detour or (self._way.wire(keys) if self._at_home() else None)
                if wire is None:
                    wire = await (await self.way()).find(keys, within)
                    within = min(each, deadline - clock.now())
                detour = None
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
                detour = await self._way.learn(error, keys)
                pause = pause_for(error, failures)
                said = said if isinstance(error, redis_errors.TimeoutError) else error
                if not faults.worth_sending_again(error) or clock.now() + pause >= deadline:
                    # A last try that is cut short must not hide what was said before.
                    raise discreet(said or error) from None
                await asyncio.sleep(pause)
            within = min(each, deadline - clock.now())
            request = request.renewed(command, asking=detour is not None)

    def _new(self, script: Script) -> bool:
        """Whether a seldom used script is sent for the first time, so that its text is needed."""
        new = script not in self._told
        if new:
            self._told.add(script)
        return new

    async def way(self) -> Way:
        """The way of this event loop and this process."""
        if not self._at_home():
            await self._come_home()
        return self._way

    async def aclose(self) -> None:
        """Give the connection back; a call that is still to come opens one for itself."""
        self._closed = True
        if not self._at_home():
            await self._come_home()
        await finish(self._way.retire)

    def _at_home(self) -> bool:
        return self._pid == process.pid and self._loop is asyncio.get_running_loop()

    async def _come_home(self) -> None:
        """Let go of what belongs to another event loop, or to the process that forked this one."""
        # After a fork all open connections are our parent's, those that are idle as well.
        forked, old = self._pid != process.pid, self._way
        process.leave(self._loop, self._pid)
        self._pid, self._loop = process.pid, asyncio.get_running_loop()
        self._way = old.heir(forked=forked)
        if not forked:
            await old.forsake()


def pause_for(error: redis_errors.RedisError, failures: int) -> float:
    """Seconds before the same is sent once more after `error`, which was the `failures`-th."""
    if failures <= MOST_REDIRECTS and faults.redirect(error):
        return 0.0
    return pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random())


def database_of(client: Redis | RedisCluster) -> bytes:
    """The number of the database that `client` was made for.

    Its connections select that one. A SELECT that the user sends moves one connection to other
    keys, which no pool expects.
    """
    if isinstance(client, RedisCluster):
        return b"0"  # a cluster has no other, as far as this client knows
    return str(client.connection_pool.connection_kwargs.get("db") or 0).encode()


def _way_of(client: Redis | RedisCluster) -> Way:
    if isinstance(client, RedisCluster):
        # Here, because most programs have none.
        from incumbent.stores.redis.cluster import Cluster  # noqa: PLC0415 - see above

        return Cluster(client)
    pool = client.connection_pool
    return Primary(pool) if isinstance(pool, SentinelConnectionPool) else Server(pool)
