"""P3: work stops before the lease does; its clean-up is awaited, and the caller learns why."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import pytest

from incumbent import (
    Elected,
    LeaderElector,
    LeadershipLost,
    LeadershipLostError,
    Lease,
    LossReason,
    MemoryStore,
    clock,
)
from incumbent.events import TermEnded, TermLost, TermRenewed
from incumbent.stores.base import Budget, Claim, Extended, NotYours
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    at_most,
    cancel,
    forever,
    here,
    is_held,
    quick,
    seat_key,
    steal,
    token_of,
    ttl_of,
)


def delete(server: Server, election: str) -> None:
    """Remove the seat, as an eviction would."""
    server.cli("DEL", seat_key(election))


@pytest.mark.parametrize(
    ("deed", "reason"), [(steal, "taken"), (delete, "expired")], ids=["taken", "expired"]
)
async def test_p3_a_lost_lease_ends_its_action_at_once(
    elector: LeaderElector,
    valkey: Server,
    journal: Journal,
    deed: Callable[[Server, str], None],
    reason: LossReason,
) -> None:
    """Cancelled once, cleaned up to the end, and the caller gets an error that says why."""
    work = Work(cleanup=lambda: asyncio.sleep(0.02))
    leading = asyncio.create_task(elector.run_if_leader("one", work))
    await work.began.wait()
    deed(valkey, "one")
    with pytest.raises(LeadershipLostError) as caught:
        await leading
    assert caught.value.reason == reason
    assert caught.value.election == "one"
    assert (work.cancelled, work.cleaned, work.running) == (1, 1, 0)
    assert [each.reason for each in journal.of(TermLost)] == [reason]
    assert [each.ending for each in journal.of(TermEnded)] == ["lost"]


async def test_p3_an_unconfirmed_lease_ends_its_action_before_it_could_end(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Cut off: the action is cancelled, and has cleaned up, while the seat is still its own."""
    proxy = await make_proxy(valkey)
    rest: list[int] = []

    async def clean_up() -> None:
        rest.append(ttl_of(valkey, "one"))
        await asyncio.sleep(0.05)
        rest.append(ttl_of(valkey, "one"))

    work = Work(cleanup=clean_up)
    options = quick(lease_time=2.4, stop_grace=0.7, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options) as elector:
        leading = asyncio.create_task(elector.run_if_leader("one", work))
        await work.began.wait()
        proxy.cut(refuse=True)
        with pytest.raises(LeadershipLostError) as caught:
            await leading
    assert caught.value.reason == "unreachable"
    assert work.cleaned == 1
    assert len(rest) == 2
    assert rest[0] >= rest[1] > 0, "the seat was free before the clean-up was over"


def ends_of(lease: Lease, server: Server) -> tuple[float, float]:
    """When the lease ends for its holder, and on the server, while nothing renews it.

    Both are fixed. An interruption makes the first look later and the second one earlier.
    """
    return (
        min(lease.remaining + clock.now() for _ in range(20)),
        max(clock.now() + ttl_of(server, lease.name) / 1000 for _ in range(20)),
    )


async def test_p3_the_clean_up_after_an_unreachable_loss_is_under_the_lease(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """The loss is told, and the lease may be relied on up to its deadline, as after a step-down."""
    proxy = await make_proxy(valkey)
    told: list[tuple[str | None, bool, bool]] = []
    ends: list[tuple[float, float]] = []

    async def clean_up() -> None:
        lease = here()
        lease.ensure_held(0.05)
        assert 0 < lease.remaining < 1.5
        told.append((lease.loss_reason, lease.lost.is_set(), lease.held))
        ends.append(ends_of(lease, valkey))
        await wait_until(lambda: not is_held(lease))
        assert lease.remaining == 0
        with pytest.raises(LeadershipLostError, match="unreachable"):
            lease.ensure_held()

    work = Work(cleanup=clean_up)
    options = quick(lease_time=4, stop_grace=1.3, request_timeout=0.6)
    async with LeaderElector(make_client(proxy), options) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        proxy.cut(refuse=True)
        assert await leading == LeadershipLost("unreachable")
    assert told == [("unreachable", True, True)]
    assert ends[0][0] < ends[0][1], "the holder knows first"


async def test_p3_a_renewal_in_that_clean_up_keeps_the_lease_for_it(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """The loss stays a loss, and no other node gets the seat before the cleanup is over."""
    proxy = await make_proxy(valkey)
    held: list[bool] = []

    async def clean_up() -> None:
        lease, mine = here(), token_of(valkey, "one")
        await proxy.restore()
        await journal.has_another(TermRenewed)
        await journal.has_another(TermRenewed)
        held.append(lease.held and token_of(valkey, "one") == mine)
        assert lease.loss_reason == "unreachable"
        assert await lease.extend(3600)
        assert lease.remaining <= 4, "no more than for any cleanup"

    work = Work(cleanup=clean_up)
    options = quick(lease_time=4, stop_grace=1.3, request_timeout=0.6)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        proxy.cut(refuse=True)
        assert await leading == LeadershipLost("unreachable")
    assert held == [True]
    assert len(journal.of(TermLost)) == 1
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]


async def test_p3_told_only_a_lease_is_valid_to_its_deadline(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """With ``on_loss="notify"``: `lost` is set while it is held, and then it is not."""
    proxy = await make_proxy(valkey)
    options = quick(lease_time=4, stop_grace=1.3, request_timeout=0.6, on_loss="notify")
    async with (
        LeaderElector(make_client(proxy), options) as elector,
        elector.lead("one") as lease,
    ):
        proxy.cut(refuse=True)
        await lease.lost.wait()
        assert is_held(lease)
        here_ends, there_ends = ends_of(lease, valkey)
        assert here_ends < there_ends
        await wait_until(lambda: not is_held(lease))


async def test_an_extension_does_not_reach_beyond_max_hold_time(elector: LeaderElector) -> None:
    """By no more than a renewal would, which is what the cleanup has."""
    async with elector.using(max_hold_time=20).lead("one") as lease:
        assert await lease.extend(3600)
        assert 10 < lease.remaining <= 20
        assert await lease.extend(5)
        assert 10 < lease.remaining <= 20


async def test_an_extension_of_a_cleanup_that_had_its_time_asks_for_nothing() -> None:
    """The lease is still held, and renewed no more: nothing is sent, and nothing gets shorter."""
    asked = list[float]()

    class Asked(MemoryStore):
        async def extend(
            self, claim: Claim, seat: int, duration: float, budget: Budget
        ) -> Extended | NotYours:
            asked.append(duration)
            return await super().extend(claim, seat, duration, budget)

    lease_time = 2.0
    options = quick(lease_time=lease_time, on_loss="notify")
    async with LeaderElector(Asked(), options).lead("one") as lease:
        await lease.step_down()
        await asyncio.sleep(lease_time + 0.05)
        renewals = len(asked)
        ends = time.monotonic() + lease.remaining
        assert await lease.extend(60)
        assert abs(time.monotonic() + lease.remaining - ends) < 5
        assert asked[renewals:] == []


async def test_p3_an_action_that_ignores_its_cancellation_is_cancelled_again(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Twice in all, the second time when the lease's end has come; then it is waited for."""
    cancelled: list[bool] = []
    done = asyncio.Event()

    async def stubborn() -> str:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(valkey.cli("EXISTS", seat_key("one")) == 1)
        await done.wait()
        return "late"

    options = {"auto_extend": False, "lease_time": 0.6, "stop_grace": 0.3}
    leading = asyncio.create_task(
        elector.using(**options).attempt("one", stubborn)  # type: ignore[arg-type]
    )
    await wait_until(lambda: len(cancelled) == 2)
    assert cancelled[0], "first while the seat was still ours"
    await wait_until(lambda: ttl_of(valkey, "one") == -2)
    assert not leading.done()
    done.set()
    assert await leading == LeadershipLost("expired", value="late")
    assert len(journal.of(TermLost)) == 1


async def test_p3_the_clean_up_after_max_hold_time_is_under_the_lease(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The action had its time: cancelled, but held and renewed until its clean-up has ended."""
    held: list[bool] = []

    async def clean_up() -> None:
        lease = here()
        held.append(lease.held)
        mine = token_of(valkey, "one")
        await journal.has_another(TermRenewed)
        held.append(lease.held and token_of(valkey, "one") == mine)

    work = Work(cleanup=clean_up)
    with pytest.raises(LeadershipLostError) as caught:
        await elector.using(max_hold_time=0.2).run_if_leader("one", work)
    assert caught.value.reason == "max_hold_time"
    assert held == [True, True]
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]
    assert len(journal.of(TermLost)) == 1
    assert ttl_of(valkey, "one") == -2


async def test_p3_max_hold_time_does_not_touch_what_ends_in_time(elector: LeaderElector) -> None:
    """An action that is done before its most is a plain success."""

    async def soon() -> str:
        await asyncio.sleep(0.01)
        return "done"

    outcome = await elector.using(max_hold_time=5).attempt("one", soon)
    assert isinstance(outcome, Elected)
    assert outcome.value == "done"


async def test_p3_the_clean_up_after_a_cancelled_caller_is_under_the_lease(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """The caller gives up: the action's clean-up is still covered, then the seat is free."""
    held: list[bool] = []

    async def clean_up() -> None:
        lease = here()
        await journal.has_another(TermRenewed)
        held.append(lease.held)

    work = Work(cleanup=clean_up)
    leading = asyncio.create_task(elector.run_if_leader("one", work))
    await work.began.wait()
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert held == [True]
    assert work.cleaned == 1
    assert ttl_of(valkey, "one") == -2
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_p3_a_clean_up_is_covered_for_one_lease_time_at_most(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """A clean-up that nothing stops does not keep the seat: the lease ends, the call waits."""
    end = asyncio.Event()

    async def clean_up() -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the one at the lease's end
            await end.wait()
        await end.wait()

    work = Work(cleanup=clean_up)
    leading = asyncio.create_task(
        elector.using(lease_time=0.5, max_hold_time=0.1).attempt("one", work)
    )
    await work.began.wait()
    await wait_until(lambda: ttl_of(valkey, "one") == -2)
    assert not work.lease.held
    assert work.running == 1
    assert await elector.run_if_leader("one", asyncio.sleep, 0, "next") == "next"
    end.set()
    assert await leading == LeadershipLost("max_hold_time")
    assert len(journal.of(TermLost)) == 1


async def test_p3_notify_only_tells(elector: LeaderElector, valkey: Server) -> None:
    """With ``on_loss="notify"`` the action goes on; the lease says what happened, and so do we."""
    work = Work()
    leading = asyncio.create_task(elector.using(on_loss="notify").attempt("one", work))
    await work.began.wait()
    steal(valkey, "one")
    await work.lease.lost.wait()
    assert not work.lease.held
    assert work.lease.loss_reason == "taken"
    assert work.running == 1
    work.finish.set()
    assert await leading == LeadershipLost("taken", value="done")
    assert work.cancelled == 0


async def test_p3_notify_lets_a_block_end_in_silence(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Leaving `lead()` after a loss raises nothing then, and the loss was told once."""
    async with elector.using(on_loss="notify").lead("one") as lease:
        steal(valkey, "one")
        await lease.lost.wait()
        with pytest.raises(LeadershipLostError, match="taken"):
            lease.ensure_held()
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"]


async def test_p3_a_block_is_cancelled_and_left_with_the_loss(
    elector: LeaderElector, valkey: Server
) -> None:
    """In `lead()` the loss cancels the block's await and comes out as the error."""
    task = asyncio.current_task()
    assert task is not None

    async def block() -> None:
        async with elector.lead("one"):
            steal(valkey, "one")
            await forever()

    with pytest.raises(LeadershipLostError) as caught:
        await block()
    assert caught.value.reason == "taken"
    assert task.cancelling() == 0


async def test_p3_an_attempt_to_extend_finds_the_loss(
    elector: LeaderElector, valkey: Server
) -> None:
    """`extend` says False at once, and the action is stopped at its next await."""
    answers: list[bool] = []

    async def work() -> None:
        steal(valkey, "one")
        answers.append(await here().extend(5))
        answers.append(here().held)
        await asyncio.sleep(10)

    with at_most(1), pytest.raises(LeadershipLostError):
        await elector.using(lease_time=30).run_if_leader("one", work)
    assert answers == [False, False]


async def test_p3_a_stop_in_the_users_own_timeout_is_kept_apart(
    elector: LeaderElector, valkey: Server
) -> None:
    """A loss inside the action's own `asyncio.timeout` is a loss, and the user's timeout is his."""

    async def patient() -> None:
        async with asyncio.timeout(30):
            steal(valkey, "one")
            await forever()

    async def impatient() -> None:
        async with asyncio.timeout(0.01):
            await forever()

    with pytest.raises(LeadershipLostError):
        await elector.run_if_leader("one", patient)
    with pytest.raises(TimeoutError):
        await elector.run_if_leader("two", impatient)


async def test_p3_a_waiting_standby_takes_over_after_the_cleanup(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """The next leader starts only when the last one's covered clean-up is over."""
    order: list[str] = []

    async def clean_up() -> None:
        await asyncio.sleep(0.3)
        order.append("cleaned up")

    async def follow() -> None:
        order.append("next")

    work = Work(cleanup=clean_up)
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    async with LeaderElector(make_client(valkey), quick(wait_time=None)) as other:
        following = asyncio.create_task(other.run_if_leader("one", follow))
        await cancel(leading)
        await following
    assert order == ["cleaned up", "next"]
