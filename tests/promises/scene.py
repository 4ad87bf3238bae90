"""What the tests of promises and field cases share: short leases, a journal, hands on the seat.

Knows the names of keys and fields as docs/protocol.md states them, on purpose: whoever
debugs an election at 3 a.m. with ``redis-cli`` knows them as well.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from incumbent import LeaderOptions, Lease, current_lease
from incumbent.events import Event
from kit.servers import Server
from kit.waiting import wait_until

EventT = TypeVar("EventT", bound=Event)

THIEF = "a-token-that-nobody-was-given"
LEASE = 1.8
"""Seconds; a third of them is left to an action to stop in, which is more than `scripts/shake`
stops a process for: only who stood still for longer says "stalled" and not "unreachable"."""
SLACK = 1.5
"""Seconds by which a call may be late because the machine is busy."""


def quick(**changes: Any) -> LeaderOptions:
    """Options with a lease that is short, yet long enough for a busy machine to renew in time.

    What is about a server that does not answer says how long it waits for one.
    """
    return LeaderOptions(**({"lease_time": LEASE, "request_timeout": 5.0} | changes))


class Journal:
    """A hook that keeps all that it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Take note."""
        self.events.append(event)

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def story(self) -> list[str]:
        """The names of all events but those of renewals, in order."""
        names = [type(event).__name__ for event in self.events]
        of_renewals = {"TermRenewed", "RenewalDelayed", "OutageEnded"}
        return [name for name in names if name not in of_renewals]

    async def has(self, kind: type[EventT], count: int = 1, within: float = 30.0) -> EventT:
        """Wait for the `count`-th event of this kind, and return it."""
        await wait_until(
            lambda: len(self.of(kind)) >= count,
            within=within,
            what=f"{count} times {kind.__name__}",
        )
        return self.of(kind)[count - 1]

    async def has_another(self, kind: type[EventT], within: float = 30.0) -> EventT:
        """Wait for an event of this kind that was not there before the call."""
        return await self.has(kind, len(self.of(kind)) + 1, within)


class Work:
    """An action that goes on until `finish` is set or it is cancelled, and tells how it went."""

    def __init__(self, *, cleanup: Callable[[], Awaitable[object]] | None = None) -> None:
        self.began = asyncio.Event()
        self.finish = asyncio.Event()
        self.runs = 0
        self.running = 0
        self.cancelled = 0
        self.cleaned = 0
        self._cleanup = cleanup
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the run that began last."""
        assert self._lease is not None
        return self._lease

    async def __call__(self) -> str:
        """The action."""
        self._lease = here()
        self.runs += 1
        self.running += 1
        self.began.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if self._cleanup is not None:
                await self._cleanup()
            self.cleaned += 1
            raise
        finally:
            self.running -= 1
        return "done"


def here() -> Lease:
    """The lease under which this code runs."""
    lease = current_lease()
    assert lease is not None
    return lease


def is_held(lease: Lease) -> bool:
    """Whether it is held now; asked by way of a function, as types cannot know that time passes."""
    return lease.held


async def nothing() -> str:
    """An action that is done at once."""
    return "done"


async def forever() -> str:
    """An action that ends only by being cancelled."""
    await asyncio.Event().wait()
    return "never"


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and wait for its end; whatever it raises but a cancellation comes out."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The block ends within `seconds`, give or take what a busy machine costs."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds + SLACK, f"took {took:.2f} s, {seconds:.2f} s are promised"


# -- hands on the server ----------------------------------------------------------------------


def seat_key(election: str, *, prefix: str = "incumbent") -> str:
    """The key of seat 0."""
    return f"{prefix}:{{{election}}}:seat:0"


def fence_key(election: str, *, prefix: str = "incumbent") -> str:
    """The key of the counter of an election's fences."""
    return f"{prefix}:{{{election}}}:fence"


def gone_key(election: str) -> str:
    """The key of the claims that were given up."""
    return f"incumbent:{{{election}}}:gone"


def token_of(server: Server, election: str) -> str | None:
    """Whose token the server has on the seat now."""
    found: str | None = server.cli("HGET", seat_key(election), "token")
    return found


def ttl_of(server: Server, election: str) -> int:
    """Milliseconds until the seat is free; -2 when it is."""
    return int(server.cli("PTTL", seat_key(election)))


def queue_key(election: str) -> str:
    """The key of the line."""
    return f"incumbent:{{{election}}}:queue"


def alive_key(election: str) -> str:
    """The key of who in line is believed to be there."""
    return f"incumbent:{{{election}}}:alive"


def in_line(server: Server, election: str) -> list[str]:
    """The places in line, in order."""
    found: list[str] = server.cli("ZRANGE", queue_key(election), 0, -1)
    return found


def steal(server: Server, election: str) -> None:
    """Put another's token on the seat, whose TTL stays as it is."""
    assert server.cli("EXISTS", seat_key(election)), "there is nothing to steal"
    server.cli("HSET", seat_key(election), "token", THIEF, "leader", "thief")


def all_keys(server: Server) -> set[str]:
    """Every key of database 0."""
    return set(server.cli("KEYS", "*"))
