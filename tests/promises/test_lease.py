"""The public `Lease`: what it says, how it is extended and given back, and where it is found."""

import asyncio
import contextvars

import pytest

from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
    current_lease,
)
from incumbent.events import TermEnded, TermLost, TermRenewed
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from promises.scene import (
    Journal,
    Work,
    here,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
    ttl_of,
)


async def test_extend_makes_it_live_longer(elector: LeaderElector, valkey: Server) -> None:
    """For so long from now, here and on the server."""
    async with elector.lead("one") as lease:
        assert await lease.extend(20)
        assert 19_000 < ttl_of(valkey, "one") <= 20_000
        assert 18 < lease.remaining <= 20 * 0.99


async def test_extend_never_shortens(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """A shorter extension, and the background's, leave a longer lease as it is."""
    async with elector.lead("one") as lease:
        assert await lease.extend(50)
        assert await lease.extend(0.3)
        assert ttl_of(valkey, "one") > 49_000
        assert lease.remaining > 48
    async with elector.using(lease_time=3).lead("one") as lease:
        await journal.has_another(TermRenewed)
        assert await lease.extend(60)
        assert lease.remaining > 50


async def test_extend_is_false_when_it_is_another_s(elector: LeaderElector, valkey: Server) -> None:
    """And touches neither the other's token nor the rest of the other's time."""
    async with elector.using(on_loss="notify").lead("one") as lease:
        steal(valkey, "one")
        valkey.cli("PEXPIRE", seat_key("one"), 5_000)
        assert await lease.extend(60) is False
        assert 4_000 < ttl_of(valkey, "one") <= 5_000
        assert lease.loss_reason == "taken"
        assert lease.lost.is_set()
        assert await lease.extend(60) is False


async def test_extend_is_false_when_the_seat_is_gone(
    elector: LeaderElector, valkey: Server
) -> None:
    """A seat that vanished is not made anew."""
    async with elector.using(on_loss="notify").lead("one") as lease:
        valkey.cli("DEL", seat_key("one"))
        assert await lease.extend(60) is False
        assert lease.loss_reason == "expired"
        assert ttl_of(valkey, "one") == -2


async def test_extend_from_many_tasks(elector: LeaderElector, valkey: Server) -> None:
    """Fifty at once on one lease: all say yes, the longest counts."""
    async with elector.lead("one") as lease:
        answers = await asyncio.gather(*(lease.extend(1 + each / 10) for each in range(50)))
        assert all(answers)
        assert ttl_of(valkey, "one") > 5_000


async def test_release_inside_the_block(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The block goes on without the seat, `held` is false, leaving is silent; twice is once."""
    async with elector.lead("one") as lease:
        await lease.release()
        assert not lease.held
        assert lease.remaining == 0
        assert lease.loss_reason is None
        assert not lease.lost.is_set()
        assert token_of(valkey, "one") is None
        with pytest.raises(LeadershipLostError):
            lease.ensure_held()
        await lease.release()
        assert await elector.run_if_leader("one", nothing) == "done"
        await asyncio.sleep(0)
    assert [each.ending for each in journal.of(TermEnded)] == ["released"] * 2
    assert journal.of(TermLost) == []


async def test_release_inside_an_action(elector: LeaderElector, valkey: Server) -> None:
    """The action goes on and its value is a success: it gave the seat back by itself."""

    async def work() -> str:
        await here().release()
        assert token_of(valkey, "one") is None
        await asyncio.sleep(0.01)
        return "value"

    outcome = await elector.attempt("one", work)
    assert isinstance(outcome, Elected)
    assert outcome.value == "value"


async def test_no_renewal_after_a_release(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """A block that goes on for two lease times after its release sends nothing more."""
    proxy = await make_proxy(valkey)
    async with (
        LeaderElector(make_client(proxy), quick(lease_time=0.3)) as elector,
        elector.lead("one") as lease,
    ):
        await lease.release()
        sent = proxy.commands.total()
        await asyncio.sleep(0.6)
        assert proxy.commands.total() == sent


async def test_leaving_waits_for_a_release_that_is_under_way(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Another task is giving the seat back: the block is left when that is done."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), quick(lease_time=5)) as elector:
        async with elector.lead("one") as lease:
            proxy.delay(0.1, "requests")
            releasing = asyncio.create_task(lease.release())
            await asyncio.sleep(0)
        assert token_of(valkey, "one") is None
        await releasing


async def test_ensure_held(elector: LeaderElector) -> None:
    """Says nothing while so much is left, and how much is left when it is less."""
    async with elector.lead("one") as lease:
        lease.ensure_held()
        lease.ensure_held(0.1)
        with pytest.raises(LeadershipLostError, match="30 s are needed") as caught:
            lease.ensure_held(30)
        assert caught.value.election == "one"
        assert lease.held
        assert await lease.extend(40)
        lease.ensure_held(30)
    with pytest.raises(LeadershipLostError):
        lease.ensure_held()


async def test_lost_wakes_all_who_wait(elector: LeaderElector, valkey: Server) -> None:
    """Also who asks only after the loss."""
    async with elector.using(on_loss="notify").lead("one") as lease:
        waiting = [asyncio.create_task(lease.lost.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        steal(valkey, "one")
        await asyncio.gather(*waiting)
        await lease.lost.wait()
        assert lease.loss_reason == "taken"
    async with elector.using(wait_time=5).lead("two") as lease:
        assert not lease.lost.is_set()
    assert not lease.lost.is_set(), "a term that ended was not lost"


async def test_lost_is_set_before_the_action_is_cancelled(
    elector: LeaderElector, valkey: Server
) -> None:
    """The action's clean-up can see why it was stopped."""
    seen: list[object] = []

    async def look() -> None:
        seen.extend((here().lost.is_set(), here().loss_reason, here().held))

    work = Work(cleanup=look)
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    steal(valkey, "one")
    assert await leading == LeadershipLost("taken")
    assert seen == [True, "taken", False]


async def test_the_current_lease_is_the_innermost(elector: LeaderElector) -> None:
    """By context: in the block, in what it calls, in its child tasks; none outside."""
    assert current_lease() is None

    async def child() -> tuple[str, bool]:
        return here().name, here().held

    async with elector.lead("one") as one:
        assert current_lease() is one
        async with elector.lead("two") as two:
            assert current_lease() is two
            assert current_lease("one") is one
            assert current_lease("two") is two
            assert current_lease("three") is None
            assert await asyncio.create_task(child()) == ("two", True)
        assert current_lease() is one
    assert current_lease() is None


async def test_a_child_that_outlives_its_block_finds_a_lease_that_says_so(
    elector: LeaderElector,
) -> None:
    """The context is copied, the truth is not."""
    go = asyncio.Event()

    async def child() -> bool:
        await go.wait()
        lease = current_lease("one")
        return lease is not None and lease.held

    async with elector.lead("one"):
        task = asyncio.create_task(child())
        await asyncio.sleep(0)
    go.set()
    assert await task is False


async def test_blocks_that_are_left_out_of_order(elector: LeaderElector) -> None:
    """Each takes just itself out, whichever is left first."""
    one, two = elector.lead("one"), elector.lead("two")
    await one.__aenter__()
    inner = await two.__aenter__()
    await one.__aexit__(None, None, None)
    assert current_lease("one") is None
    assert current_lease() is inner
    await two.__aexit__(None, None, None)
    assert current_lease() is None


async def test_a_block_that_is_left_in_another_context(elector: LeaderElector) -> None:
    """As the two halves of a fixture may be: it is no context's current lease any more."""
    block = elector.lead("one")
    entering = contextvars.copy_context()
    await asyncio.create_task(block.__aenter__(), context=entering)
    leaving = entering.copy()
    await asyncio.create_task(block.__aexit__(None, None, None), context=leaving)
    assert leaving.run(current_lease) is None
    assert entering.run(current_lease) is None
    assert current_lease() is None


async def test_concurrent_terms_do_not_see_each_other(elector: LeaderElector) -> None:
    """Two tasks lead two elections: each finds its own lease."""

    async def work() -> str:
        await asyncio.sleep(0.01)
        return here().name

    results = await asyncio.gather(
        *(elector.run_if_leader(f"e{number}", work) for number in range(20))
    )
    assert results == [f"e{number}" for number in range(20)]


async def test_a_lease_of_a_tenant_is_found_by_its_name(elector: LeaderElector) -> None:
    """The full name, as the lease has it."""
    async with elector.for_tenant("acme").lead("one") as lease:
        assert current_lease(lease.name) is lease


async def test_its_repr_tells_the_state(elector: LeaderElector, valkey: Server) -> None:
    """Election, seat, fence, holder and state; never the token."""
    async with elector.using(on_loss="notify").lead("one") as lease:
        token = token_of(valkey, "one")
        assert token is not None
        for part in ("'one'", "seat=0", f"fence={lease.fence}", elector.leader_id, "held"):
            assert part in repr(lease)
        steal(valkey, "one")
        await lease.lost.wait()
        assert "taken" in repr(lease)
    async with elector.lead("two") as lease:
        pass
    assert "released" in repr(lease)
    assert token not in repr(lease) + repr(elector)
