"""Stopping the task that runs an action: once, from outside, and only while it runs the action.

Knows tasks, not leases. One counted, edge-triggered ``task.cancel()`` with ``uncancel()`` at the
end, as `asyncio.timeout` does it: an anyio scope would cancel every await in the action's own
clean-up as well.
Source: https://docs.python.org/3/library/asyncio-task.html#asyncio.Task.uncancel
"""

import asyncio
from typing import Any


class Guard:
    """Cancels the current task while armed; tells its own cancellation from those of others."""

    __slots__ = ("_armed", "_baseline", "_handle", "_sent", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the running one: who knows it saves the time to look for it."""
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("an election needs a running asyncio task")
        self._task: asyncio.Task[Any] = task
        self._baseline = task.cancelling()
        self._sent = 0
        self._armed = True
        self._handle: asyncio.Handle | None = None

    @property
    def cancelled_by_others(self) -> bool:
        """Whether somebody else has asked the task to stop since the guard was armed."""
        return self._task.cancelling() > self._baseline + self._sent

    @property
    def guards_current_task(self) -> bool:
        """Whether it is the guarded task that asks."""
        return asyncio.current_task() is self._task

    def cancel(self) -> None:
        """Cancel the task at its next suspension, also when it is the task itself that asks."""
        if self._armed and self._handle is None:
            self._handle = self._task.get_loop().call_soon(self._deliver)

    def disarm(self) -> bool:
        """Cancel no more. Returns whether a `CancelledError` leaving the action is ours alone."""
        if self._armed:
            self._armed = False
            if self._handle is not None:
                self._handle.cancel()
                self._handle = None
            for _ in range(self._sent):
                self._task.uncancel()
        return self._sent > 0 and self._task.cancelling() <= self._baseline

    def _deliver(self) -> None:
        self._handle = None
        if self._task.cancel("leadership lost"):
            self._sent += 1
