"""What an error of redis-py means for a request: send it again, wait for better times, or give up.

Pure. The word in front of a server's error is its kind; redis-py makes classes of some and then
drops the word, and a server before 7.0 hides it behind the name of the script.
Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
"""

import re
import traceback
from typing import Final

from redis import exceptions as redis_errors

_FOR_GOOD: Final = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)
_CLASSES: Final = {
    redis_errors.ReadOnlyError: "READONLY",
    redis_errors.MasterDownError: "MASTERDOWN",
    redis_errors.ClusterDownError: "CLUSTERDOWN",
    redis_errors.TryAgainError: "TRYAGAIN",
    redis_errors.MovedError: "MOVED",
    redis_errors.AskError: "ASK",
    redis_errors.OutOfMemoryError: "OOM",
    redis_errors.BusyLoadingError: "LOADING",
    redis_errors.NoPermissionError: "NOPERM",
}
_MISSING_RIGHT: Final = re.compile(r"\bACL failure in script\b|executing the script can't run\b")
"""What servers say in place of NOPERM when it is a script that needs the right."""
_UNKNOWN: Final = re.compile(r"^(?:ERR )?unknown command\b", re.IGNORECASE)
_WORD: Final = re.compile(r"(?:^|: -)([A-Z]+)\b")
_WRONG_SERVER: Final = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN", "LOADING"})
_MOVING: Final = frozenset({"MOVED", "ASK", "TRYAGAIN"})
_PASSING: Final = {*_WRONG_SERVER, *_MOVING, "OOM", "MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED"}


class PasswordLagsError(redis_errors.AuthenticationError):
    """The log-in is refused, and was accepted before: it may be accepted again."""


class GarbledError(redis_errors.ConnectionError):
    """What was read is no answer of a Redis server's, though there was one before."""


class CorruptError(redis_errors.InvalidResponse):
    """A key of an election's has something in it that no elector has written."""


def garbled(error: BaseException) -> bool:
    """Whether what was read made no sense to redis-py: it says so, or fails over it."""
    if isinstance(error, redis_errors.RedisError):
        said = isinstance(error, (GarbledError, redis_errors.InvalidResponse))
        return said and not isinstance(error, CorruptError)
    return isinstance(error, Exception) and _module_of(error).startswith("redis.")


def not_understood(error: Exception) -> redis_errors.InvalidResponse:
    """What to raise for such a failure."""
    said = error if isinstance(error, redis_errors.RedisError) else repr(error)
    return redis_errors.InvalidResponse(f"no answer of a Redis server: {said}")


def _module_of(error: Exception) -> str:
    """Whose code has raised it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def wrong_server(error: BaseException) -> bool:
    """Whether the server that answered is not, or not now, the one to talk to."""
    return kind(error) in _WRONG_SERVER


def worth_sending_again(error: BaseException) -> bool:
    """Whether the same request may well succeed elsewhere or later, within the same call."""
    if isinstance(error, _FOR_GOOD):
        return isinstance(error, PasswordLagsError)
    broken = isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError)
    return broken or wrong_server(error) or kind(error) in _MOVING


def redirect(error: BaseException) -> bool:
    """Whether the server has said which other one to ask."""
    return isinstance(error, redis_errors.AskError)  # MOVED is one as well


def owner_in_doubt(error: BaseException) -> bool:
    """Whether another node of a cluster may have by now what this one was asked for."""
    here = redis_errors.AskError, redis_errors.TryAgainError, redis_errors.MaxConnectionsError
    moved = isinstance(error, redis_errors.MovedError)
    return moved or (worth_sending_again(error) and not isinstance(error, here))


def unsharded(error: BaseException) -> bool:
    """Whether the server does not know SSUBSCRIBE, or lets this user not use it."""
    return "'ssubscribe'" in str(error).lower().replace("`", "'")


def passing(error: BaseException) -> bool:
    """Whether time may heal it; not wrong credentials, missing rights or a wrong type."""
    return worth_sending_again(error) or kind(error) in _PASSING


def reason(error: BaseException) -> str:
    """What became of a request, in words: refused, and how, or not reached."""
    its_kind, said = kind(error), str(error)
    if its_kind or isinstance(error, (redis_errors.ResponseError, *_FOR_GOOD)):
        word = "" if its_kind in {"", "UNKNOWN"} or its_kind in said else f"{its_kind} "
        return f"refused: {word}{said}"
    return f"not reached: {said}" if unreached(error) else said


def unreached(error: BaseException) -> bool:
    """Whether no server has said anything, as far as is known."""
    if kind(error) or isinstance(error, (GarbledError, *_FOR_GOOD)):
        return False
    return isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError)


def kind(error: BaseException) -> str:
    """The word with which the server began, as far as redis-py lets it be known.

    UNKNOWN for a command that the server does not know, nothing for what no server has said.
    """
    for its_class, its_kind in _CLASSES.items():
        if isinstance(error, its_class):
            return its_kind
    said = str(error)
    if _UNKNOWN.search(said):
        return "UNKNOWN"
    if _MISSING_RIGHT.search(said):
        return "NOPERM"
    found = _WORD.search(said) if isinstance(error, redis_errors.ResponseError) else None
    return found[1] if found else ""
