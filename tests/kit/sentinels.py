"""A primary, a replica, and Sentinels that watch over them: real processes of the same program.

Knows nothing of pytest or of `incumbent`.
"""

from typing import Any, Self

from kit.servers import Server
from kit.waiting import wait_until_blocking

SERVICE = "main"
DOWN_AFTER_MS = 500
WITHIN = 60.0


class Sentinel(Server):
    """One Sentinel. It keeps what it knows in a file of its own."""

    def __init__(self, primary: Server, quorum: int) -> None:
        super().__init__(primary.kind)
        self._primary = primary
        self._quorum = quorum

    def _options(self) -> list[str]:
        path = self._home / "sentinel.conf"
        if not path.exists():
            path.write_text(
                f"sentinel monitor {SERVICE} {self._primary.host} {self._primary.port}"
                f" {self._quorum}\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 4000\n"
            )
        own = ["--bind", self.host, "--port", str(self.port), "--unixsocket", "s"]
        return [str(path), "--sentinel", *own, "--dir", str(self._home)]


class Watched:
    """A primary with a replica under the eyes of `count` Sentinels, the half of which agree."""

    def __init__(self, kind: str = "valkey-9", *, count: int = 3) -> None:
        self.servers: list[Server] = [Server(kind, args=_OPTIONS) for _ in range(2)]
        self._count = count
        self.sentinels: list[Sentinel] = []

    def __repr__(self) -> str:
        return f"<Watched {self.servers} by {self.sentinels}>"

    @property
    def places(self) -> list[tuple[str, int]]:
        """Where the Sentinels are."""
        return [(each.host, each.port) for each in self.sentinels]

    def start(self) -> Self:
        """Start all, and wait until each Sentinel knows the replica and the other Sentinels."""
        primary, replica = (server.start() for server in self.servers)
        replica.cli("REPLICAOF", primary.host, primary.port)
        wait_until_blocking(
            lambda: replica.cli("ROLE")[3] == "connected", within=WITHIN, what="replication"
        )
        quorum = self._count // 2 + 1
        self.sentinels = [Sentinel(primary, quorum).start() for _ in range(self._count)]
        self.await_health()
        return self

    def close(self) -> None:
        """End all and remove their folders."""
        for each in (*self.sentinels, *self.servers):
            each.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def primary(self) -> Server:
        """Who the first running Sentinel says it is."""
        _, port = self._asked().cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replica(self) -> Server:
        """The other one."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def await_health(self) -> None:
        """Wait until the Sentinels know each other and the replica, and nobody is down."""
        wait_until_blocking(self._healthy, within=WITHIN, what=f"{self!r} is well", every=0.05)

    def fail_over(self) -> None:
        """Let the replica take over in good order."""
        old = self.primary
        self._asked().cli("SENTINEL", "FAILOVER", SERVICE)
        self.await_failover(old)

    def await_failover(self, old: Server) -> None:
        """Wait until another server than `old` is the primary, and says so itself."""

        def over() -> bool:
            new = self.primary
            return new is not old and bool(new.cli("ROLE")[0] == "master")

        wait_until_blocking(over, within=WITHIN, what=f"{old!r} is followed by another")

    def hold_back_replication(self) -> None:
        """From now on the replica gets nothing that is written to the primary."""
        primary, replica = self.primary, self.replica
        primary.cli("ACL", "SETUSER", "default", "-psync", "-sync")
        primary.cli("CLIENT", "KILL", "TYPE", "replica")
        wait_until_blocking(
            lambda: replica.cli("ROLE")[3] != "connected", within=WITHIN, what="no replication"
        )

    def _asked(self) -> Sentinel:
        return next(each for each in self.sentinels if each.running and not each.paused)

    def _healthy(self) -> bool:
        for each in self.sentinels:
            said = dict(_pairs(each.cli("SENTINEL", "MASTER", SERVICE)))
            slaves = [dict(_pairs(slave)) for slave in each.cli("SENTINEL", "SLAVES", SERVICE)]
            if said["flags"] != "master" or int(said["num-other-sentinels"]) != self._count - 1:
                return False
            if [slave["flags"] for slave in slaves] != ["slave"]:
                return False
            if slaves[0]["master-link-status"] != "ok":
                return False
        return True


_OPTIONS = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")


def _pairs(flat: Any) -> list[tuple[str, str]]:
    return (
        list(flat.items())
        if isinstance(flat, dict)
        else list(zip(flat[::2], flat[1::2], strict=True))
    )
