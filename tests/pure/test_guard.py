"""engine.guard: one counted cancellation, taken back at the end, as `asyncio.timeout` does it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context

import anyio
import pytest

from incumbent.engine.guard import Guard

Body = Callable[[Guard], Awaitable[object]]


def current() -> "asyncio.Task[object]":
    """The task that runs the test."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def turns(count: int = 3) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def later(callback: Callable[[], object]) -> None:
    """Call from the loop, when the task has suspended itself."""
    asyncio.get_running_loop().call_later(0.001, callback)


async def test_the_guards_own_cancellation_is_its_alone() -> None:
    """The action gets one `CancelledError`; afterwards nothing of it is left on the task."""
    guard = Guard()
    later(guard.cancel)
    with pytest.raises(asyncio.CancelledError, match="leadership lost"):
        await asyncio.sleep(5)
    assert current().cancelling() == 1
    assert not guard.cancelled_by_others
    assert guard.disarm()
    assert current().cancelling() == 0
    await turns()


async def test_an_action_that_was_not_cancelled() -> None:
    """A guard that had nothing to do says so, and leaves the count alone."""
    guard = Guard()
    await turns()
    assert not guard.disarm()
    assert current().cancelling() == 0


async def test_the_cancellation_is_edge_triggered() -> None:
    """The action's cleanup can await: it is cancelled once, not at each await."""
    guard = Guard()
    later(guard.cancel)
    cleaned = 0
    try:
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        for _ in range(3):
            await asyncio.sleep(0.001)
            cleaned += 1
    assert guard.disarm()
    assert cleaned == 3


async def test_a_foreign_cancellation_stays_foreign() -> None:
    """It is told, not counted as ours, and not taken back."""
    guard = Guard()
    later(current().cancel)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    assert guard.cancelled_by_others
    assert not guard.disarm()
    assert current().cancelling() == 1
    current().uncancel()


@pytest.mark.parametrize("ours_first", [True, False])
async def test_with_a_foreign_one_the_cancellation_is_not_ours_alone(ours_first: bool) -> None:
    """When both asked, in either order, the caller's cancellation has to go on."""
    guard = Guard()
    first, second = guard.cancel, current().cancel
    if not ours_first:
        first, second = second, first  # type: ignore[assignment] # both take nothing
    later(first)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    later(second)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    assert current().cancelling() == 2
    assert guard.cancelled_by_others
    assert not guard.disarm()
    assert current().cancelling() == 1
    current().uncancel()


async def test_both_in_one_turn_are_told_apart() -> None:
    """One `CancelledError` can carry two requests."""
    guard = Guard()

    def both() -> None:
        guard.cancel()
        current_task.cancel()

    current_task = current()
    later(both)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    with suppress(asyncio.CancelledError):
        await turns()
    assert current().cancelling() == 2
    assert not guard.disarm()
    assert current().cancelling() == 1
    current().uncancel()


async def test_a_guard_of_a_task_that_was_cancelled_before() -> None:
    """In the cleanup of a cancelled task an older request is no foreign one."""
    current().cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    guard = Guard()
    assert not guard.cancelled_by_others
    later(guard.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    assert not guard.cancelled_by_others
    assert guard.disarm()
    assert current().cancelling() == 1
    current().uncancel()


async def test_a_cancellation_from_within_waits_for_the_next_suspension() -> None:
    """The task that finds out itself goes on until it awaits something that suspends."""
    guard = Guard()
    guard.cancel()
    assert current().cancelling() == 0
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert guard.disarm()
    assert current().cancelling() == 0


async def test_disarmed_before_delivery_nothing_is_delivered() -> None:
    """The action ended in the turn in which it was to be cancelled: nobody notices."""
    guard = Guard()
    guard.cancel()
    assert not guard.disarm()
    await turns()
    assert current().cancelling() == 0


async def test_a_disarmed_guard_cancels_no_more() -> None:
    """A late timer finds it switched off; disarming twice takes nothing back twice."""
    guard = Guard()
    later(guard.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    assert guard.disarm()
    guard.disarm()
    guard.cancel()
    await turns()
    assert current().cancelling() == 0


async def test_two_requests_in_one_turn_are_one() -> None:
    """What was asked twice before it was delivered is delivered once."""
    guard = Guard()
    guard.cancel()
    guard.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(5)
    await turns()
    assert current().cancelling() == 1
    assert guard.disarm()
    assert current().cancelling() == 0


async def test_a_second_request_is_counted_and_taken_back_too() -> None:
    """An action that swallowed the first is cancelled again; both are the guard's alone."""
    guard = Guard()
    for _ in range(2):
        later(guard.cancel)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(5)
    assert current().cancelling() == 2
    assert not guard.cancelled_by_others
    assert guard.disarm()
    assert current().cancelling() == 0


async def test_it_reaches_a_task_that_is_about_to_run() -> None:
    """What the task waited for has happened already: it is cancelled all the same, and once."""
    guard = Guard()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def both() -> None:
        future.set_result(None)
        guard._deliver()

    later(both)
    with pytest.raises(asyncio.CancelledError):
        await future
    assert guard.disarm()
    await turns()
    assert current().cancelling() == 0


async def test_a_task_that_has_ended_is_left_alone() -> None:
    """A guard that nobody disarmed does no harm to a finished task."""

    async def forgets() -> Guard:
        return Guard()

    task = asyncio.create_task(forgets())
    guard = await task
    guard.cancel()
    await turns()
    assert not guard.disarm()
    assert not task.cancelled()


async def test_only_a_task_can_be_guarded() -> None:
    """A callback of the loop has nothing that could be cancelled."""
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def callback() -> None:
        try:
            Guard()
        except RuntimeError as error:
            said.set_result(str(error))

    asyncio.get_running_loop().call_soon(callback)
    assert await said == (
        "an election needs a running asyncio task: await it in a coroutine that asyncio.run() runs,"
        " or take incumbent.blocking"
    )


# -- what the action swallowed --------------------------------------------------------------


async def raised(body: Callable[[], Awaitable[object]]) -> BaseException | None:
    """What `body` raises; None when it ends by itself."""
    try:
        await body()
    except asyncio.CancelledError as error:
        return error
    return None


async def swallow_one() -> None:
    """Cancel the task, as an old timeout does, and catch that."""
    later(current().cancel)
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(5)


async def test_what_was_swallowed_before_ours_does_not_count() -> None:
    """The action went on after it, so what leaves the action is ours alone."""
    guard = Guard()
    await swallow_one()
    assert guard.cancelled_by_others
    later(guard.cancel)
    error = await raised(lambda: asyncio.sleep(5))
    assert guard.disarm(error)
    assert current().cancelling() == 1, "not ours to take back"
    current().uncancel()


async def test_what_is_still_being_handled_counts() -> None:
    """Ours cuts the clean-up after another's: that one is handed on."""
    guard = Guard()

    async def cleans_up() -> None:
        try:
            later(current().cancel)
            await asyncio.sleep(5)
        finally:
            later(guard.cancel)
            await asyncio.sleep(5)

    error = await raised(cleans_up)
    assert error is not None
    assert error.args == ("leadership lost",)
    assert not guard.disarm(error)
    current().uncancel()


@pytest.mark.parametrize("ours_first", [True, False])
async def test_two_that_come_in_one_turn_are_not_ours_alone(ours_first: bool) -> None:
    """They arrive as one error, which may bear our mark: the other one is handed on."""
    guard = Guard()
    calls: list[Callable[[], object]] = [guard._deliver, current().cancel]

    def both() -> None:
        for call in calls if ours_first else reversed(calls):
            call()

    later(both)
    error = await raised(lambda: asyncio.sleep(5))
    assert error is not None
    assert not guard.disarm(error)
    current().uncancel()


async def test_another_guard_s_cancellation_is_not_ours() -> None:
    """Two guards of one task, both with something to say: each knows its own."""
    outer, inner = Guard(), Guard()
    later(outer.cancel)
    await raised(lambda: asyncio.sleep(5))
    later(inner.cancel)
    error = await raised(lambda: asyncio.sleep(5))
    assert inner.disarm(error)
    assert not outer._is_ours(error)
    outer.disarm()
    assert current().cancelling() == 0


async def test_an_error_whose_context_goes_round_in_circles() -> None:
    """It is looked at once."""
    guard = Guard()
    await swallow_one()
    later(guard.cancel)
    error = await raised(lambda: asyncio.sleep(5))
    assert error is not None
    other = ValueError()
    error.__context__, other.__context__ = other, error
    assert guard.disarm(error)
    current().uncancel()


async def test_it_tells_when_its_task_ends_before_it_is_disarmed() -> None:
    """Once, and not when it was disarmed before."""
    told: list[object] = []

    async def forgets(*, disarms: bool) -> Guard:
        guard = Guard()
        guard.tell_when_alone(told.append, copy_context())
        if disarms:
            guard.disarm()
        return guard

    await asyncio.create_task(forgets(disarms=True))
    await turns()
    assert told == []
    task = asyncio.create_task(forgets(disarms=False))
    guard = await task
    await turns()
    assert told == [task]
    assert guard.reaches_nobody


async def test_a_task_that_has_ended_or_is_of_another_loop_is_not_guarded() -> None:
    """Then it is the current one."""
    ended = asyncio.create_task(turns(1))
    await ended
    assert Guard(task=ended).guards_current_task

    def elsewhere() -> "asyncio.Task[None]":
        async def task() -> "asyncio.Task[None]":
            return asyncio.create_task(asyncio.sleep(0))

        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(task())
        finally:
            loop.run_until_complete(turns())
            loop.close()

    foreign = await asyncio.to_thread(elsewhere)
    assert Guard(task=foreign).guards_current_task


# -- among other timeouts --------------------------------------------------------------------


async def guarded(after: float, body: Callable[[], Awaitable[object]]) -> str:
    """`body` under a guard that cancels `after` seconds, as `asyncio.timeout` would."""
    guard = Guard()
    timer = asyncio.get_running_loop().call_later(after, guard.cancel)
    error: BaseException | None = None
    try:
        await body()
    except BaseException as raised:  # noqa: BLE001 - as the engine does
        error = raised
    timer.cancel()
    ours = guard.disarm()
    if isinstance(error, asyncio.CancelledError) and ours:
        return "ours"
    if error is not None:
        raise error
    return "ended"


async def timed(after: float, body: Callable[[], Awaitable[object]]) -> str:
    """`body` under `asyncio.timeout`, which is the model."""
    try:
        async with asyncio.timeout(after):
            await body()
    except TimeoutError:
        return "ours"
    return "ended"


SOON, NEVER = 0.002, 60.0


@pytest.mark.parametrize(
    ("outer", "inner", "times", "expected"),
    [
        (outer, inner, times, expected)
        for outer in (guarded, timed)
        for inner in (guarded, timed)
        for times, expected in (
            ((SOON, NEVER), ("ours", None)),
            ((NEVER, SOON), ("ended", "ours")),
            ((SOON, SOON), ("ours", None)),
        )
    ],
    ids=lambda part: getattr(part, "__name__", None),
)
async def test_nested_it_behaves_like_asyncio_timeout(
    outer: Callable[..., Awaitable[str]],
    inner: Callable[..., Awaitable[str]],
    times: tuple[float, float],
    expected: tuple[str, str | None],
) -> None:
    """Guards and timeouts in each other, in any mixture: each catches its own and no other's."""
    said: list[str] = []

    async def within() -> None:
        said.append(await inner(times[1], lambda: asyncio.sleep(5)))

    assert await outer(times[0], within) == expected[0]
    assert current().cancelling() == 0
    if expected[1] is not None:
        assert said == [expected[1]]
    await turns()


async def test_an_anyio_scope_within_keeps_its_own() -> None:
    """The scope's cancellation ends in the scope; the guard's goes through it."""

    async def moves_on() -> None:
        with anyio.move_on_after(SOON) as scope:
            await anyio.sleep(5)
        assert scope.cancelled_caught
        await anyio.sleep(0.001)

    async def is_cut() -> None:
        with anyio.move_on_after(NEVER) as scope:
            await anyio.sleep(5)
        raise AssertionError(scope)

    assert await guarded(NEVER, moves_on) == "ended"
    assert await guarded(SOON, is_cut) == "ours"
    assert current().cancelling() == 0


async def test_an_anyio_scope_around_keeps_its_own() -> None:
    """A caller's scope cancels through the guard, and the guard's does not touch the scope."""
    with anyio.move_on_after(SOON) as scope:
        await guarded(NEVER, lambda: anyio.sleep(5))
    assert scope.cancelled_caught
    with anyio.move_on_after(NEVER) as scope:
        assert await guarded(SOON, lambda: anyio.sleep(5)) == "ours"
        await anyio.sleep(0.001)
    assert not scope.cancelled_caught
    assert current().cancelling() == 0


async def test_a_task_group_around_is_not_disturbed() -> None:
    """The cancellation of one child's action ends that action, neither child nor group."""

    async def child() -> str:
        said = await guarded(SOON, lambda: asyncio.sleep(5))
        await turns()
        return said

    async with asyncio.TaskGroup() as group:
        children = [group.create_task(child()) for _ in range(3)]
    assert [child.result() for child in children] == ["ours"] * 3


async def test_a_swallowed_cancellation_leaves_nothing_behind() -> None:
    """An action that returns in spite of it ends normally, and the task can be cancelled anew."""

    async def stubborn() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(5)

    assert await guarded(SOON, stubborn) == "ended"
    assert current().cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await asyncio.sleep(5)
