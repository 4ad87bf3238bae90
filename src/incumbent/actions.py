"""What may be an action: what gives an awaitable, or, for threads, what is done when it returns.

Pure. Most of what is neither is known by looking at it, before anything is sent. The rest is found
out when it is called: then the error says so once, and the run counts as none.
"""

import inspect
import re
import typing
from collections.abc import Awaitable
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Kind: TypeAlias = Literal["awaitable", "generator", "plain", "unknown"]
"""What a call gives: an awaitable, what must be iterated over, a value, or one cannot tell."""

_AWAITABLE: Final = re.compile(r"\b(Awaitable|Coroutine|Future|Task)\b")


class NoActionError(TypeError):
    """What was called is no action: it has to be told as a mistake, not as a run that failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.told: bool = False


def kind_of(action: Any) -> Kind:
    """What a call of `action` gives, as far as can be told by looking at it."""
    while isinstance(action, partial | MethodType):
        action = action.func if isinstance(action, partial) else action.__func__
    if inspect.iscoroutinefunction(action):
        return "awaitable"
    if inspect.isasyncgenfunction(action) or inspect.isgeneratorfunction(action):
        return "generator"
    if isinstance(action, type):
        return "awaitable" if issubclass(action, Awaitable) else "plain"
    if isinstance(action, FunctionType):
        return _kind_of_function(action)
    call = getattr(type(action), "__call__", None)  # noqa: B004 - what it is, not if it is there
    return kind_of(call) if isinstance(call, FunctionType) else "unknown"


def _kind_of_function(function: FunctionType) -> Kind:
    """A lambda may give anything; so may a function that says so, or that stands for another."""
    if function.__name__ == "<lambda>" or hasattr(function, "__wrapped__"):
        return "unknown"
    try:
        returns = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that are not there at run time, and whatever else
        returns = function.__annotations__.get("return")
    return "unknown" if _AWAITABLE.search(str(returns)) else "plain"


def check(action: Any, what: str = "action") -> None:
    """Refuse what is known to give no awaitable.

    Raises:
        TypeError: it is.
    """
    if inspect.iscoroutinefunction(action):  # as nearly always
        return
    if not callable(action):
        raise TypeError(f"{what} must be a coroutine function, not {type(action).__name__}")
    kind = kind_of(action)
    if kind in {"generator", "plain"}:
        raise TypeError(
            f"{what} must be a coroutine function, not {_named(action)}; if that returns an"
            " awaitable, say so by its annotation, or by a lambda around it"
        )


def check_plain(action: Any) -> None:
    """Refuse what is known to have done nothing yet when it returns.

    Raises:
        TypeError: it is.
    """
    if not callable(action):
        raise TypeError(f"action must be a function, not {type(action).__name__}")
    if kind_of(action) in {"awaitable", "generator"}:
        raise TypeError(
            "action must be a plain function, whose work is done when it returns,"
            f" not {_named(action)}"
        )


def awaitable(result: Awaitable[T]) -> Awaitable[T]:
    """`result`, which an action gave.

    Raises:
        NoActionError: it is no awaitable.
    """
    if not inspect.isawaitable(result):
        raise NoActionError(f"action must return an awaitable, not {type(result).__name__}")
    return result


def done(result: T) -> T:
    """`result`, which an action of a thread gave.

    Raises:
        NoActionError: it is an awaitable, so nothing has been done.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python complains that it was never awaited
        raise NoActionError(
            "action must be a plain function, whose work is done when it returns:"
            f" it returned an awaitable, {type(result).__name__}"
        )
    return result


def refused(error: BaseException | None) -> bool:
    """Whether `error` says that there was no action, and nobody has been told so before.

    Who is told first is whose action it was, however deep elections are nested.
    """
    if not isinstance(error, NoActionError) or error.told:
        return False
    error.told = True
    return True


def _named(action: Any) -> str:
    """A name for `action`. What it is shown as is its owner's, and may hold secrets, or raise."""
    return str(getattr(action, "__qualname__", None) or f"an object of {type(action).__qualname__}")
