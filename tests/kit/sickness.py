"""What a server says when it cannot do what it is asked. Each kind really happens to a server.

A sickness is a block around a server of the test's own; what it refuses is known by the word in
front of its error. LOADING is said by a proxy: a server that has much to load is too slow a test.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import redis

from kit.servers import Server
from kit.waiting import wait_until_blocking

LOADING = "LOADING server is loading the dataset in memory"

Sickness = Callable[[Server], AbstractContextManager[None]]


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """It cannot save, and refuses writes, and PING."""
    _, folder = server.cli("CONFIG", "GET", "dir")
    _, name = server.cli("CONFIG", "GET", "dbfilename")
    in_the_way = Path(folder) / name
    in_the_way.unlink(missing_ok=True)
    in_the_way.mkdir()
    try:
        with _set(server, "save", "3600 1"):
            _save(server, "err")
            yield
            in_the_way.rmdir()
            _save(server, "ok")
            (Path(folder) / name).unlink()
    finally:
        if in_the_way.is_dir():
            in_the_way.rmdir()


def _save(server: Server, status: str) -> None:
    server.cli("BGSAVE")
    wait_until_blocking(
        lambda: server.admin.info("persistence")["rdb_last_bgsave_status"] == status,
        within=60,
        what=f"a BGSAVE that ends with {status}",
    )


@contextmanager
def full_memory(server: Server) -> Iterator[None]:
    """It refuses whatever needs memory."""
    with _set(server, "maxmemory-policy", "noeviction"), _set(server, "maxmemory", "1"):
        yield


@contextmanager
def too_few_replicas(server: Server) -> Iterator[None]:
    """It wants a replica for each write, and has none."""
    with _set(server, "min-replicas-to-write", "1"):
        yield


@contextmanager
def read_only(server: Server) -> Iterator[None]:
    """It is the replica of nobody."""
    server.cli("REPLICAOF", "127.0.0.1", 1)
    try:
        yield
    finally:
        server.cli("REPLICAOF", "NO", "ONE")


@contextmanager
def parted_replica(server: Server) -> Iterator[None]:
    """The same, and it shows nobody what may be old."""
    with _set(server, "replica-serve-stale-data", "no"), read_only(server):
        yield


@contextmanager
def busy(server: Server) -> Iterator[None]:
    """It runs a script that does not end."""

    def run() -> None:
        with suppress(redis.RedisError), redis.Redis(unix_socket_path=socket) as client:
            client.eval("while true do end", 0)

    socket = server.admin.connection_pool.connection_kwargs["path"]
    thread = threading.Thread(target=run)
    with _set(server, "lua-time-limit", "1"):
        thread.start()
        try:
            wait_until_blocking(lambda: _refuses_ping(server), within=60, what="a busy server")
            yield
        finally:
            with suppress(redis.RedisError):
                server.cli("SCRIPT", "KILL")
            thread.join()


def _refuses_ping(server: Server) -> bool:
    try:
        server.cli("PING")
    except redis.RedisError as error:
        return "BUSY" in str(error)
    return False


@contextmanager
def no_slots(server: Server) -> Iterator[None]:
    """It is a node of a cluster that has no slots; nothing has to be done to it for that."""
    yield


NODE_ARGS = ("--cluster-enabled", "yes")
"""With what a server for `no_slots` is started."""

SICKNESSES: dict[str, Sickness] = {
    "MISCONF": full_disk,
    "OOM": full_memory,
    "NOREPLICAS": too_few_replicas,
    "READONLY": read_only,
    "MASTERDOWN": parted_replica,
    "BUSY": busy,
    "CLUSTERDOWN": no_slots,
}
"""By what the server says."""


@contextmanager
def _set(server: Server, name: str, value: str) -> Iterator[None]:
    _, before = server.cli("CONFIG", "GET", name)
    server.cli("CONFIG", "SET", name, value)
    try:
        yield
    finally:
        # With so short a time limit, a script of somebody else's may keep the server busy as well.
        wait_until_blocking(lambda: _accepts(server, name, before), what="it is set back")


def _accepts(server: Server, name: str, value: str) -> bool:
    with suppress(redis.RedisError):
        return bool(server.cli("CONFIG", "SET", name, value))
    return False
