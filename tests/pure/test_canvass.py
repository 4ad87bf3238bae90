"""Asking several for the same: the first good answer, whoever is gone, silent or slow."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from redis import exceptions as redis_errors

from incumbent.stores.redis.canvass import canvass
from kit.waiting import wait_until

Ask = Callable[[], Coroutine[Any, Any, str]]
PATIENCE = 0.01


class Hall:
    """Those who are asked, and what became of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended: list[str] = []

    def one(self, name: str, error: Exception | None = None, *, silent: bool = False) -> Ask:
        """Who answers with its name, or raises, or says nothing."""

        async def ask() -> str:
            self.asked.append(name)
            try:
                if silent:
                    await asyncio.Event().wait()
                if error is not None:
                    raise error
                return name
            finally:
                self.ended.append(name)

        return ask


@pytest.fixture
def hall() -> Hall:
    """Nobody is asked yet."""
    return Hall()


async def test_the_first_answer_is_enough(hall: Hall) -> None:
    """Nobody else is asked."""
    assert await canvass([hall.one("a"), hall.one("b")], 60, "") == "a"
    assert hall.asked == ["a"]


async def test_who_fails_is_followed_at_once(hall: Hall) -> None:
    """Without patience."""
    gone = hall.one("a", redis_errors.ConnectionError("gone"))
    assert await canvass([gone, hall.one("b")], 60, "") == "b"


async def test_who_is_silent_is_followed_and_ended(hall: Hall) -> None:
    """Nothing goes on after the answer."""
    asks = [hall.one("a", silent=True), hall.one("b", silent=True), hall.one("c")]
    assert await canvass(asks, PATIENCE, "") == "c"
    assert sorted(hall.ended) == ["a", "b", "c"]


async def test_who_is_slow_may_still_answer(hall: Hall) -> None:
    """When all who were asked after it have failed, or are slower."""
    late = asyncio.Event()

    async def slow() -> str:
        await late.wait()
        return "slow"

    async def gone() -> str:
        late.set()
        raise redis_errors.ConnectionError("gone")

    assert await canvass([slow, gone], PATIENCE, "") == "slow"


async def test_silence_is_not_waited_for_when_others_have_failed(hall: Hall) -> None:
    """What they said is raised, for it may be worth asking again."""
    asks = [hall.one("a", silent=True), hall.one("b", redis_errors.ConnectionError("none yet"))]
    with pytest.raises(redis_errors.ConnectionError, match="none yet"):
        await canvass(asks, PATIENCE, "")
    assert hall.ended == ["b", "a"]


async def test_what_will_not_pass_is_raised_before_what_will(hall: Hall) -> None:
    """Wrong credentials rather than a node that is gone; without anybody, that is said."""
    denied = hall.one("a", redis_errors.AuthenticationError("denied"))
    gone = hall.one("b", redis_errors.ConnectionError("gone"))
    for asks in ([denied, gone], [gone, denied]):
        with pytest.raises(redis_errors.AuthenticationError):
            await canvass(asks, PATIENCE, "")
    with pytest.raises(redis_errors.ConnectionError, match="nobody is here"):
        await canvass(list[Ask](), PATIENCE, "nobody is here")


async def test_what_enough_of_them_say_counts(hall: Hall) -> None:
    """Whoever speaks first; as many as that are asked at once, and no more while they agree."""
    asks = [hall.one("a"), hall.one("a"), hall.one("b")]
    assert await canvass(asks, 60, "", enough=2) == "a"
    assert hall.asked == ["a", "a"]
    asks = [hall.one("b"), hall.one("a"), hall.one("a")]
    assert await canvass(asks, 60, "", enough=2) == "a"
    together = asyncio.Barrier(2)

    async def meets() -> str:
        await together.wait()
        return "a"

    assert await asyncio.wait_for(canvass([meets, meets], 60, "", enough=2), 30) == "a"
    gone = hall.one("b", redis_errors.ConnectionError("gone"))
    asks = [gone, hall.one("a"), hall.one("b", silent=True), hall.one("a")]
    assert await canvass(asks, PATIENCE, "", enough=2) == "a"


async def test_too_few_say_the_same(hall: Hall) -> None:
    """Why somebody has not spoken, if so; else that they do not agree. Silence is not awaited."""
    silent, gone = hall.one("c", silent=True), hall.one("c", redis_errors.ConnectionError("gone"))
    for last, said in ((gone, "gone"), (silent, "do not agree"), (hall.one("c"), "do not agree")):
        with pytest.raises(redis_errors.ConnectionError, match=said):
            await canvass([hall.one("a"), hall.one("b"), last], PATIENCE, "", enough=2)


async def test_a_cancellation_ends_all_who_are_asked(hall: Hall) -> None:
    """And comes out."""
    asks = [hall.one(name, silent=True) for name in "abc"]
    asking = asyncio.create_task(canvass(asks, PATIENCE, ""))
    await wait_until(lambda: len(hall.asked) == 2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert hall.ended == hall.asked
