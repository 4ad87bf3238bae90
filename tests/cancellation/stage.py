"""What a cancelled run plays on, and what must be left when it is over: nothing.

A `Stage` is one elector with a client of its own on a real server, cold (no connection, no script
in the server's cache) or warm; `empty` asserts that nothing of it is left.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any, Final, Literal

import anyio
import redis.asyncio

from incumbent import Elected, LeaderElector, LeaderOptions, Lease, clock, current_lease, events
from incumbent.engine.guard import Guard
from incumbent.engine.term import Term
from incumbent.observability.logging import LoggingHook
from incumbent.stores.redis import RedisStore
from incumbent.stores.redis.inbox import Inbox
from kit.fixtures import MakeClient
from kit.leftovers import connections, leftover_tasks
from kit.servers import Server
from kit.waiting import wait_until

Entry = Literal["run_if_leader", "attempt", "lead", "try_lead", "campaign"]

ENTRIES: Final[tuple[Entry, ...]] = ("run_if_leader", "attempt", "lead", "try_lead", "campaign")
FOREIGN: Final = "foreign-token"
LASTING: Final = frozenset({"fence", "gone"})
"""What may outlive a term on the server, each with a TTL."""

_numbers = itertools.count(1)


class Action:
    """An action that keeps a record of itself; its cleanup takes a hundredth of a second.

    With `shielded` the cleanup is shielded from a caller's anyio scope, which would cut each of
    its awaits otherwise.
    """

    def __init__(self, *, shielded: bool = False) -> None:
        self.began = False
        self.cancelled = False
        """A cancellation reached the body (not the cleanup)."""
        self.cleaned = False
        self.held_to_the_end = False
        self._shielded = shielded

    async def __call__(self) -> str:
        self.began = True
        try:
            await self.body()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            with anyio.CancelScope(shield=True) if self._shielded else nullcontext():
                await asyncio.sleep(0.01)
            self.cleaned = True
            lease = current_lease()
            self.held_to_the_end = lease is not None and lease.held
        return "done"

    async def body(self) -> None:
        """What is done before the cleanup: suspends twice."""
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)


async def nothing() -> str:
    """An action without a suspension."""
    return "done"


class Stage:
    """One elector on a client of its own, and one election."""

    def __init__(
        self,
        server: Server,
        client: redis.asyncio.Redis,
        judge: LeaderElector,
        options: LeaderOptions,
        others: frozenset[str],
    ) -> None:
        self.server = server
        self.client = client
        self.elector = LeaderElector(client, options, hooks=(LoggingHook(), self._tell))
        self.name = f"election-{next(_numbers)}"
        self._judge = judge
        self._others = others
        self._listeners: dict[type[events.Event], Callable[[], object]] = {}

    @property
    def seat(self) -> str:
        """The key of the seat."""
        return f"incumbent:{{{self.name}}}:seat:0"

    async def warm(self) -> None:
        """Open the connection and fill the server's cache of scripts."""
        assert await self.elector.run_if_leader(f"{self.name}-warm", nothing) == "done"

    def occupy(self, seconds: float) -> None:
        """Let somebody else have the seat for so long."""
        fields = ("token", FOREIGN, "leader", "somebody", "fence", 1, "since", 1)
        self.server.cli("HSET", self.seat, *fields)
        self.server.cli("PEXPIRE", self.seat, round(seconds * 1000))

    def enter(self, entry: Entry, action: Action) -> Coroutine[Any, Any, Any]:
        """Run `action` by way of `entry`."""
        return enter(self.elector, entry, self.name, action)

    def hear(self, kind: type[events.Event], listener: Callable[[], object]) -> None:
        """Call `listener` at each event of that kind."""
        self._listeners[kind] = listener

    def _tell(self, event: events.Event) -> None:
        self._listeners.get(type(event), lambda: None)()

    # -- afterwards --------------------------------------------------------------------------

    async def empty(self, *, lent: int = 1) -> None:
        """Nothing is left of the elector but its connections, and after closing not even those.

        One is for asking, and another for being told if it ever stood in line. `lent` is how many
        of the first kind the client's pool may still have lent to it before.
        """
        await wait_until(self._seat_is_free, what=f"no seat of {self.name} is ours")
        await wait_until(self._only_the_inbox_runs, what="no task but the inbox is left")
        inbox = self._inbox()
        assert not self.elector._office.terms
        assert not self.elector.leases
        assert not timers_of_terms()
        assert in_use(self.client) <= lent + inbox
        # The pool may keep a second one, if two claims came at a time.
        await self._connections_at_most(2 + inbox)
        self.server.cli("DEL", self.seat)
        answer = await self._judge.run_if_leader(self.name, nothing)
        assert answer == "done", "nobody else is elected at once"
        suffixes = {key.rpartition(":")[2] for key in self._keys()}
        assert suffixes <= LASTING, f"keys left: {suffixes - LASTING}"
        await self.close()

    async def close(self) -> None:
        """After `aclose` the pool has everything back; after the client's own, nobody is there."""
        await self.elector.aclose()
        assert self._inbox() == 0
        assert in_use(self.client) == 0
        await self.client.aclose()
        await self._connections_at_most(0)
        left = await leftover_tasks()
        assert not left, f"tasks left: {left}"

    def _seat_is_free(self) -> bool:
        return self.server.cli("HGET", self.seat, "token") in (None, FOREIGN)

    def _inbox(self) -> int:
        """How many connections it has for being told; whoever stood in line is forgotten."""
        store = self.elector._office.store
        assert isinstance(store, RedisStore)
        lines = store._lines
        if lines is None:
            return 0
        assert not [place for line in lines._lines.values() for place in line._places]
        assert all(task.done() for task in lines._tasks)
        assert isinstance(lines._inbox, Inbox)
        return int(lines._inbox._reader is not None)

    async def _only_the_inbox_runs(self) -> bool:
        return {task.get_name() for task in await leftover_tasks()} <= {"incumbent inbox"}

    def _keys(self) -> list[str]:
        keys: list[str] = self.server.cli("KEYS", f"incumbent:{{{self.name}}}:*")
        return keys

    async def _connections_at_most(self, most: int) -> None:
        await wait_until(
            lambda: len({c["id"] for c in connections(self.server)} - self._others) <= most,
            what=f"{most} connections of the elector at most",
        )


class Theatre:
    """Makes stages on one server; the judge is an elector that looks on and is elected after each.

    >>> stage = await theatre.stage(cold=True)
    """

    def __init__(self, server: Server, make_client: MakeClient) -> None:
        self.server = server
        self._make_client = make_client
        self._judge_client = make_client(server)
        self._judge = LeaderElector(self._judge_client, hooks=())
        self._others: frozenset[str] = frozenset()

    async def open(self) -> None:
        """Connect the judge."""
        assert await self._judge.run_if_leader("judge", nothing) == "done"
        self._others = frozenset(client["id"] for client in connections(self.server))

    async def close(self) -> None:
        """Nothing of the judge stays either."""
        await self._judge.aclose()
        await self._judge_client.aclose()

    async def stage(self, *, cold: bool, **options: Any) -> Stage:
        """A fresh elector, election and client."""
        client = self._make_client(self.server)
        options = {"lease_time": 10} | options
        stage = Stage(self.server, client, self._judge, LeaderOptions(**options), self._others)
        if cold:
            self.server.cli("SCRIPT", "FLUSH")
        else:
            await stage.warm()
        return stage


async def enter(elector: LeaderElector, entry: Entry, name: str, action: Action) -> Any:
    """Run `action` as leader of `name` by way of `entry`; None when not elected."""
    if entry == "run_if_leader":
        return await elector.run_if_leader(name, action)
    if entry == "attempt":
        outcome = await elector.attempt(name, action)
        return outcome.value if isinstance(outcome, Elected) else None
    if entry == "campaign":
        return await elector.campaign(name, action)
    if entry == "lead":
        async with elector.lead(name):
            return await action()
    async with elector.try_lead(name) as lease:
        return await action() if lease is not None else None


def lose(server: Server, lease: Lease | None) -> None:
    """Give the seat to somebody else, and let its holder hear of it now, without a suspension."""
    assert lease is not None
    server.cli("HSET", f"incumbent:{{{lease.name}}}:seat:0", "token", FOREIGN)
    lease._term._hear("taken", 0.0)


def renew_soon(lease: Lease | None) -> None:
    """Let its next renewal be due in a hundredth of a second, by its own alarm."""
    assert lease is not None
    lease._term._machine._renew_at = clock.now() + 0.01
    lease._term.wake()


async def count_after(work: Awaitable[object]) -> tuple[object, int]:
    """What came out of `work` in a task of its own, and that task's count of cancellations."""

    async def counted() -> tuple[object, int]:
        task = asyncio.current_task()
        assert task is not None
        try:
            return await work, task.cancelling()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is the outcome
            return error, task.cancelling()

    return await asyncio.create_task(counted())


def in_use(client: redis.asyncio.Redis) -> int:
    """How many connections its pool has lent out."""
    return len(client.connection_pool._in_use_connections)


def timers_of_terms() -> list[asyncio.TimerHandle]:
    """Timers on this loop that would still call a term or its guard (asyncio's own loop only)."""
    scheduled: list[asyncio.TimerHandle] = getattr(asyncio.get_running_loop(), "_scheduled", [])
    return [
        timer
        for timer in scheduled
        if not timer.cancelled()
        and isinstance(getattr(timer._callback, "__self__", None), Term | Guard)  # type: ignore[attr-defined] # a look inside
    ]
