"""`lease.transaction` on a cluster: committed once where the seat is, or an error says why not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis import exceptions as redis_errors
from redis.asyncio import RedisCluster

from fencing.looks import between
from incumbent import LeaderOptions, Lease, StaleFenceError
from incumbent import blocking as threads
from incumbent.stores.base import Budget
from incumbent.stores.redis.transaction import BlockingTransaction, Transaction
from kit.cluster import Cluster, slot_of
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import THIEF, cancel
from topology.scene import WITHIN, MakeElector, replicated, seat_of

PATIENT = 30.0
"""A `request_timeout` that no busy machine exceeds; half of what a commit has."""


@pytest.fixture
async def other_client(any_cluster: Cluster) -> AsyncIterator[RedisCluster]:
    """A client of the cluster that no elector has; no connection is opened by its transactions."""
    async with RedisCluster.from_url(any_cluster.url) as client:
        opened = open_connections(client)
        yield client
        assert open_connections(client) <= opened
        assert all_back(client)


def pair(make_elector: MakeElector, cluster: Cluster, **options: Any) -> tuple[Any, Any]:
    """An elector and its client, which would wait for an answer for ever."""
    client = RedisCluster.from_url(cluster.url, socket_timeout=None)
    patient = {"request_timeout": PATIENT, "lease_time": 10 * PATIENT}
    return make_elector(cluster, client=client, **(patient | options)), client


def begin(lease: Lease | threads.Lease, client: Any) -> Any:
    """The transaction; without a type, because redis-py has the wrong ones for pipelines."""
    return lease.transaction(client)


def all_back(client: Any) -> bool:
    """Whether no connection is in use."""
    return all(len(node._free) == len(node._connections) for node in client.get_nodes())


def open_connections(client: Any) -> set[int]:
    """What is open of a client."""
    nodes = client.get_nodes()
    return {id(each) for node in nodes for each in node._connections if each.is_connected}


def key_of(name: str, stem: str = "count") -> str:
    """A key in the slot of an election."""
    return f"{{{name}}}:{stem}"


def count(cluster: Cluster, name: str) -> str | None:
    """What the transactions of these tests count."""
    found: str | None = cluster.primary_of(name).cli("GET", key_of(name))
    return found


def steal(cluster: Cluster, name: str) -> None:
    """Another has the seat, which the leader does not know."""
    cluster.primary_of(name).cli("HSET", seat_of(name), "token", THIEF)


def refusals(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Why tries of commits were refused, as they come."""
    real, seen = Transaction._look, list[Exception]()

    async def look(self: Any) -> None:
        learn = self._learn

        async def noted(error: Any) -> None:
            seen.append(error)
            await learn(error)

        if not seen:
            self._learn = noted
        await real(self)

    monkeypatch.setattr(Transaction, "_look", look)
    return seen


# -- a lease that is held ---------------------------------------------------------------------


async def test_what_the_leader_writes_is_committed(
    any_cluster: Cluster, make_elector: MakeElector, other_client: RedisCluster
) -> None:
    """On each primary; by the client of the elector, or by another, which is left as it was."""
    elector, client = pair(make_elector, any_cluster)
    for node in any_cluster.primaries:
        name = any_cluster.name_on(node)
        async with elector.lead(name) as lease:
            for each in (client, other_client):
                async with begin(lease, each) as pipe:
                    pipe.incr(key_of(name)).set(key_of(name, "other"), "x")
                    assert count(any_cluster, name) == (None if each is client else "2")
                pipe = begin(lease, each).incr(key_of(name)).get(key_of(name, "other"))
                assert (await pipe.execute())[1] == b"x"
        assert count(any_cluster, name) == "4"


async def test_the_electors_own_client_asks_nobody_where_the_seat_is(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """The elector knows, and what a transaction learns is known to the next one."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[1])
    async with elector.lead(name) as lease:
        any_cluster.move(name)
        await begin(lease, client).incr(key_of(name)).execute()
        for node in any_cluster.nodes:
            node.admin.config_resetstat()
        await begin(lease, client).incr(key_of(name)).execute()
        sent = [node.admin.info("commandstats") for node in any_cluster.nodes]
    assert [stats["cmdstat_watch"]["calls"] for stats in sent if "cmdstat_watch" in stats] == [1]
    # Servers before 7 do not count subcommands by themselves.
    looks = {"cmdstat_cluster|slots", "cmdstat_cluster"}
    assert not any(looks & stats.keys() for stats in sent)


async def test_results_and_errors_are_the_commands(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """As in every pipeline of one server; a script that no node has is loaded."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[0])
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    async with elector.lead(name) as lease:
        pipe = begin(lease, client)
        await script(keys=[key_of(name)], args=[5], client=pipe)
        assert await pipe.execute() == [5]
        pipe.lpush(key_of(name), "x").hset(key_of(name, "hash"), mapping={"a": "b"})
        first, second, third = await pipe.hgetall(key_of(name, "hash")).execute(False)
        assert isinstance(first, redis_errors.ResponseError)
        assert (second, third) == (1, {b"a": b"b"})
        with pytest.raises(redis_errors.ResponseError, match="LPUSH"):
            await pipe.lpush(key_of(name), "x").execute()
        with pytest.raises(redis_errors.ResponseError, match="NOSUCH"):
            await pipe.incr(key_of(name)).execute_command("NOSUCH").execute()
    assert count(any_cluster, name) == "5"


# -- a lease that is not ----------------------------------------------------------------------


@pytest.mark.parametrize("after_the_look", [False, True])
async def test_a_stale_leader_commits_nothing(
    any_cluster: Cluster,
    make_elector: MakeElector,
    monkeypatch: pytest.MonkeyPatch,
    after_the_look: bool,
) -> None:
    """Although it believes to lead; also when it loses the seat between the look and EXEC."""
    elector, client = pair(make_elector, any_cluster, on_loss="notify")
    name = any_cluster.name_on(any_cluster.primaries[1])
    async with elector.lead(name) as lease:
        if after_the_look:
            between(monkeypatch, Transaction, lambda: steal(any_cluster, name))
        else:
            steal(any_cluster, name)
        with pytest.raises(StaleFenceError, match="not this lease's"):
            async with begin(lease, client) as pipe:
                pipe.incr(key_of(name))
        assert lease.held
    assert count(any_cluster, name) is None


async def test_a_stale_leader_follows_its_seat_and_commits_nothing(
    any_cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seat moves and is taken there: what the old node still says counts for nothing."""
    elector, client = pair(make_elector, any_cluster, on_loss="notify")
    name = any_cluster.name_on(any_cluster.primaries[2])

    def lose() -> None:
        any_cluster.move(name)
        steal(any_cluster, name)

    async with elector.lead(name) as lease:
        looks = between(monkeypatch, Transaction, lose)
        with pytest.raises(StaleFenceError):
            async with begin(lease, client) as pipe:
                pipe.incr(key_of(name))
    assert looks == [1]
    assert count(any_cluster, name) is None


# -- keys in other slots ----------------------------------------------------------------------


def same_node(cluster: Cluster, name: str) -> str:
    """A key in another slot, which the same node has."""
    return cluster.name_on(cluster.primary_of(name), "foreign")


def other_node(cluster: Cluster, name: str) -> str:
    """A key that another node has."""
    return cluster.name_on(cluster.other_primary(name), "foreign")


FOREIGN = pytest.mark.parametrize("foreign", [same_node, other_node])


@FOREIGN
@pytest.mark.parametrize("alone", [True, False])
async def test_a_key_in_another_slot_is_refused_and_nothing_is_done(
    any_cluster: Cluster,
    make_elector: MakeElector,
    monkeypatch: pytest.MonkeyPatch,
    foreign: Callable[[Cluster, str], str],
    alone: bool,
) -> None:
    """Wherever the slot happens to be now. The error says what the key must look like."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[0])
    key = foreign(any_cluster, name)
    assert slot_of(key) != slot_of(name)
    looks = between(monkeypatch, Transaction, lambda: None)
    async with elector.lead(name) as lease:
        pipe = begin(lease, client).incr(key)
        if not alone:
            pipe.incr(key_of(name))
        with pytest.raises(redis_errors.ClusterCrossSlotError, match=rf"nothing .* {{{name}}}"):
            await pipe.execute()
        assert looks == [1]
    assert count(any_cluster, name) is None
    assert any_cluster.primary_of(key).cli("EXISTS", key) == 0


# -- slots that move --------------------------------------------------------------------------


@pytest.mark.parametrize("after_the_look", [False, True])
async def test_a_slot_that_has_moved_is_found(
    any_cluster: Cluster,
    make_elector: MakeElector,
    other_client: RedisCluster,
    monkeypatch: pytest.MonkeyPatch,
    after_the_look: bool,
) -> None:
    """MOVED, to WATCH or to what is queued: committed once, where the seat is now."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[1])
    clients: list[Any] = [client, other_client]
    async with elector.lead(name) as lease:
        for number, each in enumerate(clients, 1):
            looks = [2]
            if after_the_look:
                with monkeypatch.context() as patch:
                    looks = between(patch, Transaction, lambda: any_cluster.move(name))
                    assert await begin(lease, each).incr(key_of(name)).execute() == [number]
            else:
                any_cluster.move(name)
                assert await begin(lease, each).incr(key_of(name)).execute() == [number]
            assert looks == [2]
        assert lease.held
    assert count(any_cluster, name) == "2"


@pytest.mark.parametrize("carried", [False, True])
async def test_a_commit_waits_for_the_end_of_a_move(
    any_cluster: Cluster,
    make_elector: MakeElector,
    monkeypatch: pytest.MonkeyPatch,
    carried: bool,
) -> None:
    """ASK for the seat, or ASK or TRYAGAIN for a key that is nowhere; then it is done, once."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[0])
    seen = refusals(monkeypatch)
    async with elector.lead(name) as lease:
        with any_cluster.moving(name) as move:
            if carried:
                move.carry()
            commit = asyncio.create_task(begin(lease, client).incr(key_of(name)).execute())
            await wait_until(lambda: len(seen) > 5, within=WITHIN, what="it was refused")
            assert {type(each) for each in seen} <= {
                redis_errors.AskError,
                redis_errors.TryAgainError,
            }
        assert await asyncio.wait_for(commit, WITHIN) == [1]
    assert count(any_cluster, name) == "1"


async def test_a_move_that_takes_too_long_is_an_error(
    any_cluster: Cluster, make_elector: MakeElector
) -> None:
    """It says that nothing was done, and what the cluster said."""
    elector, client = pair(make_elector, any_cluster)
    name = any_cluster.name_on(any_cluster.primaries[2])
    async with elector.lead(name) as lease:
        with any_cluster.moving(name) as move:
            move.carry()
            pipe = begin(lease, client).incr(key_of(name))
            pipe._condition.budget = Budget(1.0, 1.0)
            with pytest.raises(
                redis_errors.TimeoutError, match="nothing was done in time: AskError"
            ):
                await pipe.execute()
            assert move.target.cli("CLUSTER", "COUNTKEYSINSLOT", move.slot) == 2
    assert count(any_cluster, name) is None


# -- primaries that are replaced --------------------------------------------------------------


async def test_a_primary_is_replaced_between_look_and_exec(
    cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In good order: the old one refuses what is queued, the new one carries it out, once."""
    elector, client = pair(make_elector, cluster)
    old = cluster.primaries[0]
    name = cluster.name_on(old)
    async with elector.lead(name) as lease:
        replicated(old)
        between(monkeypatch, Transaction, lambda: cluster.fail_over(old))
        assert await begin(lease, client).incr(key_of(name)).execute() == [1]
        assert cluster.primary_of(name) is not old
    assert count(cluster, name) == "1"


async def test_a_primary_is_killed_between_look_and_exec(
    cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been done, so it is not sent again; the next commit waits for the new one."""
    elector, client = pair(make_elector, cluster)
    victim = cluster.primaries[0]
    name = cluster.name_on(victim)
    async with elector.lead(name) as lease:
        replicated(victim)
        looks = between(monkeypatch, Transaction, victim.kill)
        with pytest.raises(redis_errors.ConnectionError, match="or nothing of it"):
            async with begin(lease, client) as pipe:
                pipe.incr(key_of(name))
        assert looks == [1]
        assert await begin(lease, client).incr(key_of(name)).execute() == [1]
    assert count(cluster, name) == "1"


async def test_a_primary_that_is_silent_is_left_for_its_replica(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """After the time of one request, if it does not say whose the seat is. A cancel is heard."""
    elector, client = pair(make_elector, cluster)
    victim = cluster.primaries[1]
    name = cluster.name_on(victim)
    other: Any = RedisCluster.from_url(cluster.url, socket_timeout=None)
    async with other, elector.lead(name) as lease:
        assert await begin(lease, other).incr(key_of(name)).execute() == [1]
        replicated(victim)
        victim.pause()
        pipe = begin(lease, other).incr(key_of(name))
        commit = asyncio.create_task(pipe.execute())
        await wait_until(lambda: pipe.connection is not None, within=WITHIN)
        await cancel(commit)
        assert all_back(other)
        await wait_until(lambda: is_replaced(cluster, victim), within=WITHIN, every=0.05)
        pipe = begin(lease, client).incr(key_of(name))
        pipe._condition.budget = Budget(2 * PATIENT, 0.5)
        assert await pipe.execute() == [2]
    assert count(cluster, name) == "2"


def is_replaced(cluster: Cluster, victim: Server) -> bool:
    """Whether a replica has become what `victim` was."""
    return len(cluster.primaries) == 3 and victim not in cluster.primaries


# -- the same for threads ---------------------------------------------------------------------


@pytest.fixture
def sync_client(cluster: Cluster) -> Iterator[Any]:
    """A blocking client of the cluster."""
    with redis.RedisCluster.from_url(cluster.url) as client:
        yield client


@contextmanager
def led(client: Any, name: str) -> Iterator[threads.Lease]:
    """A lease in this thread."""
    options = LeaderOptions(lease_time=10 * PATIENT, request_timeout=PATIENT, on_loss="notify")
    with threads.LeaderElector(client, options) as elector, elector.lead(name) as lease:
        yield lease


def test_threads_what_the_leader_writes_is_committed(cluster: Cluster, sync_client: Any) -> None:
    """On each primary, also after the slot has moved; a stale leader's is not."""
    for number, node in enumerate(cluster.primaries):
        name = cluster.name_on(node, f"threads-{number}")
        with led(sync_client, name) as lease:
            with begin(lease, sync_client) as pipe:
                assert pipe.incr(key_of(name)).get(key_of(name)).execute() == [1, b"1"]
                pipe.incr(key_of(name))
            cluster.move(name)
            assert begin(lease, sync_client).incr(key_of(name)).execute() == [3]
            steal(cluster, name)
            with pytest.raises(StaleFenceError), begin(lease, sync_client) as pipe:
                pipe.incr(key_of(name))
        assert count(cluster, name) == "3"


def test_threads_a_slot_that_moves_is_followed(
    cluster: Cluster, sync_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and EXEC; and where the seat is taken meanwhile, nothing is done."""
    name = cluster.name_on(cluster.primaries[0])
    with led(sync_client, name) as lease:
        with monkeypatch.context() as patch:
            between(patch, BlockingTransaction, lambda: cluster.move(name))
            assert begin(lease, sync_client).incr(key_of(name)).execute() == [1]
        between(monkeypatch, BlockingTransaction, lambda: steal(cluster, name))
        with pytest.raises(StaleFenceError):
            begin(lease, sync_client).incr(key_of(name)).execute()
    assert count(cluster, name) == "1"


@FOREIGN
def test_threads_a_key_in_another_slot_is_refused(
    cluster: Cluster, sync_client: Any, foreign: Callable[[Cluster, str], str]
) -> None:
    """And nothing is done."""
    name = cluster.name_on(cluster.primaries[1])
    key = foreign(cluster, name)
    with led(sync_client, name) as lease:
        with pytest.raises(redis_errors.ClusterCrossSlotError, match=rf"nothing .* {{{name}}}"):
            begin(lease, sync_client).incr(key).execute()
        with pytest.raises(redis_errors.ClusterCrossSlotError):
            begin(lease, sync_client).incr(key_of(name)).incr(key).execute()
    assert count(cluster, name) is None
    assert cluster.primary_of(key).cli("EXISTS", key) == 0


def test_threads_a_move_that_takes_too_long_is_an_error(cluster: Cluster, sync_client: Any) -> None:
    """It says that nothing was done."""
    name = cluster.name_on(cluster.primaries[2])
    with led(sync_client, name) as lease:
        with cluster.moving(name) as move:
            move.carry()
            pipe = begin(lease, sync_client).incr(key_of(name))
            pipe._condition.budget = Budget(1.0, 1.0)
            with pytest.raises(
                redis_errors.TimeoutError, match="nothing was done in time: AskError"
            ):
                pipe.execute()
        assert begin(lease, sync_client).incr(key_of(name)).execute() == [1]


def test_threads_a_primary_is_killed_between_look_and_exec(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not sent again; the next commit waits for the new primary."""
    victim = cluster.primaries[2]
    name = cluster.name_on(victim)
    with redis.RedisCluster.from_url(cluster.url) as client, led(client, name) as lease:
        replicated(victim)
        looks = between(monkeypatch, BlockingTransaction, victim.kill)
        with pytest.raises(redis_errors.ConnectionError, match="or nothing of it"):
            begin(lease, client).incr(key_of(name)).execute()
        assert looks == [1]
        assert begin(lease, client).incr(key_of(name)).execute() == [1]
    assert count(cluster, name) == "1"
