"""Waiting for something to become true, instead of sleeping for luck.

Knows nothing of servers or elections: a predicate is asked every few milliseconds until it
answers something truthy, or the time is up and the test fails with a sentence.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL = 0.002


@overload
async def wait_until(
    predicate: Callable[[], Awaitable[T | None]],
    *,
    within: float = ...,
    what: str = ...,
    every: float = ...,
) -> T: ...
@overload
async def wait_until(
    predicate: Callable[[], T | None], *, within: float = ..., what: str = ..., every: float = ...
) -> T: ...
async def wait_until(
    predicate: Callable[[], Any], *, within: float = 15.0, what: str = "", every: float = POLL
) -> Any:
    """Return the predicate's first truthy answer; AssertionError after `within` seconds.

    The predicate may be a plain function or return an awaitable. It is asked at least once,
    and once more when the time is up, so a starved loop does not fail a test by itself.
    """
    deadline = time.monotonic() + within
    while True:
        last_time = time.monotonic() >= deadline
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if last_time:
            raise AssertionError(_complaint(predicate, within, what, answer))
        await asyncio.sleep(every)


def wait_until_blocking(
    predicate: Callable[[], T | None], *, within: float = 15.0, what: str = "", every: float = POLL
) -> T:
    """The same for code without an event loop; the predicate is a plain function."""
    deadline = time.monotonic() + within
    while True:
        last_time = time.monotonic() >= deadline
        answer = predicate()
        if answer:
            return answer
        if last_time:
            raise AssertionError(_complaint(predicate, within, what, answer))
        time.sleep(every)


def _complaint(predicate: object, within: float, what: str, answer: object) -> str:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    return f"not within {within:g} s: {name} (last answer: {answer!r})"
