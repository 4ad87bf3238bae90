"""One kept connection of the caller's pool, on which the requests of many tasks leave together.

Knows requests as bytes and answers as what redis-py parses; nothing of elections. A lone request is
sent and read by its own task, with no other task in between. Those that come while one is under way
leave together, as one pipeline, when it is done, or as soon as they are many. So a process with a
thousand elections needs one connection.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from incumbent import clock
from incumbent.shield import close_with_loop, finish, outlast, stop
from incumbent.stores.redis.connection import KeptConnection, Pool, parser_of, write
from incumbent.stores.redis.faults import GarbledError, garbled, wrong_server
from incumbent.stores.redis.slots import Address

Reply: TypeAlias = Any
"""What redis-py makes of an answer, undecoded: int, bytes, None, or a list of these."""

HASTY: Final = 0.5
"""Seconds; a request with less time never goes alone, for giving up a read costs the connection."""

CONNECT_WITHIN: Final = 60.0
"""Seconds that connecting may take, with the log-in, however little time the requests have that
wait for it: what gives the password may be slow, and to begin anew each time would never end."""

LINGER: Final = 1.0
"""Seconds that a batch has after everybody in it has given up."""

ABANDONED: Final = 0.1
"""Seconds for which a request waits behind answers that nothing waits for any more."""

FULL: Final = 128
"""Requests that leave at once, behind those whose answers are still to come: a batch of fewer waits
for these, and grows. So the server works on a crowd while the process prepares the rest of it."""

NEAR: Final = 0.0003
"""Seconds for which a lone request keeps the loop awake, if the last one was answered in less.

A server next door answers in the time that it takes to fall asleep and be woken.
"""

ASKING: Final = b"*1\r\n$6\r\nASKING\r\n"
"""Lets the next command on the same connection be served by who is only about to have its slot.

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
"""


class ElsewhereError(redis_errors.ConnectionError):
    """The request was not sent: another wire will be quicker."""


class Request:
    """One command, sent once, and what was sent in its place when there was no answer to go by."""

    __slots__ = (
        "again", "answer", "asking", "command", "cut", "overdue_at", "sent_at", "unanswered",
    )  # fmt: skip

    def __init__(self, command: bytes = b"", *, asking: bool = False) -> None:
        """`asking`: for a node of a cluster that has not got the slot yet."""
        self.command: bytes = ASKING + command if asking else command
        self.asking: bool = asking
        self.unanswered: bool = False
        self.cut: bool = False
        self.sent_at: float = 0.0
        self.overdue_at: float = 0.0
        self.answer: asyncio.Future[Reply] | None = None
        self.again: Request | None = None

    @property
    def awaited(self) -> bool:
        """Whether somebody still waits in the queue for the answer."""
        return self.answer is not None and not self.answer.done()

    def resolve(self, reply: Reply) -> None:
        """Give the answer, or an exception in its place, to who waits for it."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(reply)

    def renewed(self, command: bytes = b"", *, asking: bool = False) -> "Request":
        """Another one, to be sent in its place."""
        self.again = Request(command, asking=asking)
        return self.again

    @property
    def last(self) -> "Request":
        """The newest: the one that was answered, if the answer was one to go by."""
        request = self
        while request.again is not None:
            request = request.again
        return request

    @property
    def sent(self) -> bool:
        """Whether it may have reached the server, or any that was sent in its place."""
        return any(request.sent_at for request in self._all())

    @property
    def doubtful(self) -> bool:
        """Whether any of them had no answer, so that it may yet arrive."""
        if self.again is None:  # as nearly always
            return self.unanswered
        return any(request.unanswered for request in self._all())

    def _all(self) -> Iterator["Request"]:
        request: Request | None = self
        while request is not None:
            yield request
            request = request.again


class Question(Request):
    """A command that writes nothing: no replica has to have it."""

    __slots__ = ()


class Wire:
    """The way to the server: at most one connection, taken from `pool` when it is first needed."""

    def __init__(self, pool: Pool) -> None:
        self.busy: bool = False
        self.retired: bool = False
        self._loop = asyncio.get_running_loop()
        self._kept = KeptConnection(pool)
        self._queue: list[Request] = []
        self._batch: list[Request] = []
        self._ahead: list[Request] = []
        """Written already, behind what is being read: the next batch."""
        self._sender: asyncio.Task[None] | None = None
        self._senders: set[asyncio.Task[None]] = set()
        """Also one that has nothing to send any more, and gives the connection back."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0  # beside it: on uvloop, one that is due at once does not know when
        self._alone: tuple[Request, asyncio.Task[Any]] | None = None
        self._near = False
        self._connecting_at: float | None = None
        """Since when, by the loop's clock, while it does."""
        self.connects: bool = False
        """Whether it gave way because it took long to connect, and still does."""
        self.connected: Callable[[Wire], None] | None = None
        """Called when it has connected."""
        close_with_loop(self)

    @property
    def address(self) -> Address | None:
        """Where the connection leads to, as far as there is one."""
        return self._kept.address

    @property
    def engaged(self) -> bool:
        """Whether something is under way, or the connection is being given back."""
        return self.busy or bool(self._senders)

    @property
    def ready(self) -> bool:
        """Whether it is connected and logged in, and takes what is new."""
        connecting = self._connecting_at is not None
        return not (self.retired or connecting or self._kept.connection is None)

    def send(self, request: Request, within: float) -> Awaitable[Reply]:
        """Send `request` once; what is returned gives the server's answer when it is awaited.

        Errors are answers too, given and not raised: what the server said, or why there is no
        answer. When none came within `within` seconds, the wire is retired.
        """
        connection = None if self.busy or within < HASTY else self._kept.connection
        if connection is not None:
            return self._send_alone(request, within, connection)
        answer = self._enqueue(request, within)
        if len(self._queue) % FULL == 0:
            self._write_ahead()
        return answer

    async def retire(self) -> None:
        """Use this for nothing new; the connection goes back when nothing is under way."""
        self.retired, self.connects = True, False
        if self._sender is not None and not _awaited(self._queue + self._under_way):
            self._sender.cancel()
            await outlast(self._sender)
        if not self.busy:
            await outlast(*self._senders)  # one may be giving the connection back
            await finish(self._kept.close)

    async def drop(self) -> None:
        """Retire at once: what is under way gets an error."""
        self.retired, self.connects = True, False
        if self._sender is not None:
            self._sender.cancel()
        elif self.busy:
            await self._kept.cut()  # who is at it gives it back
        else:
            await finish(self._kept.close)

    async def aclose(self) -> None:
        """End with the event loop: what is waited for is sent and answered, and nothing else."""
        while waiting := _awaited(self._queue + self._under_way):
            await asyncio.wait([each.answer for each in waiting if each.answer is not None])
        await stop(*self._senders)

    async def forsake(self) -> None:
        """Retire a wire whose event loop is gone: nothing of it can be awaited any more."""
        self.retired, self.connects, self.busy = True, False, False
        await self._kept.close()

    async def _send_alone(
        self, request: Request, within: float, connection: AbstractConnection
    ) -> Reply:
        # What `asyncio.timeout` does, by the one alarm: a timer for each would cost as much time
        # as all the rest of this module.
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a request needs a running asyncio task")
        cancelling = task.cancelling()
        self.busy, self._alone = True, (request, task)
        request.overdue_at = self._loop.time() + within
        self._watch(request.overdue_at)
        if self._near:
            self._stay_awake(request, clock.now() + NEAR)
        try:
            return await self._exchange((request,), connection)
        except asyncio.CancelledError:
            if request.cut and task.cancelling() <= cancelling + 1:
                return _overdue(request)
            raise
        finally:
            self.busy, self._alone = False, None
            self._near = clock.now() < request.sent_at + NEAR
            if request.cut:
                task.uncancel()
                self._give_way()
            if self._queue or self._ahead:
                self._start_sender()
            elif self.retired:
                await finish(self._kept.give_back)

    def _stay_awake(self, request: Request, until: float) -> None:
        """Have the loop turn, and not sleep, as long as `request` is under way."""
        if self._alone is not None and self._alone[0] is request and clock.now() < until:
            self._loop.call_soon(self._stay_awake, request, until)

    def _enqueue(self, request: Request, within: float) -> "asyncio.Future[Reply]":
        now = self._loop.time()
        request.overdue_at = overdue_at = now + within
        request.answer = answer = self._loop.create_future()
        self._queue.append(request)
        look_at = overdue_at
        if self._batch and look_at > now + ABANDONED:
            look_at = now + ABANDONED
        self._watch(look_at)
        if not self.busy:
            self._start_sender()
        return answer

    @property
    def _under_way(self) -> list[Request]:
        """All but those that wait for their turn."""
        return self._batch + self._ahead

    def _write_ahead(self) -> None:
        connection = self._kept.connection
        if connection is None or self._connecting_at is not None:
            return  # nothing is being read
        requests = _awaited(self._queue)
        with suppress(redis_errors.ConnectionError):  # not sent: the sender meets the same
            self._write(requests, connection)
            self._ahead += requests
            self._queue = []

    def _start_sender(self) -> None:
        self.busy = True
        # The running loop, for ours may be closed: then there must be no coroutine yet.
        sender = asyncio.get_running_loop().create_task(self._send_queue(), name="incumbent wire")
        if not sender.done():  # an eager task may be
            self._sender = sender
            self._senders.add(sender)
            sender.add_done_callback(self._clear)

    async def _send_queue(self) -> None:
        try:
            while self._ahead or self._queue:
                try:
                    if self._ahead:
                        self._batch, self._ahead = self._ahead, []
                        await self._read_batch()
                    else:
                        self._batch, self._queue = self._queue, []
                        await self._exchange_batch()
                except redis_errors.RedisError as error:
                    self._disappoint(error)
                except BaseException:
                    self._disappoint(redis_errors.TimeoutError("no answer from the server in time"))
                    raise
                finally:
                    self._batch = []
        finally:
            self.busy = False
            self._sender = None
            self._queue = _awaited(self._queue)
            if self._queue or self._ahead:  # left behind by one that was cancelled over its batch
                self._start_sender()
            elif self.retired:
                await self._kept.give_back()

    def _clear(self, sender: "asyncio.Task[None]") -> None:
        """Clean up after a sender that was cancelled before its first step, as programs end."""
        self._senders.discard(sender)
        if self._sender is sender:
            self.busy, self._sender = False, None
            self._queue = _awaited(self._queue)
            if self._queue or self._ahead or self.retired:
                self._start_sender()  # who waits goes on; who is retired gives back

    def _disappoint(self, outcome: Exception) -> None:
        """Nobody else in the batch gets an answer."""
        for request in self._batch:
            if request.awaited:
                request.resolve(copy.copy(outcome))  # raised by many, each its own

    async def _exchange_batch(self) -> None:
        batch = _awaited(self._batch)
        connection = self._kept.connection
        if batch and connection is None:
            connection = await self._connect()
            # That may take its time: who has given up by now must not be sent any more.
            batch = _awaited(batch)
        if batch and connection is not None:
            await self._exchange(batch, connection)

    async def _read_batch(self) -> None:
        """Read the answers of a batch that was written ahead."""
        connection = self._kept.connection
        if connection is None:  # it was cut over the batch before
            raise redis_errors.ConnectionError("the connection was lost")
        await self._read(self._batch, connection)

    async def _connect(self) -> AbstractConnection:
        self._connecting_at = self._loop.time()
        try:
            connection = await self._kept.ready()
        finally:
            self._connecting_at = None
        if self.connects:
            self.retired = self.connects = False
        if self.connected is not None:
            self.connected(self)
        return connection

    async def _exchange(self, requests: Sequence[Request], connection: AbstractConnection) -> Reply:
        """Send all, read all; see `_read`."""
        self._write(requests, connection)
        return await self._read(requests, connection)

    def _write(self, requests: Sequence[Request], connection: AbstractConnection) -> None:
        packed = b"".join([request.command for request in requests])
        sent_at = clock.now()
        for request in requests:
            request.sent_at = sent_at
            request.unanswered = True
        try:
            write(connection, packed)
        except (AttributeError, RuntimeError) as error:
            # So asyncio (Python 3.12 and later) and uvloop meet a transport that is gone.
            # Source: https://github.com/python/cpython/issues/136234
            for request in requests:
                request.unanswered, request.sent_at = False, 0.0
            raise redis_errors.ConnectionError("the connection was lost unused") from error

    async def _read(self, requests: Sequence[Request], connection: AbstractConnection) -> Reply:
        """Read all, and tell each waiter; an error that the server says is an answer.

        Returns the last answer, which is the only one of a lone request.
        """
        read, answer = parser_of(connection).read_response, self._answer
        reply: Reply = None
        astray = False
        try:
            for request in requests:
                if request.asking:
                    await read(disable_decoding=True)
                reply = await read(disable_decoding=True)
                request.unanswered = False
                answer(request, reply)
                if isinstance(reply, redis_errors.ResponseError):
                    astray = astray or wrong_server(reply)
        except BaseException as error:
            # What was read in part must not be taken for the next one's answer.
            await self._kept.cut()
            if (lost := _lost(error)) is not None:
                raise lost from error
            raise
        if astray:
            await self._kept.cut()
        return reply

    def _answer(self, request: Request, reply: Reply) -> None:
        request.resolve(reply)

    def _watch(self, overdue_at: float) -> None:
        """One timer watches over all that is queued or in a batch: most is answered long before."""
        if self._alarm is None or overdue_at < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = overdue_at
            self._alarm = self._loop.call_at(overdue_at, self._look)

    def _look(self) -> None:
        self._alarm = None
        now = self._loop.time()
        if self._alone is not None:
            request, task = self._alone
            if request.overdue_at <= now:
                request.cut = task.cancel()
            else:
                self._watch(request.overdue_at)
        waiting = _awaited(self._queue + self._under_way)
        late = [request for request in waiting if request.overdue_at <= now]
        for request in late:
            request.resolve(_overdue(request))
        if late or self._abandoned:
            self._give_way()
        coming = [request.overdue_at for request in waiting if request.overdue_at > now]
        if self._queue and self._batch:
            coming.append(now + ABANDONED)
        if self._batch and self._sender is not None:
            end = self._end_of_batch()
            if end <= now:
                self._sender.cancel()
            else:
                coming.append(end)
        if coming:
            self._watch(min(coming))

    def _end_of_batch(self) -> float:
        """What nobody waits for any more may still be answered, and leave a good connection."""
        end = max(request.overdue_at for request in self._under_way)
        if self._connecting_at is not None:
            return max(end, self._connecting_at + CONNECT_WITHIN)
        return end + LINGER if any(request.sent_at for request in self._batch) else end

    @property
    def _abandoned(self) -> bool:
        """Whether requests are queued behind answers that nothing waits for any more.

        For example a release behind a renewal. Another wire answers sooner.
        """
        if not (self._queue and self._batch) or _awaited(self._under_way):
            return False
        sent_at = self._batch[0].sent_at
        return sent_at > 0 and clock.now() >= sent_at + ABANDONED

    def yield_to_another(self) -> None:
        """Another wire is connected, and this one is not yet: let all that is unsent go there."""
        self._give_way()
        for request in self._batch:
            if not request.sent_at:
                request.resolve(ElsewhereError("another connection is ready"))

    def stop_connecting(self) -> None:
        """Another one has connected: if this one gave way because it has not, it is not needed."""
        if self.connects and self._sender is not None:
            self.connects = False
            self._sender.cancel()

    def _give_way(self) -> None:
        """An answer is overdue, or is not waited for: let what is queued try another wire.

        What is under way here goes on: that one request had little time does not mean that the
        connection is dead, and those with more must not pay for it. One that connects goes on with
        that: another one may be at it for as long, or longer.
        """
        if not self.retired:
            self.retired, self.connects = True, self._connecting_at is not None
        queue, self._queue = self._queue, []
        for request in queue:
            request.resolve(ElsewhereError("this connection keeps others waiting"))


MakeWire: TypeAlias = Callable[[Pool], Wire]


def _awaited(requests: Iterable[Request]) -> list[Request]:
    """Those whose answers somebody waits for in the queue."""
    # Not by `Request.awaited`, which takes longer than all the rest of it.
    return [each for each in requests if each.answer is not None and not each.answer.done()]


def _lost(error: BaseException) -> redis_errors.ConnectionError | None:
    """What to raise for what came in place of an answer; None if that says it itself."""
    if isinstance(error, OSError):
        return redis_errors.ConnectionError(f"the connection was lost: {error}")
    return GarbledError(f"no answer of a Redis server: {error}") if garbled(error) else None


def _overdue(request: Request) -> redis_errors.TimeoutError:
    what = "answer from" if request.sent_at else "connection to"
    return redis_errors.TimeoutError(f"no {what} the server in time")
