"""What every store promises those who watch: the present state, then each change, in order."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.bench import BUDGET, Bench, claim
from incumbent.results import LeaderState
from incumbent.stores.base import Budget, Store
from incumbent.stores.mailbox import Mailbox
from kit.leftovers import connections
from kit.waiting import wait_until


class Reader:
    """Reads a mailbox, and keeps what came."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.states: list[LeaderState] = []

    async def begin(self, store: Store, election: str = "job", seats: int = 1) -> "Reader":
        """Watch, and read the first state."""
        await store.watch(election, seats, BUDGET, self.mailbox)
        await self.next()
        return self

    async def next(self) -> str:
        """The next state, in short."""
        async with asyncio.timeout(10):
            self.states.append(await self.mailbox.take())
        return told(self.states[-1])

    async def quiet(self, seconds: float = 0.1) -> bool:
        """Whether nothing comes."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.mailbox.take()
        return True


def told(state: LeaderState) -> str:
    """Who has which seat, with ``+`` for one that is only retained."""
    shown = [f"{info.leader_id[-1]}{info.seat}{'+' * info.retained}" for info in state.leaders]
    return " ".join(shown) or "-"


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    """A reader whose mailbox is ended after the test."""
    made = Reader()
    yield made
    made.mailbox.end()
    await asyncio.sleep(0.01)


async def test_the_first_state_is_the_present_one(bench: Bench, reader: Reader) -> None:
    """As `state` tells it: who has which seat since when, and how many wait."""
    await bench.elect(claim("job", "a", seats=2))
    place = await bench.store.stand(claim("job", "b"), BUDGET)
    await bench.store.acquire(claim("job", "b"), BUDGET, place)
    expected = await bench.store.state("job", 2, BUDGET)
    await reader.begin(bench.store, seats=2)
    (state,) = reader.states
    assert told(state) == "a0"
    assert (state.name, state.waiting) == ("job", 1)
    assert state.leaders[0].since == expected.leaders[0].since
    assert state.leaders[0].fence == expected.leaders[0].fence
    assert 0 < state.leaders[0].remaining <= expected.leaders[0].remaining + 1e-6
    await place.leave(BUDGET)


async def test_each_change_is_told_seat_by_seat(bench: Bench, reader: Reader) -> None:
    """Elections, releases, retentions; a renewal is none."""
    a, b = claim("job", "a", seats=2), claim("job", "b", seats=2)
    await reader.begin(bench.store, seats=2)
    assert told(reader.states[0]) == "-"
    first = await bench.elect(a)
    assert await reader.next() == "a0"
    second = await bench.elect(b)
    assert await reader.next() == "a0 b1"
    await bench.store.extend(a, 0, 60, BUDGET)
    await bench.store.release(a, first, 0, BUDGET)
    assert await reader.next() == "b1"
    await bench.store.release(b, second, 5, BUDGET)
    assert await reader.next() == "b1+"
    assert [info.fence for info in reader.states[2].leaders] == [first.fence, second.fence]
    assert reader.states[2].leaders[1].since == second.since
    assert 4 < reader.states[4].leaders[0].remaining <= 5
    assert await reader.quiet()


async def test_what_is_told_by_message_and_by_snapshot_is_the_same(bench: Bench) -> None:
    """Else the next look would be a change."""
    early, late = await Reader().begin(bench.store), Reader()
    await bench.elect(claim("job"))
    await early.next()
    await late.begin(bench.store)
    by_message, by_snapshot = early.states[-1].leaders[0], late.states[-1].leaders[0]
    assert by_message.since == by_snapshot.since
    assert by_message.fence == by_snapshot.fence
    assert await early.quiet()
    for each in (early, late):
        each.mailbox.end()


async def test_a_lease_that_runs_out_is_told(bench: Bench, reader: Reader) -> None:
    """Soon after its end, although nobody publishes it; as is the end of a minimum hold."""
    await reader.begin(bench.store)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await bench.elect(claim("job", lease_time=0.3))
    assert await reader.next() == "a0"
    assert await reader.next() == "-"
    assert 0.25 < loop.time() - began < 0.3 + 3
    b = claim("job", "b")
    grant = await bench.elect(b)
    await bench.store.release(b, grant, 0.2, BUDGET)
    assert [await reader.next() for _ in range(3)] == ["b0", "b0+", "-"]


async def test_a_lease_that_is_renewed_is_not_told_to_have_ended(
    bench: Bench, reader: Reader
) -> None:
    """The look at its first end finds a later one."""
    await bench.elect(claim("job", lease_time=0.3))
    await reader.begin(bench.store)
    await bench.store.extend(claim("job"), 0, 30, BUDGET)
    assert await reader.quiet(0.6)


async def test_a_claim_that_is_given_up_is_told(bench: Bench, reader: Reader) -> None:
    """Its seat is free again."""
    await reader.begin(bench.store)
    await bench.elect(claim("job"))
    await bench.store.leave(claim("job"), BUDGET)
    assert [await reader.next() for _ in range(2)] == ["a0", "-"]


async def test_who_sees_fewer_seats_is_not_told_of_the_others(bench: Bench) -> None:
    """Electors of different sizes watch one election, and one another's seats not."""
    small = await Reader().begin(bench.store, seats=1)
    large = await Reader().begin(bench.store, seats=3)
    grants = [await bench.elect(claim("job", who, seats=3)) for who in "abc"]
    assert [await large.next() for _ in range(3)] == ["a0", "a0 b1", "a0 b1 c2"]
    await bench.store.release(claim("job", "b", seats=3), grants[1], 0, BUDGET)
    assert await large.next() == "a0 c2"
    assert await small.next() == "a0"
    assert await small.quiet()
    for each in (small, large):
        each.mailbox.end()


async def test_elections_do_not_hear_of_each_other(bench: Bench, reader: Reader) -> None:
    """Nor of one whose name begins alike."""
    await reader.begin(bench.store)
    await bench.elect(claim("job:seat"))
    await bench.elect(claim("jo"))
    assert await reader.quiet()


async def test_a_mailbox_that_is_ended_is_filled_no_more(bench: Bench) -> None:
    """One that was ended before it began never is."""
    ended = Mailbox()
    ended.end()
    await bench.store.watch("job", 1, BUDGET, ended)
    reader = await Reader().begin(bench.store)
    reader.mailbox.end()
    await bench.elect(claim("job"))
    for mailbox in (ended, reader.mailbox):
        with pytest.raises(StopAsyncIteration):
            await mailbox.take()


async def test_one_who_leaves_and_comes_back_at_once_is_served(bench: Bench) -> None:
    """The last one's end and the next one's beginning in one turn of the loop."""
    for _ in range(5):
        reader = await Reader().begin(bench.store)
        reader.mailbox.end()
    last = await Reader().begin(bench.store)
    await bench.elect(claim("job"))
    assert await last.next() == "a0"
    last.mailbox.end()


@pytest.mark.parametrize("turns", range(6))
async def test_a_watcher_that_joins_as_the_last_one_leaves_is_served(
    bench: Bench, turns: int
) -> None:
    """In whichever turn of the loop after the change at which the other one leaves."""
    old = await Reader().begin(bench.store)

    async def leave_at_a_change() -> None:
        await old.next()
        old.mailbox.end()

    for _ in range(3):
        leaving = asyncio.create_task(leave_at_a_change())
        await asyncio.sleep(0)
        grant = await bench.elect(claim("job"))
        for _ in range(turns):
            await asyncio.sleep(0)
        new = await Reader().begin(bench.store)
        later = await Reader().begin(bench.store)
        assert told(new.states[-1]) == told(later.states[-1]) == "a0"
        await leaving
        await bench.store.release(claim("job"), grant, 0, BUDGET)
        assert await new.next() == await later.next() == "-"
        later.mailbox.end()
        old = new
    old.mailbox.end()


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_watcher_that_joins_while_the_store_closes_is_served(
    bench: Bench, turns: int
) -> None:
    """It is not told of the end of the others, and closing does not wait for it."""
    old = await Reader().begin(bench.store)
    closing = asyncio.create_task(bench.store.aclose())
    for _ in range(turns):
        await asyncio.sleep(0)
    new = await Reader().begin(bench.store)
    async with asyncio.timeout(10):
        await closing
    with pytest.raises(StopAsyncIteration):
        await old.mailbox.take()
    await bench.elect(claim("job"))
    assert await new.next() == "a0"
    new.mailbox.end()
    await bench.store.aclose()


async def test_closing_the_store_ends_who_watches(bench: Bench) -> None:
    """Quietly, whatever is unread."""
    reader = await Reader().begin(bench.store)
    waiting = asyncio.create_task(reader.mailbox.take())
    await asyncio.sleep(0)
    await bench.store.aclose()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_hundred_watchers_of_one_election_share_one_subscription(
    redis_bench: Bench,
) -> None:
    """And one look, or two if not all have come before the first."""
    server = redis_bench.server
    assert server is not None
    readers = [Reader() for _ in range(100)]
    for each in readers:
        await redis_bench.store.watch("job", 1, BUDGET, each.mailbox)
    for each in readers:
        await each.next()
    assert server.cli("PUBSUB", "NUMSUB", "incumbent:{job}:db0:events") == [
        "incumbent:{job}:db0:events",
        1,
    ]
    assert len(connections(server)) <= 2
    await redis_bench.elect(claim("job"))
    assert {await each.next() for each in readers} == {"a0"}
    for each in readers:
        each.mailbox.end()
    await wait_until(lambda: not server.cli("PUBSUB", "CHANNELS"), what="no subscription")


async def test_words_that_are_not_ours_are_ignored(redis_bench: Bench, reader: Reader) -> None:
    """Of a later release, of a stranger, and of one who means ill."""
    server = redis_bench.server
    assert server is not None
    await reader.begin(redis_bench.store)
    words: list[str | bytes] = ["", "renewed 0 7", "elected", "released", "retained 0 7", b"\xff"]
    for word in (*words, "elected 0 x 1 1 a", "elected 0 7 99999999999999999999 1 a"):
        server.cli("PUBLISH", "incumbent:{job}:db0:events", word)
    await redis_bench.elect(claim("job"))
    assert await reader.next() == "a0"
    assert await reader.quiet()


async def test_a_short_budget_does_not_end_it(redis_bench: Bench) -> None:
    """A look that has no time is one that failed, and is taken again."""
    mailbox = Mailbox()
    await redis_bench.store.watch("job", 1, Budget(0, 0), mailbox)
    taking = asyncio.create_task(mailbox.take())
    await asyncio.sleep(0.3)
    assert not taking.done()
    mailbox.end()
    with pytest.raises(StopAsyncIteration):
        await taking
