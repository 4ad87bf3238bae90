"""Whether a log-in that fails may succeed later.

The first one that is refused is refused for good: the password is wrong. One that is refused after
others were accepted is most likely a password that was changed on the server, and that this process
has yet to learn, as from a credential provider or a service that restarts it. So the same client is
refused for `PATIENCE` before that counts.

The same goes for answers that are none of a Redis server's: at first, host or port are wrong;
later, somebody else may have the address for a while.
"""

from typing import Any, Final
from weakref import WeakKeyDictionary

from redis import exceptions as redis_errors

from incumbent import clock
from incumbent.stores.redis.faults import GarbledError, PasswordLagsError, garbled

PATIENCE: Final = 600.0
"""Seconds for which a client whose log-ins were accepted may be refused."""


class LogIns:
    """The log-ins of one client."""

    __slots__ = ("_accepted", "_refused_at")

    def __init__(self) -> None:
        self._accepted = False
        self._refused_at: float | None = None
        """When the first one was refused since the last that was accepted."""

    def accept(self) -> None:
        """One was accepted."""
        self._accepted, self._refused_at = True, None

    def judge(self, error: redis_errors.RedisError) -> redis_errors.RedisError:
        """What to raise for the error with which connecting ended: another one if it may pass."""
        refused = isinstance(error, redis_errors.AuthenticationError)
        if not (self._accepted and (refused or garbled(error))):
            return error
        now = clock.now()
        self._refused_at = now if self._refused_at is None else self._refused_at
        if now - self._refused_at >= PATIENCE:
            return error
        if not refused:
            return GarbledError(str(error))
        return PasswordLagsError(
            f"{error} (it was accepted before: if the password was changed, this process has yet to"
            f" learn it; tried again for {PATIENCE / 60:g} minutes)"
        )


_KNOWN: Final[WeakKeyDictionary[Any, LogIns]] = WeakKeyDictionary()


def log_ins_of(client: object) -> LogIns:
    """Those of a client, or of the pool that has its connections."""
    return _KNOWN.setdefault(client, LogIns())
