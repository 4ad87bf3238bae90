"""The ways to use a term: run an action once, hold a block, or stand by for ever.

Turns how a term ended into results and exceptions: the action's own error always wins, a lost lease
is never success, and a cancellation of the caller is never swallowed.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from incumbent import actions, clock
from incumbent.backoff import pause_after
from incumbent.engine.candidacy import Candidacy
from incumbent.engine.handle import Lease
from incumbent.engine.waits import Waits
from incumbent.errors import LeadershipLostError, NotElectedError
from incumbent.mishaps import note
from incumbent.results import (
    ActionFailed,
    Elected,
    LeadershipLost,
    LossReason,
    Outcome,
    Skipped,
)
from incumbent.stores.base import Grant

if TYPE_CHECKING:
    from incumbent.engine.recess import Recess

T = TypeVar("T")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0


class Ended(NamedTuple, Generic[T]):
    """How a term ended for the action that it was for."""

    leader_id: str
    grant: Grant
    loss: LossReason | None
    detail: str
    """Why the lease could not be renewed, if it was lost for that."""
    value: T | None
    """What the action returned, if it did."""
    error: Exception | None
    """What it raised otherwise, unless it was stopped."""


async def run(candidacy: Candidacy, action: Callable[[], Awaitable[T]]) -> Skipped | Ended[T]:
    """Run `action` if elected and tell how it went; see `Elector.attempt`."""
    term = await candidacy.enter()
    if isinstance(term, Skipped):
        return term
    error: BaseException | None = None
    value: T | None = None
    try:
        value = await actions.awaitable(action())
    except BaseException as raised:  # noqa: BLE001 - told apart below, when the term is over
        error = raised
    try:
        none_ran = error is not None and actions.refused(error)
        stopped, loss, detail = await candidacy.leave(error, counts=not none_ran)
        if error is not None and (none_ran or not (isinstance(error, Exception) or stopped)):
            raise error
        return Ended(
            candidacy.leader_id,
            term.grant,
            loss,
            detail,
            value,
            error if isinstance(error, Exception) else None,
        )
    finally:
        del error  # or this frame and its traceback would keep each other alive


def outcome(ended: Skipped | Ended[T]) -> Outcome[T]:
    """What `Elector.attempt` gives."""
    if isinstance(ended, Skipped):
        return ended
    leader_id, grant, loss, detail, value, error = ended
    if loss is not None:
        return LeadershipLost(loss, value=value, error=error, detail=detail)
    if error is not None:
        return ActionFailed(error)
    return Elected(cast(T, value), leader_id=leader_id, seat=grant.seat, fence=grant.fence)


def value(election: str, ended: Skipped | Ended[T]) -> T | None:
    """What `Elector.run_if_leader` gives; raises what went wrong."""
    if isinstance(ended, Skipped):
        return None
    error = ended.error
    if ended.loss is not None:
        error = _told(LeadershipLostError(election, ended.loss, ended.detail), error)
    if error is None:
        return ended.value
    try:
        raise error
    finally:
        del ended, error  # as above


def _told(lost: LeadershipLostError, error: Exception | None) -> Exception:
    """The action's own error, with a note on the loss, or else the loss."""
    if error is None:
        return lost
    note(error, str(lost))
    return error


class _Block:
    """What the blocks of `lead()` and `try_lead()` have in common: how they are left."""

    __slots__ = ("_candidacy",)

    def __init__(self, candidacy: Candidacy) -> None:
        self._candidacy = candidacy

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._candidacy.elected:
            await _leave_block(self._candidacy, error)


class Leading(_Block):
    """The block of `lead()`: `async with` gives the lease, or raises `NotElectedError`."""

    __slots__ = ()

    # Not a coroutine function, nor in the class below: the task that calls it has the block, and is
    # stopped at a loss. On Python 3.11 `asyncio.wait_for` runs the coroutine in another task.
    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        return self._enter(_caller())

    async def _enter(self, caller: "asyncio.Task[Any] | None") -> Lease:
        entry = await self._candidacy.enter(caller or asyncio.current_task())
        if isinstance(entry, Skipped):
            raise NotElectedError(self._candidacy.name, entry.holder, entry.reason)
        return self._candidacy.lease


class TryLeading(_Block):
    """The block of `try_lead()`: `async with` gives the lease, or None when not elected."""

    __slots__ = ()

    def __aenter__(self) -> Coroutine[Any, Any, Lease | None]:
        return self._enter(_caller())

    async def _enter(self, caller: "asyncio.Task[Any] | None") -> Lease | None:
        entry = await self._candidacy.enter(caller or asyncio.current_task())
        return None if isinstance(entry, Skipped) else self._candidacy.lease


def _caller() -> "asyncio.Task[Any] | None":
    """The task that runs this, if one does."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running yet
        return None


async def _leave_block(candidacy: Candidacy, error: BaseException | None) -> None:
    stopped, loss, detail = await candidacy.leave(error)
    if loss is None:
        return
    # Not by a name for the error: with its traceback, that would be a cycle.
    if isinstance(error, Exception):
        _told(LeadershipLostError(candidacy.name, loss, detail), error)
    elif stopped or (error is None and candidacy.options.on_loss == "cancel"):
        raise LeadershipLostError(candidacy.name, loss, detail) from error


async def campaign(
    stand: Callable[[], Candidacy],
    action: Callable[[], Awaitable[T]],
    *,
    waits: Waits,
    restart: bool,
    steady_after: float,
    recess: "Recess",
) -> T:
    """Stand for ever: again after a loss and, with `restart`, with back-off after the action's end.

    The pause doubles while the action ends sooner than `steady_after` seconds from its start. When
    the period has been run, `recess` sleeps until the next one.
    """
    began = 0.0

    def timed() -> Awaitable[T]:
        nonlocal began
        began = clock.now()
        return action()

    quick_ends = 0
    while True:
        candidacy = stand()
        told = outcome(await run(candidacy, timed))
        if isinstance(told, Elected) and not restart:
            return told.value
        if isinstance(told, ActionFailed) and not restart:
            raise told.error
        if candidacy.ran_until is not None:
            quick_ends = 0
            await recess.over(candidacy.ran_until)
            continue
        quick_ends = 1 if clock.now() - began > steady_after else quick_ends + 1
        # Who lost leaves the seat to the others for a moment, and no longer.
        longest = FIRST_PAUSE if isinstance(told, LeadershipLost) else LONGEST_PAUSE
        pause = pause_after(quick_ends, first=FIRST_PAUSE, longest=longest, jitter=random.random())
        await waits.sleep(pause)
