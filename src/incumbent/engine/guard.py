"""Stopping the task that runs an action: once, from outside, and only while it runs the action.

Knows tasks, not leases. One counted, edge-triggered ``task.cancel()`` with ``uncancel()`` at the
end, as `asyncio.timeout` does it: an anyio scope would cancel every await in the action's own
clean-up as well.
Source: https://docs.python.org/3/library/asyncio-task.html#asyncio.Task.uncancel
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

NO_TASK: Final = (
    "an election needs a running asyncio task: await it in a coroutine that asyncio.run() runs, or"
    " take incumbent.blocking"
)


class Mark(str):
    """The message of one guard's cancellations. Compared by identity, so no other is the same."""

    __slots__ = ()


class Guard:
    """Cancels a task while armed; tells its own cancellation from those of others."""

    __slots__ = ("_armed", "_baseline", "_handle", "_mark", "_on_end", "_others", "_sent", "_task")

    def __init__(
        self,
        task: "asyncio.Task[Any] | None" = None,
        current: "asyncio.Task[Any] | None" = None,
    ) -> None:
        """Guard `task`, or the current one if that is not known, has ended or is of another loop.

        `current` is the running task: who knows it saves the time to look for it.
        """
        current = current or asyncio.current_task()
        if current is None:
            raise RuntimeError(NO_TASK)
        if task is None or task.done() or task.get_loop() is not current.get_loop():
            task = current
        self._task: asyncio.Task[Any] = task
        self._baseline = task.cancelling()
        self._sent = 0
        self._others = 0
        self._mark: Mark | None = None
        self._armed = True
        self._handle: asyncio.Handle | None = None
        self._on_end: Callable[[asyncio.Task[Any]], object] | None = None

    @property
    def cancelled_by_others(self) -> bool:
        """Whether somebody else has asked the task to stop since the guard was armed."""
        return self._task.cancelling() > self._baseline + self._sent

    @property
    def guards_current_task(self) -> bool:
        """Whether it is the guarded task that asks."""
        return asyncio.current_task() is self._task

    @property
    def reaches_nobody(self) -> bool:
        """Whether the guarded task has ended, so that there is nothing to cancel."""
        return self._task.done()

    def tell_when_alone(
        self, call: "Callable[[asyncio.Task[Any]], object]", context: Context
    ) -> None:
        """Call ``call(task)`` if the guarded task ends while the guard is armed."""
        self._on_end = call
        self._task.add_done_callback(call, context=context)

    def cancel(self) -> None:
        """Cancel the task at its next suspension, also when it is the task itself that asks."""
        if self._armed and self._handle is None:
            self._handle = self._task.get_loop().call_soon(self._deliver)

    def disarm(self, error: BaseException | None = None) -> bool:
        """Cancel no more. Returns whether a `CancelledError` leaving the action is ours alone.

        `error` is what has left it. If another cancellation was delivered before ours and `error`
        does not stem from it, the action has swallowed it: it does not count.
        """
        if self._armed:
            self._armed = False
            if self._handle is not None:
                self._handle.cancel()
                self._handle = None
            if self._on_end is not None:
                self._task.remove_done_callback(self._on_end)
                self._on_end = None
            for _ in range(self._sent):
                self._task.uncancel()
        if not self._sent:
            return False
        if not self.guards_current_task:
            return self._is_ours(error)
        others = self._task.cancelling() - self._baseline
        return others <= 0 or (others <= self._others and self._is_ours(error))

    def _is_ours(self, error: BaseException | None) -> bool:
        """Whether `error` is our cancellation, and was raised while no other was being handled."""
        if not self._bears_our_mark(error):
            return False
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            if isinstance(error, asyncio.CancelledError) and not self._bears_our_mark(error):
                return False
            seen.add(id(error))
            error = error.__context__
        return True

    def _bears_our_mark(self, error: BaseException | None) -> bool:
        return (
            self._mark is not None
            and isinstance(error, asyncio.CancelledError)
            and any(each is self._mark for each in error.args)
        )

    def _deliver(self) -> None:
        self._handle = None
        if self._mark is None:
            self._mark = Mark("leadership lost")
        others = self._task.cancelling() - self._baseline - self._sent
        if self._task.cancel(self._mark):
            self._sent += 1
            self._others = others
