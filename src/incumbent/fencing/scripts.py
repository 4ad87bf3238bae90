"""The guard for keys on any Redis or Valkey server: a register of fences in front of a Lua script.

Knows of a client that it has `eval`, which those of one server and those of a cluster have.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from incumbent.errors import StaleFenceError
from incumbent.fencing.statements import check
from incumbent.stores.redis import ServerError, discreet

STALE: Final = "STALEFENCE "
MAX_FENCE: Final = 2**53 - 1
"""Lua counts in floating point: beyond this it skips some."""

Part: TypeAlias = str | bytes | int | float


class Evaluating(Protocol):
    """A client of redis-py: `Redis` or `RedisCluster`, for asyncio or for threads."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any:
        """Run a Lua script."""
        ...


async def fenced_eval(
    redis: Evaluating,
    register: str,
    fence: int,
    script: str,
    *,
    keys: Sequence[str | bytes] = (),
    args: Sequence[Part] = (),
) -> Any:
    """Run a Lua script on any server, only if no fence above `fence` was seen at key `register`.

    The comparison, the new highest fence and the script are one step of the server. The register is
    a plain number without TTL: it has to live as long as what it guards.

    Args:
        redis: a `redis.asyncio.Redis` or `redis.asyncio.RedisCluster`; on a cluster the register
            and all `keys` must share a hash slot.
        register: the key that keeps the highest fence; in a group, one per seat.
        fence: `Lease.fence`.
        script: Lua; it sees `keys` and `args` as its KEYS and ARGV.
        keys: the keys that the script touches.
        args: its arguments.

    Returns:
        What the script returns.

    Raises:
        StaleFenceError: a higher fence was seen; the script has not begun.
        TypeError, ValueError: the arguments are not usable; before any I/O.
        redis.exceptions.RedisError: what the server says, or of the connection. As with any script,
            what it wrote before an error of its own stays.
    """
    call = call_of(register, fence, script, keys, args)
    try:
        return await redis.eval(*call)
    except ServerError as error:
        raise refusal_of(error, register, fence) or discreet(error, redis) from None


def call_of(
    register: str, fence: int, script: str, keys: Sequence[str | bytes], args: Sequence[Part]
) -> tuple[Any, ...]:
    """The arguments of EVAL.

    Raises:
        TypeError, ValueError: there are none for this.
    """
    check(register, fence)
    if fence > MAX_FENCE:
        raise ValueError(f"fence must be at most {MAX_FENCE} here, not {fence}")
    if not isinstance(script, str):
        raise TypeError(f"script must be a str, not {type(script).__name__}")
    for what, parts in (("keys", keys), ("args", args)):
        if isinstance(parts, str | bytes) or not isinstance(parts, Sequence):
            raise TypeError(f"{what} must be a list or a tuple, not {type(parts).__name__}")
    if script.startswith("#!"):
        raise ValueError(
            "a script with a #! line cannot stand behind the guard: leave that line out"
        )
    return _guard() + script, 1 + len(keys), register, *keys, fence, *args


def refusal_of(error: Exception, register: str, fence: int) -> StaleFenceError | None:
    """What the guard meant by `error`; None if it was not the guard that raised it."""
    said = str(error)
    if not said.startswith(STALE):
        return None
    return StaleFenceError(register, fence, int(said.removeprefix(STALE).split()[0]))


@cache
def _guard() -> str:
    return Path(__file__).with_name("guard.lua").read_text("utf-8")
