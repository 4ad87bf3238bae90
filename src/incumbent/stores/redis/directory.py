"""Which nodes of a cluster to ask who has which slot, and in which order.

Pure: it is told which node answered what, and when; it sends nothing. Nodes come and go, and
their addresses with them. Those that the last answer did not name are forgotten, except for those
that the user named, which may lead to another node by now.
"""

import random
from collections.abc import Iterable
from typing import Final

from incumbent.stores.redis.slots import Address

LOOK_EVERY: Final = 30.0
"""Seconds after which the nodes are asked anew, when there is something to send."""

LOOK_WHILE_CHANGING: Final = 3.0
"""The same when the last answer named other nodes than the one before: more may follow."""

LOOK_SOON: Final = 1.0
"""Seconds between two looks, at the least, when nodes say that slots have moved."""


class Directory:
    """The addresses that one client has for a cluster."""

    def __init__(self, given: Iterable[Address]) -> None:
        """`given`: those that the user named, which are never forgotten."""
        self.given: frozenset[Address] = frozenset(given)
        self.doubted: set[Address] = set()
        """Nodes that failed since the last answer about the slots."""
        self.looked_at: float = float("-inf")
        """When the last look began."""
        self._named: frozenset[Address] = frozenset()
        self._answered: dict[Address, float] = {}
        self._informant: Address | None = None
        self._hint: Address | None = None
        self._changing = False

    def due(self, now: float, *, moved: bool = False) -> bool:
        """Whether it is time for a look; `moved`: a node has said that it no longer has a slot."""
        pause = LOOK_WHILE_CHANGING if self._changing else LOOK_EVERY
        return now - self.looked_at >= (LOOK_SOON if moved else pause)

    def moved(self, owner: Address) -> None:
        """A node has said that `owner` has one of its slots now: that one is asked first."""
        self.doubted.discard(owner)
        self._hint = owner

    def heard(self, informant: Address, named: frozenset[Address], now: float) -> None:
        """`informant` has said who has which slot, and has `named` these nodes."""
        self.doubted.clear()
        self._changing = named != self._named and self._informant is not None
        self._informant, self._named, self._hint = informant, named, None
        self._answered[informant] = now
        known = named | self.given
        self._answered = {node: at for node, at in self._answered.items() if node in known}

    def order(self, in_use: Iterable[Address], others: Iterable[Address]) -> list[Address]:
        """All that can be asked. `others` are those that only the client knows of.

        The one to which a slot has moved comes first. Then come the nodes of the last answer: those
        with a connection `in_use`, then those that answered last, then the one whose answer has
        just proved wrong. Then come those that only the user or the client has named, and at the
        end those that have failed.
        """
        used = frozenset(in_use)
        wrong = self._informant if self.doubted or self._hint else None
        hint = set[Address]() if self._hint is None else {self._hint}
        known = self._named | self.given | used | hint | frozenset(others)

        def rank(node: Address) -> tuple[bool, bool, bool, bool, bool, float, float]:
            return (
                node not in hint,
                node in self.doubted,
                node not in self._named,
                node == wrong,
                node not in used,
                -self._answered.get(node, float("-inf")),
                random.random(),
            )

        return sorted(known, key=rank)
