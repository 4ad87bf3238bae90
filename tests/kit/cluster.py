"""A real cluster: primaries, each with a replica, whose slots can be moved and whose nodes can die.

Knows nothing of pytest or of `incumbent`. Every node is a `kit.servers.Server` like any other.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Self

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from kit.leftovers import keys_without_ttl
from kit.servers import Server
from kit.waiting import wait_until_blocking

NODE_TIMEOUT_MS = 1000
"""After which a silent node is taken to be down; its replica takes over a second or so later."""

WITHIN = 60.0


class Cluster:
    """`primaries` nodes that share the slots evenly, each with a replica."""

    def __init__(
        self, kind: str = "valkey-9", *, primaries: int = 3, replicas: bool = True
    ) -> None:
        self.kind = kind
        self._size = primaries
        count = 2 * primaries if replicas else primaries
        self.nodes: list[Server] = [Server(kind, args=_OPTIONS) for _ in range(count)]

    def __repr__(self) -> str:
        return f"<Cluster {self.kind} ports={[node.port for node in self.nodes]}>"

    @property
    def url(self) -> str:
        """Where clients find one of its nodes."""
        return self.nodes[0].url

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the nodes, let them meet, and wait until every one of them serves."""
        share = -(-REDIS_CLUSTER_HASH_SLOTS // self._size)
        for number, node in enumerate(self.nodes):
            node.start()
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self._size:
                first = number * share
                slots = range(first, min(first + share, REDIS_CLUSTER_HASH_SLOTS))
                node.cli("CLUSTER", "ADDSLOTS", *slots)
            node.cli("CLUSTER", "MEET", self.nodes[0].host, self.nodes[0].port)
        _await(lambda: all(len(_known(node)) == len(self.nodes) for node in self.nodes), "all met")
        for primary, replica in zip(self.nodes, self.nodes[self._size :], strict=False):
            replica.cli("CLUSTER", "REPLICATE", id_of(primary))
        self.await_health()
        return self

    def close(self) -> None:
        """End all nodes and remove their folders."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    def heal(self) -> None:
        """Bring back all nodes that were killed or frozen, and wait until all is well."""
        for node in self.nodes:
            if node.paused:
                node.resume()
            if not node.running:
                node.start()
        self.await_health()

    def await_health(self) -> None:
        """Wait until all agree on who has which slot, and every replica follows its primary."""
        _await(self._healthy, f"{self!r} is well")

    def flush(self) -> None:
        """Remove all keys."""
        for node in self.primaries:
            node.flush()

    def keys_without_ttl(self, prefixes: list[str]) -> list[str]:
        """Keys below the prefixes that would stay for ever."""
        return [key for node in self.primaries for key in keys_without_ttl(node, prefixes)]

    # -- who is who --------------------------------------------------------------------------

    @property
    def primaries(self) -> list[Server]:
        """The running nodes that call themselves so."""
        return [node for node in self._running() if node.cli("ROLE")[0] == "master"]

    def primary_of(self, key: str) -> Server:
        """The primary that has the slot of `key`."""
        slot = slot_of(key)
        return next(node for node in self.primaries if _owner(_slots(node), slot) == node.port)

    def replica_of(self, primary: Server) -> Server:
        """A running replica of `primary`."""
        return next(
            node
            for node in self._running()
            if node.cli("ROLE")[0] == "slave" and int(node.cli("ROLE")[2]) == primary.port
        )

    def other_primary(self, key: str) -> Server:
        """A primary that does not have the slot of `key`."""
        owner = self.primary_of(key)
        return next(node for node in self.primaries if node is not owner)

    def name_on(self, node: Server, stem: str = "e") -> str:
        """A name whose slot `node` has: as a key, or as a hash tag in one."""
        slots = _slots(node)
        names = (f"{stem}-{number}" for number in itertools.count())
        return next(name for name in names if _owner(slots, slot_of(name)) == node.port)

    # -- what happens to it ------------------------------------------------------------------

    @contextlib.contextmanager
    def moving(self, key: str) -> Iterator["Move"]:
        """The slot of `key` leaves its primary for another: it has moved when the block ends."""
        move = Move(key, self.primary_of(key), self.other_primary(key))
        try:
            yield move
        finally:
            move.end(self.primaries)

    def move(self, key: str) -> None:
        """Move the slot of `key`, with all its keys, to another primary."""
        with self.moving(key):
            pass

    def fail_over(self, primary: Server) -> Server:
        """Let a replica of `primary` take its place in good order; returns the new primary."""
        replica = self.replica_of(primary)
        replica.cli("CLUSTER", "FAILOVER")
        _await(lambda: replica.cli("ROLE")[0] == "master", f"{replica!r} is primary")
        return replica

    def replace(self, old: Server) -> Server:
        """Put a new node in the place of `old`, in good order, as a rolling update does it.

        A primary hands its slots over first. `old` is gone for good, and nobody knows it any more.
        """
        new = Server(self.kind, args=_OPTIONS).start()
        new.cli("CLUSTER", "MEET", old.host, old.port)
        self.nodes.append(new)
        _await(lambda: all(len(_known(each)) == len(self.nodes) for each in self.nodes), "all met")
        if old.cli("ROLE")[0] == "master":
            _follow(new, old)
            new.cli("CLUSTER", "FAILOVER")
            _await(lambda: new.cli("ROLE")[0] == "master", f"{new!r} is primary")
        else:
            port = int(old.cli("ROLE")[2])
            _follow(new, next(each for each in self.nodes if each.port == port))
        gone = id_of(old)
        # Whoever followed it follows the new one by now: nobody forgets its own primary.
        self.await_health()
        self.nodes.remove(old)
        for each in self.nodes:
            each.cli("CLUSTER", "FORGET", gone)
        old.close()
        return new

    def replace_all(self) -> None:
        """Replace every node, one by one: none of those that were there is there any more."""
        for each in tuple(self.nodes):
            self.replace(each)
        self.await_health()

    # -- inside ------------------------------------------------------------------------------

    def _running(self) -> list[Server]:
        return [node for node in self.nodes if node.running and not node.paused]

    def _healthy(self) -> bool:
        views = [_slots(node) for node in self.nodes]
        return (
            all(_well(node) for node in self.nodes)
            and all(view == views[0] for view in views)
            and sum(len(slots) for slots, _ in views[0]) == REDIS_CLUSTER_HASH_SLOTS
            and len(self.primaries) == self._size
        )


class Move:
    """One slot on its way from one primary to another, key by key, as resharding tools do it."""

    def __init__(self, key: str, source: Server, target: Server) -> None:
        self.source = source
        self.target = target
        self.slot = slot_of(key)
        target.cli("CLUSTER", "SETSLOT", self.slot, "IMPORTING", id_of(source))
        source.cli("CLUSTER", "SETSLOT", self.slot, "MIGRATING", id_of(target))

    def carry(self) -> None:
        """Take over the keys that are there now."""
        while keys := self.source.cli("CLUSTER", "GETKEYSINSLOT", self.slot, 100):
            where = (self.target.host, self.target.port, "", 0, 5000)
            self.source.cli("MIGRATE", *where, "KEYS", *keys)

    def end(self, primaries: list[Server]) -> None:
        """Carry what is left, and tell everybody who has the slot."""
        self.carry()
        others = [node for node in primaries if node not in {self.source, self.target}]
        for node in (self.target, self.source, *others):
            node.cli("CLUSTER", "SETSLOT", self.slot, "NODE", id_of(self.target))


_OPTIONS = (
    *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
    *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
    *("--cluster-replica-validity-factor", "0"),  # one that has just come back may take over
)


def slot_of(key: str) -> int:
    """The slot of a key, or of a hash tag."""
    return key_slot(key.encode())


def id_of(node: Server) -> str:
    """What the cluster calls `node`."""
    return str(node.cli("CLUSTER", "MYID"))


def _known(node: Server) -> list[str]:
    # redis-py parses it only when it is one word
    lines = str(node.cli("CLUSTER", "NODES")).splitlines()
    return [line for line in lines if "handshake" not in line]


def _slots(node: Server) -> list[tuple[range, int]]:
    """Which slots are whose, by port, as `node` sees it."""
    answer = node.cli("CLUSTER", "SLOTS")
    return sorted(
        ((range(first, last + 1), int(owner[1])) for first, last, owner, *_ in answer),
        key=lambda each: each[0].start,
    )


def _owner(slots: list[tuple[range, int]], slot: int) -> int | None:
    return next((port for those, port in slots if slot in those), None)


def _follow(replica: Server, primary: Server) -> None:
    """Make `replica` one of `primary`, and wait until it has all."""
    replica.cli("CLUSTER", "REPLICATE", id_of(primary))
    _await(lambda: replica.cli("ROLE")[0] == "slave", f"{replica!r} is a replica")
    _await(lambda: replica.cli("ROLE")[3] == "connected", f"{replica!r} follows")


def _well(node: Server) -> bool:
    try:
        ready = "cluster_state:ok" in node.cli("CLUSTER", "INFO")
        role = node.cli("ROLE")
    except redis.RedisError:
        return False
    return ready and (role[0] == "master" or role[3] == "connected")


def _await(predicate: Callable[[], Any], what: str) -> None:
    wait_until_blocking(predicate, within=WITHIN, what=what, every=0.02)
