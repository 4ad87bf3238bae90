"""What this process listens to in a cluster: each channel at the node that has its slot.

There a publishing script finds out whether somebody hears it, by classic channels as well: they
are passed on to all nodes, but counted at one.
"""

import asyncio
import random
from contextvars import Context
from typing import Protocol

from redis import exceptions as redis_errors

from incumbent.backoff import pause_after
from incumbent.shield import outlast, stop
from incumbent.stores.redis.canvass import WITHIN
from incumbent.stores.redis.connection import Pool
from incumbent.stores.redis.inbox import FIRST_PAUSE, LONGEST_PAUSE, Inbox
from incumbent.stores.redis.slots import Address
from incumbent.stores.redis.way import Listener


class Nodes(Protocol):
    """What is needed of a cluster."""

    def owner(self, key: bytes) -> Address | None:
        """The node that has the slot of a channel, as far as is known."""
        ...

    def doubt(self, address: Address) -> None:
        """The node is not what it was taken for."""
        ...

    async def look(self, within: float) -> None:
        """Have the nodes say who has which slot; calls `rearrange`."""
        ...

    def pool(self, address: Address) -> Pool:
        """Connections to a node."""
        ...


class Inboxes:
    """One inbox at each node that has a channel."""

    def __init__(self, nodes: Nodes) -> None:
        self.closed: bool = False
        self._nodes = nodes
        self._inboxes: dict[Address, Inbox] = {}
        self._listeners: dict[bytes, Listener] = {}
        self._places: dict[bytes, Address] = {}
        """Where each channel is listened to; one whose place is not known is not."""
        self._unsettled = False
        self._settler: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, channel: bytes, listener: Listener) -> None:
        """Listen to `channel`; the listener is told when it does, and when it does not."""
        self._listeners[channel] = listener
        owner = self._nodes.owner(channel)
        if self.closed:
            listener.deaf()
        elif owner is None:
            self._unsettle()
        else:
            self._put(channel, owner)

    def close(self, channel: bytes) -> None:
        """Listen to `channel` no more."""
        self._listeners.pop(channel, None)
        place = self._places.pop(channel, None)
        if place is not None:
            self._inboxes[place].close(channel)

    def distrust(self, channel: bytes) -> None:
        """Connect anew, perhaps elsewhere: what was published to `channel` was not heard."""
        place = self._places.get(channel)
        if place is not None:
            self._inboxes[place].distrust(channel)
            self._astray(place)

    def rearrange(self) -> None:
        """It is known anew who has which slot."""
        if self.closed:
            return
        for channel in tuple(self._listeners):
            owner, place = self._nodes.owner(channel), self._places.get(channel)
            if owner is not None and owner != place:
                if place is not None:
                    self._inboxes[place].close(channel)
                self._put(channel, owner)
        for place, inbox in tuple(self._inboxes.items()):
            if inbox.idle:
                del self._inboxes[place]
                self._start_closing(inbox)
            else:
                inbox.ask_again()

    async def aclose(self) -> None:
        """Give the connections back, and listen to nothing any more."""
        self.closed = True
        for inbox in self._inboxes.values():
            self._start_closing(inbox)
        try:
            if self._settler is not None:
                await stop(self._settler)
        finally:
            await outlast(*self._tasks)

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        self.closed = True
        for inbox in self._inboxes.values():
            await inbox.forsake()

    def _put(self, channel: bytes, place: Address) -> None:
        inbox = self._inboxes.get(place)
        if inbox is None:
            inbox = self._inboxes[place] = Inbox(
                self._nodes.pool(place), sharded=True, astray=lambda: self._astray(place)
            )
        self._places[channel] = place
        inbox.open(channel, self._listeners[channel])

    def _start_closing(self, inbox: Inbox) -> None:
        task = asyncio.create_task(inbox.aclose(), name="incumbent inbox", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- when it is not known where a channel belongs -------------------------------------------

    def _astray(self, place: Address) -> None:
        """A node has sent a channel away, or is not heard."""
        self._nodes.doubt(place)
        self._unsettle()

    def _unsettle(self) -> None:
        self._unsettled = True
        if self._settler is None and not self.closed:
            self._settler = asyncio.create_task(
                self._settle(), name="incumbent inbox", context=Context()
            )
            self._settler.add_done_callback(self._settled)

    async def _settle(self) -> None:
        """Look until it is known where all channels belong, and no node sends one away."""
        looks = 0
        while self._unsettled and not self.closed:
            self._unsettled = False
            try:
                await self._nodes.look(WITHIN)
            except redis_errors.RedisError:
                self._unsettled = True
            if any(channel not in self._places for channel in self._listeners):
                self._unsettled = True
                self._deafen()
            looks += 1
            await asyncio.sleep(
                pause_after(looks, first=FIRST_PAUSE, longest=LONGEST_PAUSE, jitter=random.random())
            )

    def _settled(self, settler: "asyncio.Task[None]") -> None:
        self._settler = None
        if not settler.cancelled():
            settler.exception()

    def _deafen(self) -> None:
        for channel, listener in tuple(self._listeners.items()):
            if channel not in self._places:
                listener.deaf()
