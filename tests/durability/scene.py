"""What the tests of durability share: a primary with replicas, and a hand on what goes between."""

import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from incumbent import Durability, GroupElector, LeaderElector, LeaderOptions, StrategicElector
from incumbent.events import Hook
from incumbent.strategy import Priority
from kit.servers import HOST, Server
from kit.waiting import wait_until_blocking

NO_DELAY = ("--repl-diskless-sync-delay", "0")
PATIENT = Durability(timeout=2)
"""Long enough for a busy machine, and for what happens while a replica does not answer."""

BRIEF = Durability(timeout=0.1)
"""For replicas that will not answer."""

AnyElector = LeaderElector | GroupElector | StrategicElector


class Relay:
    """A TCP relay between a replica and `primary` that can keep back what the primary sends.

    In threads of its own: a test that asks a server something holds up its own loop meanwhile.
    """

    def __init__(self, primary: Server) -> None:
        self._primary = primary
        self._through = threading.Event()
        self._through.set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def hold(self) -> None:
        """From now on nothing reaches the replica; the connection stays."""
        self._through.clear()

    def release(self) -> None:
        """What was kept back goes on, in order."""
        self._through.set()

    def close(self) -> None:
        """Cut, and listen no more; what was kept back is lost. Idempotent."""
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._through.set()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                replica, _ = self._listener.accept()
                primary = socket.create_connection((self._primary.host, self._primary.port))
                self._sockets += replica, primary
                self._start(partial(self._pump, replica, primary))
                self._start(partial(self._pump, primary, replica, self._through))

    def _pump(
        self, source: socket.socket, sink: socket.socket, gate: threading.Event | None = None
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if gate is not None:
                    gate.wait()
                sink.sendall(data)
            for each in (source, sink):
                each.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()


class House:
    """A primary, a replica of it, and the relay between them."""

    def __init__(self, primary: Server, replica: Server) -> None:
        self.primary = primary
        self.replica = replica
        self.relay = Relay(primary)

    def attach(self) -> None:
        """The replica follows the primary, by the relay."""
        follow(self.replica, HOST, self.relay.port)
        self.in_step()

    def in_step(self) -> None:
        """Wait until the replica acknowledges what is written now."""
        self.primary.cli("SET", "kit:step", 1, "PX", 60_000)
        wait_until_blocking(
            lambda: int(self.primary.cli("WAIT", 1, 50)) > 0,
            within=20,
            what=f"{self.replica!r} acknowledges",
        )

    def promote(self) -> None:
        """A failover: the replica leads with what it has; what was kept back is lost."""
        self.relay.close()
        self.replica.cli("REPLICAOF", "NO", "ONE")

    def close(self) -> None:
        """End all of it."""
        self.relay.close()
        self.primary.close()
        self.replica.close()


def follow(replica: Server, host: str, port: int) -> None:
    """`replica` becomes one of who listens there, and has all that is there now."""
    replica.cli("REPLICAOF", host, port)
    wait_until_blocking(
        lambda: replica.admin.info("replication")["master_link_status"] == "up",
        within=20,
        what=f"{replica!r} is in step",
        every=0.01,
    )


def lasting(durability: Durability | None = PATIENT, **changes: Any) -> LeaderOptions:
    """Options with a lease that does not run out in a test."""
    return LeaderOptions(**({"lease_time": 60, "durability": durability} | changes))


def elector_of(kind: str, redis: Any, options: LeaderOptions, hooks: list[Hook]) -> AnyElector:
    """A leader elector, one of a group, or a strategic one."""
    if kind == "leader":
        return LeaderElector(redis, options, hooks=hooks)
    if kind == "group":
        return GroupElector(redis, options, seats=2, hooks=hooks)
    return StrategicElector(redis, options, strategy=Priority(), hooks=hooks)


@asynccontextmanager
async def standing(elector: AnyElector, name: str) -> AsyncIterator[AnyElector]:
    """Who has to be a candidate to lead is one, for the block."""
    if isinstance(elector, StrategicElector):
        async with elector.candidate(name, ttl=60):
            yield elector
    else:
        yield elector


def waiting(server: Server) -> bool:
    """Whether somebody waits for its replicas now."""
    return bool(server.admin.info("clients")["blocked_clients"])


def waits(server: Server) -> int:
    """How many WAITs it has answered since its statistics were reset."""
    told = server.admin.info("commandstats").get("cmdstat_wait", {})
    return int(told.get("calls", 0))
