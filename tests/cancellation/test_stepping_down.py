"""P4, P9: a step-down from within the action meets something else at each turn of the loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
import redis.asyncio

from incumbent import LeaderElector, LeadershipLost, Lease, MemoryStore, Outcome, current_lease
from kit.servers import Server
from promises.scene import quick, steal, token_of

TURNS = 25
"""More than a step-down, the action's end and the release take, where nothing is waited for."""

Meets = Callable[["Meeting"], object]


class Meeting:
    """One action that steps down in a child of its task group, and what comes between."""

    def __init__(self, elector: LeaderElector, server: Server) -> None:
        self.elector = elector
        self.server = server
        self.begun: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self.child: asyncio.Task[None] | None = None
        self.sibling: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[None]] = []
        self.task: asyncio.Task[Outcome[None]] = asyncio.create_task(self.run())

    async def run(self) -> Outcome[None]:
        """The call of the elector."""
        return await self.elector.attempt("one", self.act)

    async def act(self) -> None:
        """The action: with `cancel` it goes on until it is stopped, else a little longer."""
        lease = current_lease()
        assert lease is not None
        async with asyncio.TaskGroup() as group:
            self.child = group.create_task(lease.step_down())
            self.begun.set_result(lease)
            if self.elector.options.on_loss == "cancel":
                group.create_task(self.wait())
            else:
                group.create_task(asyncio.sleep(0.01))

    async def wait(self) -> None:
        """A sibling of the child."""
        await self.sibling

    def also(self, work: Awaitable[None]) -> None:
        """Begin something else beside it."""

        async def whole() -> None:
            await work

        self.tasks.append(asyncio.create_task(whole()))


def caller(meeting: Meeting) -> None:
    """The caller is cancelled."""
    meeting.task.cancel()


def child(meeting: Meeting) -> None:
    """Only the child is cancelled."""
    if meeting.child is not None:
        meeting.child.cancel()


def sibling(meeting: Meeting) -> None:
    """A sibling fails."""
    if not meeting.sibling.done():
        meeting.sibling.set_exception(ValueError("the sibling's"))
        meeting.sibling.exception()


def thief(meeting: Meeting) -> None:
    """The seat is taken, if it is still there."""
    if token_of(meeting.server, "one") is not None:
        steal(meeting.server, "one")


def release(meeting: Meeting) -> None:
    """Another task gives the seat back."""
    meeting.also(meeting.begun.result().release())


def another(meeting: Meeting) -> None:
    """Another task steps down too, and is cancelled."""
    meeting.also(meeting.begun.result().step_down())
    asyncio.get_running_loop().call_soon(meeting.tasks[-1].cancel)


def closing(meeting: Meeting) -> None:
    """The elector is closed."""
    meeting.also(meeting.elector.aclose())


@pytest.fixture(params=["valkey", "memory"])
def store(
    request: pytest.FixtureRequest, client: redis.asyncio.Redis
) -> "redis.asyncio.Redis | MemoryStore":
    """Where the leases live."""
    return MemoryStore() if request.param == "memory" else client


@pytest.mark.parametrize("on_loss", ["cancel", "notify"])
@pytest.mark.parametrize("meets", [caller, child, sibling, thief, release, another, closing])
async def test_p4_p9_a_step_down_from_within_meets(
    store: "redis.asyncio.Redis | MemoryStore",
    valkey: Server,
    meets: Meets,
    on_loss: Literal["cancel", "notify"],
) -> None:
    """At each turn of the loop: no wait goes on, no seat is kept, no cancellation is lost."""
    if meets is thief and isinstance(store, MemoryStore):
        pytest.skip("a seat in memory cannot be taken from outside")
    for turns in range(TURNS):
        elector = LeaderElector(store, quick(on_loss=on_loss), hooks=[])
        meeting = Meeting(elector, valkey)
        lease = await meeting.begun
        for _ in range(turns):
            await asyncio.sleep(0)
        before = meeting.task.done()
        meets(meeting)
        done, _ = await asyncio.wait((meeting.task, *meeting.tasks), timeout=30)
        assert len(done) == 1 + len(meeting.tasks), f"after {turns} turns somebody waits for ever"
        if meets is caller and not before:
            assert meeting.task.cancelled(), f"swallowed after {turns} turns"
        else:
            assert _lost(meeting.task.result()), meeting.task.result()
        assert lease.loss_reason is not None
        assert not elector.leases
        await elector.aclose()
        if meets is thief:
            valkey.cli("DEL", "incumbent:{one}:seat:0")
        if not isinstance(store, MemoryStore):
            assert token_of(valkey, "one") is None


def _lost(outcome: Outcome[None]) -> bool:
    return isinstance(outcome, LeadershipLost) and outcome.reason in {"stepped_down", "taken"}
