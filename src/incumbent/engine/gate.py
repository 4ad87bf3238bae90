"""What may stand between a candidacy and the seat: a say in who tries when, never in who leads."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from incumbent.engine.term import Term
from incumbent.results import Skipped
from incumbent.stores.base import Budget


class Gate(Protocol):
    """The gate of one candidacy, from its first look to the end of its term."""

    async def admit(self, give_up_at: float, budget: Budget) -> Skipped | None:
        """Return None when the candidacy may ask for the seat, or why it did not in time.

        Asked again after a refusal. What the store raises comes out.
        """
        ...

    def elected(self, term: Term) -> None:
        """The candidacy has the seat."""
        ...

    async def close(
        self, deed: Literal["succeeded", "failed"] | None, closing: Callable[[], Awaitable[None]]
    ) -> None:
        """The action has ended, with a result or without: see to it, and to ``closing()``."""
        ...
