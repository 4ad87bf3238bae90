"""What may be an action: a coroutine function, or, for threads, a plain function.

Pure. Most other callables are recognised before anything is sent. The rest are found out when they
are called: then a `NoActionError` says so once, and the run does not count.
"""

import inspect
import re
import typing
from collections.abc import Awaitable
from functools import partial
from types import CoroutineType, FunctionType, MethodType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from incumbent.kinds import made

T = TypeVar("T")

Kind: TypeAlias = Literal["awaitable", "generator", "plain", "unknown"]
"""What a call gives: an awaitable, something to iterate over, a value, or something unknown."""

_AWAITABLE: Final = re.compile(r"\b(Awaitable|Coroutine|Future|Task)\b")

FOR_THREADS: Final = "for plain functions in threads, there are the electors of incumbent.blocking"
FOR_ASYNCIO: Final = "for coroutine functions, there are the electors of incumbent itself"


class NoActionError(TypeError):
    """What was called is no action. That is a mistake of the caller, not a run that failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.told: bool = False


def kind_of(action: Any) -> Kind:
    """What a call of `action` gives, as far as can be told by looking at it."""
    while isinstance(action, partial | MethodType):
        action = action.func if isinstance(action, partial) else action.__func__
    if inspect.iscoroutinefunction(action) or _counts_as_coroutine_function(action):
        return "awaitable"
    if inspect.isasyncgenfunction(action) or inspect.isgeneratorfunction(action):
        return "generator"
    if isinstance(action, type):
        return "awaitable" if issubclass(action, Awaitable) else "plain"
    if isinstance(action, FunctionType):
        return _kind_of_function(action)
    subject: object = action
    call = getattr(type(subject), "__call__", None)  # noqa: B004 - the method itself is needed
    return kind_of(call) if isinstance(call, FunctionType) else "unknown"


def _counts_as_coroutine_function(action: Any) -> bool:
    """By a mark of asyncio's, as `create_autospec` sets it, or made one by `types.coroutine`."""
    return isinstance(action, FunctionType) and (
        "_is_coroutine" in vars(action)
        or bool(action.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE)
    )


def _kind_of_function(function: FunctionType) -> Kind:
    """A lambda may give anything; so may a wrapper, or a function whose annotation says so."""
    if function.__name__ == "<lambda>" or hasattr(function, "__wrapped__"):
        return "unknown"
    try:
        returns = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that are missing at run time, or any other error
        returns = function.__annotations__.get("return")
    return "unknown" if _AWAITABLE.search(str(returns)) else "plain"


def check(action: Any, what: str = "action") -> None:
    """Refuse what is known to give no awaitable.

    Raises:
        TypeError: `action` is such a thing.
    """
    if isinstance(action, FunctionType) and action.__code__.co_flags & inspect.CO_COROUTINE:
        return  # as nearly always
    if not callable(action):
        raise TypeError(f"{what} must be a coroutine function, not {type(action).__name__}")
    kind = kind_of(action)
    if kind in {"generator", "plain"}:
        raise TypeError(
            f"{what} must be a coroutine function, not {_named(action)}; if that returns an"
            f" awaitable, annotate it so, or wrap it in a lambda; {FOR_THREADS}"
        )


def check_called(function: Any, what: str) -> None:
    """Refuse what cannot be called for a value at once: a class, or a coroutine function.

    Raises:
        TypeError: `function`, which `what` names in the message, is such a thing.
    """
    made(what, function)
    if kind_of(function) in {"awaitable", "generator"}:
        raise TypeError(
            f"{what} must be a plain function, not a coroutine function: {_named(function)}"
        )


def check_plain(action: Any) -> None:
    """Refuse what is known to return before its work is done: coroutine functions and generators.

    Raises:
        TypeError: `action` is such a thing.
    """
    if not callable(action):
        raise TypeError(f"action must be a function, not {type(action).__name__}")
    if kind_of(action) in {"awaitable", "generator"}:
        raise TypeError(
            "action must be a plain function, whose work is done when it returns,"
            f" not {_named(action)}; {FOR_ASYNCIO}"
        )


def awaitable(result: Awaitable[T]) -> Awaitable[T]:
    """Return `result`, which an action gave.

    Raises:
        NoActionError: it is no awaitable.
    """
    given: object = result
    if not isinstance(given, CoroutineType) and not inspect.isawaitable(given):
        raise NoActionError(
            f"action must return an awaitable, not {type(result).__name__}; {FOR_THREADS}"
        )
    return result


def done(result: T) -> T:
    """Return `result`, which an action of a thread gave.

    Raises:
        NoActionError: it is an awaitable, so nothing has been done.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # otherwise Python warns that it was never awaited
        raise NoActionError(
            "action must be a plain function, whose work is done when it returns:"
            f" it returned an awaitable, {type(result).__name__}; {FOR_ASYNCIO}"
        )
    return result


def refused(error: BaseException | None) -> bool:
    """Whether `error` says that there was no action, and is seen for the first time.

    In nested elections the innermost one sees it first: the action was given to that one.
    """
    if not isinstance(error, NoActionError) or error.told:
        return False
    error.told = True
    return True


def _named(action: Any) -> str:
    """A name for `action`. Not its `repr`: that is the user's, and may show secrets or raise."""
    return str(getattr(action, "__qualname__", None) or f"an object of {type(action).__qualname__}")
