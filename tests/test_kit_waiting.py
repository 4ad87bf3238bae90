"""kit.waiting: a wait ends as soon as the predicate is true, and fails with a sentence."""

import asyncio
import itertools

import pytest

from kit.waiting import wait_until, wait_until_blocking


async def test_returns_the_first_truthy_answer_of_a_function() -> None:
    """The value that made it true is the value of the wait."""
    answers = iter([0, "", "here"])
    assert await wait_until(lambda: next(answers)) == "here"


async def test_takes_a_coroutine_function() -> None:
    """An async predicate is awaited each time."""
    answers = iter([False, True])

    async def ask() -> bool:
        await asyncio.sleep(0)
        return next(answers)

    assert await wait_until(ask) is True


async def test_fails_with_what_was_awaited() -> None:
    """The message names the time, the thing and the last answer."""
    with pytest.raises(AssertionError, match=r"not within 0.01 s: rain \(last answer: 0\)"):
        await wait_until(lambda: 0, within=0.01, what="rain")


async def test_asks_once_even_without_time() -> None:
    """No time at all still gives one look."""
    assert await wait_until(lambda: 7, within=0) == 7


async def test_is_quick_to_notice() -> None:
    """It looks every few milliseconds."""
    looks = itertools.count(1)
    async with asyncio.timeout(10):
        await wait_until(lambda: next(looks) == 100, within=60)


def test_blocking_twin() -> None:
    """Without a loop it does the same."""
    answers = iter([None, 3])
    assert wait_until_blocking(lambda: next(answers)) == 3
    with pytest.raises(AssertionError, match="rain"):
        wait_until_blocking(lambda: None, within=0.01, what="rain")
