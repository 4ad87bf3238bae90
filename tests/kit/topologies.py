"""What a crew's elections are on, when that is more than one server, and what a storm does to it.

The fenced register stays on a plain server of its own, which nothing happens to: it stands for
whatever the leaders work on.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, Self, TypeVar

from kit.checker import Span
from kit.cluster import Cluster
from kit.crew import Crew, Member
from kit.faults import Fault
from kit.leftovers import keys_without_ttl
from kit.proxy_thread import ProxyThread
from kit.records import now
from kit.sentinels import SERVICE, Watched
from kit.servers import Server
from kit.waiting import wait_until_blocking

T = TypeVar("T")
WITHIN = 60.0


class Living:
    """Always one of `servers` that is running: what a name or a balancer in front of them is.

    Who knows only this finds the others, whichever they are by then.
    """

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers

    @property
    def url(self) -> str:
        """That of one."""
        return self._one().url

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._one().host

    @property
    def port(self) -> int:
        """On which port."""
        return self._one().port

    def _one(self) -> Server:
        servers = self._servers()
        return next((each for each in servers if each.running and not each.paused), servers[0])


PARTED_WITHIN = 3.0
"""Seconds after Sentinels name another primary within which nobody asks the old one any more: what
they say is relied on for two, and a look at them takes a moment on a busy machine."""


class Topology(Protocol):
    """Several servers that are one to their clients."""

    @property
    def url(self) -> str:
        """Where elections are held."""
        ...

    @property
    def deck(self) -> Sequence[tuple[Fault, int]]:
        """What can happen to it, and how often."""
        ...

    @property
    def holders(self) -> Sequence[Server]:
        """The servers that have the keys now."""
        ...

    @property
    def forgot(self) -> Sequence[Span]:
        """From when to when it gave leases that it has forgotten: replication is asynchronous.

        From the beginning of a fail-over until nobody asks the old primary any more.
        """
        ...

    def lasting_keys(self) -> list[str]:
        """Keys without TTL."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class OverSentinels:
    """A primary, a replica and a Sentinel.

    Not `orderly`: no fail-over in good order, for after one it takes most of a minute until the
    old primary is a replica.
    """

    def __init__(self, kind: str, *, orderly: bool = True) -> None:
        self._watched = Watched(kind)
        self._endpoint = ProxyThread(Living(lambda: [self._watched.sentinel]))
        self._orderly = orderly
        self._forgot: list[Span] = []

    def __enter__(self) -> Self:
        self._watched.start()
        self._endpoint.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._endpoint.close()
        self._watched.close()

    @property
    def url(self) -> str:
        """By the Sentinel, whichever it is."""
        endpoint = self._endpoint.proxy
        return f"redis+sentinel://{endpoint.host}:{endpoint.port}/{SERVICE}"

    @property
    def deck(self) -> Sequence[tuple[Fault, int]]:
        """Fail-overs in good order and after a death; all servers and the Sentinel replaced."""
        orderly = ((self.fail_over, 2), (self.replace_all, 1)) if self._orderly else ()
        return (*orderly, (self.kill_primary, 2))

    @property
    def forgot(self) -> Sequence[Span]:
        """Also in good order: both are primaries for a while."""
        return self._forgot

    @property
    def holders(self) -> Sequence[Server]:
        """The primary."""
        return [self._watched.primary]

    def lasting_keys(self) -> list[str]:
        """Keys without TTL."""
        return keys_without_ttl(self._watched.primary)

    async def fail_over(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """SENTINEL FAILOVER: the old primary takes writes for a while that will be lost."""
        with crew.all_cut():
            began = now()
            await _in_thread(self._watched.fail_over)
            self._forgot.append((began, now() + PARTED_WITHIN))
            await _in_thread(self._watched.heal)

    async def replace_all(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """Others take the places of both servers and of the Sentinel, in good order."""
        with crew.all_cut():
            await _in_thread(self._watched.replace_replica)
            began = now()
            await _in_thread(self._watched.replace_primary)
            self._forgot.append((began, now() + PARTED_WITHIN))
            await _in_thread(self._watched.replace_sentinel)

    async def kill_primary(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """SIGKILL; the Sentinels notice, and it comes back as a replica."""
        with crew.all_cut():
            old = await _in_thread(lambda: self._watched.primary)
            old.kill()
            self._forgot.append((now(), now()))
            try:
                await _in_thread(lambda: self._watched.await_failover(old))
            finally:  # whatever a server that stood still did not answer
                await _in_thread(self._watched.heal)


class OverCluster:
    """Three primaries, each with a replica."""

    def __init__(self, kind: str) -> None:
        self._cluster = Cluster(kind)
        self._endpoint = ProxyThread(Living(lambda: self._cluster.nodes))
        self._forgot: list[Span] = []

    def __enter__(self) -> Self:
        self._cluster.start()
        self._endpoint.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._endpoint.close()
        self._cluster.close()

    @property
    def url(self) -> str:
        """By some node, whichever there is."""
        endpoint = self._endpoint.proxy
        return f"redis+cluster://{endpoint.host}:{endpoint.port}"

    @property
    def deck(self) -> Sequence[tuple[Fault, int]]:
        """Slots move, replicas take over in good order and after a death, nodes are replaced."""
        others = ((self.fail_over, 2), (self.kill_primary, 2), (self.replace_all, 1))
        return ((self.reshard, 2), *others)

    @property
    def forgot(self) -> Sequence[Span]:
        """In good order nothing is, nor when slots move."""
        return self._forgot

    @property
    def holders(self) -> Sequence[Server]:
        """The primaries."""
        return self._cluster.primaries

    def lasting_keys(self) -> list[str]:
        """Keys without TTL."""
        return self._cluster.keys_without_ttl(["incumbent"])

    async def reshard(self, crew: Crew, member: Member, draw: random.Random, lease: float) -> None:
        """The slots of some elections move to other primaries, with all that is in them."""
        for name in (crew.election, *draw.sample(_NAMES, 3)):
            await _in_thread(partial(self._cluster.move, name))

    async def fail_over(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """CLUSTER FAILOVER of the primary of an election: nothing is lost."""
        name = draw.choice((crew.election, *_NAMES))
        with crew.all_cut():
            primary = await _in_thread(lambda: self._cluster.primary_of(name))
            await _in_thread(lambda: self._cluster.fail_over(primary))
            await _in_thread(self._cluster.await_health)

    async def replace_all(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """A rolling replacement: every node goes, and another one comes."""
        with crew.all_cut():
            await _in_thread(self._cluster.replace_all)

    async def kill_primary(
        self, crew: Crew, member: Member, draw: random.Random, lease: float
    ) -> None:
        """SIGKILL of the primary of an election; its replica takes over, and it comes back."""
        name = draw.choice((crew.election, *_NAMES))
        with crew.all_cut():
            primary = await _in_thread(lambda: self._cluster.primary_of(name))
            replica = await _in_thread(lambda: self._cluster.replica_of(primary))
            primary.kill()
            self._forgot.append((now(), now()))
            try:
                await _in_thread(lambda: _await_promotion(replica))
            finally:
                await _in_thread(self._cluster.heal)


_NAMES = ("seats", "best", "tick", *(f"mill-{number}" for number in range(16)))


def _await_promotion(replica: Server) -> None:
    wait_until_blocking(
        lambda: replica.cli("ROLE")[0] == "master", within=WITHIN, what=f"{replica!r} is primary"
    )


async def _in_thread(deed: Callable[[], T]) -> T:
    """Others' faults, and their proxies, go on meanwhile."""
    return await asyncio.to_thread(deed)


TOPOLOGIES: dict[str, Callable[[str], Topology]] = {
    "sentinel": OverSentinels,
    "cluster": OverCluster,
}
