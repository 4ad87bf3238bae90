"""What each option does to a real election, beside what the promises say of it."""

import asyncio
import contextlib
import itertools
import pickle
from datetime import timedelta

import pytest

from incumbent import (
    Elected,
    LeaderElector,
    LeaderOptions,
    LeadershipLostError,
    NotElectedError,
    Skipped,
)
from incumbent.events import TermRenewed
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from promises.scene import (
    Journal,
    Work,
    all_keys,
    at_most,
    here,
    nothing,
    quick,
    seat_key,
    ttl_of,
)


async def test_lease_time_is_the_seat_s_ttl(elector: LeaderElector, valkey: Server) -> None:
    """To the millisecond; a `timedelta` does as well."""
    for lease_time in (0.25, 1.5, 30.0, timedelta(milliseconds=777), timedelta(days=30)):
        seconds = lease_time.total_seconds() if isinstance(lease_time, timedelta) else lease_time
        async with elector.using(lease_time=lease_time).lead("one"):
            assert seconds * 1000 - 200 < ttl_of(valkey, "one") <= seconds * 1000


async def test_a_lease_is_renewed_every_third(
    elector: LeaderElector, journal: Journal, valkey: Server
) -> None:
    """In the background, without the action's help, for as long as the action runs."""
    loop = asyncio.get_running_loop()
    async with elector.lead("one") as lease:
        times = [loop.time()]
        for _ in range(4):
            await journal.has_another(TermRenewed)
            times.append(loop.time())
            assert lease.remaining > 0.6
            assert ttl_of(valkey, "one") > 600
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(gap > 0.2 for gap in gaps), gaps


async def test_auto_extend_off_renews_nothing(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """The lease lives for its time and is lost then, in silence; an extension prolongs it."""
    proxy = await make_proxy(valkey)
    options = quick(auto_extend=False, lease_time=2, on_loss="notify")
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            sent = proxy.commands.total()
            await lease.lost.wait()
            assert lease.loss_reason == "expired"
            assert proxy.commands.total() == sent
        async with elector.using(wait_time=10).lead("one") as lease:
            for _ in range(3):
                await asyncio.sleep(0.75)
                assert await lease.extend(2)
            assert lease.held
    assert len(journal.of(TermRenewed)) == 3


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
async def test_min_hold_time_keeps_the_seat_after_the_call(
    elector: LeaderElector, valkey: Server, make_client: MakeClient, fails: bool
) -> None:
    """The call returns at once, the seat stays taken for the rest of the time, then it is free."""

    async def work() -> None:
        if fails:
            raise KeyError

    with at_most(0.1):
        if fails:
            with pytest.raises(KeyError):
                await elector.using(min_hold_time=0.7).run_if_leader("one", work)
        else:
            await elector.using(min_hold_time=0.7).run_if_leader("one", work)
    assert 0 < ttl_of(valkey, "one") <= 700
    assert not elector.is_leading("one")
    async with LeaderElector(make_client(valkey), quick()) as other:
        assert isinstance(await other.attempt("one", nothing), Skipped)
        assert isinstance(await elector.attempt("one", nothing), Skipped)
        assert isinstance(await other.using(wait_time=5).attempt("one", nothing), Elected)


async def test_min_hold_time_is_no_longer_than_the_work_that_filled_it(
    elector: LeaderElector, valkey: Server
) -> None:
    """An action that took longer than the minimum frees the seat at its end."""
    await elector.using(min_hold_time=0.1).run_if_leader("one", asyncio.sleep, 0.15)
    assert ttl_of(valkey, "one") == -2


async def test_a_seat_that_is_kept_is_nobody_s(elector: LeaderElector, valkey: Server) -> None:
    """During the minimum hold no old handle can extend or free it."""
    async with elector.using(min_hold_time=0.8).lead("one") as lease:
        mine = valkey.cli("HGET", seat_key("one"), "token")
    kept = valkey.cli("HGET", seat_key("one"), "token")
    assert kept != mine
    assert await lease.extend(60) is False
    await lease.release()
    assert 0 < ttl_of(valkey, "one") <= 800


async def test_release_inside_the_block_keeps_the_minimum_too(
    elector: LeaderElector, valkey: Server
) -> None:
    """Giving back early does not cut the minimum short."""
    async with elector.using(min_hold_time=0.8).lead("one") as lease:
        await lease.release()
        assert 0 < ttl_of(valkey, "one") <= 800


async def test_max_hold_time_counts_from_the_election(elector: LeaderElector) -> None:
    """It ends a term that renewal would let live, and says so, in a block as well."""
    with at_most(0.3), pytest.raises(LeadershipLostError, match="max_hold_time"):
        async with elector.using(max_hold_time=0.3).lead("one") as lease:
            await asyncio.Event().wait()
    assert lease.loss_reason == "max_hold_time"


async def test_wait_time_none_waits_for_ever(elector: LeaderElector) -> None:
    """Longer than the lease of who leads, through its renewals."""
    work = Work()
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    waiting = asyncio.create_task(elector.using(wait_time=None).attempt("one", nothing))
    await asyncio.wait([waiting], timeout=1.2)
    assert not waiting.done()
    work.finish.set()
    assert isinstance(await waiting, Elected)
    await leading


async def test_using_makes_a_sibling_and_changes_nothing_else(elector: LeaderElector) -> None:
    """Other options, same identity, store and leases; what is not named stays."""
    sibling = elector.using(lease_time=2, wait_time=0.1)
    assert sibling.options == elector.options.changed(lease_time=2, wait_time=0.1)
    assert sibling.options.request_timeout == elector.options.request_timeout
    assert elector.options == quick()
    assert sibling.leader_id == elector.leader_id
    async with sibling.lead("one") as lease:
        assert elector.is_leading("one")
        assert elector.leases[0].fence == lease.fence
        with pytest.raises(NotElectedError):
            async with elector.lead("one"):
                pass


async def test_a_sibling_closes_itself_and_its_maker_closes_the_connection(
    own_server: Server, make_client: MakeClient
) -> None:
    """Closing twice is nothing; a sibling that is still used then keeps no connection."""
    client = make_client(own_server)
    elector = LeaderElector(client, quick())
    sibling, tenant = elector.using(lease_time=2), elector.for_tenant("acme")
    in_use = client.connection_pool._in_use_connections
    await sibling.run_if_leader("one", nothing)
    assert len(in_use) == 1
    await sibling.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await sibling.run_if_leader("one", nothing)
    assert await elector.run_if_leader("one", nothing) == "done"
    assert len(in_use) == 1
    await elector.aclose()
    await elector.aclose()
    assert not in_use
    assert await tenant.run_if_leader("one", nothing) == "done"
    assert not in_use
    await tenant.aclose()


async def test_a_term_outlives_the_closing_of_its_elector(
    own_server: Server, make_client: MakeClient
) -> None:
    """Closed while it leads: renewed and released all the same, and nothing stays open for it."""
    client, journal, work = make_client(own_server), Journal(), Work()
    elector = LeaderElector(client, quick(), hooks=[journal])
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    await elector.aclose()
    await journal.has(TermRenewed, 2)
    work.finish.set()
    assert isinstance(await leading, Elected)
    assert ttl_of(own_server, "one") == -2
    assert len(client.connection_pool._in_use_connections) == 0


async def test_tenants_are_apart(elector: LeaderElector, valkey: Server) -> None:
    """The same name for two tenants and for none: three elections, each with its own leader."""
    acme, other = elector.for_tenant("acme"), elector.for_tenant("other")
    async with elector.lead("one") as mine, acme.lead("one") as theirs, other.lead("one") as third:
        assert {mine.name, theirs.name, third.name} == {"one"}
        assert sum(":seat:" in key for key in all_keys(valkey)) == 3
        assert elector.is_leading("one")
        assert acme.is_leading("one")
        (leader,) = (await acme.state("one")).leaders
        assert leader.fence == theirs.fence
        assert await acme.run_if_leader("one", nothing) is None
        assert not acme.is_leading("two")
    assert not acme.is_leading("one")


async def test_no_two_pairs_of_tenant_and_name_meet(elector: LeaderElector, valkey: Server) -> None:
    """Names are put together so that no clever tenant is another's election: all lead at once."""
    pairs = [
        ("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c"), ("a%", "3Ab:c"), ("a", "b"), ("a@b", "c"),
    ]  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        for tenant, name in pairs:
            await stack.enter_async_context(elector.for_tenant(tenant).lead(name))
        nested = elector.for_tenant("a").for_tenant("b")
        await stack.enter_async_context(nested.lead("c"))
        await stack.enter_async_context(elector.lead("a:b"))
        assert sum(":seat:" in key for key in all_keys(valkey)) == len(pairs) + 2


async def test_the_leader_id_is_shown(valkey: Server, make_client: MakeClient) -> None:
    """The given one, or host, process and a few digits that differ from elector to elector."""
    client = make_client(valkey)
    a, b = LeaderElector(client, quick()), LeaderElector(client, quick())
    assert a.leader_id != b.leader_id
    assert len(a.leader_id.split(":")) == 3
    async with (
        LeaderElector(client, quick(), leader_id="node-7") as named,
        named.lead("one") as lease,
    ):
        assert lease.leader_id == "node-7"
        assert (await a.state("one")).leaders[0].leader_id == "node-7"
        assert here().leader_id == "node-7"
    await a.aclose()
    await b.aclose()


def test_options_are_values() -> None:
    """Equal by value, hashable, copied by pickle, shown with what they are, frozen."""
    options = LeaderOptions(lease_time=timedelta(seconds=3), wait_time=None)
    assert options == LeaderOptions(lease_time=3.0, wait_time=None)
    assert hash(options) == hash(LeaderOptions(lease_time=3.0, wait_time=None))
    assert pickle.loads(pickle.dumps(options)) == options
    assert "lease_time=3.0" in repr(options)
    with pytest.raises(AttributeError):
        options.lease_time = 4  # type: ignore[misc] # that it is refused is the point


def test_the_default_grace_follows_the_lease_time() -> None:
    """`using(lease_time=...)` keeps a grace that was chosen, and fits one that was not."""
    assert LeaderOptions().changed(lease_time=3).stop_grace == 0.5
    assert LeaderOptions(stop_grace=4).changed(lease_time=18).stop_grace == 4
