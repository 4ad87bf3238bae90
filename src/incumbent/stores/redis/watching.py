"""Watching elections on a server: what is published about seats, and snapshots beside it.

Knows the channel and the words of the scripts; when to look is the hub's affair.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from incumbent.results import LeaderState
from incumbent.stores.base import Budget, instant
from incumbent.stores.board import Message, SeatFreed, SeatRetained, SeatTaken, Snapshot
from incumbent.stores.hub import Hub, Hubs
from incumbent.stores.redis import faults
from incumbent.stores.redis.way import Ears

Take: TypeAlias = Callable[[str, int, Budget], Awaitable[tuple[LeaderState, int]]]
"""Asks the server: election, seats, budget; the state, and the last fence that was given."""

ChannelsOf: TypeAlias = Callable[[str], bytes]
"""What the names of an election's channels begin with."""


class Watching:
    """What is watched by way of one `inbox`."""

    def __init__(self, inbox: Ears, channels_of: ChannelsOf, take: Take) -> None:
        self.hubs: Hubs = Hubs(self)
        self._inbox = inbox
        self._channels_of = channels_of
        self._take = take

    def listen(self, hub: Hub) -> None:
        """Tell the hub what the scripts publish."""
        self._inbox.open(self._channel(hub), _Ear(hub))

    def dismiss(self, hub: Hub) -> None:
        """The hub is over."""
        self.hubs.forget(hub)
        self._inbox.close(self._channel(hub))

    def distrust(self, hub: Hub) -> None:
        """The inbox is deaf."""
        self._inbox.distrust(self._channel(hub))

    async def snapshot(self, election: str, seats: int, budget: Budget) -> Snapshot:
        """Ask the server."""
        return Snapshot(*await self._take(election, seats, budget))

    def passing(self, error: Exception) -> bool:
        """Whether time may heal it."""
        return faults.passing(error)

    def _channel(self, hub: Hub) -> bytes:
        return self._channels_of(hub.election) + b"events"


class _Ear:
    """Puts the words of the channel in terms of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def listening(self) -> None:
        """Messages are heard from now on."""
        self._hub.listening()

    def deaf(self) -> None:
        """They are not."""
        self._hub.deaf()

    def heard(self, message: bytes) -> None:
        """A word from a script, or from whoever else can publish."""
        parsed = parse(message)
        if parsed is not None:
            self._hub.heard(parsed)


def parse(message: bytes) -> Message | None:
    """What `message` says; None for words of later releases, and for what is no word of ours."""
    word, *args = message.split(b" ", 5)
    try:
        if word == b"elected":
            seat, fence, since, ttl, leader = args
            return SeatTaken(
                int(seat),
                int(fence),
                instant(int(since)),
                int(ttl) / 1000,
                leader.decode(errors="replace"),
            )
        if word == b"released":
            return SeatFreed(int(args[0]), int(args[1]))
        if word == b"retained":
            return SeatRetained(int(args[0]), int(args[1]), int(args[2]) / 1000)
    except (ValueError, IndexError, OverflowError, OSError):
        return None  # OverflowError and OSError: a time that no calendar has
    return None
