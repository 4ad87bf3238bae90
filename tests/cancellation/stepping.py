"""Striking a coroutine at its k-th suspension point, exactly there.

Knows nothing of elections, nor of how a strike cancels: it is a function that is called. The
coroutine runs in the task that awaits the `Stepped`. Each time it suspends, or a task suspends
that was begun on its behalf, what it waits for passes through our hands and is counted. For a few
turns of the loop after the strike whoever is at that point stays parked there, so a cancellation
that needs some turns to arrive (a task group's) hits the same point as one that is there at once.
"""

import asyncio
from collections.abc import Callable, Container, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Steps = Generator[Any, None, T]
AnyCoroutine = Coroutine[Any, Any, Any]

TURNS = 12
LIBRARY = f"{Path('src', 'incumbent')}/"

_running: ContextVar["Stepped[Any] | None"] = ContextVar("running", default=None)


class Stepped(Generic[T]):
    """Awaits `work`, and calls `strike` at its suspension number `at` (from 1; 0: never).

    With `late` that is when what is waited for has come, but before the waiter can see it: the
    reply of the server is here, and the cancellation is thrown in all the same. `again` says how
    many suspensions after that it strikes once more.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        at: int,
        strike: Callable[[], object],
        *,
        late: bool = False,
        again: Container[int] = (),
    ) -> None:
        self.points = 0
        """Suspensions so far."""
        self.strikes = 0
        self.places: list[str] = []
        """Where each suspension was: the innermost line of the library."""
        self.tasks: set[str] = set()
        """The names of the tasks that suspended."""
        self.seen = False
        """A cancellation was thrown into the coroutine itself."""
        self.value: T | None = None
        self.error: BaseException | None = None
        """What came out of the coroutine in the end."""
        self._work = work
        self._at = at
        self._strike = strike
        self._late = late
        self._again = again

    @property
    def struck(self) -> bool:
        """Whether there was a suspension with that number."""
        return self.strikes > 0

    @property
    def cancelled(self) -> bool:
        """Whether a cancellation came out of the coroutine."""
        return isinstance(self.error, asyncio.CancelledError)

    def __await__(self) -> Steps[T]:
        asyncio.get_running_loop().set_task_factory(_new_task)
        token = _running.set(self)
        try:
            self.value = yield from self.steps(self._work)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._at = 0  # what goes on after it, for others as well, is none of ours
            _running.reset(token)
        return self.value

    def steps(self, work: Coroutine[Any, Any, T]) -> Steps[T]:
        """Drive `work`, ours or that of a task on its behalf, and count its suspensions."""
        steps = work.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                value: T = end.value
                return value
            self.points += 1
            self.places.append(_place(work))
            self.tasks.add(_this_task().get_name())
            since = self.points - self._at
            due = self._at > 0 and (since == 0 or since in self._again)
            error = yield from (self._struck(awaited) if due else _passed(awaited))
            if work is self._work and isinstance(error, asyncio.CancelledError):
                self.seen = True
            resume = partial(next, steps) if error is None else partial(steps.throw, error)

    def _struck(self, awaited: Any) -> Steps[BaseException | None]:
        """Strike, and say what is to be thrown into the coroutine."""
        if self._late and awaited is not None:
            error = yield from _passed(awaited)
            if isinstance(error, asyncio.CancelledError):
                return error
        task = _this_task()
        asked = task.cancelling()
        self.strikes += 1
        self._strike()
        if task.cancelling() > asked and awaited is not None and not awaited.done():
            # It came at once: the task itself now cancels what it is about to wait for.
            return (yield from _passed(awaited))
        for _ in range(TURNS):
            try:
                yield None
            except asyncio.CancelledError as error:
                return (yield from _cancelled(awaited, error))
        # Whoever is shielded is not hit here, but when the shield ends.
        if awaited is None or awaited.done():
            return None
        return (yield from _passed(awaited))


class _Watched(AnyCoroutine):
    """A coroutine of a task that was begun on behalf of a `Stepped` one."""

    def __init__(self, stepped: Stepped[Any], work: AnyCoroutine) -> None:
        self._work = work
        self._steps = stepped.steps(work)
        self._begun = False

    def send(self, value: Any, /) -> Any:
        self._begun = True
        return next(self._steps)

    def throw(self, error: Any, /, *rest: Any) -> Any:
        # A task that is cancelled before its first step never begins.
        return self._steps.throw(error) if self._begun else self._work.throw(error)

    def close(self) -> None:
        self._steps.close()
        self._work.close()

    def __await__(self) -> Steps[Any]:
        return self._steps


def _new_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    # A task with a context of its own goes on for others as well: it is not on the run's behalf.
    stepped = _running.get() if options.get("context") is None else None
    watched = work if stepped is None else _Watched(stepped, work)
    return asyncio.Task(watched, loop=loop, **options)


def _this_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


def _passed(awaited: Any) -> Steps[BaseException | None]:
    """Wait for what is waited for, as the task itself would have done."""
    try:
        yield awaited
    except BaseException as error:  # noqa: BLE001 - whatever it is goes on into the coroutine
        return error
    return None


def _cancelled(awaited: Any, error: asyncio.CancelledError) -> Steps[BaseException | None]:
    """Hand a cancellation on to what is awaited, as `asyncio.Task.cancel` does."""
    if awaited is not None and not awaited.done() and awaited.cancel() and not awaited.done():
        # A task, which may need a while to end: its waiter sees how it ends.
        return (yield from _passed(awaited))
    return error


def _place(work: AnyCoroutine) -> str:
    """Where `work` is suspended: the innermost function and line of the library, or of all."""
    frames: list[tuple[str, str]] = []
    inner: Any = work
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            frames.append((code.co_filename, f"{code.co_qualname}:{frame.f_lineno}"))
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    ours = [where for file, where in frames if LIBRARY in file]
    return ours[-1] if ours else frames[-1][1] if frames else "?"
