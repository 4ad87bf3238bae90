"""Removes what the elections of a trial left on a server: fences and the like live for a day.

For elections that are over, and that nobody else knew of: here alone a seat is deleted.
"""

from collections.abc import Iterable
from typing import Final

from incumbent.stores.redis.keys import keys_of
from incumbent.stores.redis.store import Client
from incumbent.stores.redis.survey import answer

PARTS: Final = (b"fence", b"gone", b"queue", b"alive", b"tick", b"seat:0")


async def remove(client: Client, prefix: str, names: Iterable[str], within: float) -> None:
    """Delete all keys of elections with one seat; each request may take the time `within`."""
    for name in names:
        root = keys_of(prefix, name, 1).root
        await answer(client.delete(*[root + part for part in PARTS]), within)
