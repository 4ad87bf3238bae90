"""An election as a watcher meets it in a thread: an iterator of states that waits for the next."""

from collections.abc import Iterator
from typing import Self

from incumbent import LeaderState, Outage
from incumbent.blocking.job import run
from incumbent.engine.watch import Watch as Pushed


class Watch(Iterator[LeaderState]):
    """The states of one election; made by `elector.watch`."""

    def __init__(self, elector: object, pushed: Pushed) -> None:
        self._elector = elector  # its connections stay open as long as it is referred to
        self._pushed = pushed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LeaderState:
        state = run(self._next)
        if state is None:
            raise StopIteration
        return state

    async def _next(self) -> LeaderState | None:
        async for state in self._pushed:
            return state
        return None

    @property
    def state(self) -> LeaderState | None:
        """What is known now, without waiting for a change; None before the first state."""
        return self._pushed.state

    @property
    def outage(self) -> Outage | None:
        """Since when the server has not been heard, and why; None as long as it is."""
        return self._pushed.outage

    def close(self) -> None:
        """End the iteration, also one that another thread waits in, quietly. Idempotent."""
        run(self._pushed.aclose)
