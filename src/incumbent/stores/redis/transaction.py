"""Transactions that the server carries out only while a seat is held.

A pipeline of redis-py whose MULTI comes after a WATCH of the seat and a look at whose it is: when
the seat has changed hands by EXEC, nothing is done. A renewal touches the seat as well; then it is
looked at again, and the same commands are sent once more. Knows nothing of terms.
Source: https://redis.io/docs/latest/develop/using-commands/transactions/
"""

import asyncio
from types import TracebackType
from typing import Any, Final

import redis
from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.client import NEVER_DECODE
from redis.client import Pipeline as BlockingPipeline

from incumbent import clock
from incumbent.errors import StaleFenceError
from incumbent.stores.base import Tenure

CHANGED: Final = "Watched variable changed."
"""What redis-py says when EXEC did nothing; any other `WatchError` of it is a lost reply."""

OURS: Final = frozenset({"WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD"})
"""With one of these in the middle, what follows it would be done whoever has the seat."""


class Condition:
    """That a seat is held: here, and by the word of the server."""

    __slots__ = ("_tenure", "question", "seat", "within")

    def __init__(self, tenure: Tenure, seat: bytes) -> None:
        self._tenure = tenure
        self.seat: bytes = seat
        # In bytes, because redis-py's client-side cache, which must not answer this, knows text.
        self.question: tuple[bytes, ...] = (b"HMGET", seat, b"token", b"fence")
        self.within: float = tenure.within

    def check_here(self) -> None:
        """Raise `StaleFenceError` if the lease is known to be over: nothing needs to be sent."""
        if not self._tenure.held():
            raise self._stale(None, "the lease is not held")

    def check_there(self, answer: list[bytes | None]) -> None:
        """Raise `StaleFenceError` unless the `answer` to the question shows the lease's token."""
        token, fence = answer
        if token == self._tenure.claim.token.encode():
            return
        if token is None:
            raise self._stale(None, "this server has no such seat in this database")
        newer = int(fence or 0)
        highest = newer if newer > self._tenure.grant.fence else None
        raise self._stale(highest, "the seat is not this lease's")

    def _stale(self, highest: int | None, detail: str) -> StaleFenceError:
        return StaleFenceError(self._tenure.name, self._tenure.grant.fence, highest, detail)


class Transaction(Pipeline):
    """A pipeline of a `redis.asyncio.Redis`; see `Lease.transaction`."""

    def __init__(self, client: Redis, condition: Condition) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, True, None)  # noqa: FBT003 - redis-py's own
        self._condition = condition

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit what is still to be done, unless the block failed."""
        if error is None:
            await self.execute()
        else:
            await self.reset()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Collect a command."""
        _refuse_ours(args[0])
        return self.pipeline_execute_command(*args, **options)  # type: ignore[no-untyped-call]  # redis-py left it without

    async def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's own
        """Carry out what was collected, if the lease is held; the result of each command."""
        commands, scripts = list(self.command_stack), set(self.scripts)
        try:
            async with asyncio.timeout(self._condition.within):
                while commands:
                    await self._look()
                    _queue(self, commands, scripts)
                    try:
                        return await super().execute(raise_on_error)
                    except redis_errors.WatchError as error:
                        if str(error) != CHANGED:
                            raise
        except redis_errors.WatchError as error:
            raise _lost() from error
        except TimeoutError as error:
            raise _late() from error
        finally:
            await self.reset()
        return []

    async def reset(self) -> None:  # type: ignore[override]  # so is redis-py's own
        """Forget what was collected, and give the connection back: a new one after half a talk."""
        if self.watching and self.connection is not None:
            await self.connection.disconnect(nowait=True)
            self.watching = False
        await super().reset()  # type: ignore[no-untyped-call]  # redis-py left it without

    async def _look(self) -> None:
        self._condition.check_here()
        ask: Any = self.immediate_execute_command
        await ask("WATCH", self._condition.seat)
        self._condition.check_there(await ask(*self._condition.question, **{NEVER_DECODE: []}))


class BlockingTransaction(BlockingPipeline):
    """A pipeline of a `redis.Redis`; see `incumbent.blocking.Lease.transaction`."""

    def __init__(self, client: redis.Redis, condition: Condition) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, True, None)  # noqa: FBT003 - redis-py's own
        self._condition = condition

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit what is still to be done, unless the block failed."""
        if error is None:
            self.execute()
        else:
            self.reset()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Collect a command."""
        _refuse_ours(args[0])
        return self.pipeline_execute_command(*args, **options)

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's own
        """Carry out what was collected, if the lease is held; the result of each command."""
        commands, scripts = list(self.command_stack), set(self.scripts)
        deadline = clock.now() + self._condition.within
        try:
            while commands:
                self._look()
                _queue(self, commands, scripts)
                try:
                    return super().execute(raise_on_error)
                except redis_errors.WatchError as error:
                    if str(error) != CHANGED:
                        raise
                if clock.now() > deadline:
                    raise _late()
        except redis_errors.WatchError as error:
            raise _lost() from error
        finally:
            self.reset()
        return []

    def reset(self) -> None:  # type: ignore[override]  # so is redis-py's own
        """Forget what was collected, and give the connection back: a new one after half a talk."""
        if self.watching and self.connection is not None:
            self.connection.disconnect()  # type: ignore[no-untyped-call]  # redis-py left it without
            self.watching = False
        super().reset()

    def _look(self) -> None:
        self._condition.check_here()
        ask: Any = self.immediate_execute_command
        ask("WATCH", self._condition.seat)
        self._condition.check_there(ask(*self._condition.question, **{NEVER_DECODE: []}))


def of(client: Any, condition: Condition) -> Transaction | BlockingTransaction:
    """The pipeline for this kind of client.

    Raises:
        TypeError: there is none.
    """
    if isinstance(client, Redis):
        return Transaction(client, condition)
    if isinstance(client, redis.Redis):
        return BlockingTransaction(client, condition)
    kind = type(client)
    raise TypeError(
        "a transaction needs a redis.asyncio.Redis or redis.Redis client of the election's server, "
        f"not {kind.__module__}.{kind.__qualname__}; for keys elsewhere: incumbent.fencing"
    )


def _queue(pipe: Any, commands: list[Any], scripts: set[Any]) -> None:
    """Let `pipe`, whose queue is lost with each try, carry these out after its WATCH."""
    pipe.command_stack, pipe.scripts = list(commands), set(scripts)
    pipe.explicit_transaction = True


def _refuse_ours(command: str | bytes) -> None:
    name = command.decode() if isinstance(command, bytes) else command
    if name.upper().split()[0] in OURS:
        raise redis_errors.RedisError(f"a lease's transaction does its own {name.upper()}")


def _lost() -> redis_errors.ConnectionError:
    return redis_errors.ConnectionError(
        "the connection was lost: the transaction was carried out, or nothing of it was"
    )


def _late() -> redis_errors.TimeoutError:
    return redis_errors.TimeoutError(
        "no answer in time: the transaction was carried out, or nothing of it was"
    )
