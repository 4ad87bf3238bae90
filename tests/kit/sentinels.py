"""A primary, a replica, and a Sentinel that watches over them: real processes of one program.

Knows nothing of pytest or of `incumbent`. One Sentinel is enough to replace a primary; several
would now and then need ten seconds to agree who of them does it.
"""

from typing import Any, Self

from kit.servers import Server
from kit.waiting import wait_until_blocking

SERVICE = "main"
DOWN_AFTER_MS = 2000
"""More than the second that a Sentinel lets pass between two attempts to connect: with less, it now
and then takes the new primary for dead before it has reached it, and goes back to the old one."""
WITHIN = 60.0


class Sentinel(Server):
    """A Sentinel. It keeps what it knows in a file of its own."""

    def __init__(self, primary: Server) -> None:
        super().__init__(primary.kind)
        self._primary = primary

    def _options(self) -> list[str]:
        path = self._home / "sentinel.conf"
        path.write_text(
            f"sentinel monitor {SERVICE} {self._primary.host} {self._primary.port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
        )
        own = ["--bind", self.host, "--port", str(self.port), "--unixsocket", "s"]
        return [str(path), "--sentinel", *own, "--dir", str(self._home)]


class Watched:
    """A primary with a replica, under the eyes of a Sentinel."""

    def __init__(self, kind: str = "valkey-9") -> None:
        self.servers: list[Server] = [Server(kind, args=_OPTIONS) for _ in range(2)]
        self.sentinel = Sentinel(self.servers[0])

    def __repr__(self) -> str:
        return f"<Watched {self.servers} by {self.sentinel}>"

    def start(self) -> Self:
        """Start all, and wait until the Sentinel knows the replica."""
        primary, replica = (server.start() for server in self.servers)
        replica.cli("REPLICAOF", primary.host, primary.port)
        wait_until_blocking(
            lambda: replica.cli("ROLE")[3] == "connected", within=WITHIN, what="replication"
        )
        self.sentinel.start()
        wait_until_blocking(self._healthy, within=WITHIN, what=f"{self!r} is well", every=0.05)
        return self

    def close(self) -> None:
        """End all and remove their folders."""
        for each in (self.sentinel, *self.servers):
            each.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def primary(self) -> Server:
        """Who the Sentinel says it is."""
        _, port = self.sentinel.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replica(self) -> Server:
        """The other one."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def fail_over(self) -> None:
        """Let the replica take over in good order."""
        old = self.primary
        self.sentinel.cli("SENTINEL", "FAILOVER", SERVICE)
        self.await_failover(old)

    def await_failover(self, old: Server) -> None:
        """Wait until another server than `old` is the primary, and says so itself."""

        def over() -> bool:
            new = self.primary
            return new is not old and bool(new.cli("ROLE")[0] == "master")

        wait_until_blocking(over, within=WITHIN, what=f"{old!r} is followed by another")

    def add_sentinel(self) -> Sentinel:
        """Start one more, and wait until it and the first one know each other and the replica."""
        new = Sentinel(self.primary).start()

        def met() -> bool:
            know = [each.cli("SENTINEL", "SENTINELS", SERVICE) for each in (self.sentinel, new)]
            return all(know) and bool(new.cli("SENTINEL", "SLAVES", SERVICE))

        wait_until_blocking(met, within=WITHIN, what=f"{new!r} is known", every=0.05)
        return new

    def replace_sentinel(self, new: Sentinel | None = None) -> None:
        """The first one is gone for good, in good order, and `new` knows of it no more."""
        new = new or self.add_sentinel()
        old, self.sentinel = self.sentinel, new
        old.close()
        self._forget_who_is_gone()
        wait_until_blocking(self._healthy, within=WITHIN, what=f"{self!r} is well", every=0.05)

    def replace_replica(self) -> None:
        """Another one follows the primary; the old one is gone for good."""
        self._retire(self.replica)
        self._add_replica()

    def replace_primary(self) -> None:
        """The replica takes over in good order, the old primary is gone for good, and not alone."""
        old = self.primary
        self.fail_over()
        self._retire(old)
        self._add_replica()

    def _retire(self, old: Server) -> None:
        self.servers.remove(old)
        old.close()
        self._forget_who_is_gone()

    def _add_replica(self) -> None:
        primary, new = self.primary, Server(self.sentinel.kind, args=_OPTIONS).start()
        self.servers.append(new)
        new.cli("REPLICAOF", primary.host, primary.port)
        wait_until_blocking(self._healthy, within=WITHIN, what=f"{self!r} is well", every=0.05)

    def _forget_who_is_gone(self) -> None:
        """It is not told to for as long as a fail-over goes on: a reset would forget that, too."""
        wait_until_blocking(
            lambda: self._flags() == "master", within=WITHIN, what="no fail-over", every=0.05
        )
        self.sentinel.cli("SENTINEL", "RESET", SERVICE)

    def heal(self) -> None:
        """Bring back what was killed, and wait until all is well."""
        for each in (*self.servers, self.sentinel):
            if not each.running:
                each.start()
        wait_until_blocking(self._healthy, within=WITHIN, what=f"{self!r} is well", every=0.05)

    def hold_back_promotion(self) -> None:
        """From now on the replica does not become a primary when the Sentinel tells it to."""
        self.replica.cli("ACL", "SETUSER", "default", "-replicaof", "-slaveof")

    def promote(self, replica: Server) -> None:
        """Let `replica`, which was held back, do what it was told."""
        replica.cli("ACL", "SETUSER", "default", "+replicaof", "+slaveof")
        replica.cli("REPLICAOF", "NO", "ONE")

    def await_flags(self, flags: str) -> None:
        """Wait until the Sentinel says this of the primary that it names."""
        wait_until_blocking(
            lambda: self._flags() == flags, within=WITHIN, what=f"the primary is {flags}"
        )

    def hold_back_replication(self) -> None:
        """From now on the replica gets nothing that is written to the primary."""
        primary, replica = self.primary, self.replica
        primary.cli("ACL", "SETUSER", "default", "-psync", "-sync")
        primary.cli("CLIENT", "KILL", "TYPE", "replica")
        wait_until_blocking(
            lambda: replica.cli("ROLE")[3] != "connected", within=WITHIN, what="no replication"
        )

    def _flags(self) -> str:
        return _pairs(self.sentinel.cli("SENTINEL", "MASTER", SERVICE))["flags"]

    def _healthy(self) -> bool:
        replicas = [_pairs(each) for each in self.sentinel.cli("SENTINEL", "SLAVES", SERVICE)]
        known = [(each["flags"], each["master-link-status"]) for each in replicas]
        return self._flags() == "master" and known == [("slave", "ok")]


_OPTIONS = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")


def _pairs(flat: Any) -> dict[str, str]:
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
