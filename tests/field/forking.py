"""A process that forks while it has an elector, for case 75: ``python forking.py SCENARIO URL``.

Prints one JSON object: what the child saw, and what the parent saw. It is a process of its own,
because forking one that tests run in (with its threads and servers) would be another test.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import redis.asyncio

from incumbent import LeaderElector, LeaderOptions, Lease
from incumbent.events import Event
from kit.waiting import wait_until

Facts = dict[str, Any]

OPTIONS = LeaderOptions(lease_time=4, request_timeout=5)


async def nothing() -> str:
    """An action that is done at once."""
    return "done"


def fork(child: Callable[[], Facts]) -> tuple[int, int]:
    """Run `child` in a child process; its number, and where its facts can be read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _tell(child, writing)
    os.close(writing)
    return pid, reading


def _tell(child: Callable[[], Facts], writing: int) -> NoReturn:
    try:
        facts = child()
    except BaseException as error:  # noqa: BLE001 - it is told to the parent
        facts = {"error": f"{type(error).__name__}: {error}"}
    os.write(writing, json.dumps(facts).encode())
    os._exit(0)


async def ended(pid: int, reading: int) -> Facts:
    """Wait for the child while the loop goes on, and return what it said."""
    await wait_until(lambda: _is_over(pid), within=20)
    with os.fdopen(reading, "rb") as pipe:
        facts: Facts = json.loads(pipe.read())
    return facts


def _is_over(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG) != (0, 0)


async def use(elector: LeaderElector) -> Facts:
    """Lead an election that is free, in this process."""
    async with elector.lead("free") as lease:
        return {"led": True, "fence": lease.fence, "leader_id": elector.leader_id}


def preloaded(url: str) -> Facts:
    """The elector was made before the fork, and never used: both use it afterwards."""
    elector = LeaderElector(redis.asyncio.Redis.from_url(url), OPTIONS)

    async def parent() -> Facts:
        child = await ended(*fork(lambda: asyncio.run(use(elector))))
        return {"child": child, "parent": await use(elector)}

    return asyncio.run(parent())


def used(url: str) -> Facts:
    """The elector and its client have connections from before the fork."""
    client = redis.asyncio.Redis.from_url(url)
    elector = LeaderElector(client, OPTIONS)

    async def parent() -> Facts:
        await client.ping()
        before = await use(elector)
        child = await ended(*fork(lambda: asyncio.run(use(elector))))
        after = await use(elector)
        await client.set("mine", "x", px=60_000)
        return {
            "child": child,
            "parent": after,
            "before": before,
            "own": str(await client.get("mine")),
        }

    return asyncio.run(parent())


def leading(url: str) -> Facts:
    """The parent leads when it forks; the child has a copy of the lease, and tries everything."""
    events: list[str] = []

    def note(event: Event) -> None:
        events.append(type(event).__name__)

    elector = LeaderElector(redis.asyncio.Redis.from_url(url), OPTIONS, hooks=[note])

    async def try_everything(lease: Lease) -> Facts:
        events.clear()
        facts: Facts = {
            "held": lease.held,
            "remaining": lease.remaining,
            "is_leading": elector.is_leading("one"),
            "leases": len(elector.leases),
            "extended": await lease.extend(60),
        }
        await lease.release()
        outcome = await elector.attempt("one", nothing)
        facts |= {"outcome": type(outcome).__name__, **await use(elector)}
        await asyncio.sleep(OPTIONS.lease_time)  # long enough for a renewal, if there were one
        return facts | {"events": events}

    async def parent() -> Facts:
        async with elector.lead("one") as lease:
            renewed = events.count("TermRenewed")
            child = fork(lambda: asyncio.run(try_everything(lease)))
            facts = {"child": await ended(*child), "fence": lease.fence}
            await wait_until(lambda: events.count("TermRenewed") >= renewed + 2)
            facts |= {"held": lease.held, "leader_id": elector.leader_id}
        return facts | {"events": events}

    return asyncio.run(parent())


def waiting(url: str) -> Facts:
    """The parent stands in line when it forks; the child stands in the same line."""
    client = redis.asyncio.Redis.from_url(url)
    elector = LeaderElector(client, OPTIONS).using(wait_time=20)

    async def lead() -> Facts:
        async with elector.lead("one") as lease:
            return {"led": True, "fence": lease.fence}

    async def child() -> Facts:
        facts = await lead()
        await elector.aclose()
        return facts

    async def parent() -> Facts:
        other = LeaderElector(redis.asyncio.Redis.from_url(url), OPTIONS)
        async with other.lead("one"):
            mine = asyncio.create_task(lead())
            await wait_until(lambda: waits(1))
            forked = fork(lambda: asyncio.run(child()))
            await wait_until(lambda: waits(2))
        facts = {"parent": await mine, "child": await ended(*forked)}
        await elector.aclose()
        await other.aclose()
        return facts

    async def waits(count: int) -> bool:
        return (await elector.state("one")).waiting == count

    return asyncio.run(parent())


SCENARIOS = {each.__name__: each for each in (preloaded, used, leading, waiting)}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]](sys.argv[2])))
