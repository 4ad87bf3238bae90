"""What an error of redis-py means for a request: send it again, wait for better times, or give up.

Pure. Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors (the word
in front of a server's error is its kind).
"""

from redis import exceptions as redis_errors

_BROKEN_FOR_GOOD = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)
_ELSEWHERE = (
    redis_errors.ReadOnlyError,
    redis_errors.MasterDownError,
    redis_errors.ClusterDownError,
    redis_errors.TryAgainError,
)
# Kinds that redis-py has no class for, so that the word still stands in front of the message.
_PASSING_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED")


def worth_sending_again(error: BaseException) -> bool:
    """Whether the same request may well succeed on a fresh connection, within the same call."""
    if isinstance(error, _BROKEN_FOR_GOOD):
        return False
    return isinstance(error, (redis_errors.ConnectionError, redis_errors.TimeoutError, *_ELSEWHERE))


def wrong_server(error: object) -> bool:
    """Whether the server that answered is not, or not now, the one to talk to."""
    return isinstance(error, (*_ELSEWHERE, redis_errors.BusyLoadingError))


def passing(error: BaseException) -> bool:
    """Whether time may heal it; not wrong credentials, missing rights or a wrong type."""
    if worth_sending_again(error) or isinstance(error, redis_errors.OutOfMemoryError):
        return True
    return isinstance(error, redis_errors.ResponseError) and str(error).startswith(_PASSING_WORDS)
