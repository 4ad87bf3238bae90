"""How replicas are waited for: on a connection of its own, for many leases at once, in time."""

import asyncio
from functools import partial
from typing import Any

import pytest
from redis import exceptions as redis_errors

from cancellation.ways import Way, by_everyone, by_scope, by_task, obeyed
from durability.conftest import MakeElector
from durability.scene import BRIEF, PATIENT, House, lasting, waiting, waits
from incumbent import Durability, LeaderElector, NotDurableError
from incumbent.stores.base import Budget, Claim, Grant
from incumbent.stores.redis import RedisStore
from incumbent.stores.redis.keys import keys_of
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections, leftover_tasks
from kit.waiting import wait_until
from promises.scene import Work, cancel, forever, nothing, token_of

MANY = 40


async def test_others_do_not_wait_behind_a_wait(house: House, make_elector: MakeElector) -> None:
    """While a lease waits for replicas, plain elections of the same elector come and go."""
    elector = make_elector(house.primary)
    plain = elector.using(durability=None)
    house.relay.hold()
    durable = asyncio.create_task(elector.run_if_leader("durable", nothing))
    await wait_until(lambda: waiting(house.primary), within=10, what="it waits")
    answers = [await plain.run_if_leader(f"plain-{turn}", nothing) for turn in range(20)]
    assert answers == ["done"] * 20
    assert not durable.done()
    house.relay.release()
    assert await durable == "done"


async def test_many_share_a_wait(house: House, make_elector: MakeElector) -> None:
    """One WAIT confirms all that was extended before it, on one connection beside the usual one."""
    elector = make_elector(house.primary)
    before = {client["id"] for client in connections(house.primary)}
    house.primary.cli("CONFIG", "RESETSTAT")
    house.relay.hold()
    works = [Work() for _ in range(MANY)]
    tasks = [
        asyncio.create_task(elector.run_if_leader(f"{number}", work))
        for number, work in enumerate(works)
    ]
    await wait_until(
        lambda: all(token_of(house.primary, f"{number}") for number in range(MANY)),
        within=20,
        what="all are granted",
    )
    assert not any(work.began.is_set() for work in works)
    house.relay.release()
    for work in works:
        await asyncio.wait_for(work.began.wait(), 20)
    assert 0 < waits(house.primary) < MANY / 4
    assert len({client["id"] for client in connections(house.primary)} - before) == 2
    for work in works:
        work.finish.set()
    assert await asyncio.gather(*tasks) == ["done"] * MANY


async def test_a_long_wait_is_not_in_front_of_a_short_one(
    house: House, make_elector: MakeElector
) -> None:
    """Siblings with other timeouts have connections of their own."""
    elector = make_elector(house.primary)
    house.relay.hold()
    long = asyncio.create_task(elector.run_if_leader("long", nothing))
    await wait_until(lambda: waiting(house.primary), within=10, what="it waits")
    with pytest.raises(NotDurableError):
        await elector.using(durability=BRIEF).run_if_leader("short", nothing)
    assert not long.done()
    house.relay.release()
    assert await long == "done"


@pytest.mark.parametrize(
    ("way", "late"),
    [(by_task, False), (by_task, True), (by_scope, False), (by_everyone, False)],
    ids=["task", "task, late", "scope", "every task"],
)
async def test_p4_cancelled_at_each_point_it_leaves_nothing(
    house: House, make_client: MakeClient, way: Way, late: bool
) -> None:
    """The grant, the extension, the WAIT, the release: no seat, task or connection stays."""
    before = {client["id"] for client in connections(house.primary)}

    def ours() -> set[str]:
        return {client["id"] for client in connections(house.primary)} - before

    for at in range(1, 300):
        client = make_client(house.primary)
        elector = LeaderElector(client, lasting(), hooks=())
        run = await asyncio.create_task(
            way(partial(elector.run_if_leader, f"{at}", nothing), at, late=late)
        )
        assert obeyed(run, way), f"swallowed at {run.places[at - 1]}: {run.value!r}, {run.error!r}"
        assert token_of(house.primary, f"{at}") is None, run.places[at - 1 :]
        await elector.aclose()
        await client.aclose()
        assert not await leftover_tasks(), run.places[at - 1 :]
        await wait_until(lambda: not ours(), within=10, what="all connections are closed")
        if not run.struck:
            assert run.value == "done", run.error
            assert "incumbent wire" in run.tasks, "it was not struck while it waits for replicas"
            return
    raise AssertionError("no end")


async def test_p4_cancelled_while_it_waits_it_leaves_nothing(
    house: House, make_elector: MakeElector
) -> None:
    """The seat is free when the cancellation comes out; who shares the WAIT is not disturbed."""
    elector = make_elector(house.primary)
    house.relay.hold()
    tasks = [asyncio.create_task(elector.run_if_leader(name, forever)) for name in ("one", "two")]
    await wait_until(
        lambda: token_of(house.primary, "one") and token_of(house.primary, "two"), within=10
    )
    await wait_until(lambda: waiting(house.primary), within=10, what="they wait")
    await cancel(tasks[0])
    assert token_of(house.primary, "one") is None
    assert not tasks[1].done()
    house.relay.release()
    await wait_until(lambda: elector.is_leading("two"), within=10)
    await cancel(tasks[1])
    assert token_of(house.primary, "two") is None


async def test_p5_a_lost_answer_of_replicas_is_asked_for_again(
    house: House, make_elector: MakeElector, make_proxy: MakeProxy
) -> None:
    """The connection is cut in place of the answer: a fresh one brings it, and it is a lease."""
    proxy = await make_proxy(house.primary)
    # From here on the server has the script, which would be sent twice otherwise.
    assert await make_elector(house.primary).run_if_leader("one", nothing) == "done"
    proxy.drop_replies(1, "WAIT", cut=True)
    async with make_elector(proxy).lead("one") as lease:
        assert lease.held
        proxy.drop_replies(1, "WAIT", cut=True)
        assert await lease.extend(120)
    assert proxy.commands["WAIT"] == 4


async def test_p9_a_server_that_freezes_while_replicas_are_waited_for(
    house: House, make_elector: MakeElector, make_proxy: MakeProxy
) -> None:
    """No answer at all: redis-py's own error within the budget, not that of replicas."""
    proxy = await make_proxy(house.primary)
    elector = make_elector(proxy, lasting(Durability(timeout=0.2), request_timeout=1))
    proxy.hold_replies("WAIT")
    with pytest.raises(redis_errors.TimeoutError, match="no answer from the server in time"):
        await asyncio.wait_for(elector.run_if_leader("one", nothing), 20)
    assert token_of(house.primary, "one") is None, "it was given back by the other connection"
    await proxy.restore()
    assert await elector.using(durability=PATIENT, request_timeout=5).run_if_leader("one", nothing)


async def test_a_user_who_may_not_wait_is_told_and_leaves_nothing(
    house: House, make_client: MakeClient
) -> None:
    """The right is missing, which no time will heal: the server's own error, and a free seat."""
    allowed = ("+@all", "-wait", "~*", "&*", "on", ">pass")
    house.primary.cli("ACL", "SETUSER", "limited", *allowed)
    client = make_client(house.primary, username="limited", password="pass")
    async with LeaderElector(client, lasting()) as elector:
        with pytest.raises(redis_errors.NoPermissionError):
            await elector.campaign("one", nothing)
        assert token_of(house.primary, "one") is None
    house.primary.cli("ACL", "DELUSER", "limited")


async def test_a_grant_that_is_gone_before_it_is_confirmed_is_none(
    house: House, make_client: MakeClient
) -> None:
    """Somebody flushed the server in between: nobody has the lease, so it is no lease."""
    store = RedisStore(make_client(house.primary), "incumbent")
    claim = Claim("one", 1, "a" * 32, "me", 30, 5, durability=PATIENT)
    budget = Budget(10, 5)
    grant = await store.acquire(claim, budget)
    assert isinstance(grant, Grant)
    house.primary.flush()
    assert await store.extend(claim, 0, 30, budget) == "gone"
    keys = keys_of("incumbent", "one", 1).seat(0)
    with pytest.raises(NotDurableError, match="0 of 1"):
        await store._durably.confirm(claim, keys, budget)
    await store.aclose()


async def test_closed_it_gives_all_connections_back(house: House, make_client: MakeClient) -> None:
    """That of the waits as well; a call that comes later opens it once more, and closes it."""
    client = make_client(house.primary)
    elector = LeaderElector(client, lasting())
    async with elector.lead("one") as lease:
        await elector.aclose()
        assert await lease.extend(120)
    pool: Any = client.connection_pool
    assert not pool._in_use_connections
