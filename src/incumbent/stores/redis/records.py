"""Candidates' records as the server keeps them, made into values.

A record is a JSON array, whose places are described in `lua/candidates.lua`. Unknown places belong
to a later release; a record that cannot be read is set aside. Many records are read in slices,
between which the event loop goes on: ten thousand take a fifth of a second.
"""

import asyncio
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

KNOWN: Final = 11
"""How many places every record has."""

TAIL: Final = "s"
"""The first value of the array that may follow them."""

SLICE: Final = 200
"""How many records are read before the event loop may go on: some 5 ms."""

REMEMBERED: Final = 16_384
"""How many records are kept as values (some 1 KiB each), so that they are not read again while they
stay as they are. With more candidates, each look reads all of them again."""

ORDERS_REMEMBERED: Final = 64
"""Of how many elections the order of the candidates is."""

MOST_DIGITS: Final = 16
"""Of a fencing token or a time; what has more is none of ours."""

_orders: Final[dict[str, tuple[list[Candidate], list[Candidate]]]] = {}

_UNREADABLE: Final = (ValueError, TypeError, ArithmeticError, OSError, RecursionError)
"""What reading a record may raise, whatever somebody wrote there."""


async def snapshot_of(election: str, reply: Sequence[Any]) -> tuple[Snapshot, bool]:
    """What `snapshot.lua` answered, and whether it is to correct records.

    Some live longer than they were enrolled for: the server's clock was set back. They count as
    records that cannot be read.
    """
    now, fence, seat, records = reply
    now_us = int(now)
    corrupt: list[str] = []
    candidates: list[Candidate] = []
    ahead = False
    for begins in range(0, len(records), 2 * SLICE):
        if begins:
            await asyncio.sleep(0)
        ahead |= _read(records[begins : begins + 2 * SLICE], now_us, candidates, corrupt)
    snapshot = Snapshot(
        election=election,
        candidates=tuple(_by_seniority(election, candidates)),
        now=_at(now_us),
        leader=leader_of(seat) if seat else None,
        seed=_seed(fence),
        corrupt=tuple(sorted(corrupt)),
    )
    return snapshot, ahead


def _read(
    records: Sequence[Any], now_us: int, candidates: list[Candidate], corrupt: list[str]
) -> bool:
    """Add the living ones of `records` (node, record, node, ...) to one of the two lists.

    Returns whether one was written when the clock was ahead.
    """
    ahead = False
    pairs = iter(records)
    for node, record in zip(pairs, pairs, strict=True):
        expires, written, candidate = _record(node, record)
        if expires > now_us:
            if candidate is not None and written <= now_us:
                candidates.append(candidate)
            else:
                corrupt.append(_text(node))
                ahead |= candidate is not None
    return ahead


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
def _record(node: bytes, record: bytes) -> tuple[float, float, Candidate | None]:
    """When a record is over and when it was written, in us, and the candidate.

    What cannot be read is never over.
    """
    head, _, rest = record.partition(b",")
    digits = head[1:]
    if not (head.startswith(b"[") and digits.isdigit() and len(digits) <= MOST_DIGITS):
        return math.inf, 0, None
    expires = int(digits)
    try:
        ttl, _, rest = rest.partition(b",")
        return expires, expires - 1000 * int(ttl), _candidate(node, rest)
    except _UNREADABLE:
        return expires, 0, None


@lru_cache(maxsize=REMEMBERED)
def _candidate(node: bytes, rest: bytes) -> Candidate:
    """One candidate; raises whatever comes when a part is not as it should be.

    `rest` is its record without the expiry and the TTL. A heartbeat changes nothing else, so most
    of what an election reads has been read before.
    """
    parts = json.loads(f"[{rest.decode()}")
    if len(parts) < KNOWN - 2:
        raise ValueError("a record has too few parts")
    registered, started, succeeded, failed, successes, failures, _, strategy, metadata = parts[
        : KNOWN - 2
    ]
    if not isinstance(strategy, str) or not isinstance(metadata, dict):
        raise TypeError("a record has parts of the wrong type")
    contending, early, early_at = _tail(parts[KNOWN - 2 :])
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
        contending=contending,
        early_failures=early,
        last_early_failure_at=_at(early_at) if early_at else None,
    )


def _tail(places: list[Any]) -> tuple[bool, int, int]:
    """Whether it contends, its early failures, and when the last one was (us, 0 for never)."""
    for place in places:
        if isinstance(place, list) and place[:1] == [TAIL]:
            contending, early, early_at = map(_count, place[1:4])
            return bool(contending), early, early_at
    return False, 0, 0


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
