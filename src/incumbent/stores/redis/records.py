"""Candidates' records as the server keeps them, made into values.

Pure. A record is a JSON array, whose places stand in `lua/prelude.lua`; its first ten are known
here, what follows is a later release's. What cannot be read is set aside, whoever wrote it.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from incumbent.stores.base import instant
from incumbent.stores.redis.replies import leader_of
from incumbent.strategy import Candidate, Metadata, Snapshot

KNOWN: Final = 10
"""How many places of a record are known."""

REMEMBERED: Final = 4096
"""How many records are not read again when they come again as they were."""

MOST_DIGITS: Final = 16
"""Of a fencing token; what has more is none of ours."""

_UNREADABLE: Final = (ValueError, TypeError, ArithmeticError, OSError, RecursionError)
"""What reading a record may raise, whatever somebody wrote there."""


def snapshot_of(election: str, reply: Sequence[Any]) -> Snapshot:
    """What `snapshot.lua` answered."""
    now, fence, seat, unreadable, live = reply
    corrupt = [_text(node) for node in unreadable]
    candidates: list[Candidate] = []
    for node, record in zip(live[::2], live[1::2], strict=True):
        try:
            candidates.append(_candidate(node, record.partition(b",")[2]))
        except _UNREADABLE:
            corrupt.append(_text(node))
    return Snapshot(
        election=election,
        candidates=tuple(candidates),
        now=_at(int(now)),
        leader=leader_of(seat) if seat else None,
        seed=_seed(fence),
        corrupt=tuple(sorted(corrupt)),
    )


@lru_cache(maxsize=REMEMBERED)
def _candidate(node: bytes, rest: bytes) -> Candidate:
    """One candidate; raises whatever comes when a part is not as it should be.

    `rest` is its record without the expiry, which is all that a heartbeat changes: so most of what
    an election reads has been read before.
    """
    parts = json.loads(f"[{rest.decode()}")
    if len(parts) < KNOWN - 1:
        raise ValueError("a record has too few parts")
    registered, started, succeeded, failed, successes, failures, _, strategy, metadata = parts[
        : KNOWN - 1
    ]
    if not isinstance(strategy, str) or not isinstance(metadata, dict):
        raise TypeError("a record has parts of the wrong type")
    return Candidate(
        node_id=node.decode(),
        registered_at=_at(registered),
        last_started_at=_at(started) if started else None,
        last_succeeded_at=_at(succeeded) if succeeded else None,
        last_failed_at=_at(failed) if failed else None,
        successes=_count(successes),
        failures=_count(failures),
        metadata=Metadata.read(metadata),
        strategy=strategy,
    )


def _at(microseconds: Any) -> datetime:
    return instant(_count(microseconds) / 1000)


def _count(number: Any) -> int:
    if type(number) is not int:
        raise TypeError("a time or a count is no whole number")
    return number


def _seed(fence: Any) -> int:
    digits = bytes(fence)
    return int(digits) if digits.isdigit() and len(digits) <= MOST_DIGITS else 0


def _text(text: Any) -> str:
    return bytes(text).decode(errors="replace")
