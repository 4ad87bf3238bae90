"""An election as its watcher meets it: an iterator of states, pushed by the store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

from incumbent.results import LeaderState, Outage
from incumbent.stores.mailbox import Mailbox


class Watch(AsyncIterator[LeaderState]):
    """The states of one election; made by `elector.watch`.

    It begins with the first state that is asked for, and ends when it is closed or let go of. An
    iteration may be broken off, also by a cancellation or a timeout, and go on later: nothing is
    lost meanwhile.
    """

    def __init__(self, begin: Callable[[Mailbox], Awaitable[None]], name: str) -> None:
        self._mailbox = Mailbox()
        self._begin = begin
        self._name = name

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LeaderState:
        mailbox, begin, name = self._mailbox, self._begin, self._name
        try:
            if mailbox.loop is None and not mailbox.ended:
                await begin(mailbox)
            return replace(await mailbox.take(), name=name)
        finally:
            # Or the traceback of a cancellation would keep alive, and open, what was left by it.
            del self

    @property
    def state(self) -> LeaderState | None:
        """What is known now, without waiting for a change: `remaining` and `waiting` are current.

        None before the first state, and when the iteration has ended. With an `outage` it is what
        was known before.
        """
        teller = self._mailbox.teller
        state = None if teller is None else teller.present(self._mailbox)
        return None if state is None else replace(state, name=self._name)

    @property
    def outage(self) -> Outage | None:
        """Since when the server has not been heard, and why; None as long as it is.

        It is noticed when the connection breaks, when a known lease should have ended, and after
        twelve seconds at most. The iteration goes on when it is over.
        """
        teller = self._mailbox.teller
        return None if teller is None else teller.outage

    def close(self) -> None:
        """End the iteration, also one that is under way, quietly. Idempotent."""
        self._mailbox.end()

    async def aclose(self) -> None:
        """The same, for `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        # By way of the loop, because this may run in any thread, and in the midst of anything.
        loop = self._mailbox.loop
        if loop is not None and not self._mailbox.ended:
            with suppress(RuntimeError):  # the loop is closed, and all is over
                loop.call_soon_threadsafe(self._mailbox.end)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name!r}>"
