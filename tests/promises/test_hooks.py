"""Hooks: what is told, in which order, exactly once; and that no hook can disturb an election."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError, dataclass, fields

import pytest
from redis.exceptions import RedisError

from incumbent import Elected, LeaderElector, LeadershipLost, MemoryStore
from incumbent.engine import handle
from incumbent.events import (
    ActionRaised,
    AttemptDelayed,
    AttemptSkipped,
    Event,
    Hook,
    ReleaseFailed,
    RenewalDelayed,
    TermEnded,
    TermLost,
    TermRenewed,
    TermStarted,
)
from kit.fixtures import MakeClient, MakeProxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    Journal,
    Work,
    cancel,
    forever,
    here,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
)


async def test_the_story_of_a_quiet_term(elector: LeaderElector, journal: Journal) -> None:
    """Started, renewed, ended; all with the same names, and how long it lasted."""
    async with elector.lead("one") as lease:
        await journal.has(TermRenewed, 2)
    assert journal.story() == ["TermStarted", "TermEnded"]
    for event in journal.of(TermStarted) + journal.of(TermRenewed) + journal.of(TermEnded):
        assert isinstance(event, (TermStarted, TermRenewed, TermEnded))
        assert (event.election, event.seat) == ("one", 0)
        assert (event.leader_id, event.fence) == (elector.leader_id, lease.fence)
    assert all(0.5 < each.remaining <= LEASE for each in journal.of(TermRenewed))
    (ended,) = journal.of(TermEnded)
    assert ended.ending == "released"
    assert 0.3 < ended.duration < 5
    assert not journal.of(ReleaseFailed)


async def test_the_story_of_an_error(elector: LeaderElector, journal: Journal) -> None:
    """The action's error is told while the lease is held, then the term ends."""
    error = ValueError("bad")

    async def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="bad"):
        await elector.run_if_leader("one", fail)
    assert journal.story() == ["TermStarted", "ActionRaised", "TermEnded"]
    assert journal.of(ActionRaised)[0].error is error


async def test_the_story_of_a_loss(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Lost once, told before the clean-up runs; ended when it is over; nothing is told after."""
    order: list[str] = []

    async def clean_up() -> None:
        order.extend(journal.story())
        await asyncio.sleep(0.05)
        order.append("cleaned up")

    work = Work(cleanup=clean_up)
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    steal(valkey, "one")
    assert await leading == LeadershipLost("taken")
    order += journal.story()[len(order) - 1 :]
    assert order == ["TermStarted", "TermLost", "cleaned up", "TermEnded"]
    assert journal.of(TermLost)[0].reason == "taken"
    assert journal.of(TermEnded)[0].ending == "lost"


async def test_a_loss_is_told_once_whatever_comes_together(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """Stolen, extended by ten tasks, past its time, cut off, and released: one loss event."""
    proxy = await make_proxy(valkey)
    options = quick(on_loss="notify", request_timeout=0.8, max_hold_time=0.8)
    async with (
        LeaderElector(make_client(proxy), options, hooks=[journal]) as elector,
        elector.lead("one") as lease,
    ):
        steal(valkey, "one")
        await asyncio.gather(*(lease.extend(1) for _ in range(10)))
        proxy.cut()
        valkey.cli("DEL", seat_key("one"))
        await lease.extend(1)
        await wait_until(lambda: asyncio.get_running_loop().time() > 0)
        await asyncio.sleep(1.0)
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"]


async def test_the_story_of_a_contender(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Skipped: told once per attempt, at its end, with the holder; no term."""
    journal = Journal()
    async with (
        LeaderElector(make_client(valkey), quick(), hooks=[journal]) as other,
        elector.lead("one") as lease,
    ):
        await other.attempt("one", nothing)
        await other.using(wait_time=0.3).attempt("one", nothing)
    assert journal.story() == ["AttemptSkipped", "AttemptSkipped"]
    (skipped, _) = journal.of(AttemptSkipped)
    assert skipped.leader_id == other.leader_id
    assert skipped.reason == "held"
    assert skipped.holder is not None
    assert skipped.holder.fence == lease.fence


async def test_the_story_of_trouble(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """Delayed elections and renewals are told with their errors; what passes is no loss."""
    proxy = await make_proxy(valkey)
    options = quick(wait_time=20, request_timeout=0.8, lease_time=2.5)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        proxy.cut(refuse=True)
        work = Work()
        leading = asyncio.create_task(elector.attempt("one", work))
        delayed = await journal.has(AttemptDelayed)
        assert isinstance(delayed.error, RedisError)
        assert delayed.retry_in > 0
        await proxy.restore()
        await work.began.wait()
        proxy.cut(refuse=True)
        renewal = await journal.has(RenewalDelayed)
        assert isinstance(renewal.error, RedisError)
        assert 0 < renewal.remaining < 2.5
        await proxy.restore()
        await journal.has_another(TermRenewed)
        work.finish.set()
        assert isinstance(await leading, Elected)
    assert journal.of(TermLost) == []
    assert journal.story()[-2:] == ["TermStarted", "TermEnded"]


async def test_a_cancelled_caller_is_no_loss(elector: LeaderElector, journal: Journal) -> None:
    """Started and ended, nothing else; a cancelled wait tells nothing."""
    work = Work()
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    waiting = asyncio.create_task(elector.using(wait_time=None).attempt("one", nothing))
    await asyncio.sleep(0.05)
    await cancel(waiting)
    await cancel(leading)
    assert journal.story() == ["TermStarted", "TermEnded"]


@pytest.mark.parametrize("min_hold_time", [0, 0.5])
async def test_a_release_that_was_cut_is_no_loss(
    valkey: Server,
    make_client: MakeClient,
    make_proxy: MakeProxy,
    journal: Journal,
    min_hold_time: float,
) -> None:
    """Cancelled while the release's answer is on its way: it is sent again, and counts as one."""
    proxy = await make_proxy(valkey)
    options = quick(min_hold_time=min_hold_time)

    async def work() -> None:
        proxy.hold_replies("EVALSHA", "EVAL")

    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        await elector.run_if_leader("warm", nothing)
        journal.events.clear()
        leading = asyncio.create_task(elector.attempt("one", work))
        await wait_until(lambda: proxy.held and token_of(valkey, "one") in (None, "retained"))
        leading.cancel()
        await asyncio.sleep(0)
        proxy.release()
        with pytest.raises(asyncio.CancelledError):
            await leading
    assert journal.story() == ["TermStarted", "TermEnded"]
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]


async def test_a_failing_hook_disturbs_nobody(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails on every event: the others are told, the election goes its way, the log says it."""
    before, after = Journal(), Journal()

    def fail(event: Event) -> None:
        raise RuntimeError("a hook of mine")

    hooks: list[Hook] = [before, fail, after]
    async with LeaderElector(make_client(valkey), quick(), hooks=hooks) as elector:
        assert await elector.run_if_leader("one", nothing) == "done"
        async with elector.lead("two"):
            await elector.attempt("two", nothing)
            await after.has(TermRenewed)
    assert before.events == after.events
    assert len(before.events) >= 6
    records = [each for each in caplog.records if "hook failed" in each.message]
    assert len(records) == len(before.events)
    assert all(each.levelno == logging.ERROR and each.exc_info for each in records)
    assert "TermStarted" in records[0].message


async def test_a_failing_hook_does_not_keep_a_loss_from_the_action(
    valkey: Server, make_client: MakeClient
) -> None:
    """The loss is told to a hook that fails: the action is cancelled all the same."""

    def fail(event: Event) -> None:
        raise RuntimeError("a hook of mine")

    work = Work()
    async with LeaderElector(make_client(valkey), quick(), hooks=[fail]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        steal(valkey, "one")
        assert await leading == LeadershipLost("taken")
    assert work.cleaned == 1


async def test_a_hook_sees_the_truth(valkey: Server, make_client: MakeClient) -> None:
    """When it is told "started" the seat is taken; when "ended", it is free."""
    seen: list[tuple[str, bool, bool]] = []

    def look(event: Event) -> None:
        taken = token_of(valkey, "one") is not None
        seen.append((type(event).__name__, taken, elector.is_leading("one")))

    elector = LeaderElector(make_client(valkey), quick(), hooks=[look])
    await elector.run_if_leader("one", nothing)
    assert seen == [("TermStarted", True, True), ("TermEnded", False, False)]
    await elector.aclose()


async def test_any_callable_is_a_hook() -> None:
    """A function, a bound method, an object; none at all is fine as well."""
    told: list[Event] = []
    journal = Journal()
    store = MemoryStore()
    elector = LeaderElector(store, hooks=[told.append, journal, lambda event: event])
    await elector.run_if_leader("one", nothing)
    assert told == journal.events
    assert len(told) == 2
    assert await LeaderElector(store, hooks=[]).run_if_leader("one", nothing) == "done"


async def test_siblings_share_their_hooks(elector: LeaderElector, journal: Journal) -> None:
    """`using` and `for_tenant` tell the same hooks, with the tenant's full name."""
    await elector.using(lease_time=2).run_if_leader("one", nothing)
    await elector.for_tenant("acme").run_if_leader("one", nothing)
    names = [each.election for each in journal.of(TermStarted)]
    assert len(names) == len(set(names)) == 2
    assert names[0] == "one"
    assert "acme" in names[1]


async def test_events_are_frozen_and_without_tokens(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """They cannot be changed, and no field of theirs is a secret."""
    tokens: list[str | None] = []

    async def work() -> None:
        tokens.append(token_of(valkey, "one"))
        await elector.attempt("one", forever)
        await here().extend(2)

    await elector.run_if_leader("one", work)
    for event in journal.events:
        with pytest.raises(FrozenInstanceError):
            event.election = "x"  # type: ignore[misc] # that it is refused is the point
        for field in fields(event):
            assert str(tokens[0]) not in repr(getattr(event, field.name))


async def test_a_hook_that_says_what_it_wants_is_told_no_more(
    make_client: MakeClient, valkey: Server
) -> None:
    """With `wants`, a hook is asked about the kind of event; others are told all the same."""

    class Choosy(Journal):
        def wants(self, kind: type[Event]) -> bool:
            return kind is TermEnded

    choosy, journal = Choosy(), Journal()
    async with LeaderElector(make_client(valkey), quick(), hooks=[choosy, journal]) as elector:
        await elector.run_if_leader("one", nothing)
    assert choosy.story() == ["TermEnded"]
    assert journal.story() == ["TermStarted", "TermEnded"]


# -- nobody may disturb an election ----------------------------------------------------------


class Away(logging.Filter):
    """A filter that needs what is not there; it is asked by the handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Raise."""
        raise LookupError("no request in this context")


@pytest.fixture
def broken_log() -> Iterator[None]:
    """A program whose logging raises on every record."""
    logger = logging.getLogger("incumbent")
    handler = logging.StreamHandler()
    handler.addFilter(Away())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("broken_log")
async def test_p4_p6_a_log_handler_that_raises_keeps_no_seat(
    valkey: Server, make_client: MakeClient
) -> None:
    """Value and error come out as they are, a loss is told, and each term is given back."""

    async def fail() -> None:
        raise ValueError("the action's own error")

    async with LeaderElector(make_client(valkey), quick()) as elector:
        assert await elector.run_if_leader("one", nothing) == "done"
        with pytest.raises(ValueError, match="own error"):
            await elector.run_if_leader("one", fail)
        async with elector.lead("one") as lease:
            assert await elector.run_if_leader("one", nothing) is None
            await lease.extend(2)
        work = Work()
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        steal(valkey, "one")
        assert await leading == LeadershipLost("taken")
        valkey.cli("DEL", seat_key("one"))
        assert elector.leases == ()
        assert await elector.run_if_leader("one", nothing) == "done"
    assert token_of(valkey, "one") is None


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("on", [TermStarted, TermEnded, ActionRaised])
def test_p4_a_hook_that_ends_the_program_keeps_no_seat(
    kind: type[BaseException], on: type[Event], valkey: Server, make_client: MakeClient
) -> None:
    """The step of the election is completed, then the program ends, and gives back what it has."""
    told: list[Event] = []

    def hook(event: Event) -> None:
        told.append(event)
        if isinstance(event, on):
            raise kind("enough")

    async def fail() -> None:
        raise ValueError

    async def program() -> None:
        client = make_client(valkey)
        async with LeaderElector(client, quick(lease_time=60), hooks=[hook]) as elector:
            if on is ActionRaised:
                with suppress(ValueError):
                    await elector.run_if_leader("one", fail)
            elif on is TermEnded:
                await elector.run_if_leader("one", nothing)
            await elector.run_if_leader("one", forever)

    with pytest.raises(kind, match="enough"):
        asyncio.run(program())
    assert token_of(valkey, "one") is None
    assert isinstance(told[-1], TermEnded)


async def test_p4_nothing_of_the_user_s_runs_between_the_action_and_the_release(
    valkey: Server, make_client: MakeClient
) -> None:
    """Its error is told before the guard is disarmed; then the seat is given back."""
    seen: list[tuple[str, bool]] = []

    def look(event: Event) -> None:
        armed = [term._guard._armed for term in elector._office.terms]
        seen.append((type(event).__name__, any(armed)))

    async def fail() -> None:
        raise ValueError

    async with LeaderElector(make_client(valkey), quick(), hooks=[look]) as elector:
        with pytest.raises(ValueError):  # noqa: PT011 - whichever
            await elector.run_if_leader("one", fail)
    assert seen == [("TermStarted", True), ("ActionRaised", True), ("TermEnded", False)]


async def test_p4_whatever_fails_on_the_way_out_the_seat_is_given_back(
    elector: LeaderElector, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the context variable did in a subinterpreter: the error comes out, the seat is free."""

    def fails(*arguments: object) -> None:
        raise AttributeError("no such thing in this interpreter")

    monkeypatch.setattr(handle, "drop", fails)
    with pytest.raises(AttributeError, match="no such thing"):
        await elector.run_if_leader("one", nothing)
    assert token_of(valkey, "one") is None
    assert elector.leases == ()


@dataclass(frozen=True)
class FrozenError(Exception):
    """An error that takes no note."""

    code: int = 7

    def __str__(self) -> str:
        raise AttributeError("no text")

    __repr__ = __str__


async def test_p6_an_error_that_takes_no_note_comes_out_as_it_is(
    elector: LeaderElector, valkey: Server
) -> None:
    """A loss cannot be noted on it; by way of `lead()` neither."""
    error = FrozenError()

    async def fail() -> None:
        steal(valkey, "one")
        try:
            await forever()
        finally:
            raise error

    with pytest.raises(FrozenError) as caught:
        await elector.run_if_leader("one", fail)
    assert caught.value is error
    valkey.cli("DEL", seat_key("one"))
    with pytest.raises(FrozenError) as caught:
        async with elector.lead("one"):
            await fail()
    assert caught.value is error


async def test_an_error_without_a_text_is_logged_with_its_kind(
    valkey: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Its `__str__` raises: the record is still written, with what can be told."""

    async def fail() -> None:
        raise FrozenError

    async with LeaderElector(make_client(valkey), quick()) as elector:
        with pytest.raises(FrozenError):
            await elector.run_if_leader("one", fail)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    text = record.getMessage()
    assert text.startswith("action raised (election='one'")
    assert text.endswith("FrozenError (its text cannot be shown: AttributeError)")
