"""One subscribed connection, on which all arrives that this process is told.

Knows channels and messages, not what they mean. Every confirmation of a subscription is passed on,
the first one and those after a reconnection: what was published before it may have been missed.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

import anyio
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from incumbent.backoff import pause_after
from incumbent.shield import finish, stop
from incumbent.stores.redis import faults
from incumbent.stores.redis.answers import Answers
from incumbent.stores.redis.connection import KeptConnection, Pool
from incumbent.stores.redis.slots import Address
from incumbent.stores.redis.way import Listener

CONNECT_WITHIN: Final = 5.0
"""Seconds that connecting may take, with the log-in."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds before it connects again: the first time, and the most while the server is away."""

PARTS: Final = 3
"""Of what the server says on a subscribed connection: kind, channel, message or number."""

LONGEST_IN_VAIN: Final = 30.0
"""The most, when it is connected and hears nothing, or may not listen."""

IDLE: Final = 5.0
"""Seconds without a channel after which the connection goes back to its pool."""


class Inbox:
    """The channels that this process listens to, in one event loop.

    The connection is made for the first channel, and given back when there has been none for a
    while: to wait again after a short pause needs no new one.
    """

    def __init__(
        self, pool: Pool, *, sharded: bool = False, astray: Callable[[], None] | None = None
    ) -> None:
        """For a node of a cluster: by SSUBSCRIBE if it has that, telling when a channel leaves."""
        self.closed: bool = False
        self._sharded = sharded
        self._astray = astray
        self._kept = KeptConnection(pool)
        self._listeners: dict[bytes, Listener] = {}
        self._asked: set[bytes] = set()
        """The channels that this connection was told to listen to."""
        self._answers = Answers(self._unanswered)
        self._rest: asyncio.TimerHandle | None = None
        self._confirmed: set[bytes] = set()
        self._connection: AbstractConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._teller: asyncio.Task[None] | None = None
        self._session: anyio.CancelScope | None = None
        self._down = False
        self._failures = 0
        self._in_vain = 0
        """How often it was connected, and did not hear what was published."""

    def open(self, channel: bytes, listener: Listener) -> None:
        """Listen to `channel`; the listener is told when it does, and when it does not."""
        self._listeners[channel] = listener
        self._stop_resting()
        if channel in self._confirmed:
            listener.listening()
        elif self.closed or (self._down and self._reader is not None):
            listener.deaf()
        elif self._reader is None:
            self._down = False
            self._reader = self._start(self._read())
            self._reader.add_done_callback(self._read_ended)
        else:
            self._tell()

    def close(self, channel: bytes) -> None:
        """Listen to `channel` no more."""
        self._listeners.pop(channel, None)
        self._tell()
        if not self._listeners and self._reader is not None and self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(IDLE, self._tire)

    @property
    def idle(self) -> bool:
        """Whether nobody listens by it."""
        return not self._listeners

    def ask_again(self) -> None:
        """Have the server told of the channels that it has sent away."""
        self._tell()

    def distrust(self, channel: bytes) -> None:
        """Connect anew: what was published to `channel` was not heard."""
        self._in_vain += 1
        self._end_session()

    def part_from_all_but(self, address: Address) -> None:
        """Connect anew if the connection leads elsewhere."""
        if self._kept.address not in {None, address}:
            self._end_session()

    async def aclose(self) -> None:
        """Give the connection back, and listen to nothing any more."""
        self.closed = True
        self._stop_resting()
        await stop(*(task for task in (self._reader, self._teller) if task is not None))

    async def forsake(self) -> None:
        """Let go of a connection whose event loop is gone."""
        self.closed = True
        await self._kept.close()

    def _stop_resting(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _tire(self) -> None:
        self._rest = None
        if not self._listeners:
            self._end_session()

    def _end_session(self) -> None:
        """Give the connection back; as long as there are channels, another one is made."""
        if self._session is not None:
            self._session.cancel()
            self._lost()  # now, so that no listener is told any more that it listens

    # -- reading -----------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while self._listeners and not self.closed:
                error = await self._listen()
                if self._listeners:
                    await asyncio.sleep(self._pause(error))
        finally:
            self._reader = None  # here, so that the next listener begins another one

    def _read_ended(self, reader: "asyncio.Task[None]") -> None:
        """A reader that was cancelled, as programs end, may not even have begun."""
        if self._reader is reader:
            self._reader = None
        if self._reader is None:
            self._lost()

    async def _listen(self) -> Exception | None:
        """Connect and pass on what arrives, until that ends; returns the error, if one ended it."""
        try:
            with anyio.CancelScope() as self._session:
                async with asyncio.timeout(CONNECT_WITHIN):
                    self._connection = connection = await self._kept.ready()
                self._down = False
                self._tell()
                while not self.closed:
                    await self._hear(connection)
        except Exception as error:  # noqa: BLE001 - if closed meanwhile, redis-py raises anything
            return error
        finally:
            self._session = None
            self._lost()
            # One that was subscribed must not go back into its pool as it is.
            await finish(self._kept.close)
        return None

    async def _hear(self, connection: AbstractConnection) -> None:
        try:
            reply = await connection.read_response(disable_decoding=True, push_request=True)
        except redis_errors.ResponseError as error:
            self._refused(error)
        else:
            self._take(reply)

    def _refused(self, error: redis_errors.ResponseError) -> None:
        """What a node of a cluster may say to SSUBSCRIBE; it does not say for which channel."""
        if isinstance(error, redis_errors.MovedError):
            self._forget_unanswered()
            self._stray()
        elif self._astray is not None and faults.unsharded(error):
            self._forget_unanswered()
            self._sharded = False
            self._tell()
        else:
            raise error

    def _stray(self) -> None:
        if self._astray is not None:
            self._astray()

    def _lost(self) -> None:
        if self._down:
            return
        self._connection, self._down = None, True
        self._confirmed.clear()
        self._forget_unanswered()
        for listener in tuple(self._listeners.values()):
            listener.deaf()

    def _take(self, reply: Any) -> None:
        if not isinstance(reply, list) or len(reply) != PARTS:
            return
        kind, channel, message = reply
        listener = self._listeners.get(channel)
        if kind in {b"subscribe", b"ssubscribe"}:
            self._answered(channel)
        elif kind in {b"message", b"smessage"} and listener is not None:
            self._in_vain = 0
            listener.heard(message)
        elif kind == b"sunsubscribe" and channel in self._asked:
            # Not our wish: its slot has left this node.
            self._asked.discard(channel)
            self._confirmed.discard(channel)
            if listener is not None:
                listener.deaf()
            self._stray()

    def _answered(self, channel: bytes) -> None:
        self._failures = 0
        if not self._answers.came(channel):
            return  # it was left and subscribed again: this confirms the first time
        if channel in self._asked:
            self._confirmed.add(channel)
            if channel in self._listeners:
                self._listeners[channel].listening()

    def _pause(self, error: Exception | None) -> float:
        self._failures += 1
        refused = isinstance(error, redis_errors.RedisError) and not faults.passing(error)
        in_vain = self._in_vain or (self._failures if refused else 0)
        return pause_after(
            in_vain or self._failures,
            first=FIRST_PAUSE,
            longest=LONGEST_IN_VAIN if in_vain else LONGEST_PAUSE,
            jitter=random.random(),
        )

    # -- asking to be told -------------------------------------------------------------------

    def _tell(self) -> None:
        """Have the server told which channels are listened to, if it does not know."""
        if self._connection is not None and self._teller is None and self._untold():
            self._teller = self._start(self._tell_all())
            self._teller.add_done_callback(self._tell_ended)

    def _unanswered(self) -> None:
        """The connection is dead, or the server does not answer."""
        self._stray()
        self._end_session()

    def _forget_unanswered(self) -> None:
        self._asked &= self._confirmed
        self._answers.forget()

    def _untold(self) -> bool:
        return self._listeners.keys() != self._asked

    async def _tell_all(self) -> None:
        # One task, so that many who begin to listen at once cost one command.
        while not self.closed and self._connection is not None and self._untold():
            connection = self._connection
            new = self._listeners.keys() - self._asked
            old = self._asked - self._listeners.keys()
            self._asked |= new
            self._asked -= old
            self._confirmed -= old
            self._answers.expect(new)
            # A broken connection is for the reader to notice, and a client that was closed as well.
            with suppress(Exception):
                packed = connection.pack_commands(self._commands(new, old))
                await connection.send_packed_command(packed, check_health=False)

    def _commands(self, new: set[bytes], old: set[bytes]) -> list[tuple[bytes, ...]]:
        if self._sharded:  # one for each, because the channels of one must share a slot
            wishes = [(b"SSUBSCRIBE", channel) for channel in new]
            return [*wishes, *((b"SUNSUBSCRIBE", channel) for channel in old)]
        commands = (b"SUBSCRIBE", *new), (b"UNSUBSCRIBE", *old)
        return [command for command in commands if len(command) > 1]

    def _tell_ended(self, teller: "asyncio.Task[None]") -> None:
        self._teller = None
        self._tell()  # what came up meanwhile

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        # In a context of its own: it may live longer than what its first caller has in theirs.
        return asyncio.get_running_loop().create_task(
            work, name="incumbent inbox", context=Context()
        )
