"""P4: cancelled at random times, five hundred times, among one to five contenders.

The seed is in the test's output; INCUMBENT_TEST_SEED makes the same choices again (the timing,
and so the points that are hit, will differ).
"""

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

import anyio
import pytest
import redis.asyncio

from cancellation.stage import ENTRIES, LASTING, Action, enter, in_use, nothing, timers_of_terms
from incumbent import LeaderElector, LeaderOptions, NotElectedError, current_lease
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections, leftover_tasks
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

SEED = int(os.environ.get("INCUMBENT_TEST_SEED", random.SystemRandom().randrange(10**6)))
CANCELLATIONS = 500
ELECTIONS = 8
PATIENCE = 0.012
BOUND = 5.0


Work = Coroutine[Any, Any, object]


class ImpatientError(Exception):
    """Of the sibling that ends a task group."""


class Crowd:
    """Elections side by side; to each come contenders, of whom each is cancelled some time."""

    def __init__(self, electors: Sequence[LeaderElector]) -> None:
        self.counts: Counter[str] = Counter()
        self.inside: Counter[str] = Counter()
        self._electors = electors
        self._random = random.Random(SEED)

    async def run(self) -> None:
        """Until so many were cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(ELECTIONS):
                group.create_task(self._election(f"crowd-{number}"))

    async def _election(self, name: str) -> None:
        while self.counts["cancelled"] < CANCELLATIONS:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._random.randint(1, 5)):
                    group.create_task(self._contender(name))

    async def _contender(self, name: str) -> None:
        """Comes, is cancelled, and is awaited to its end, which must be near."""
        wait_time = self._random.choice([0, 0.01, None])
        elector = self._random.choice(self._electors).using(wait_time=wait_time)
        entry, way = self._random.choice(ENTRIES), self._random.choice(WAYS)
        patience = self._random.random() * PATIENCE
        work = enter(elector, entry, name, Alone(self.inside))
        task = asyncio.create_task(way(work, patience))
        done, _ = await asyncio.wait((task,), timeout=BOUND)
        assert done, f"{entry} did not end within {BOUND} s of its cancellation by {way.__name__}"
        self.counts["cancelled" if task.result() else "in time"] += 1
        await elector.aclose()


class Alone(Action):
    """An action that notices when another leader of its election is in it at the same time."""

    def __init__(self, inside: Counter[str]) -> None:
        super().__init__()
        self._inside = inside

    async def body(self) -> None:
        lease = current_lease()
        assert lease is not None
        self._inside[lease.name] += 1
        assert self._inside[lease.name] == 1, "two leaders"
        try:
            await asyncio.sleep(0.001)
        finally:
            self._inside[lease.name] -= 1


async def _unless_held(work: Work) -> None:
    with contextlib.suppress(NotElectedError):
        await work


async def _by_task(work: Work, patience: float) -> bool:
    task = asyncio.create_task(_unless_held(work))
    await asyncio.wait((task,), timeout=patience)
    if task.done():
        task.result()
        return False
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled(), f"swallowed: {task!r}"
    return True


async def _by_timeout(work: Work, patience: float) -> bool:
    limit = asyncio.timeout(patience)
    try:
        async with limit:
            await _unless_held(work)
    except TimeoutError:
        return True
    assert not limit.expired(), "swallowed"
    return False


async def _by_scope(work: Work, patience: float) -> bool:
    with anyio.move_on_after(patience) as scope:
        await _unless_held(work)
    return scope.cancelled_caught


async def _by_group(work: Work, patience: float) -> bool:
    async def sibling(child: "asyncio.Task[None]") -> None:
        await asyncio.wait((child,), timeout=patience)
        if not child.done():
            raise ImpatientError

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            children.append(group.create_task(_unless_held(work)))
            group.create_task(sibling(children[0]))

    children: list[asyncio.Task[None]] = []
    try:
        await grouped()
    except* ImpatientError:
        assert children[0].cancelled() or not children[0].cancelling(), "swallowed"
    return children[0].cancelled()


WAYS = (_by_task, _by_timeout, _by_scope, _by_group)
"""Each cancels the work after that many seconds, and tells whether it was cancelled."""


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "by proxy"])
async def test_p4_at_random(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, by_proxy: bool
) -> None:
    """Cancelled anywhere, in company, contenders are never two and leave nothing in the end."""
    print(f"INCUMBENT_TEST_SEED={SEED}")
    proxy = await make_proxy(valkey)
    clients = [make_client(proxy if by_proxy else valkey) for _ in range(4)]
    electors = [
        LeaderElector(clients[number], LeaderOptions(lease_time=10)) for number in (0, 0, 1, 2, 3)
    ]
    crowd = Crowd(electors)
    async with asyncio.TaskGroup() as group:
        unrest = group.create_task(_unrest(valkey, proxy))
        await crowd.run()
        unrest.cancel()
    print(crowd.counts)
    await _all_is_empty(valkey, electors, clients)


async def _unrest(server: Server, proxy: Proxy) -> None:
    """The network is slower or faster, and now and then the server forgets every script."""
    choices = random.Random(SEED)
    while True:
        proxy.delay(choices.choice([0, 0.001, 0.003]), choices.choice(["requests", "replies"]))
        if choices.random() < 0.2:
            server.cli("SCRIPT", "FLUSH")
        await asyncio.sleep(0.01)


async def _only_inboxes_run() -> bool:
    names = {task.get_name() for task in await leftover_tasks()}
    return not {name for name in names if "incumbent" in name} - {"incumbent inbox"}


async def _all_is_empty(
    server: Server, electors: Sequence[LeaderElector], clients: Sequence[redis.asyncio.Redis]
) -> None:
    def keys() -> set[str]:
        return {key.rpartition(":")[2] for key in server.cli("KEYS", "incumbent:*")} - LASTING

    await wait_until(lambda: not keys(), within=1, what="no key is left that should not be")
    await wait_until(_only_inboxes_run, within=2, what="no task of ours but the inboxes is left")
    assert not timers_of_terms()
    for elector in electors:
        assert not elector._office.terms
    for client in clients:
        assert in_use(client) <= 2 * len(electors)
    for number in range(ELECTIONS):
        assert await electors[0].run_if_leader(f"crowd-{number}", nothing) == "done"
    for elector in electors:
        await elector.aclose()
    assert [in_use(client) for client in clients] == [0] * len(clients)
    for client in clients:
        await client.aclose()
    await wait_until(lambda: not connections(server), within=2, what="no connection is left")
