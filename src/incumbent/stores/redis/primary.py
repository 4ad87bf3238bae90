"""The way to the primary that Sentinels watch over: a server that may be another one tomorrow.

One that was replaced in good order stays a primary for up to ten seconds more, and takes what it is
told: it is no error that shows it. So the Sentinels are asked now and then, as long as somebody
asks for something; and who asks after a rest waits for what they say.
"""

import asyncio
import weakref
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, cast

from redis import exceptions as redis_errors
from redis.asyncio.sentinel import SentinelConnectionPool

from incumbent import clock
from incumbent.shield import close_with_loop, outlast
from incumbent.stores.redis import sentinels
from incumbent.stores.redis.canvass import PATIENCE, WITHIN
from incumbent.stores.redis.scripts import PackedKeys
from incumbent.stores.redis.server import Server
from incumbent.stores.redis.wire import MakeWire, Wire

if TYPE_CHECKING:
    from incumbent.stores.redis.inbox import Inbox

LOOK_EVERY: Final = 1.0
"""Seconds between two questions to the Sentinels, at the least."""

TRUSTED: Final = 2
"""For so many times LOOK_EVERY what they have said is relied on."""


class Primary:
    """Whoever is the primary of the service that `pool` belongs to."""

    def __init__(self, pool: SentinelConnectionPool, make_wire: MakeWire = Wire) -> None:
        self._pool = pool
        self._make_wire = make_wire
        self._server = Server(pool, make_wire)
        self._ears: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._looked_at = self._looking_since = clock.now()
        self._look: asyncio.Task[None] | None = None

    def wire(self, keys: PackedKeys | None = None) -> Wire | None:
        """The wire that is used, if there is a good one that leads to the primary as we know."""
        now = clock.now()
        age = now - self._looked_at
        if self._look is None and age >= LOOK_EVERY:
            self._looking_since = now
            self._look = asyncio.get_running_loop().create_task(
                self._look_around(), name="incumbent look", context=Context()
            )
            self._look.add_done_callback(self._looked)
            close_with_loop(self)
        return self._server.wire(keys) if age < TRUSTED * LOOK_EVERY else None

    async def find(self, keys: PackedKeys | None = None, within: float = 0.0) -> Wire:
        """The wire that is used, if it is still good when the Sentinels have spoken; or a new one.

        They are not waited for longer than one of them that is silent would be.
        """
        left = self._looking_since + PATIENCE - clock.now()
        if self._look is not None and left > 0 and self._server.wire(keys) is not None:
            await asyncio.wait((self._look,), timeout=min(left, within))
        return self._server.wire(keys) or await self._server.find(keys, within)

    async def learn(self, error: redis_errors.RedisError, keys: PackedKeys) -> None:
        """A new connection is made to who is the primary then."""

    def ears(self) -> "Inbox":
        """An inbox at the primary."""
        made = self._server.ears()
        self._ears.add(made)
        return made

    def beside(self, make_wire: MakeWire) -> "Primary":
        """The same primary, by wires of another make."""
        return Primary(self._pool, make_wire)

    def heir(self, *, forked: bool) -> "Primary":
        """The same for another event loop, or for a forked child."""
        pool = cast(SentinelConnectionPool, self._server.heir(forked=forked).pool)
        return Primary(pool, self._make_wire)

    async def retire(self) -> None:
        """Give all connections back when nothing is under way on them."""
        await self.aclose()
        await self._server.retire()

    async def aclose(self) -> None:
        """End a look that nobody waits for, as when the event loop ends."""
        if self._look is not None:
            self._look.cancel()
            await outlast(self._look)

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        await self._server.forsake()

    def _looked(self, look: "asyncio.Task[None]") -> None:
        self._look, self._looked_at = None, clock.now()
        if not look.cancelled():
            look.exception()  # seen

    async def _look_around(self) -> None:
        known = cast(Any, self._pool)  # redis-py left it without types
        # As long as they say nothing else, the one that answers is the primary.
        with suppress(redis_errors.RedisError, TimeoutError):
            async with asyncio.timeout(WITHIN):
                address = await sentinels.primary_of(known.sentinel_manager, known.service_name)
            await self._server.part_from_all_but(address)
            for inbox in tuple(self._ears):
                inbox.part_from_all_but(address)
