"""Between a transaction's look at its seat and its EXEC: where a test lets things happen."""

from collections.abc import Callable
from typing import Any

import pytest

from incumbent.stores.redis.transaction import Transaction


def between(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], *happens: Callable[[], object]
) -> list[int]:
    """Let something happen between each of the first looks and its EXEC; counts the looks."""
    real, looks = kind._look, [0]

    def count() -> None:
        looks[0] += 1
        if looks[0] <= len(happens):
            happens[looks[0] - 1]()

    async def look(self: Any) -> None:
        await real(self)
        count()

    def look_blocking(self: Any) -> None:
        real(self)
        count()

    monkeypatch.setattr(kind, "_look", look if kind is Transaction else look_blocking)
    return looks
