"""The electors for threads: the same answers as their asyncio twins, in the caller's own thread."""

import contextvars
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from blocking.scene import quick, thread
from incumbent import (
    ActionFailed,
    Elected,
    ElectorClosedError,
    LeadershipLost,
    LeadershipLostError,
    MemoryStore,
    NotElectedError,
    Skipped,
)
from incumbent import LeaderElector as AsyncElector
from incumbent.blocking import GroupElector, LeaderElector, Lease, current_lease
from incumbent.events import Event, TermEnded, TermRenewed
from kit.leftovers import connections
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import THIEF, Journal, all_keys, fence_key, in_line, steal, token_of, ttl_of


def here() -> Lease:
    """The lease under which this thread works."""
    lease = current_lease()
    assert lease is not None
    return lease


def held(lease: Lease) -> bool:
    """Asked by way of a function, as types cannot know that time passes."""
    return lease.held


def compute(seconds: float) -> None:
    """Keep the interpreter busy, without a pause in which it would give way by itself."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


# -- outcomes --------------------------------------------------------------------------------


def test_the_action_runs_in_the_caller_s_thread(elector: LeaderElector, valkey: Server) -> None:
    """With its arguments, under a lease that it finds; the seat is free afterwards."""

    def action(one: int, *, two: int) -> tuple[int, int, str]:
        assert threading.current_thread() is caller
        assert here().held
        assert elector.is_leading("one")
        assert elector.leases == (here(),)
        return one + two, here().fence, here().name

    caller = threading.current_thread()
    value = elector.run_if_leader("one", action, 1, two=2)
    assert value is not None
    assert (value[0], value[2]) == (3, "one")
    assert current_lease() is None
    assert elector.leases == ()
    assert all_keys(valkey) == {fence_key("one")}


def test_a_second_one_is_skipped(elector: LeaderElector, other: LeaderElector) -> None:
    """None, Skipped with the holder, NotElectedError, or a block without a lease."""
    with elector.lead("one") as lease:
        assert other.run_if_leader("one", lambda: 1) is None
        outcome = other.attempt("one", lambda: 1)
        assert isinstance(outcome, Skipped)
        assert outcome.holder is not None
        assert outcome.holder.leader_id == lease.leader_id == elector.leader_id
        with pytest.raises(NotElectedError), other.lead("one"):
            raise AssertionError("not elected")
        with other.try_lead("one") as none:
            assert none is None
    assert isinstance(other.attempt("one", lambda: 1), Elected)


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x"), KeyError(1)])
def test_the_action_s_error_comes_out_as_it_is(
    elector: LeaderElector, valkey: Server, error: Exception
) -> None:
    """The same object, from every way to run it; no group around it, and the seat is free."""

    def action() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        elector.run_if_leader("one", action)
    assert raised.value is error
    outcome = elector.attempt("one", action)
    assert isinstance(outcome, ActionFailed)
    assert outcome.error is error
    with pytest.raises(type(error)) as raised:
        elector.campaign("one", action)
    assert raised.value is error
    with pytest.raises(type(error)) as raised, elector.lead("one"):
        raise error
    assert raised.value is error
    assert token_of(valkey, "one") is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_comes_out_bare_and_frees_the_seat(
    elector: LeaderElector, valkey: Server, error: type[BaseException]
) -> None:
    """From an action and from a block; the loop's thread lives on."""

    def action() -> None:
        raise error

    for run in (elector.run_if_leader, elector.attempt, elector.campaign):
        with pytest.raises(error):
            run("one", action)
        assert token_of(valkey, "one") is None
    with pytest.raises(error), elector.lead("one"):
        raise error
    assert token_of(valkey, "one") is None
    assert elector.run_if_leader("one", lambda: 1) == 1


# -- renewals and losses -----------------------------------------------------------------------


def test_renewals_go_on_while_the_caller_computes(
    elector: LeaderElector, other: LeaderElector, journal: Journal, valkey: Server
) -> None:
    """Field case 15: more than a lease time of computing, one leader throughout.

    The loop needs the interpreter several times for a renewal, and each time waits for who has it.
    """
    lasts = 6.0

    def action() -> int:
        token = token_of(valkey, "one")
        until = time.monotonic() + lasts + 0.5
        while time.monotonic() < until or len(journal.of(TermRenewed)) < 3:
            compute(0.3)
            assert here().held
            assert token_of(valkey, "one") == token
            assert other.run_if_leader("one", lambda: 1) is None
        return here().fence

    assert elector.using(lease_time=lasts).run_if_leader("one", action)
    assert len(journal.of(TermEnded)) == 1


def test_a_lost_lease_is_told_and_raised_at_the_end(elector: LeaderElector, valkey: Server) -> None:
    """The action goes on, knows, and its value is no success."""

    def action() -> str:
        lease = here()
        steal(valkey, "one")
        assert lease.lost.wait(60)
        assert not held(lease)
        assert lease.loss_reason == "taken"
        with pytest.raises(LeadershipLostError):
            lease.ensure_held()
        return "value"

    with pytest.raises(LeadershipLostError) as lost:
        elector.run_if_leader("one", action)
    assert lost.value.reason == "taken"
    valkey.cli("FLUSHALL")
    outcome = elector.attempt("one", action)
    assert outcome == LeadershipLost("taken", value="value")
    assert token_of(valkey, "one") == THIEF


def test_the_action_s_error_wins_over_a_loss(elector: LeaderElector, valkey: Server) -> None:
    """It comes out as it is, and the loss is a note on it."""

    def action() -> None:
        steal(valkey, "one")
        assert here().lost.wait(60)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        elector.run_if_leader("one", action)
    assert "taken" in raised.value.__notes__[0]


def test_p3_after_an_unreachable_loss_a_lease_is_valid_to_its_deadline(own_server: Server) -> None:
    """A thread cannot be cancelled: it is told, and has the rest of the lease to clean up."""
    options = quick(lease_time=4, stop_grace=1.3, request_timeout=0.6)
    with LeaderElector(own_server.url, options) as elector:

        def work() -> tuple[bool, str | None]:
            lease = here()
            own_server.pause()
            assert lease.lost.wait(60)
            was_held, reason = lease.held, lease.loss_reason
            lease.ensure_held()
            wait_until_blocking(lambda: not held(lease))
            return was_held, reason

        told = elector.attempt("one", work)
        own_server.resume()
    assert told == LeadershipLost("unreachable", value=(True, "unreachable"))


def test_leaving_a_block_whose_lease_was_lost_raises(
    elector: LeaderElector, valkey: Server
) -> None:
    """Also when the block never asked; its own error wins, with a note."""
    with pytest.raises(LeadershipLostError), elector.lead("one") as lease:
        steal(valkey, "one")
        assert lease.lost.wait(60)
    valkey.cli("FLUSHALL")
    with pytest.raises(ValueError, match="mine") as raised, elector.lead("one") as lease:
        steal(valkey, "one")
        assert lease.lost.wait(60)
        raise ValueError("mine")
    assert "taken" in raised.value.__notes__[0]


def test_notify_leaves_the_block_silently(elector: LeaderElector, valkey: Server) -> None:
    """As with asyncio: told, but not raised."""
    with elector.using(on_loss="notify").lead("one") as lease:
        steal(valkey, "one")
        assert lease.lost.wait(60)


def test_one_that_steps_down_keeps_the_seat_until_its_block_ends(
    elector: LeaderElector, other: LeaderElector, valkey: Server
) -> None:
    """It is told at once, its work still counts as held, and the next leads when it has ended."""
    followed = threading.Event()

    def follow() -> None:
        other.using(wait_time=60).run_if_leader("one", followed.set)

    following = threading.Thread(target=follow)
    with (
        pytest.raises(LeadershipLostError, match="stepped_down"),
        elector.lead("one") as lease,
    ):
        following.start()
        wait_until_blocking(lambda: in_line(valkey, "one"))
        lease.step_down()
        assert lease.lost.wait(60)
        assert held(lease)
        assert not followed.wait(0.3)
    following.join(60)
    assert followed.is_set()


def test_another_thread_that_asks_to_step_down_waits_for_it(
    elector: LeaderElector, valkey: Server
) -> None:
    """It returns when the seat is free."""
    free: list[Any] = []

    def ask(lease: Lease) -> None:
        lease.step_down()
        free.append(token_of(valkey, "one"))

    asking: list[threading.Thread] = []
    with pytest.raises(LeadershipLostError), elector.lead("one") as lease:
        asking.append(threading.Thread(target=ask, args=(lease,)))
        asking[0].start()
        assert lease.lost.wait(60)
        assert not free
    asking[0].join(60)
    assert free == [None]


@pytest.mark.parametrize("in_context", [False, True])
def test_p9_a_thread_that_the_action_waits_for_may_step_down(
    elector: LeaderElector, in_context: bool
) -> None:
    """Neither waits for the other without end: at the latest the lease runs out."""

    def act() -> float:
        lease = current_lease()
        assert lease is not None
        context = contextvars.copy_context()
        target = partial(context.run, lease.step_down) if in_context else lease.step_down
        asking = threading.Thread(target=target)
        asking.start()
        asking.join(60)
        assert not asking.is_alive()
        return lease.remaining

    outcome = elector.attempt("one", act)
    assert isinstance(outcome, LeadershipLost)
    assert outcome.reason == "stepped_down"
    if in_context:
        assert outcome.value, "it was not waited for"
    else:
        assert outcome.value == 0.0


def test_a_remote_request_reaches_the_holder(elector: LeaderElector, other: LeaderElector) -> None:
    """As by `step_down`."""
    with pytest.raises(LeadershipLostError), elector.lead("one") as lease:
        assert other.request_step_down("one") == 1
        assert lease.lost.wait(60)


def test_a_seat_is_taken_from_a_holder(elector: LeaderElector, other: LeaderElector) -> None:
    """It is told so, as a loss."""
    with pytest.raises(LeadershipLostError, match="taken"), elector.lead("one") as lease:
        taken = other.force_release("one", fence=lease.fence)
        assert taken is not None
        assert taken.leader_id == elector.leader_id
        assert lease.lost.wait(60)


def test_a_lease_can_be_extended_and_released(elector: LeaderElector, valkey: Server) -> None:
    """Extended on the server; released early, the block goes on and ends silently."""
    with elector.lead("one") as lease:
        assert lease.extend(20)
        assert ttl_of(valkey, "one") > 10_000
        lease.release()
        assert not held(lease)
        assert token_of(valkey, "one") is None
        lease.release()


def test_the_longest_term_is_told(elector: LeaderElector) -> None:
    """`max_hold_time` cannot stop a thread; it is told, and it is no success."""

    def action() -> bool:
        return here().lost.wait(60)

    outcome = elector.using(max_hold_time=0.2).attempt("one", action)
    assert outcome == LeadershipLost("max_hold_time", value=True)


# -- standing by -------------------------------------------------------------------------------


def test_a_campaign_stands_by_again_after_a_loss(elector: LeaderElector, valkey: Server) -> None:
    """The action runs a second time, and not before the first has ended."""
    running: list[int] = []
    most: list[int] = []

    def action() -> str:
        running.append(1)
        most.append(len(running))
        try:
            if len(most) == 1:
                steal(valkey, "one")
                assert here().lost.wait(60)
                valkey.cli("DEL", "incumbent:{one}:seat:0")
                compute(1)
                return "lost"
            return "done"
        finally:
            running.pop()

    assert elector.campaign("one", action) == "done"
    assert most == [1, 1]


def test_a_schedule_runs_each_tick_in_this_thread(elector: LeaderElector) -> None:
    """An error does not end it, an interruption does."""
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(here().fence)
        if len(ticks) == 1:
            raise ValueError
        if len(ticks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        elector.schedule("tick", every=0.3, action=tick)
    assert ticks == sorted(set(ticks))
    assert len(ticks) == 3


def test_three_threads_have_one_leader_at_a_time(valkey: Server) -> None:
    """Each waits for its turn; the terms do not overlap."""
    spans: list[tuple[float, float]] = []
    with LeaderElector(valkey.url, quick(wait_time=None)) as elector:

        def action() -> None:
            began = time.monotonic()
            compute(0.3)
            assert here().held
            spans.append((began, time.monotonic()))

        def work() -> None:
            for _ in range(2):
                elector.run_if_leader("one", action)

        with thread(work), thread(work), thread(work):
            pass
    assert len(spans) == 6
    spans.sort()
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def test_a_watcher_sees_it_come_and_go(elector: LeaderElector) -> None:
    """State by state; closing ends the iteration, also from another thread."""
    watch = elector.watch("one")
    states = [watch.state]
    assert next(watch).leaders == ()
    with elector.lead("one") as lease:
        assert next(watch).leaders[0].fence == lease.fence
        states.append(watch.state)
        assert watch.outage is None
    assert [state and state.leaders[0].fence for state in states] == [None, lease.fence]
    assert next(watch).leaders == ()
    rest: list[Any] = []
    with thread(lambda: rest.extend(watch)):
        watch.close()
    assert rest == []


def test_a_watcher_that_joins_as_one_in_another_thread_leaves_is_served() -> None:
    """Whichever of them is first."""
    elector = LeaderElector(MemoryStore(), quick())
    firsts: list[bool] = []

    def look() -> None:
        for _ in range(100):
            watch = elector.watch("one")
            firsts.append(next(watch).leaders == ())
            watch.close()

    with thread(look), thread(look), thread(look):
        pass
    assert firsts == [True] * 300
    elector.close()


@pytest.mark.parametrize("way", ["attempt", "lead", "campaign", "schedule"])
def test_closing_from_another_thread_ends_a_wait(
    elector: LeaderElector, other: LeaderElector, valkey: Server, way: str
) -> None:
    """In whichever thread it waits; its place in line is free, and so is a schedule's pause."""
    waiter = other.using(wait_time=60, lease_time=10)
    calls: dict[str, Callable[[], object]] = {
        "attempt": lambda: waiter.attempt("one", int),
        "lead": lambda: waiter.lead("one").__enter__(),
        "campaign": lambda: waiter.campaign("one", int),
        "schedule": lambda: waiter.schedule("two", every="0 0 1 1 *", action=int),
    }
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            calls[way]()
        except ElectorClosedError as error:
            raised.append(error)

    with elector.lead("one"), thread(wait):
        if way == "schedule":
            time.sleep(0.2)
        else:
            wait_until_blocking(lambda: len(in_line(valkey, "one")) == 1)
        waiter.close()
        assert waiter.closed
        assert in_line(valkey, "one") == []
    assert [str(error) for error in raised] == ["this elector is closed"]
    assert not other.closed


def test_groups_tenants_and_decorators(valkey: Server) -> None:
    """The same names as with asyncio."""
    with GroupElector(redis.Redis.from_url(valkey.url), quick(), seats=2) as group:
        assert group.using(wait_time=1).seats == 2
        with group.lead("one") as first, group.lead("one") as second:
            assert {first.seat, second.seat} == {0, 1}
            assert len(group.state("one").leaders) == 2
            assert group.for_tenant("acme").state("one").leaders == ()

        @group.leader_only("tenant-{tenant}")
        def tidy(tenant: str, *, size: int = 1) -> str:
            """Tidy up."""
            assert here().name == f"tenant-{tenant}"
            return tenant * size

        assert tidy("a", size=2) == "aa"
        assert (tidy.__name__, tidy.__doc__) == ("tidy", "Tidy up.")


# -- what it is given --------------------------------------------------------------------------


def test_a_memory_store_needs_no_server() -> None:
    """For the unit tests of those who use it."""
    with LeaderElector(MemoryStore(), quick()) as elector:
        assert elector.run_if_leader("one", lambda: 1) == 1


async def test_what_cannot_work_is_refused_before_any_io(valkey: Server) -> None:
    """An asyncio client, a coroutine function, a generator function, a bad name."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    with pytest.raises(TypeError, match=r"redis\.Redis or RedisCluster client"):
        LeaderElector(client)  # type: ignore[arg-type]
    elector = LeaderElector("redis://localhost:1")

    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    for wrong in (coroutine, generator):
        with pytest.raises(TypeError, match="plain function"):
            elector.run_if_leader("one", wrong)
        with pytest.raises(TypeError, match="plain function"):
            elector.leader_only("one")(wrong)
    with pytest.raises(TypeError, match="function, not int"):
        elector.attempt("one", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="blank"):
        elector.run_if_leader(" ", print)
    assert "blocking LeaderElector" in repr(elector)


def test_its_members_are_those_of_the_asyncio_electors() -> None:
    """The same names; `close` instead of `aclose`."""
    mine = {name for name in dir(LeaderElector) if not name.startswith("_")}
    theirs = {name for name in dir(AsyncElector) if not name.startswith("_")}
    assert mine == theirs - {"aclose"} | {"close"}


def test_a_hook_cannot_call_its_own_loop(valkey: Server) -> None:
    """It would wait for itself for ever; it is told so."""
    refusals: list[str] = []

    def hook(event: object) -> None:
        try:
            elector.state("one")
        except RuntimeError as error:
            refusals.append(str(error))

    with LeaderElector(valkey.url, quick(), hooks=[hook]) as elector:
        assert elector.run_if_leader("one", lambda: 1) == 1
    assert "hook" in refusals[0]


class FrozenError(Exception):
    """An error that takes no note."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("frozen")


def test_p6_an_error_that_takes_no_note_comes_out_as_it_is(
    elector: LeaderElector, valkey: Server
) -> None:
    """A loss cannot be noted on it; by way of `lead()` neither."""
    error = FrozenError()

    def fail() -> None:
        steal(valkey, "one")
        assert here().lost.wait(60)
        raise error

    with pytest.raises(FrozenError) as caught:
        elector.run_if_leader("one", fail)
    assert caught.value is error
    valkey.cli("DEL", "incumbent:{one}:seat:0")
    with pytest.raises(FrozenError) as caught, elector.lead("one") as lease:
        steal(valkey, "one")
        assert lease.lost.wait(60)
        raise error
    assert caught.value is error


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, ValueError])
def test_p4_a_hook_that_raises_ends_neither_the_loop_nor_a_term(
    kind: type[BaseException], valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """It is called in the loop's thread, which is everybody's: whatever it raises is logged."""

    def hook(event: Event) -> None:
        raise kind("mine")

    with LeaderElector(valkey.url, quick(), hooks=[hook]) as elector:
        assert elector.run_if_leader("one", lambda: 7) == 7
        assert elector.run_if_leader("one", lambda: 8) == 8
    assert token_of(valkey, "one") is None
    assert sum("hook failed" in each.getMessage() for each in caplog.records) == 4


# -- what nobody has any more ----------------------------------------------------------------


def test_p4_electors_that_are_dropped_unclosed_keep_no_connection(own_server: Server) -> None:
    """One for each call, as in a view; whoever is still waited by, or stood by, stays open."""
    for number in range(30):
        elector = LeaderElector(own_server.url, quick())
        assert elector.run_if_leader("one", partial(int, number)) == number
        del elector
    wait_until_blocking(lambda: len(connections(own_server)) == 0, what="no connection is left")
    watch = LeaderElector(own_server.url, quick()).watch("one")
    assert next(watch).leaders == ()
    sibling = LeaderElector(own_server.url, quick()).using(lease_time=2)
    with LeaderElector(own_server.url, quick()).lead("one") as lease:
        assert next(watch).leaders[0].fence == lease.fence
        assert len(sibling.state("one").leaders) == 1
        time.sleep(0.3)
        assert lease.held
    assert next(watch).leaders == ()
    assert sibling.run_if_leader("one", int) == 0
    watch.close()
    del watch, sibling, lease
    wait_until_blocking(lambda: len(connections(own_server)) == 0, what="no connection is left")
