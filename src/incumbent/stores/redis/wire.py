"""One kept connection of the caller's pool, on which the requests of many tasks leave together.

Knows requests as bytes and answers as what redis-py parses; nothing of elections. A lone request is
sent and read by its own task, with no other task in between. Those that come while one is under way
leave together, as one pipeline, when it is done. So a process with a thousand elections needs one
connection.

The connection is ours while we keep it: its own retry and socket timeout are set aside (each
request has its deadline here, and redis-py's retry would outlive it), and put back when the pool
gets it back.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import redis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from incumbent import clock
from incumbent.shield import finish
from incumbent.stores.redis.faults import wrong_server
from incumbent.stores.redis.scripts import Command

Reply: TypeAlias = Any
"""What redis-py makes of an answer, undecoded: int, bytes, None, or a list of these."""

# Releases before 5.3 want to be told a command; later ones warn about it.
_FIRST_COMMAND = ("EVALSHA",) if tuple(redis.VERSION) < (5, 3) else ()


class Request:
    """One command on its way: when it was sent last, and how often without an answer."""

    __slots__ = ("answer", "command", "overdue_at", "sent_at", "unanswered")

    def __init__(self) -> None:
        self.command: Command = ()
        self.unanswered: int = 0
        self.sent_at: float = 0.0
        self.overdue_at: float = 0.0
        self.answer: asyncio.Future[Reply] | None = None


class Wire:
    """The way to the server: at most one connection, taken from `pool` when it is first needed."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: AbstractConnection | None = None
        self._set_aside: tuple[Retry, float | None] | None = None
        self.busy: bool = False
        self._queue: list[Request] = []
        self._sender: asyncio.Task[None] | None = None
        self._sending = False
        self.retired: bool = False

    async def send(self, request: Request, within: float) -> Reply:
        """Send `request` once and return the server's answer.

        Raises:
            redis.exceptions.TimeoutError: no answer in `within` seconds; the wire is retired then.
            redis.exceptions.RedisError: what the server or the connection said.
        """
        try:
            async with asyncio.timeout(within) as limit:
                request.overdue_at = limit.when() or 0.0
                reply = await (
                    self._send_with_others(request) if self.busy else self._send_alone(request)
                )
        except TimeoutError:
            await self.drop()
            raise redis_errors.TimeoutError(
                f"no answer from the server within {within:.3g} s"
            ) from None
        finally:
            if self.retired and not self.busy:
                await finish(self._give_back)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def retire(self) -> None:
        """Use an idle wire no more: its connection goes back to the pool."""
        self.retired = True
        await finish(self._give_back)

    async def drop(self) -> None:
        """Retire at once, as an answer is overdue: what is under way or queued gets an error."""
        self.retired = True
        queue, self._queue = self._queue, []
        _answer(
            queue,
            [redis_errors.ConnectionError("the connection was given up before it was used")]
            * len(queue),
        )
        if self._sender is not None and self._sending:
            self._sender.cancel()
        elif self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def forsake(self) -> None:
        """Retire a wire whose event loop is gone: nothing of it can be awaited any more."""
        self.retired, self.busy = True, False
        connection = self._connection
        if connection is not None:
            # The dead loop refuses; redis-py has let go of the socket's streams all the same.
            with suppress(RuntimeError):
                await connection.disconnect(nowait=True)
            await self._give_back()

    async def _send_alone(self, request: Request) -> Reply:
        self.busy = True
        try:
            (reply,) = await self._exchange((request,))
            return reply
        finally:
            if self._queue:
                self._sender = asyncio.get_running_loop().create_task(
                    self._send_queue(), name="incumbent wire"
                )
            else:
                self.busy = False

    async def _send_with_others(self, request: Request) -> Reply:
        request.answer = asyncio.get_running_loop().create_future()
        self._queue.append(request)
        return await request.answer

    async def _send_queue(self) -> None:
        self._sending = True
        try:
            while self._queue:
                queue, self._queue = self._queue, []
                batch = [
                    request
                    for request in queue
                    if request.answer is not None and not request.answer.done()
                ]
                if not batch:
                    continue
                replies: Sequence[Reply] = [
                    redis_errors.ConnectionError("the connection was given up")
                ] * len(batch)
                try:
                    # Those who wait are the first to lose patience; this is for when all have left.
                    async with asyncio.timeout_at(max(request.overdue_at for request in batch)):
                        replies = await self._exchange(batch)
                except TimeoutError:
                    self.retired = True
                except Exception as error:  # noqa: BLE001 - told to each that waits
                    replies = [error] * len(batch)
                finally:
                    _answer(batch, replies)
        finally:
            self.busy = self._sending = False
            self._sender = None
            if self.retired:
                await self._give_back()

    async def _exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Send all, then read all. An answer that is an error is returned, not raised."""
        connection = await self._connected()
        if len(requests) == 1:
            packed = connection.pack_command(*requests[0].command)
        else:
            packed = connection.pack_commands([request.command for request in requests])
        sent_at = clock.now()
        for request in requests:
            request.sent_at = sent_at
            request.unanswered += 1
        await connection.send_packed_command(packed, check_health=False)
        replies: list[Reply] = []
        for request in requests:
            try:
                replies.append(await connection.read_response(disable_decoding=True))
            except redis_errors.ResponseError as error:
                replies.append(error)
            request.unanswered -= 1
        if any(wrong_server(reply) for reply in replies if isinstance(reply, Exception)):
            await connection.disconnect(nowait=True)
        return replies

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is None:
            # Its decorator hides its type.
            connection = await self._pool.get_connection(*_FIRST_COMMAND)  # type: ignore[no-untyped-call]
            self._connection = connection
            self._set_aside = connection.retry, connection.socket_timeout
            connection.retry, connection.socket_timeout = Retry(NoBackoff(), 0), None
        if not connection.is_connected:
            try:
                await connection.connect()
            except BaseException:
                # A log-in that was cut must not leave a connection that looks ready.
                await connection.disconnect(nowait=True)
                raise
        return connection

    async def _give_back(self) -> None:
        """Return the connection to its pool, as it came."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._set_aside is not None:
                connection.retry, connection.socket_timeout = self._set_aside
            await self._pool.release(connection)


def _answer(requests: Sequence[Request], replies: Sequence[Reply]) -> None:
    for request, reply in zip(requests, replies, strict=True):
        if request.answer is not None and not request.answer.done():
            request.answer.set_result(reply)
