"""When a hub looks at its store, by a source that answers as the test wants."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from incumbent.results import LeaderInfo, LeaderState, Outage
from incumbent.stores import hub as hubs
from incumbent.stores.base import Budget
from incumbent.stores.board import SeatFreed, SeatTaken, Snapshot
from incumbent.stores.hub import Hub, Hubs
from incumbent.stores.mailbox import Mailbox
from kit.waiting import wait_until

SINCE = datetime(2030, 1, 1, tzinfo=UTC)
BUDGET = Budget(2, 1)


class Source:
    """Answers what it was given last, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[], Snapshot] = lambda: snapshot(0)
        self.hub: Hub | None = None
        self.asked: list[tuple[int, Budget]] = []
        self.distrusts = 0
        self.dismissed = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.hubs = Hubs(self)

    def listen(self, hub: Hub) -> None:
        self.hub = hub

    def dismiss(self, hub: Hub) -> None:
        self.dismissed += 1
        self.hubs.forget(hub)

    def distrust(self, hub: Hub) -> None:
        self.distrusts += 1

    async def snapshot(self, election: str, seats: int, budget: Budget) -> Snapshot:
        self.asked.append((seats, budget))
        answer = self.answer()
        await self.gate.wait()
        return answer

    def passing(self, error: Exception) -> bool:
        return isinstance(error, OSError)

    @property
    def its_hub(self) -> Hub:
        assert self.hub is not None
        return self.hub

    def watch(self, seats: int = 1) -> Mailbox:
        """One more who watches."""
        mailbox = Mailbox()
        self.hubs.join("job", seats, BUDGET, mailbox)
        return mailbox

    async def ready(self) -> Mailbox:
        """One who watches, and has had the first state."""
        mailbox = self.watch()
        self.its_hub.listening()
        await mailbox.take()
        return mailbox


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    """A source, whose hubs are closed after the test."""
    made = Source()
    yield made
    await made.hubs.aclose()


def snapshot(fence: int, *fences: int, remaining: float = 30.0) -> Snapshot:
    """The counter, and under which fences the seats are held."""
    leaders = tuple(
        LeaderInfo(leader_id="x", seat=seat, fence=held, since=SINCE, remaining=remaining)
        for seat, held in enumerate(fences)
    )
    return Snapshot(LeaderState("job", leaders), fence)


def taken(fence: int) -> SeatTaken:
    return SeatTaken(0, fence, SINCE, 30.0, "x")


def outage_of(mailbox: Mailbox) -> Outage | None:
    """What the watcher is told of the server."""
    assert mailbox.teller is not None
    return mailbox.teller.outage


async def fences(mailbox: Mailbox, count: int) -> list[int]:
    """The next states: the fence of seat 0, or 0."""
    async with asyncio.timeout(5):
        states = [await mailbox.take() for _ in range(count)]
    return [state.leaders[0].fence if state.leaders else 0 for state in states]


async def test_it_looks_when_it_is_known_whether_it_is_heard(source: Source) -> None:
    """Not before: what is published between a look and the subscription would be lost."""
    mailbox = source.watch()
    await asyncio.sleep(0.05)
    assert source.asked == []
    source.its_hub.listening()
    assert await fences(mailbox, 1) == [0]
    assert source.asked == [(1, BUDGET)]


async def test_it_looks_at_once_when_it_is_deaf_from_the_beginning(source: Source) -> None:
    """And goes on by time."""
    mailbox = source.watch()
    source.its_hub.deaf()
    assert await fences(mailbox, 1) == [0]
    source.answer = lambda: snapshot(7, 7)
    assert await fences(mailbox, 1) == [7]
    assert source.distrusts == 0


async def test_a_subscription_that_hangs_does_not_keep_it_waiting(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody says that it is deaf, nor that it hears."""
    monkeypatch.setattr(hubs, "SILENT", 0.05)
    assert await fences(source.watch(), 1) == [0]


async def test_each_confirmation_makes_it_look_again(source: Source) -> None:
    """Also one that comes while a look is under way: that look is worth nothing."""
    mailbox = await source.ready()
    source.gate.clear()
    source.its_hub.listening()
    await wait_until(lambda: len(source.asked) == 2)
    source.answer = lambda: snapshot(7, 7)
    source.its_hub.listening()
    source.gate.set()
    assert await fences(mailbox, 1) == [7]
    assert len(source.asked) == 3
    assert source.distrusts == 0


async def test_who_comes_while_a_look_is_under_way_gets_one_of_their_own(source: Source) -> None:
    """What was published since that look was not kept for them."""
    first = await source.ready()
    source.gate.clear()
    source.its_hub.listening()
    await wait_until(lambda: len(source.asked) == 2)
    source.answer = lambda: snapshot(7, 7)
    late = source.watch(seats=3)
    source.its_hub.heard(taken(7))
    source.gate.set()
    assert await fences(late, 1) == [7]
    assert await fences(first, 1) == [7]
    assert [seats for seats, _ in source.asked] == [1, 1, 3]


async def test_an_early_look_waits_for_its_messages(source: Source) -> None:
    """So that none of the terms is lost between the two."""
    mailbox = await source.ready()
    source.answer = lambda: snapshot(8, 8)
    source.watch()
    await wait_until(lambda: len(source.asked) == 2)
    await asyncio.sleep(0.05)
    for message in (taken(7), SeatFreed(0, 7), taken(8)):
        source.its_hub.heard(message)
    assert await fences(mailbox, 3) == [7, 0, 8]
    await asyncio.sleep(hubs.ON_THEIR_WAY + 0.1)
    assert source.distrusts == 0


async def test_messages_that_wait_behind_a_stalled_loop_are_waited_for(source: Source) -> None:
    """They have come, and could not be read."""
    mailbox = await source.ready()
    source.answer = lambda: snapshot(8, 8)
    source.watch()
    await wait_until(lambda: len(source.asked) == 2)
    await asyncio.sleep(0.01)
    time.sleep(hubs.ON_THEIR_WAY + 0.2)  # noqa: ASYNC251 - that is the test
    await asyncio.sleep(0.02)
    for message in (taken(7), SeatFreed(0, 7), taken(8)):
        source.its_hub.heard(message)
    assert await fences(mailbox, 3) == [7, 0, 8]
    assert source.distrusts == 0


async def test_messages_that_do_not_come_cast_doubt_once(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it looks more often, until one is heard."""
    monkeypatch.setattr(hubs, "SILENT", 0.1)
    mailbox = await source.ready()
    source.answer = lambda: snapshot(7, 7)
    source.watch()
    assert await fences(mailbox, 1) == [7]
    assert source.distrusts == 1
    source.answer = lambda: snapshot(8, 8)
    assert await fences(mailbox, 2) == [0, 8]
    assert source.distrusts == 1
    source.its_hub.heard(SeatFreed(0, 8))
    assert await fences(mailbox, 1) == [0]
    looks = len(source.asked)
    await asyncio.sleep(0.3)
    assert len(source.asked) <= looks + 1


async def test_the_end_of_a_lease_is_looked_at_when_it_comes(source: Source) -> None:
    """Once for each known end."""
    source.answer = lambda: snapshot(7, 7, remaining=0.1)
    mailbox = await source.ready()
    source.answer = lambda: snapshot(7, 7, remaining=0.2)
    await wait_until(lambda: len(source.asked) == 2)
    source.answer = lambda: snapshot(7)
    assert await fences(mailbox, 1) == [0]
    await asyncio.sleep(0.3)
    assert len(source.asked) == 3


async def test_a_lease_without_an_end_is_not_looked_at_all_the_time(source: Source) -> None:
    """A key that somebody made persistent has nothing left, for ever."""
    source.answer = lambda: snapshot(7, 7, remaining=0.0)
    await source.ready()
    await asyncio.sleep(0.3)
    assert len(source.asked) == 1


async def test_looks_that_fail_are_repeated_with_pauses(source: Source) -> None:
    """Ever longer ones."""

    def away() -> Snapshot:
        raise OSError("away")

    source.answer = away
    mailbox = source.watch()
    source.its_hub.listening()
    await asyncio.sleep(0.7)
    assert 2 <= len(source.asked) <= 6
    source.answer = lambda: snapshot(7, 7)
    assert await fences(mailbox, 1) == [7]


async def test_a_look_that_fails_begins_an_outage_and_one_that_does_not_ends_it(
    source: Source,
) -> None:
    """Since the server was heard last, and why; who comes later is told the same."""

    def away() -> Snapshot:
        raise OSError("away")

    mailbox = await source.ready()
    before = datetime.now(UTC)
    assert outage_of(mailbox) is None
    source.its_hub.heard(taken(7))
    await fences(mailbox, 1)
    source.answer = away
    source.its_hub.deaf()
    outage = await wait_until(lambda: outage_of(mailbox))
    assert before <= outage.since <= datetime.now(UTC)
    assert str(outage.error) == "away"
    other = source.watch()
    assert outage_of(other) == outage
    source.answer = lambda: snapshot(7, 7)
    assert await fences(other, 1) == [7]
    assert outage_of(mailbox) is outage_of(other) is None


async def _in_an_outage(source: Source) -> Mailbox:
    """A watcher who has been told that the server is not heard, and that looks fail."""

    def away() -> Snapshot:
        raise OSError("away")

    mailbox = await source.ready()
    source.answer = away
    source.its_hub.deaf()
    await wait_until(lambda: outage_of(mailbox))
    return mailbox


@pytest.mark.parametrize("sign", ["message", "subscription"])
async def test_an_outage_ends_soon_after_the_server_is_heard(
    source: Source, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    """However long the pause after the looks that failed is."""
    monkeypatch.setattr(hubs, "pause_after", lambda *_, **__: 3600.0)
    mailbox = await _in_an_outage(source)
    source.answer = lambda: snapshot(7, 7)
    if sign == "message":
        source.its_hub.heard(taken(7))
    else:
        source.its_hub.listening()
    await wait_until(lambda: outage_of(mailbox) is None)


async def test_messages_do_not_make_it_look_all_the_time(source: Source) -> None:
    """Where they are heard, and each look fails."""
    await _in_an_outage(source)
    looks = len(source.asked)
    began = time.monotonic()
    for fence in range(100):
        source.its_hub.heard(taken(fence + 1))
        await asyncio.sleep(0.005)
    took = time.monotonic() - began
    assert len(source.asked) - looks <= took / hubs.SOON + 1


async def test_a_look_without_an_answer_is_an_outage_as_well(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noticed before it counts as failed, and over with the answer."""
    monkeypatch.setattr(hubs, "SLOW", 0.05)
    source.gate.clear()
    mailbox = source.watch()
    source.its_hub.listening()
    outage = await wait_until(lambda: outage_of(mailbox))
    assert isinstance(outage.error, TimeoutError)
    source.gate.set()
    await mailbox.take()
    assert outage_of(mailbox) is None


async def test_what_is_known_now_can_be_asked_for(source: Source) -> None:
    """With what has changed since the last state: the rest of a lease, and how many wait."""
    mailbox = source.watch()
    assert mailbox.teller is not None
    teller = mailbox.teller
    assert teller.present(mailbox) is None
    source.answer = lambda: snapshot(7, 7, remaining=20.0)
    source.its_hub.listening()
    await mailbox.take()
    await wait_until(lambda: (now := teller.present(mailbox)) and now.leaders[0].remaining < 20)
    waiting = Snapshot(replace(snapshot(7, 7).state, waiting=3), 7)
    source.answer = lambda: waiting
    source.its_hub.listening()
    await wait_until(lambda: (now := teller.present(mailbox)) and now.waiting == 3)
    now = teller.present(mailbox)
    assert now is not None
    assert 20 < now.leaders[0].remaining <= 30
    mailbox.end()
    assert teller.present(mailbox) is None


@pytest.mark.parametrize(
    ("remaining", "earliest", "step"),
    [(30.0, hubs.LONGEST_PERIOD, hubs.TOGETHER), (4.0, 4.0, hubs.ENDS_TOGETHER)],
    ids=["by time", "at the end of a lease"],
)
async def test_looks_of_many_elections_are_taken_at_the_same_times(
    source: Source, remaining: float, earliest: float, step: float
) -> None:
    """So they leave as one, whenever each of them was looked at before."""
    source.answer = lambda: snapshot(7, 7, remaining=remaining)
    await source.ready()
    for looked_at in (1000.0, 1000.001, 1000.123, 1000.26):
        source.its_hub._looked_at = looked_at
        for board, _ in source.its_hub._watchers.values():
            board.ask()
            board.answer(source.answer(), looked_at)
        due = source.its_hub._due()
        assert due / step == pytest.approx(round(due / step), abs=1e-6)
        assert 0 <= due - (looked_at + earliest) <= step + hubs.A_LITTLE_LATER


async def test_an_error_that_will_not_pass_ends_all_and_lets_others_begin_anew(
    source: Source,
) -> None:
    """With the error, each of them."""

    def broken() -> Snapshot:
        raise ValueError("broken")

    source.answer = broken
    mailboxes = [source.watch(), source.watch()]
    source.its_hub.listening()
    for each in mailboxes:
        with pytest.raises(ValueError, match="broken"):
            await each.take()
    await wait_until(lambda: source.dismissed == 1)
    source.answer = lambda: snapshot(7, 7)
    again = source.watch()
    source.its_hub.listening()
    assert await fences(again, 1) == [7]


async def test_one_who_comes_as_the_last_one_goes_is_served(source: Source) -> None:
    """In the same turn of the loop."""
    mailbox = await source.ready()
    mailbox.end()
    other = source.watch()
    assert await fences(other, 1) == [0]
    assert source.dismissed == 0
    other.end()
    await wait_until(lambda: source.dismissed == 1)


async def test_a_hub_whose_task_is_cancelled_leaves_nobody_waiting(source: Source) -> None:
    """A program that ends cancels every task."""
    mailbox = await source.ready()
    (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "incumbent watch")
    task.cancel()
    with pytest.raises(StopAsyncIteration):
        await mailbox.take()


@pytest.mark.parametrize("turns", range(4))
async def test_after_an_error_whoever_watches_at_once_gets_a_hub_that_lives(
    source: Source, turns: int
) -> None:
    """In whichever turn after the error; and so do those who watch later."""

    def broken() -> Snapshot:
        raise ValueError("broken")

    source.answer = broken
    first = source.watch()
    source.its_hub.listening()
    with pytest.raises(ValueError, match="broken"):
        await first.take()
    for _ in range(turns):
        await asyncio.sleep(0)
    source.answer = lambda: snapshot(7, 7)
    second = source.watch()
    source.its_hub.listening()
    assert await fences(second, 1) == [7]
    assert await fences(source.watch(), 1) == [7]
    assert source.dismissed == 1


async def test_a_hub_whose_task_never_began_leaves_nobody_waiting(source: Source) -> None:
    """Cancelled, as programs end, in the turn in which it was made."""
    mailbox = source.watch()
    (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "incumbent watch")
    task.cancel()
    with pytest.raises(StopAsyncIteration):
        await mailbox.take()
    other = source.watch()
    source.its_hub.listening()
    assert await fences(other, 1) == [0]
    assert source.dismissed == 1


async def test_closing_does_not_wait_for_who_comes_meanwhile(source: Source) -> None:
    """Whoever watches again as soon as their watch ends gets a new hub."""
    mailbox, again = await source.ready(), asyncio.Event()

    async def go_on() -> Mailbox:
        with pytest.raises(StopAsyncIteration):
            await mailbox.take()
        again.set()
        return source.watch()

    going_on = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await source.hubs.aclose()
    other = await going_on
    source.its_hub.listening()
    assert await fences(other, 1) == [0]
