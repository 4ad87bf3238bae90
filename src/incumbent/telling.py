"""What an event is, and who is told: the base of all that stands in `incumbent.events`. Pure."""

from dataclasses import dataclass
from typing import Protocol, TypedDict

from incumbent.values import Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Event(Value):
    """Something that happened to `leader_id` in `election`, whose name has its tenant in front."""

    election: str
    leader_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TermEvent(Event):
    """Something that happened in the term with this `seat` and `fence`."""

    seat: int
    fence: int


class Names(TypedDict):
    """What every event of one candidate has in common."""

    election: str
    leader_id: str


class TermNames(Names):
    """What every event of one term has in common."""

    seat: int
    fence: int


class Hook(Protocol):
    """Anything that can be called with an event.

    One that has a method ``wants(kind: type[Event]) -> bool`` as well is asked before each event,
    and spares the making of those that it would ignore.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of `event`."""
        ...
