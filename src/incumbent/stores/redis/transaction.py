"""Transactions that the server carries out only while a seat is held.

A pipeline of redis-py whose MULTI comes after a WATCH of the seat and a look at whose it is: when
the seat has changed hands by EXEC, nothing is done. A renewal touches the seat as well; then it is
looked at again, and the same commands are sent once more. So they are when a node of a cluster
refuses them because the slot is, or may be, with another. Knows nothing of terms.
Source: https://redis.io/docs/latest/develop/using-commands/transactions/
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Final

import redis
from redis import exceptions as redis_errors
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.connection import Connection
from redis.client import NEVER_DECODE
from redis.client import Pipeline as BlockingPipeline
from redis.cluster import ClusterPipeline as BlockingClusterPipeline

from incumbent import clock
from incumbent.errors import StaleFenceError
from incumbent.shield import finish, heed
from incumbent.stores.base import Budget, Tenure
from incumbent.stores.redis import faults
from incumbent.stores.redis.caller import pause_for
from incumbent.stores.redis.discretion import discreet
from incumbent.stores.redis.slot_pool import BlockingSlotPool, FindWay, SlotPool
from incumbent.stores.redis.slots import slot_of

CHANGED: Final = "Watched variable changed."
"""What redis-py says when EXEC did nothing; any other `WatchError` of it is a lost reply."""

OURS: Final = frozenset({"WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD"})
"""With one of these in the middle, what follows it would be done whoever has the seat."""


class Condition:
    """That a seat is held: here, and by the word of the server."""

    __slots__ = ("_tenure", "budget", "question", "seat")

    def __init__(self, tenure: Tenure, seat: bytes) -> None:
        self._tenure = tenure
        self.seat: bytes = seat
        # In bytes, because redis-py's client-side cache, which must not answer this, knows text.
        self.question: tuple[bytes, ...] = (b"HMGET", seat, b"token", b"fence")
        self.budget: Budget = tenure.budget

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

    def check_slots(self, error: redis_errors.RedisError) -> None:
        """Raise `ClusterCrossSlotError` if it is the slot of a key that a node of a cluster minds.

        That of the seat may be with another node; any other has no place in the transaction.
        """
        astray = isinstance(error, redis_errors.AskError) and error.slot_id != slot_of(self.seat)
        if astray or isinstance(error, redis_errors.ClusterCrossSlotError):
            raise redis_errors.ClusterCrossSlotError(
                "nothing was done: on a cluster, every key of a lease's transaction must have the "
                f"hash tag {{{self._tenure.claim.election}}}, which puts it in the seat's slot"
            ) from error

    def _stale(self, highest: int | None, detail: str) -> StaleFenceError:
        return StaleFenceError(self._tenure.name, self._tenure.grant.fence, highest, detail)


class Tries:
    """The tries of one commit: what is sent, and what an error means for the next one."""

    def __init__(self, pipe: Any, condition: Condition, *, moves: bool) -> None:
        """`moves`: the seat may be with another node by the time of the next try."""
        self.commands: list[Any] = list(pipe.command_stack)
        self._scripts = set(pipe.scripts)
        self._condition = condition
        self.pause: float = 0.0
        """Seconds to wait before the next try."""
        self._moves = moves
        self._failures = 0
        self._refusal: redis_errors.RedisError | None = None
        """Why nothing was done by the last try, as long as nothing has been sent since."""
        self._committing = False

    def queue(self, pipe: Any) -> None:
        """Let `pipe`, whose queue is lost with each try, carry all out after its WATCH."""
        # With the question at the end, no command for another slot of a cluster goes through.
        pipe.command_stack = [*self.commands, (self._condition.question, {})]
        pipe.scripts = set(self._scripts)
        pipe.explicit_transaction = True
        self._refusal, self._committing = None, True

    def results(self, pipe: Any, answers: list[Any], *, raise_first: bool) -> list[Any]:
        """The result of each command, now that all were carried out."""
        results = answers[:-1]
        if raise_first:
            pipe.raise_first_error(self.commands, results)
        return results

    def judge(self, error: redis_errors.RedisError) -> redis_errors.RedisError:
        """Why nothing was done and another try is in order; raises what `error` means otherwise.

        An error of a command that was carried out stands among the answers and never comes here:
        what the server says instead of answers, it says of a transaction that it has dropped.
        """
        committing, self._committing = self._committing, False
        lost = isinstance(error, redis_errors.WatchError)
        if lost and committing and str(error) == CHANGED:
            self.pause = 0.0
            return error
        late = isinstance(error, redis_errors.TimeoutError)
        if committing and (lost or late or isinstance(error, redis_errors.ConnectionError)):
            raise (_late() if late else _lost()) from error
        self._condition.check_slots(error)
        refusal = _lost() if lost else error
        if not (self._moves and faults.worth_sending_again(refusal)):
            raise refusal
        self._failures += 1
        self._refusal, self.pause = refusal, pause_for(refusal, self._failures)
        return refusal

    def late(self) -> redis_errors.TimeoutError:
        """That the time is up."""
        if self._refusal is None:
            return _late()
        kind = type(self._refusal).__name__
        return redis_errors.TimeoutError(f"nothing was done in time: {kind}: {self._refusal}")


class Transaction(Pipeline):
    """A pipeline by the connections of `pool`; see `Lease.transaction`."""

    def __init__(
        self,
        pool: Any,
        callbacks: Any,
        condition: Condition,
        learn: Callable[[redis_errors.RedisError], Awaitable[None]] | None = None,
    ) -> None:
        """`learn`: told why nothing was done, the pool may lead elsewhere next time."""
        super().__init__(pool, callbacks, True, None)  # noqa: FBT003 - redis-py's own
        self.connection: Connection | None = None
        self._condition = condition
        self._learn = learn

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
        tries = Tries(self, self._condition, moves=self._learn is not None)
        task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        try:
            async with asyncio.timeout(self._condition.budget.total):
                while tries.commands:
                    try:
                        await self._look()
                        await heed(cancelling)
                        tries.queue(self)
                        answers = await super().execute(raise_on_error=False)
                    except redis_errors.RedisError as error:
                        refusal = tries.judge(discreet(error, self.connection_pool))
                    else:
                        await heed(cancelling)
                        return tries.results(self, answers, raise_first=raise_on_error)
                    await self.reset()
                    if self._learn is not None:
                        await self._learn(refusal)
                    await asyncio.sleep(tries.pause)
        except TimeoutError as error:
            raise tries.late() from error
        finally:
            await self.reset()
        return []

    async def reset(self) -> None:  # type: ignore[override]  # so is redis-py's own
        """Forget what was collected, and give the connection back: a new one after half a talk."""
        if self.watching and self.connection is not None:
            await self.connection.disconnect(nowait=True)
            self.watching = False
        connection, self.connection = self.connection, None
        await super().reset()  # type: ignore[no-untyped-call]  # redis-py left it without
        if connection is not None:
            # In a task of ours: redis-py's own is not begun anew when a program ends every task.
            await finish(partial(self.connection_pool.release, connection))

    async def _look(self) -> None:
        self._condition.check_here()
        ask: Any = self.immediate_execute_command
        # Where another node may know, one that is silent must not have all the time there is.
        patience = None if self._learn is None else self._condition.budget.each
        try:
            async with asyncio.timeout(patience):
                await ask("WATCH", self._condition.seat)
                answer = await ask(*self._condition.question, **{NEVER_DECODE: []})
        except TimeoutError as error:
            raise _late() from error
        self._condition.check_there(answer)


class BlockingTransaction(BlockingPipeline):
    """The same for threads; see `incumbent.blocking.Lease.transaction`."""

    def __init__(
        self,
        pool: Any,
        callbacks: Any,
        condition: Condition,
        learn: Callable[[redis_errors.RedisError], None] | None = None,
    ) -> None:
        super().__init__(pool, callbacks, True, None)  # noqa: FBT003 - redis-py's own
        self._condition = condition
        self._learn = learn

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
        tries = Tries(self, self._condition, moves=self._learn is not None)
        deadline = clock.now() + self._condition.budget.total
        try:
            while tries.commands:
                try:
                    self._look()
                    tries.queue(self)
                    answers = super().execute(raise_on_error=False)
                except redis_errors.RedisError as error:
                    refusal = tries.judge(discreet(error, self.connection_pool))
                else:
                    return tries.results(self, answers, raise_first=raise_on_error)
                self.reset()
                if clock.now() + tries.pause > deadline:
                    raise tries.late() from refusal
                if self._learn is not None:
                    self._learn(refusal)
                time.sleep(tries.pause)
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


def of(
    client: Any, condition: Condition, find_way: FindWay | None
) -> Transaction | BlockingTransaction:
    """The pipeline for this kind of client; `find_way` is of use if the elector has the same.

    Raises:
        TypeError: there is none.
    """
    pipelines = Pipeline, BlockingPipeline, ClusterPipeline, BlockingClusterPipeline
    if isinstance(client, pipelines):
        raise TypeError(
            f"a transaction needs a client, not a pipeline: {type(client).__qualname__}"
        )
    if isinstance(client, Redis):
        return Transaction(client.connection_pool, client.response_callbacks, condition)
    if isinstance(client, redis.Redis):
        return BlockingTransaction(client.connection_pool, client.response_callbacks, condition)
    if isinstance(client, RedisCluster):
        nodes = SlotPool(client, condition.seat, condition.budget.each, find_way)
        return Transaction(nodes, nodes.response_callbacks, condition, nodes.learn)
    if isinstance(client, redis.RedisCluster):
        many = BlockingSlotPool(client, condition.seat)
        return BlockingTransaction(many, many.response_callbacks, condition, many.learn)
    kind = type(client)
    raise TypeError(
        "a transaction needs a client of redis-py for the election's server or cluster, "
        f"not {kind.__module__}.{kind.__qualname__}; for keys elsewhere: incumbent.fencing"
    )


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
