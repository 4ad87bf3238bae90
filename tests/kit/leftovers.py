"""What a test must not leave behind: keys without TTL, tasks, sockets, complaints of the loop.

Each function only looks and tells; whether that fails a test is decided in `kit.fixtures`.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from kit.servers import Server

TURNS = 5


def keys_without_ttl(server: Server, prefixes: Iterable[str] = ("incumbent",)) -> list[str]:
    """Keys below the prefixes that would stay for ever, as "database/key", in all databases.

    On a server of the user's only the database of its URL is looked at.
    """
    if not server.ours:
        return _lasting(server, prefixes, "url")
    databases = [name[2:] for name in server.admin.info("keyspace")]
    found: list[str] = []
    try:
        for database in databases:
            server.cli("SELECT", database)
            found += _lasting(server, prefixes, database)
    finally:
        server.cli("SELECT", 0)
    return sorted(found)


def _lasting(server: Server, prefixes: Iterable[str], database: str) -> list[str]:
    keys = [
        key
        for prefix in prefixes
        for key in server.admin.scan_iter(match=f"{prefix}:*", count=1000)
    ]
    return [f"{database}/{key}" for key in keys if server.cli("PTTL", key) == -1]


def connections(server: Server) -> list[dict[str, str]]:
    """The clients that are connected, as CLIENT LIST tells, without the one that asks."""
    asking = str(server.cli("CLIENT", "ID"))
    clients: list[dict[str, str]] = server.admin.client_list()
    return [client for client in clients if client["id"] != asking]


async def leftover_tasks() -> set[asyncio.Task[Any]]:
    """Tasks of this loop besides the current one that a few turns of the loop do not end."""
    me = asyncio.current_task()
    for _ in range(TURNS):
        if asyncio.all_tasks() == {me}:
            break
        await asyncio.sleep(0)
    return {task for task in asyncio.all_tasks() if task is not me}


async def open_sockets(within: float = 1.0) -> list[str]:
    """What this loop still reads from, and does not stop to within that many seconds.

    Only asyncio's own loop can tell.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within  # TLS says goodbye, and waits for an answer
    while (left := _read_by(loop)) and loop.time() < deadline:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0.005)
    return left


def _read_by(loop: Any) -> list[str]:
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return []
    watched: Any = loop
    keys = watched._selector.get_map().values()
    handles = [key.data[0] or key.data[1] for key in keys if key.fd != watched._ssock.fileno()]
    return sorted(_describe(handle._callback) for handle in handles)


def _describe(callback: Any) -> str:
    transport = getattr(callback, "__self__", None)
    if not isinstance(transport, asyncio.BaseTransport):
        return repr(callback)
    return f"{transport!r} to {transport.get_extra_info('peername')}"


class Complaints:
    """Takes what the loop would only log: lost exceptions, tasks destroyed while pending."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def listen(self) -> None:
        """From now on, on the running loop."""
        asyncio.get_running_loop().set_exception_handler(self._hear)

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        source = context.get("task") or context.get("future") or context.get("protocol")
        self.heard.append(f"{context.get('message')}: {error!r} {source!r}")
