"""incumbent.actions: what a callable gives, as far as can be told by looking at it."""

import contextlib
import functools
import types
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock, create_autospec

import pytest
import redis.asyncio

from incumbent import actions


async def work() -> str:
    """A coroutine function."""
    return "done"


def plain() -> str:
    """A plain function."""
    return "done"


def bare():  # type: ignore[no-untyped-def]
    """One that says nothing of what it returns."""


def promised() -> Awaitable[str]:
    """One that says that it returns an awaitable."""
    return work()


def quoted() -> "Coroutine[Any, Any, NoSuchName]":  # type: ignore[name-defined] # noqa: F821
    """The same, by a name that is not there at run time."""
    return work()


def spread() -> Iterator[int]:
    """A generator."""
    yield 1


async def spread_async() -> AsyncIterator[int]:
    """An asynchronous generator."""
    yield 1


def decorated(function: Any) -> Any:
    """Passes calls on, as many decorators do."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Worker:
    """Has methods, and can be called."""

    async def __call__(self) -> str:
        """The work."""
        return "done"

    async def work(self) -> str:
        """A method."""
        return "done"

    def plain(self) -> str:
        """A plain one."""
        return "done"

    @classmethod
    async def of_class(cls) -> str:
        """One of the class."""
        return "done"

    @staticmethod
    def static() -> str:
        """One of nobody."""
        return "done"


class Plain:
    """Can be called, and shows nothing of itself."""

    def __call__(self) -> str:
        """The work."""
        return "done"

    def __repr__(self) -> str:
        raise RuntimeError("mine")


@types.coroutine
def turn() -> Iterator[None]:
    """As asyncio's own code has it where it suspends."""
    yield


class Awaited:
    """What an instance of this is."""

    def __await__(self) -> Any:
        yield


KINDS: dict[str, tuple[Any, str]] = {
    "coroutine function": (work, "awaitable"),
    "partial": (functools.partial(work), "awaitable"),
    "partial of partial": (functools.partial(functools.partial(work)), "awaitable"),
    "method": (Worker().work, "awaitable"),
    "partial of method": (functools.partial(Worker().work), "awaitable"),
    "class method": (Worker.of_class, "awaitable"),
    "callable object": (Worker(), "awaitable"),
    "class of awaitables": (Awaited, "awaitable"),
    "AsyncMock": (AsyncMock(), "awaitable"),
    "autospec": (create_autospec(work), "awaitable"),
    "autospec of plain": (create_autospec(plain), "plain"),
    "made a coroutine function": (turn, "awaitable"),
    "partial of such": (functools.partial(turn), "awaitable"),
    "plain": (plain, "plain"),
    "bare": (bare, "plain"),
    "partial of plain": (functools.partial(plain), "plain"),
    "plain method": (Worker().plain, "plain"),
    "static method": (Worker.static, "plain"),
    "plain object": (Plain(), "plain"),
    "class": (Worker, "plain"),
    "Mock": (Mock(), "plain"),
    "generator": (spread, "generator"),
    "asynchronous generator": (spread_async, "generator"),
    "partial of generator": (functools.partial(spread), "generator"),
    "context manager": (contextlib.asynccontextmanager(spread_async), "unknown"),
    "lambda": (lambda: work(), "unknown"),  # noqa: PLW0108 - as they are written
    "annotated": (promised, "unknown"),
    "annotated with a name that is not there": (quoted, "unknown"),
    "decorated": (decorated(work), "unknown"),
    "decorated plain": (decorated(plain), "unknown"),
    "cached": (functools.cache(work), "unknown"),
    "command of redis-py": (redis.asyncio.Redis().get, "unknown"),
    "builtin": (print, "unknown"),
}


@pytest.mark.parametrize(("action", "kind"), KINDS.values(), ids=KINDS)
def test_a_callable_is_known_by_looking_at_it(action: Any, kind: str) -> None:
    """It is not called; what cannot be known is neither refused for asyncio nor for threads."""
    assert actions.kind_of(action) == kind
    for check, wrong in (
        (actions.check, {"plain", "generator"}),
        (actions.check_plain, {"awaitable", "generator"}),
    ):
        if kind in wrong:
            with pytest.raises(TypeError, match="action must be a"):
                check(action)
        else:
            check(action)


@pytest.mark.parametrize("check", [actions.check, actions.check_plain])
@pytest.mark.parametrize("action", [None, 1, "work", object()])
def test_what_cannot_be_called_is_refused(check: Any, action: Any) -> None:
    """In words that say what it is."""
    with pytest.raises(TypeError, match=f"function, not {type(action).__name__}"):
        check(action)


def test_what_was_called_for_nothing_is_told_once() -> None:
    """To the election whose action it was; to those around it it is an error like any other."""
    with pytest.raises(actions.NoActionError, match="must return an awaitable, not str") as told:
        _ = actions.awaitable("done")  # type: ignore[arg-type]
    assert actions.refused(told.value)
    assert not actions.refused(told.value)
    assert not actions.refused(TypeError("mine"))
    assert not actions.refused(None)


def test_a_coroutine_that_nobody_wanted_is_closed() -> None:
    """So nothing of it runs, and Python does not complain."""
    with pytest.raises(actions.NoActionError, match=r"returned an awaitable, coroutine"):
        _ = actions.done(work())
    assert actions.done("done") == "done"
