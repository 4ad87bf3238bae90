"""One course of calls that takes every path through the scripts, for comparing its outcomes."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from contract.bench import BUDGET, claim
from incumbent.results import LeaderInfo, LeaderState
from incumbent.stores.base import Busy, Extended, Grant, Store

Between = Callable[[str], Awaitable[None]]
NAME = "tägliche Übersicht 🎉"

EXPECTED = [
    "state: []",
    "acquire: seat 0",
    "acquire: seat 1",
    "acquire again: seat 0",
    "acquire full: busy with leader-a on 0 for 30",
    "extend: 60",
    "extend shorter: 60",
    "extend foreign: taken",
    "extend gone: gone",
    "state: [leader-a on 0 for 60, leader-b on 1 for 60]",
    "release foreign: taken",
    "release keeping: released",
    "release again: taken",
    "acquire full: busy with leader-a on 0 (retained) for 10",
    "leave: None",
    "acquire: seat 1",
    "release: released",
    "release: gone",
    "release doubtful: gone",
    "state: [leader-a on 0 (retained) for 10]",
]


async def _nothing(step: str) -> None:
    """Between two calls nothing happens."""


async def tell(store: Store, between: Between = _nothing, *, election: str = NAME) -> list[str]:
    """Run the story, with `between` before each call; each answer as a line."""
    a, b, c, d = (claim(election, who, seats=2) for who in "abcd")
    b = claim(election, "b", seats=2, lease_time=60)
    lines: list[str] = []

    async def step(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        await between(name)
        answer = await call()
        lines.append(f"{name}: {told(answer)}")
        return answer

    await step("state", lambda: store.state(election, 2, BUDGET))
    first = await step("acquire", lambda: store.acquire(a, BUDGET))
    second = await step("acquire", lambda: store.acquire(b, BUDGET))
    await step("acquire again", lambda: store.acquire(a, BUDGET))
    await step("acquire full", lambda: store.acquire(c, BUDGET))
    await step("extend", lambda: store.extend(a, 0, 60, BUDGET))
    await step("extend shorter", lambda: store.extend(a, 0, 5, BUDGET))
    await step("extend foreign", lambda: store.extend(c, 0, 60, BUDGET))
    await step("extend gone", lambda: store.extend(claim("none", "a"), 0, 60, BUDGET))
    await step("state", lambda: store.state(election, 2, BUDGET))
    await step("release foreign", lambda: store.release(c, first, 0, BUDGET))
    await step("release keeping", lambda: store.release(a, first, 10, BUDGET))
    await step("release again", lambda: store.release(a, first, 10, BUDGET))
    await step("acquire full", lambda: store.acquire(c, BUDGET))
    await step("leave", lambda: store.leave(b, BUDGET))
    third = await step("acquire", lambda: store.acquire(d, BUDGET))
    await step("release", lambda: store.release(d, third, 0, BUDGET))
    await step("release", lambda: store.release(d, third, 0, BUDGET))
    await step("release doubtful", lambda: store.release(b, doubtful(second), 0, BUDGET))
    await step("state", lambda: store.state(election, 2, BUDGET))
    return lines


def doubtful(grant: Grant) -> Grant:
    """The same grant, of which a copy of the request may yet arrive."""
    return Grant(grant.seat, grant.fence, grant.since_ms, grant.ttl, grant.sent_at, doubtful=True)


def told(answer: object) -> str:
    """An answer without what differs from run to run."""
    if isinstance(answer, Grant):
        assert isinstance(answer.fence, int)
        return f"seat {answer.seat}" + (" doubtful" if answer.doubtful else "")
    if isinstance(answer, Busy):
        return f"busy with {answer.holder and _holder(answer.holder)}"
    if isinstance(answer, Extended):
        return f"{_rounded(answer.ttl)}"
    if isinstance(answer, LeaderState):
        return f"[{', '.join(map(_holder, answer.leaders))}]"
    return str(answer)


def _holder(info: LeaderInfo) -> str:
    assert isinstance(info.leader_id, str)
    retained = " (retained)" if info.retained else ""
    return f"{info.leader_id} on {info.seat}{retained} for {_rounded(info.remaining)}"


def _rounded(left: float) -> int:
    """The time of which so much is left, however long it takes to tell the story: all are tens."""
    return 10 * math.ceil((left - 0.5) / 10)
