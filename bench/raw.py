"""What an election sends, as the server saw it, to be sent again without the library.

Learnt by MONITOR, so it knows nothing of the scripts and their arguments, and cannot differ from
what the library does. The token of the watched election is used again and again, which is as good
as a new one.
"""

from typing import Any

from redis.asyncio import Redis

from incumbent import LeaderElector
from kit.servers import Server

NAME = "watched"


class RawCycle:
    """The two EVALSHA of one uncontended election: acquire and release."""

    def __init__(self, acquire: list[str], release: list[str]) -> None:
        self._acquire = acquire
        self._release = release

    @classmethod
    async def watch(cls, server: Server, client: Redis) -> "RawCycle":
        """Hold one election (the scripts must be in the server's cache) and note what it sends."""
        elector = LeaderElector(client)
        await elector.run_if_leader(NAME, nothing)
        with server.admin.monitor() as monitor:  # type: ignore[no-untyped-call] # redis-py's own
            await elector.run_if_leader(NAME, nothing)
            server.cli("ECHO", "end")
            seen: list[list[str]] = []
            while (entry := monitor.next_command())["command"] != "ECHO end":
                if entry["client_type"] != "lua" and entry["command"].startswith("EVALSHA "):
                    seen.append(entry["command"].split(" ")[1:])
        await elector.aclose()
        acquire, release = seen
        return cls(acquire, release)

    def acquire(self, name: str) -> tuple[Any, ...]:
        """The arguments of `client.evalsha` that take the seat of election `name`."""
        return _of(self._acquire, name)

    def release(self, name: str) -> tuple[Any, ...]:
        """The arguments of `client.evalsha` that free it again."""
        return _of(self._release, name)


async def nothing() -> bool:
    """The action: as little as can be."""
    return True


def check(reply: list[bytes], expected: bytes) -> None:
    """Raise when a replayed script did not do what it did for the library."""
    if reply[0] != expected:
        raise RuntimeError(f"a replayed script answered {reply!r} instead of {expected!r}")


def _of(arguments: list[str], name: str) -> tuple[Any, ...]:
    sha, count, *rest = (argument.replace(f"{{{NAME}}}", f"{{{name}}}") for argument in arguments)
    return (sha, int(count), *rest)
