"""Candidates' records as the server keeps them, made into values.

Pure. A record is a JSON array, whose places stand in `lua/prelude.lua`; its first ten are known
here, what follows is a later release's. What cannot be read is set aside, whoever wrote it.
"""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from incumbent.stores.base import instant
from incumbent.stores.redis.replies import leader_of
from incumbent.strategy import Candidate, Metadata, Snapshot
from incumbent.strategy.candidates import SENIORITY

KNOWN: Final = 10
"""How many places of a record are known."""

REMEMBERED: Final = 4096
"""How many records are not read again when they come again as they were."""

ORDERS_REMEMBERED: Final = 64
"""Of how many elections the order of the candidates is."""

MOST_DIGITS: Final = 16
"""Of a fencing token or a time; what has more is none of ours."""

_orders: Final[dict[str, tuple[list[Candidate], list[Candidate]]]] = {}

_UNREADABLE: Final = (ValueError, TypeError, ArithmeticError, OSError, RecursionError)
"""What reading a record may raise, whatever somebody wrote there."""


def snapshot_of(election: str, reply: Sequence[Any]) -> Snapshot:
    """What `snapshot.lua` answered."""
    now, fence, seat, records = reply
    now_us = int(now)
    corrupt: list[str] = []
    candidates: list[Candidate] = []
    pairs = iter(records)
    for node, record in zip(pairs, pairs, strict=True):
        expires, candidate = _record(node, record)
        if expires > now_us:
            if candidate is None:
                corrupt.append(_text(node))
            else:
                candidates.append(candidate)
    return Snapshot(
        election=election,
        candidates=tuple(_by_seniority(election, candidates)),
        now=_at(now_us),
        leader=leader_of(seat) if seat else None,
        seed=_seed(fence),
        corrupt=tuple(sorted(corrupt)),
    )


def _by_seniority(election: str, candidates: list[Candidate]) -> list[Candidate]:
    """The order of a snapshot, which is soon sorted when it comes so.

    A server tells a hash in the same order again, so that the last answer about this election
    nearly always has it ready: to sort a thousand takes as long as to read them.
    """
    last = _orders.get(election)
    if last is None or last[0] != candidates:  # the same objects: that costs next to nothing
        if len(_orders) >= ORDERS_REMEMBERED:
            _orders.clear()
        last = _orders[election] = (candidates, sorted(candidates, key=SENIORITY))
    return last[1]


@lru_cache(maxsize=REMEMBERED)
def _record(node: bytes, record: bytes) -> tuple[float, Candidate | None]:
    """When a record is over, in us, and the candidate; what cannot be read is never over."""
    head, _, rest = record.partition(b",")
    digits = head[1:]
    if not (head.startswith(b"[") and digits.isdigit() and len(digits) <= MOST_DIGITS):
        return math.inf, None
    try:
        return int(digits), _candidate(node, rest)
    except _UNREADABLE:
        return int(digits), None


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
