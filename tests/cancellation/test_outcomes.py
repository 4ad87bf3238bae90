"""P6: what comes out of each entry point, for each end of the action, lost or not.

The table below is the promise. `own` is a `CancelledError` that nobody asked for: the action
raised it by itself. After a loss with ``on_loss="cancel"`` the action is cancelled, and then
returns or raises what the row says; `obeys` lets that cancellation through.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import pytest
import redis
import redis.asyncio

from cancellation.stage import Entry
from incumbent import (
    ActionFailed,
    Elected,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    LeadershipLostError,
    current_lease,
)
from incumbent.stores.base import Budget, Claim, Grant, Released
from incumbent.stores.redis import RedisStore
from kit.servers import Server

TABLE: Final = """
    entry          action      kept          lost, cancel     lost, notify
    run_if_leader  returns     value         LostError        LostError
    run_if_leader  fails       ValueError    ValueError+note  ValueError+note
    run_if_leader  obeys       -             LostError        -
    run_if_leader  own         own           own              own
    run_if_leader  halts       Halt          Halt             Halt
    attempt        returns     Elected       Lost(value)      Lost(value)
    attempt        fails       ActionFailed  Lost(error)      Lost(error)
    attempt        obeys       -             Lost             -
    attempt        own         own           own              own
    attempt        halts       Halt          Halt             Halt
    lead           returns     value         LostError        value
    lead           fails       ValueError    ValueError+note  ValueError+note
    lead           obeys       -             LostError        -
    lead           own         own           own              own
    lead           halts       Halt          Halt             Halt
    try_lead       returns     value         LostError        value
    try_lead       fails       ValueError    ValueError+note  ValueError+note
    try_lead       obeys       -             LostError        -
    try_lead       own         own           own              own
    try_lead       halts       Halt          Halt             Halt
    campaign       returns     value         again            again
    campaign       fails       ValueError    again            again
    campaign       obeys       -             again            -
    campaign       own         own           own              own
    campaign       halts       Halt          Halt             Halt
"""

Loss = Literal["taken", "max_hold_time"]


class Case(NamedTuple):
    """One cell of the table."""

    entry: Entry
    action: str
    lost: bool
    on_loss: Literal["cancel", "notify"]
    outcome: str


def cases() -> Iterator[Case]:
    """The cells of the table that can be."""
    for line in TABLE.strip().splitlines()[1:]:
        entry, action, *outcomes = line.split()
        for outcome, lost, on_loss in zip(
            outcomes, (False, True, True), ("cancel", "cancel", "notify"), strict=True
        ):
            if outcome != "-":
                yield Case(entry, action, lost, on_loss, outcome)  # type: ignore[arg-type] # the table's words


def name_of(case: Case) -> str:
    """The name of a cell."""
    return f"{case.entry}-{case.action}-{f'lost, {case.on_loss}' if case.lost else 'kept'}"


class Halt(BaseException):
    """Ends a program, as KeyboardInterrupt does."""


class Unreleasing(RedisStore):
    """A store whose releases fail."""

    async def release(
        self, claim: Claim, grant: Grant, keep: float, budget: Budget, *, restore: bool = False
    ) -> Released:
        """Fail."""
        raise redis.ConnectionError("no release today")


class Body:
    """The action: loses the lease if it is to, and then ends as the case says."""

    def __init__(self, server: Server, case: Case, loss: Loss) -> None:
        self.terms = 0
        self.error: BaseException | None = None
        self._server, self._case, self._loss = server, case, loss

    async def __call__(self) -> str:
        self.terms += 1
        if self.terms > 1:
            return "again"
        if self._case.lost:
            try:
                await self._lose()
            except asyncio.CancelledError:
                if self._case.action == "obeys":
                    raise
        self.error = {
            "fails": ValueError("the action's own"),
            "own": asyncio.CancelledError("the action's own"),
            "halts": Halt(),
        }.get(self._case.action)
        if self.error is not None:
            raise self.error
        return "value"

    async def _lose(self) -> None:
        """Lose the lease; return at once, or raise the cancellation that follows."""
        lease = current_lease()
        assert lease is not None
        if self._loss == "taken":
            seat = f"incumbent:{{{lease.name}}}:seat:0"
            self._server.cli("HSET", seat, "token", "another")
            assert not await lease.extend(1)
            self._server.cli("PEXPIRE", seat, 20)  # afterwards: what has expired is not taken
        else:
            await lease.lost.wait()
        if self._case.on_loss == "cancel" and self._case.action != "own":
            await asyncio.Event().wait()


async def call(elector: LeaderElector, entry: Entry, body: Body) -> Any:
    """Run `body` by way of `entry`."""
    if entry == "lead":
        async with elector.lead("p6"):
            return await body()
    if entry == "try_lead":
        async with elector.try_lead("p6"):
            return await body()
    method = getattr(elector, entry)
    return await method("p6", body)


class Run:
    """A call in a task of its own, and all that came out of it."""

    def __init__(self, elector: LeaderElector, entry: Entry, body: Body) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.cancelling = -1
        self._call = call(elector, entry, body)
        self._body = body

    async def __call__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            self.value = await self._call
        except BaseException as error:  # noqa: BLE001 - which one it is is the question
            self.error = error
        self.cancelling = task.cancelling()

    @property
    def reason(self) -> str:
        """Why the lease was lost, wherever that is said."""
        said = [getattr(self.value, "reason", ""), getattr(self.error, "reason", "")]
        return "".join(said + getattr(self.error, "__notes__", []))

    @property
    def told(self) -> str:
        """What came out, in the words of the table."""
        return self._told_by_value() if self.error is None else self._told_by_error(self.error)

    def _told_by_value(self) -> str:
        match self.value:
            case LeadershipLost(value=value, error=error):
                assert error is self._body.error
                return "Lost(error)" if error else f"Lost({value})".replace("(None)", "")
            case ActionFailed(error):
                assert error is self._body.error
                return "ActionFailed"
            case Elected(value):
                assert value == "value"
                return "Elected"
            case _:
                return str(self.value)

    def _told_by_error(self, error: BaseException) -> str:
        if isinstance(error, LeadershipLostError):
            return "LostError"
        assert error is self._body.error, f"came from nowhere: {error!r}"
        note = "+note" if getattr(error, "__notes__", ()) else ""
        return ("own" if isinstance(error, asyncio.CancelledError) else type(error).__name__) + note


def plays() -> Iterator[Any]:
    """Each case with the losses and releases that make a difference to it."""
    for case in cases():
        for loss, fails in (("taken", False), ("max_hold_time", False), ("max_hold_time", True)):
            if case.lost or loss == "max_hold_time":
                name = f"{name_of(case)}{f' by {loss}' if case.lost else ''}"
                name += ", release fails" if fails else ""
                yield pytest.param(case, loss, fails, id=name)


@pytest.mark.parametrize(("case", "loss", "release_fails"), tuple(plays()))
async def test_p6(
    valkey: Server, client: redis.asyncio.Redis, case: Case, loss: Loss, release_fails: bool
) -> None:
    """The action's own error wins, a loss is no success, a failed release changes nothing."""
    max_hold_time = 0.01 if case.lost and loss == "max_hold_time" else None
    store = (Unreleasing if release_fails else RedisStore)(client, "incumbent")
    options = LeaderOptions(lease_time=2.1, max_hold_time=max_hold_time, on_loss=case.on_loss)
    elector = LeaderElector(store, options)
    body = Body(valkey, case, loss)
    run = Run(elector, case.entry, body)
    await asyncio.create_task(run())
    await store.aclose()

    assert run.told == case.outcome
    assert run.cancelling == 0
    if "ost" in run.told or "note" in run.told:
        assert loss in run.reason
    assert not elector._office.terms
