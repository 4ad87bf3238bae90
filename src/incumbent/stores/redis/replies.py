"""What several answers of a server have in common, read in one place. Pure."""

from collections.abc import Sequence
from typing import Any

from incumbent.printable import printable
from incumbent.results import LeaderInfo
from incumbent.stores.base import instant
from incumbent.stores.redis.faults import CorruptError


def text(value: Any) -> str:
    """What a server or a client says in words, be it in bytes or in letters."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def leader_of(seat: Sequence[Any]) -> LeaderInfo:
    """Who has the seat, as `state.lua` tells it: number, leader, fence, since, TTL, retained.

    Raises:
        CorruptError: somebody else has written to it. That is an error of the server's answer
            and of this election, like a key of the wrong type.
    """
    number, leader, fence, since, ttl, retained = seat
    try:
        return LeaderInfo(
            leader_id=bytes(leader).decode(errors="replace"),
            seat=int(number),
            fence=int(fence),
            since=instant(int(since)),
            remaining=max(0, int(ttl)) / 1000,
            retained=bool(retained),
        )
    except (ValueError, TypeError, OverflowError, OSError):  # the last two: no time of a calendar
        shown = ", ".join(
            f"{name} {printable(text(value), 40)!r}"
            for name, value in (("fence", fence), ("since", since))
        )
        raise CorruptError(f"seat {text(number)} is corrupt: {shown}") from None
