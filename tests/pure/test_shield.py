"""incumbent.shield: work ends, whoever cancels its caller, and the cancellation is handed on."""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest
import uvloop

from incumbent import shield
from incumbent.shield import close_with_loop, finish, heed, outlast, stop, yielding
from kit.waiting import wait_until


class Work:
    """Work that goes on until it is told to end, and says whether it came to its end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended = False
        self._error = error

    async def __call__(self) -> str:
        """Wait for `may_end`, then return or raise."""
        self.begun.set()
        await self.may_end.wait()
        self.ended = True
        if self._error is not None:
            raise self._error
        return "done"


@pytest.fixture
async def work() -> Work:
    """Work that returns "done"."""
    return Work()


@pytest.fixture
async def turns() -> AsyncIterator[Callable[[], int]]:
    """How many turns the loop has made so far."""
    loop: Any = asyncio.get_running_loop()
    count, run_once = 0, loop._run_once

    def counted() -> None:
        nonlocal count
        count += 1
        run_once()

    loop._run_once = counted
    yield lambda: count
    del loop._run_once


async def end_soon(work: Work, after: float = 0.0) -> None:
    """Let `work` end, after some time."""
    await asyncio.sleep(after)
    work.may_end.set()


async def caught(task: "asyncio.Task[Any]") -> BaseException | None:
    """What came out of a task."""
    with suppress(BaseException):
        await task
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def sweep() -> None:
    """Let go of all that nobody holds; callbacks of the loop may hold it for a turn."""
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()


# -- finish ----------------------------------------------------------------------------------


async def test_finish_gives_the_result(work: Work) -> None:
    """Without trouble it is nothing but a call."""
    work.may_end.set()
    assert await finish(work) == "done"


async def test_finish_raises_what_the_work_raises() -> None:
    """The very error, neither wrapped nor grouped."""
    error = ValueError("no")
    work = Work(error)
    work.may_end.set()
    with pytest.raises(ValueError, match="no") as said:
        await finish(work)
    assert said.value is error


@pytest.mark.parametrize("times", [1, 2, 20])
async def test_cancelled_work_still_ends(work: Work, times: int) -> None:
    """However often the caller is cancelled, it returns after the work only, cancelled."""
    caller = asyncio.create_task(finish(work))
    await work.begun.wait()
    for _ in range(times):
        caller.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
    assert not caller.done()
    assert not work.ended
    work.may_end.set()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert caller.cancelled()
    assert work.ended


async def test_a_cancellation_of_before_the_call_is_handed_on_too(work: Work) -> None:
    """Who was cancelled in the same turn in which the work began still does the work."""
    caller = asyncio.create_task(finish(work))
    await work.begun.wait()
    caller.cancel("early")
    caller.cancel("late")
    work.may_end.set()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert work.ended

    async def asks_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await finish(again)

    again = Work()
    again.may_end.set()
    assert isinstance(await caught(asyncio.create_task(asks_itself())), asyncio.CancelledError)
    assert again.ended


async def test_the_first_cancellation_is_the_one_handed_on(work: Work) -> None:
    """Its message says who began."""
    caller = asyncio.create_task(finish(work))
    await work.begun.wait()
    for message in ("first", "second"):
        caller.cancel(message)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError, match="first"):
        await caller


async def test_the_cancellations_stay_counted(work: Work) -> None:
    """Whoever uncancels finds the requests that were made, none less: structured timeouts work."""
    counts: list[int] = []

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await finish(work)
        except asyncio.CancelledError:
            counts.append(task.cancelling())
            counts.append(task.uncancel())
            counts.append(task.uncancel())
        await asyncio.sleep(0)  # works again

    caller = asyncio.create_task(call())
    await work.begun.wait()
    for _ in range(2):
        caller.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    work.may_end.set()
    await caller
    assert counts == [2, 1, 0]


async def test_an_error_of_cancelled_work_is_seen(loop_complaints: list[str]) -> None:
    """The cancellation wins, and the loop does not report the error as never retrieved."""
    work = Work(ValueError("no"))
    caller = asyncio.create_task(finish(work))
    await work.begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    work.may_end.set()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert work.ended
    del caller
    await sweep()
    assert loop_complaints == []


async def test_work_that_is_cancelled_itself_begins_anew(loop_complaints: list[str]) -> None:
    """A program that ends cancels every task: what must be done is done all the same."""
    begun = 0
    may_end = asyncio.Event()

    async def cleans_up() -> str:
        nonlocal begun
        begun += 1
        await may_end.wait()
        return "done"

    caller = asyncio.create_task(finish(cleans_up))
    await wait_until(lambda: begun == 1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await wait_until(lambda: begun == 2)
    may_end.set()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert begun == 2


async def test_work_that_gives_up_is_not_tried_for_ever() -> None:
    """Work that always ends as cancelled is begun three times, and that is its outcome."""
    begun = 0

    async def gives_up() -> None:
        nonlocal begun
        begun += 1
        raise asyncio.CancelledError("mine")

    with pytest.raises(asyncio.CancelledError):
        await finish(gives_up)
    assert begun == 3
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


# -- under the timeouts of others ------------------------------------------------------------


async def test_under_asyncio_timeout_the_work_ends_first(work: Work) -> None:
    """A caller's `asyncio.timeout` fires, and is a `TimeoutError` after the work."""
    ending = asyncio.create_task(end_soon(work, 0.05))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await finish(work)
    assert work.ended
    await ending


async def anyio_move_on(call: Callable[[], Awaitable[Any]]) -> bool:
    """Within a scope that is soon cancelled."""
    with anyio.move_on_after(0.01) as scope:
        await call()
    return scope.cancelled_caught


async def anyio_fail(call: Callable[[], Awaitable[Any]]) -> bool:
    """Within a scope that soon raises."""
    try:
        with anyio.fail_after(0.01):
            await call()
    except TimeoutError:
        return True
    return False


async def anyio_group(call: Callable[[], Awaitable[Any]]) -> bool:
    """Within a task group that is soon cancelled, in a task of it."""
    async with anyio.create_task_group() as group:

        async def child() -> None:
            await call()
            raise AssertionError("the cancellation was swallowed")

        group.start_soon(child)
        await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    return True


async def anyio_nested(call: Callable[[], Awaitable[Any]]) -> bool:
    """Within two scopes of which the outer is soon cancelled."""
    with anyio.move_on_after(0.01) as outer:
        with anyio.move_on_after(60) as inner:
            await call()
        assert not inner.cancelled_caught
    return outer.cancelled_caught


@pytest.mark.parametrize("around", [anyio_move_on, anyio_fail, anyio_group, anyio_nested])
async def test_under_anyio_the_work_ends_without_a_busy_loop(
    around: Callable[[Callable[[], Awaitable[Any]]], Awaitable[bool]],
    work: Work,
    turns: Callable[[], int],
) -> None:
    """A scope cancels in every turn of the loop; waiting makes few turns all the same."""
    ending = asyncio.create_task(end_soon(work, 0.1))
    before = turns()
    assert await around(lambda: finish(work))
    assert work.ended
    assert turns() - before < 30
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await ending


async def test_work_within_a_cancelled_scope_can_still_await(work: Work) -> None:
    """The work is a task of its own, so the caller's scope does not reach into it."""
    steps = 0

    async def several_steps() -> None:
        nonlocal steps
        for _ in range(5):
            await anyio.sleep(0.001)
            steps += 1

    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish(several_steps)
    assert scope.cancelled_caught
    assert steps == 5


async def test_a_native_cancellation_within_an_anyio_scope_is_handed_on(work: Work) -> None:
    """A scope that was not cancelled does not keep what is not its own."""

    async def call() -> None:
        with anyio.CancelScope():
            await finish(work)

    caller = asyncio.create_task(call())
    await work.begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    work.may_end.set()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert work.ended


# -- outlast ---------------------------------------------------------------------------------


async def test_outlast_of_nothing_returns_at_once() -> None:
    """Nothing to wait for, or only what is done already, does not even let go of the loop."""
    done = asyncio.create_task(asyncio.sleep(0))
    await done
    coroutine = outlast(done)
    with pytest.raises(StopIteration):
        coroutine.send(None)
    coroutine = outlast()
    with pytest.raises(StopIteration):
        coroutine.send(None)


async def test_outlast_waits_for_all() -> None:
    """The last one to end is the one that counts, cancelled or not."""
    works = [Work() for _ in range(3)]
    tasks = [asyncio.create_task(work()) for work in works]
    waiting = asyncio.create_task(outlast(*tasks))
    for work in works:
        await work.begun.wait()
        waiting.cancel()
        work.may_end.set()
        await wait_until(lambda work=work: work.ended)  # type: ignore[misc] # bound on purpose
    assert isinstance(await caught(waiting), asyncio.CancelledError)
    assert all(task.done() and not task.cancelled() for task in tasks)


async def test_outlast_waits_for_a_future() -> None:
    """What somebody else sets is waited for like a task."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(outlast(future))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not future.cancelled()
    future.set_result(None)
    assert isinstance(await caught(waiting), asyncio.CancelledError)


async def test_outlast_sees_every_error(loop_complaints: list[str]) -> None:
    """Errors and cancellations of all that was waited for are seen, when the caller's wins."""
    works = [Work(ValueError(str(number))) for number in range(3)]
    tasks = [asyncio.create_task(work()) for work in works]
    waiting = asyncio.create_task(outlast(*tasks))
    for work in works:
        await work.begun.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    tasks[0].cancel()
    for work in works[1:]:
        work.may_end.set()
    assert isinstance(await caught(waiting), asyncio.CancelledError)
    tasks.clear()
    del waiting
    await sweep()
    assert loop_complaints == []


# -- yielding --------------------------------------------------------------------------------


async def test_yielding_gives_way_to_a_cancellation(work: Work) -> None:
    """Unlike what must be finished, this work is cancelled with its caller."""
    caller = asyncio.create_task(yielding(work_of(work)))
    await work.begun.wait()
    caller.cancel()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert not work.ended


async def test_yielding_ends_work_that_swallows_a_cancellation() -> None:
    """What does not obey is cancelled again until it does, and the caller waits for that."""
    swallowed = 0

    async def deaf() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 3:
                    raise

    caller = asyncio.create_task(yielding(deaf))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    assert swallowed == 3


@pytest.mark.parametrize("already", [False, True], ids=["at work", "cancelled already"])
async def test_stop_lets_a_task_clean_up(already: bool) -> None:
    """Who obeys is cancelled once: what it awaits to clean up is not cut."""
    cleaned: list[int] = []

    async def obedient() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            for turn in range(5):
                await asyncio.sleep(0)
                cleaned.append(turn)

    tasks = [asyncio.create_task(obedient()) for _ in range(2)]
    await asyncio.sleep(0)
    if already:
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
    await stop(*tasks)
    assert all(task.cancelled() for task in tasks)
    assert len(cleaned) == 10


async def test_p9_stop_gives_up_on_who_never_obeys(
    monkeypatch: pytest.MonkeyPatch, loop_complaints: list[str]
) -> None:
    """It is left alone after a while; its error in the end is still retrieved."""
    monkeypatch.setattr(shield, "STOP_WITHIN", 0.3)
    may_end = asyncio.Event()

    async def deaf() -> None:
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        raise OSError("at last")

    task = asyncio.create_task(deaf())
    async with asyncio.timeout(30):
        await stop(task)
    assert not task.done()
    may_end.set()
    await asyncio.wait((task,))
    await asyncio.sleep(0)
    del task
    gc.collect()
    assert not loop_complaints


async def test_stop_lets_a_task_clean_up_when_the_process_stood_still() -> None:
    """An obedient task has turns of the loop to clean up in, and not only time that passes."""
    cleaned = False

    async def obedient() -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        finally:
            time.sleep(2 * shield.CLEAN_UP_WITHIN)  # noqa: ASYNC251 - as stopped by SIGSTOP
            for _ in range(5):
                await asyncio.sleep(0)
            cleaned = True

    task = asyncio.create_task(obedient())
    await asyncio.sleep(0)
    await stop(task)
    assert cleaned


async def test_stop_of_nothing() -> None:
    """Nothing to do, and no error."""
    await stop()


async def swallowing() -> None:
    """Swallow a cancellation, and heed it."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    await heed(0)


async def test_heed_hands_a_swallowed_cancellation_on() -> None:
    """As if nobody had swallowed it; who was not cancelled goes on."""
    await heed(0)
    task = asyncio.create_task(swallowing())
    await asyncio.sleep(0)
    task.cancel()
    assert isinstance(await caught(task), asyncio.CancelledError)


async def test_heed_hands_on_to_whom_it_belongs() -> None:
    """A timeout and a scope catch their own, and the count is as it was."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await swallowing()
    with anyio.move_on_after(0.01) as scope:
        await swallowing()
    assert scope.cancelled_caught
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_yielding_raises_what_the_work_raises() -> None:
    """Without a cancellation it is nothing but a call."""
    work = Work(ValueError("no"))
    work.may_end.set()
    with pytest.raises(ValueError, match="no"):
        await yielding(work_of(work))
    again = Work()
    again.may_end.set()
    await yielding(work_of(again))
    assert again.ended


async def test_yielding_sees_an_error_that_a_cancellation_caused(
    loop_complaints: list[str],
) -> None:
    """The cancellation wins, and the loop does not report the error as never retrieved."""

    async def breaks() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ConnectionError("cut")

    caller = asyncio.create_task(yielding(breaks))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    assert isinstance(await caught(caller), asyncio.CancelledError)
    del caller
    await sweep()
    assert loop_complaints == []


def work_of(work: Work) -> Callable[[], Coroutine[Any, Any, None]]:
    """`work` without its result."""

    async def without_result() -> None:
        await work()

    return without_result


class Lingering:
    """A task that a program's last clean-up has begun, and that nobody waits for."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.closed = 0

    async def begin(self) -> None:
        """Begin it when the running task is cancelled."""
        close_with_loop(self)
        try:
            await asyncio.Event().wait()
        finally:
            self.task = asyncio.create_task(anyio.sleep_forever())

    async def aclose(self) -> None:
        """End it."""
        self.closed += 1
        if self.task is not None:
            await stop(self.task)


@pytest.mark.parametrize("factory", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_what_a_clean_up_has_begun_ends_with_the_loop(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A program that ends waits only for the tasks that there were when it cancelled them."""
    lingering = Lingering()

    async def program() -> None:
        tasks.append(asyncio.create_task(lingering.begin()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(program())
    assert lingering.task is not None
    assert lingering.task.cancelled()
    assert lingering.closed == 1


def test_what_is_closed_with_the_loop_is_not_kept_by_it() -> None:
    """Whoever is done with it lets go of it, and it is not closed any more."""
    closed: list[int] = []

    class Noted:
        async def aclose(self) -> None:
            closed.append(1)

    async def program() -> None:
        close_with_loop(Noted())
        gc.collect()

    asyncio.run(program())
    assert closed == []


async def test_only_the_loop_is_told_what_to_close() -> None:
    """Whoever else wants to know of generators is shown none that is not one."""
    shown: list[object] = []
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=shown.append)
    try:
        close_with_loop(Lingering())
    finally:
        sys.set_asyncgen_hooks(*before)
    assert shown == []
