"""A program that ends while an election, a wait, a renewal, an action or a release is under way.

Run with ``-X dev -W error`` by `test_shutdown`; it must write nothing to stderr but what it is
told to, and leave no seat. Arguments: a server's URL, how the program ends, and what is under way
then: several of these are as many programs one after another.
"""

import asyncio
import gc
import sys
from typing import Any

import redis.asyncio

from incumbent import ElectorClosedError, LeaderElector, LeaderOptions


async def forever() -> None:
    """An action with a cleanup of its own."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        print("cleaned up", flush=True)


async def under_way(elector: LeaderElector, what: str) -> "asyncio.Task[Any]":
    """Begin a campaign and come back when it has got so far; the network is slow enough for it."""
    leading = asyncio.Event()

    async def lead() -> None:
        leading.set()
        await forever()

    task = asyncio.create_task(elector.campaign(f"program-{what}", lead))
    if what == "election":  # connected, and asking
        await elector.state("program")
        await asyncio.sleep(0.005)
    elif what == "wait":  # somebody else has the seat
        await asyncio.sleep(0.15)
    else:
        await leading.wait()
    if what == "renewal":  # due at 83 ms, and under way for 20 ms
        await asyncio.sleep(0.09)
    elif what == "release":
        task.cancel()
        await asyncio.sleep(0.02)
    print(what, "under way", flush=True)
    return task


async def close(elector: LeaderElector, task: "asyncio.Task[Any]") -> None:
    """As it should be: cancel, wait, close."""
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    await elector.aclose()


async def close_first(elector: LeaderElector, task: "asyncio.Task[Any]") -> None:
    """The elector is closed under its campaign."""
    await elector.aclose()
    task.cancel()
    await asyncio.wait((task,))
    # What waits ends as the elector is closed; what leads goes on until it is cancelled.
    assert task.cancelled() or isinstance(task.exception(), ElectorClosedError)
    await elector.aclose()


async def abandon(elector: LeaderElector, task: "asyncio.Task[Any]") -> None:
    """Nobody cancels, waits or closes: ``asyncio.run`` does what it can."""


async def abandon_cancelled(elector: LeaderElector, task: "asyncio.Task[Any]") -> None:
    """Cancelled and not waited for."""
    task.cancel()
    await asyncio.sleep(0)


async def interrupt(elector: LeaderElector, task: "asyncio.Task[Any]") -> None:
    """Waits for Ctrl-C."""
    await task


ENDS = {each.__name__: each for each in (close, close_first, abandon, abandon_cancelled, interrupt)}


async def main(url: str, end: str, what: str) -> None:
    """Get so far, and end."""
    asyncio.get_running_loop().slow_callback_duration = 10  # a busy machine is not our topic
    client = redis.asyncio.Redis.from_url(url)
    elector = LeaderElector(client, LeaderOptions(lease_time=0.25), hooks=())
    try:
        task = await under_way(elector, what)
        await ENDS[end](elector, task)
    finally:
        if end in ("close", "close_first"):
            await client.aclose()


if __name__ == "__main__":
    for each in sys.argv[3:]:
        try:
            asyncio.run(main(sys.argv[1], sys.argv[2], each))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        gc.collect()
