"""An action of a thread: what may be one, and how it is run under its lease."""

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from incumbent import actions
from incumbent.blocking import lease as leases
from incumbent.blocking.job import Started
from incumbent.blocking.lease import Lease

P = ParamSpec("P")
T = TypeVar("T")


class Act:
    """An action in the thread, under the lease that it is run for."""

    __slots__ = ("_action", "error")

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self.error: Exception | None = None

    def __call__(self, told: Started) -> Any:
        """Run it, and remember what no coroutine could raise."""
        self.error = None
        lease = Lease(told.lease, told.lost)
        leases.push(lease)
        # No `contextmanager` around it: that sets attributes of errors, and some are frozen.
        try:
            return actions.done(self._action())
        except StopIteration as error:
            self.error = error
            raise
        finally:
            leases.drop(lease)


def bind(action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """The action with its arguments; refuses what is no plain function."""
    actions.check_plain(action)
    return partial(action, *args, **kwargs)
