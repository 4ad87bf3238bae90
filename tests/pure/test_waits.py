"""incumbent.engine.waits: closing ends what waits, and is not kept by what will not end."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from incumbent import ElectorClosedError
from incumbent.engine.waits import Waits


async def test_p9_closing_does_not_wait_for_who_swallows_its_cancellation() -> None:
    """As a credential provider of the user's may, in the middle of a request."""
    enough = asyncio.Event()

    async def deaf() -> None:
        while not enough.is_set():
            with suppress(asyncio.CancelledError):
                await enough.wait()

    waits = Waits()
    waiting = asyncio.create_task(waits.run(deaf))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await waits.close(0.05)
    assert not waiting.done()
    with pytest.raises(ElectorClosedError):
        waits.check()
    enough.set()
    await waiting
    assert waiting.cancelling() == 0


async def test_closing_waits_until_the_waits_have_cleaned_up() -> None:
    """However many turns of the loop that takes, if it is within the time."""
    cleaned = 0

    async def cleans_up() -> None:
        nonlocal cleaned
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            cleaned += 1

    waits = Waits()
    waiting = [asyncio.create_task(waits.run(cleans_up)) for _ in range(3)]
    await asyncio.sleep(0)
    await waits.close(30)
    assert cleaned == 3
    for each in waiting:
        with pytest.raises(ElectorClosedError):
            await each


async def test_who_closes_while_it_waits_itself_is_not_ended_by_that() -> None:
    """It would wait for its own end; what it waits for next is refused."""
    waits, task = Waits(), asyncio.current_task()
    other = asyncio.create_task(waits.sleep(60))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await waits.run(partial(waits.close, 60))
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(ElectorClosedError):
        await other
    with pytest.raises(ElectorClosedError):
        await waits.sleep(60)
