"""Asking several servers for what each of them should know: the first good answer counts."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import Any, Final, TypeVar

import anyio
from redis import exceptions as redis_errors

from incumbent.shield import outlast
from incumbent.stores.redis import faults

T = TypeVar("T")

REST: Final = 5
"""How much longer than the others the last ones may be silent, when somebody has failed."""


async def canvass(
    asks: Iterable[Callable[[], Coroutine[Any, Any, T]]], patience: float, nobody: str
) -> T:
    """The first answer. The next one is asked as soon as those before have failed or are slow.

    Slow is who lets `patience` seconds pass; its answer counts all the same while nobody else has
    given one. Who is still silent when all others have failed has a little more time. Then an error
    is raised that will not pass by itself, if there was one; the last one otherwise, and
    ``ConnectionError(nobody)`` when there was nobody to ask.
    """
    errors: list[redis_errors.RedisError] = []
    asked: dict[asyncio.Task[T], anyio.CancelScope] = {}
    pending: set[asyncio.Task[T]] = set()
    more = iter(asks)
    try:
        while True:
            ask = next(more, None)
            if ask is not None:
                scope = anyio.CancelScope()
                work = _in_scope(ask, scope)
                task = asyncio.create_task(work, name="incumbent look", context=Context())
                asked[task] = scope
                pending.add(task)
            elif not pending:
                break
            timeout = patience if ask is not None else patience * REST if errors else None
            done, pending = await asyncio.wait(
                pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and ask is None:
                break
            for task in done:
                try:
                    return task.result()
                except redis_errors.RedisError as error:
                    errors.append(error)
    finally:
        for scope in asked.values():
            scope.cancel()  # more than the task: on Python 3.11 redis-py may swallow that
        if asked:
            await outlast(*asked)
    lasting = [each for each in errors if not faults.passing(each)]
    raise (lasting or errors or [redis_errors.ConnectionError(nobody)])[-1]


async def _in_scope(ask: Callable[[], Coroutine[Any, Any, T]], scope: "anyio.CancelScope") -> T:
    with scope:
        return await ask()
    raise redis_errors.TimeoutError("somebody else has answered")
