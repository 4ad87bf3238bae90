"""What a caller, and those who listen, need of one server, or of many that share the keys.

Each way belongs to one event loop of one process.
"""

from typing import Protocol

from redis import exceptions as redis_errors

from incumbent.stores.redis.scripts import PackedKeys
from incumbent.stores.redis.wire import MakeWire, Wire


class Listener(Protocol):
    """Who is told what arrives on a channel."""

    def listening(self) -> None:
        """From now on messages are heard; earlier ones may have been missed."""
        ...

    def deaf(self) -> None:
        """From now on they are not."""
        ...

    def heard(self, message: bytes) -> None:
        """A message has come."""
        ...


class Ears(Protocol):
    """The channels that this process listens to."""

    def open(self, channel: bytes, listener: Listener) -> None:
        """Listen to `channel`; the listener is told when it does, and when it does not."""
        ...

    def close(self, channel: bytes) -> None:
        """Listen to `channel` no more."""
        ...

    def distrust(self, channel: bytes) -> None:
        """Connect anew: what was published to `channel` was not heard."""
        ...

    async def aclose(self) -> None:
        """Give the connections back, and listen to nothing any more."""
        ...

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        ...


class Way(Protocol):
    """Where requests go."""

    def wire(self, keys: PackedKeys) -> Wire | None:
        """The wire to who has `keys`, if there is a good one at hand."""
        ...

    async def find(self, keys: PackedKeys, within: float) -> Wire:
        """A wire to who has `keys`, made anew, found out in `within` seconds."""
        ...

    async def learn(self, error: redis_errors.RedisError, keys: PackedKeys) -> Wire | None:
        """Draw the conclusions from what came of a request for `keys`.

        Returns where the same has to be asked once more, should the server have said so.
        """
        ...

    def ears(self) -> Ears:
        """New ears, which nobody listens by yet."""
        ...

    def beside(self, make_wire: MakeWire) -> "Way":
        """Another way to the same, by wires of another make."""
        ...

    def heir(self, *, forked: bool) -> "Way":
        """The same for another event loop, or for a forked child."""
        ...

    async def retire(self) -> None:
        """Give all connections back when nothing is under way on them."""
        ...

    async def forsake(self) -> None:
        """Let go of connections whose event loop is gone."""
        ...
