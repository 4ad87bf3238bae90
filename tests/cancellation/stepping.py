"""Striking a coroutine at its k-th suspension point, exactly there.

Knows nothing of elections, nor of how a strike cancels: it is a function that is called. The
coroutine runs in the task that awaits the `Stepped`; each time it suspends, what it waits for
passes through our hands. For the time of a few turns of the loop after the strike the
coroutine stays parked where it is, so a cancellation that needs some turns to arrive (a task
group's) hits the same point as one that is there at once.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TURNS = 12
LIBRARY = f"{Path('src', 'incumbent')}/"


class Stepped(Generic[T]):
    """Awaits `work`, and calls `strike` at its suspension number `at` (from 1; 0: never).

    With `late` that is when what the coroutine waits for has come, but before it can see it: the
    reply of the server is here, and the cancellation is thrown in all the same. So many
    suspensions after that are struck `again`.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        at: int,
        strike: Callable[[], object],
        *,
        late: bool = False,
        again: int = 0,
    ) -> None:
        self.points = 0
        """Suspensions so far."""
        self.strikes = 0
        self.hit = 0
        """Strikes that arrived at the very suspension at which they were made."""
        self.places: list[str] = []
        """Where the coroutine was at each suspension: the innermost line of the library."""
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

    def __await__(self) -> Generator[Any, None, T]:
        try:
            self.value = yield from self._steps()
        except BaseException as error:
            self.error = error
            raise
        return self.value

    def _steps(self) -> Generator[Any, None, T]:
        steps = self._work.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                value: T = end.value
                return value
            self.points += 1
            self.places.append(place(self._work))
            due = 0 < self._at <= self.points <= self._at + self._again
            error = yield from (self._struck(awaited) if due else _passed(awaited))
            resume = partial(next, steps) if error is None else partial(steps.throw, error)

    def _struck(self, awaited: Any) -> Generator[Any, None, BaseException | None]:
        """Strike, and say what is to be thrown into the coroutine."""
        if self._late and awaited is not None:
            error = yield from _passed(awaited)
            if isinstance(error, asyncio.CancelledError):
                return error
        task = asyncio.current_task()
        assert task is not None
        asked = task.cancelling()
        self.strikes += 1
        self._strike()
        if task.cancelling() > asked and awaited is not None and not awaited.done():
            # It came at once: the task itself now cancels what it is about to wait for.
            error = yield from _passed(awaited)
            self.hit += isinstance(error, asyncio.CancelledError)
            return error
        for _ in range(TURNS):
            try:
                yield None
            except asyncio.CancelledError as error:
                self.hit += 1
                return (yield from _cancelled(awaited, error))
        # Whoever is shielded is not hit here, but when the shield ends.
        if awaited is None or awaited.done():
            return None
        return (yield from _passed(awaited))


def _passed(awaited: Any) -> Generator[Any, None, BaseException | None]:
    """Wait for what the coroutine waits for, as its task would have done."""
    try:
        yield awaited
    except BaseException as error:  # noqa: BLE001 - whatever it is goes on into the coroutine
        return error
    return None


def _cancelled(
    awaited: Any, error: asyncio.CancelledError
) -> Generator[Any, None, BaseException | None]:
    """Hand a cancellation on to what is awaited, as `asyncio.Task.cancel` does."""
    if awaited is not None and not awaited.done() and awaited.cancel() and not awaited.done():
        # A task, which may need a while to end: its waiter sees how it ends.
        return (yield from _passed(awaited))
    return error


def place(work: Coroutine[Any, Any, Any]) -> str:
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
