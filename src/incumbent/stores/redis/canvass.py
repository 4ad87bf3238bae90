"""Asking several servers for what each of them should know, until enough of them say the same."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from typing import Any, Final, TypeVar

from redis import exceptions as redis_errors

from incumbent.shield import stop
from incumbent.stores.redis import faults

T = TypeVar("T")

PATIENCE: Final = 0.2
"""Seconds for which one may be silent before the next is asked as well."""

WITHIN: Final = 5.0
"""Seconds in which they must have said it."""

REST: Final = 5
"""How much longer than the others the last ones may be silent, when somebody has spoken."""


async def canvass(
    asks: Iterable[Callable[[], Coroutine[Any, Any, T]]],
    patience: float,
    nobody: str,
    enough: int = 1,
) -> T:
    """The first answer that `enough` have given, of whom no more are asked at first.

    The next one is asked as soon as those before have failed, are slow, or do not agree. Slow is
    who lets `patience` seconds pass; its answer counts all the same while there are not enough. Who
    is still silent when all others have spoken has a little more time. Then an error is raised that
    will not pass by itself, if there was one; the last one otherwise, and a ``ConnectionError``
    when they did not agree, or when there was `nobody` to ask, which is its text then.
    """
    answers: list[T] = []
    errors: list[redis_errors.RedisError] = []
    asked: list[asyncio.Task[T]] = []
    pending: set[asyncio.Task[T]] = set()
    more = iter(asks)
    try:
        while True:
            ask = next(more, None)
            if ask is not None:
                task = asyncio.create_task(ask(), name="incumbent look", context=Context())
                asked.append(task)
                pending.add(task)
                if len(pending) < enough - max(map(answers.count, answers), default=0):
                    continue
            elif not pending:
                break
            spoken = answers or errors
            timeout = patience if ask is not None else patience * REST if spoken else None
            done, pending = await asyncio.wait(
                pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and ask is None:
                break
            _hear(done, answers, errors)
            for answer in answers:
                if answers.count(answer) >= enough:
                    return answer
    finally:
        await stop(*asked)
    raise _worst(errors, "those that were asked do not agree" if answers else nobody)


def _hear(
    done: Iterable[asyncio.Task[T]], answers: list[T], errors: list[redis_errors.RedisError]
) -> None:
    for task in done:
        try:
            answers.append(task.result())
        except redis_errors.RedisError as error:
            errors.append(error)


def _worst(errors: Sequence[redis_errors.RedisError], otherwise: str) -> redis_errors.RedisError:
    lasting = [each for each in errors if not faults.passing(each)]
    return (lasting or errors or [redis_errors.ConnectionError(otherwise)])[-1]
