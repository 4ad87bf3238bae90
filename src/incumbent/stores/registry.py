"""The contract of a registry: who stands in a strategic election, and what each has done.

Knows no server, and nothing of how a leader is chosen. Times and expiry are the store's, so nodes
whose clocks differ agree on who stands.
"""

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from incumbent.durations import Duration, seconds, shown
from incumbent.names import node_name
from incumbent.options import MAX_LEASE_TIME, MIN_LEASE_TIME
from incumbent.stores.base import Budget
from incumbent.strategy import Metadata, Snapshot

_DIGITS: Final = re.compile(r"[0-9a-f]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """A node's wish to stand in an election, sent again and again as long as it stands.

    Raises:
        TypeError, ValueError: the id or the time is not usable.
    """

    election: str
    node_id: str
    ttl: float
    """Seconds that it stands without enrolling again."""
    metadata: Metadata = field(default_factory=Metadata)
    strategy: str = ""
    """The fingerprint of the strategy that it goes by."""
    contending: bool = False
    """Whether the node waits to lead, or leads."""
    token: str = field(default_factory=lambda: os.urandom(16).hex(), repr=False)
    """The same for all requests of one stand; another one when the node stands again."""

    def __post_init__(self) -> None:
        node_name(self.node_id)
        object.__setattr__(self, "ttl", _ttl(self.ttl))
        for digits in (self.token, self.strategy):
            if not _DIGITS.fullmatch(digits):
                raise ValueError("the token and the fingerprint must be hexadecimal digits")


class Enrolled(NamedTuple):
    """The node stands, for `ttl` seconds after the store answered."""

    registered_at: datetime
    fresh: bool
    """True when it did not stand before: it is new, or came too late and has to begin anew."""
    shared: bool = False
    """True when another process has enrolled under the same node id since this one did."""


Withdrawn: TypeAlias = Literal["withdrawn", "taken", "gone"]
"""What became of a withdrawal. ``taken``: another process of the node stands, and stays."""

Deed: TypeAlias = Literal["started", "succeeded", "failed", "faltered", "steadied"]
"""What a candidate did. ``faltered``: it failed soon after its start, once more in a row;
``steadied``: it did not, so that the row is over."""


class Registry(Protocol):
    """Who stands where. One hash per election on a server; gone after the longest TTL."""

    async def enrol(self, enrolment: Enrolment, budget: Budget) -> Enrolled | Literal["gone"]:
        """Stand for the TTL from now, with this metadata; counts and registration are kept.

        Who gives up on this withdraws. What was withdrawn stays so: ``gone`` for the same token.
        """
        ...

    async def withdraw(self, enrolment: Enrolment, budget: Budget) -> Withdrawn:
        """Stand no longer, also when an earlier request of this stand has yet to arrive.

        Another process that stands under the same node id goes on standing. Early failures are
        remembered for as long as they count.
        """
        ...

    async def record(self, election: str, node_id: str, deed: Deed, budget: Budget) -> bool:
        """Count what a candidate did, once however often it is sent; False when it does not stand.

        Neither makes a candidate, nor lets one stand longer.
        """
        ...

    async def snapshot(self, election: str, budget: Budget) -> Snapshot:
        """Who stands, who leads, the store's time and the seed of the round, all at one moment.

        A seat without an end (PERSIST, RESTORE) gets one again.
        """
        ...


@runtime_checkable
class HasRegistry(Protocol):
    """A store that strategic elections can be held on."""

    @property
    def registry(self) -> Registry:
        """Who stands, with the clock of the seats."""
        ...


def _ttl(ttl: Duration) -> float:
    given = seconds("ttl", ttl)
    if not MIN_LEASE_TIME <= given <= MAX_LEASE_TIME:
        raise ValueError(
            f"ttl must be from {shown(MIN_LEASE_TIME)} to {shown(MAX_LEASE_TIME)},"
            f" not {shown(given)}"
        )
    return given
