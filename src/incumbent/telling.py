"""What an event is, and who is told: the base of all that stands in `incumbent.events`. Pure."""

from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any, Protocol, TypedDict, TypeVar, dataclass_transform

from incumbent.values import Value

EventT = TypeVar("EventT")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(kind: type[EventT]) -> type[EventT]:
    """Make a frozen dataclass of `kind`, whose fields are given by name.

    What `Event` has for all is not generated for each: that is two thirds of the time it takes.
    """
    return dataclass(slots=True, kw_only=True, eq=False, repr=False, init=False)(kind)


@event
class Event(Value):
    """Something that happened to `leader_id` in `election`, whose name has its tenant in front."""

    election: str
    leader_id: str

    def __init__(self, **values: Any) -> None:
        names = [field.name for field in fields(self)]
        if values.keys() != set(names):
            raise TypeError(f"{type(self).__name__} has {names}, not {sorted(values)}")
        self.__setstate__(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@event
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
