"""What a watcher is told: by cases, and by a model of a server, its stream and its snapshots."""

import math
from collections import deque
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incumbent.results import LeaderInfo, LeaderState
from incumbent.stores.board import (
    Board,
    Message,
    SeatFreed,
    SeatRetained,
    SeatTaken,
    Snapshot,
)

SINCE = datetime(2030, 1, 1, tzinfo=UTC)
NOW = 1000.0


def taken(seat: int, fence: int, ttl: float = 30.0) -> SeatTaken:
    """The message of an election."""
    return SeatTaken(seat, fence, SINCE, ttl, f"leader-{fence}")


def holder(seat: int, fence: int, remaining: float = 30.0, *, retained: bool = False) -> LeaderInfo:
    """Who has a seat, as a snapshot shows it."""
    return LeaderInfo(
        leader_id=f"leader-{fence}",
        seat=seat,
        fence=fence,
        since=SINCE,
        remaining=remaining,
        retained=retained,
    )


def snapshot(fence: int, *leaders: LeaderInfo, waiting: int = 0) -> Snapshot:
    """What the server answers."""
    return Snapshot(LeaderState("job", leaders, waiting), fence)


def told(states: list[LeaderState]) -> list[str]:
    """States in short: ``0:7`` is seat 0 under fence 7, with ``+`` when it is only retained."""
    return [" ".join(map(_short, state.leaders)) or "-" for state in states]


def _short(info: LeaderInfo) -> str:
    return f"{info.seat}:{info.fence}{'+' if info.retained else ''}"


def look(board: Board, answer: Snapshot, now: float = NOW) -> list[str]:
    """Ask for a snapshot and get it."""
    board.ask()
    return told(board.answer(answer, now))


def ready(*leaders: LeaderInfo, fence: int = 0, seats: int = 1) -> Board:
    """A board that has told its first state."""
    board = Board("job", seats)
    assert len(look(board, snapshot(fence, *leaders))) == 1
    return board


# -- the first state -------------------------------------------------------------------------


def test_the_first_snapshot_is_the_first_state_also_an_empty_one() -> None:
    """Its remaining times and its count of who waits are those of the server."""
    board = Board("job", 2)
    board.ask()
    (state,) = board.answer(snapshot(7, holder(1, 7, 12.5), waiting=3), NOW)
    assert state == LeaderState("job", (holder(1, 7, 12.5),), 3)
    assert look(Board("job", 1), snapshot(0)) == ["-"]


def test_nothing_is_told_before_the_first_snapshot() -> None:
    """What came before is in it, or is told behind it."""
    board = Board("job", 1)
    assert board.heard(taken(0, 5), NOW) == []
    board.ask()
    assert board.heard(SeatFreed(0, 5), NOW) == []
    assert board.heard(taken(0, 6), NOW) == []
    assert told(board.answer(snapshot(5, holder(0, 5)), NOW)) == ["0:5", "-", "0:6"]


def test_an_answer_that_was_not_asked_for_is_ignored() -> None:
    """Nor is one from before a cut: what was heard since was not kept."""
    board = Board("job", 1)
    assert board.answer(snapshot(5, holder(0, 5)), NOW) == []
    board.ask()
    board.interrupt()
    assert board.answer(snapshot(5, holder(0, 5)), NOW) == []
    assert look(board, snapshot(6, holder(0, 6))) == ["0:6"]


# -- messages --------------------------------------------------------------------------------


def test_a_term_is_told_as_it_goes() -> None:
    """Elected, retained, and over."""
    board = ready()
    assert told(board.heard(taken(0, 5), NOW)) == ["0:5"]
    assert told(board.heard(SeatRetained(0, 5, 3.0), NOW)) == ["0:5+"]
    assert told(board.heard(taken(0, 6), NOW)) == ["-", "0:6"]
    assert told(board.heard(SeatFreed(0, 6), NOW)) == ["-"]


def test_remaining_counts_down_and_never_below_zero() -> None:
    """It is what is left when the state is told."""
    board = ready(holder(0, 5, 10.0), fence=5, seats=2)
    (state,) = board.heard(taken(1, 6, 20.0), NOW + 4)
    assert [info.remaining for info in state.leaders] == [6.0, 20.0]
    (state,) = board.heard(SeatFreed(1, 6), NOW + 12)
    assert [info.remaining for info in state.leaders] == [0.0]


def test_a_retained_seat_ends_no_later_than_its_lease_would() -> None:
    """A message that comes late must not make it longer."""
    board = ready(holder(0, 5, 10.0), fence=5)
    (state,) = board.heard(SeatRetained(0, 5, 10.0), NOW + 4)
    assert state.leaders == (holder(0, 5, 6.0, retained=True),)


@pytest.mark.parametrize("late", [taken(0, 5), taken(0, 4), SeatFreed(0, 4), SeatRetained(0, 4, 1)])
def test_what_a_snapshot_holds_already_is_not_told_again(late: Message) -> None:
    """Messages may come behind a snapshot that was taken after them."""
    board = ready(holder(0, 5), fence=5)
    assert board.heard(late, NOW) == []


def test_a_late_election_of_a_term_that_is_over_is_no_news() -> None:
    """The counter tells: the snapshot shows an empty seat, and that somebody had it."""
    board = ready(fence=5)
    assert board.heard(taken(0, 5), NOW) == []
    assert board.heard(SeatFreed(0, 5), NOW) == []
    assert told(board.heard(taken(0, 6), NOW)) == ["0:6"]


def test_seats_beyond_its_own_are_not_shown_but_counted() -> None:
    """An elector with fewer seats does not see them; their fences are known all the same."""
    board = ready(holder(0, 5), holder(1, 6), fence=6, seats=1)
    assert board.heard(SeatFreed(1, 6), NOW) == []
    assert board.heard(taken(1, 7), NOW) == []
    assert look(board, snapshot(7, holder(0, 5), holder(1, 7))) == []
    assert not board.early
    assert told(board.heard(SeatFreed(0, 5), NOW)) == ["-"]


# -- snapshots -------------------------------------------------------------------------------


def test_a_snapshot_that_shows_the_same_tells_nothing() -> None:
    """Only the end of the lease is newer, and how many wait."""
    board = ready(holder(0, 5, 10.0), fence=5)
    assert board.soonest == NOW + 10
    assert look(board, snapshot(5, holder(0, 5, 30.0), waiting=9), NOW + 10) == []
    assert board.soonest == NOW + 40
    (state,) = board.heard(SeatFreed(0, 5), NOW + 11)
    assert state == LeaderState("job", (), 9)
    assert board.soonest == math.inf


def test_an_expiry_is_told_by_a_snapshot() -> None:
    """Nobody publishes it."""
    board = ready(holder(0, 5), holder(1, 6), fence=6, seats=2)
    assert look(board, snapshot(6, holder(1, 6))) == ["1:6"]


def test_a_snapshot_from_before_a_message_does_not_undo_it() -> None:
    """What came while it was on its way is newer, if its fence says so."""
    board = ready(holder(0, 5), fence=5)
    board.ask()
    assert told(board.heard(SeatFreed(0, 5), NOW)) == ["-"]
    assert told(board.heard(taken(0, 6), NOW)) == ["0:6"]
    assert board.answer(snapshot(5, holder(0, 5)), NOW) == []
    assert told(board.heard(SeatFreed(0, 6), NOW)) == ["-"]


def test_an_early_snapshot_waits_for_its_messages() -> None:
    """So that a term that is over already is told all the same."""
    board = ready(holder(0, 5), fence=5)
    assert look(board, snapshot(7, holder(0, 7))) == []
    assert board.early
    assert told(board.heard(SeatFreed(0, 5), NOW)) == ["-"]
    assert told(board.heard(taken(0, 6), NOW)) == ["0:6"]
    assert told(board.heard(SeatFreed(0, 6), NOW)) == ["-"]
    assert board.early
    assert told(board.heard(taken(0, 7), NOW)) == ["0:7"]
    assert not board.early


def test_an_early_snapshot_whose_messages_never_come_is_taken_in_all_the_same() -> None:
    """Who is gone is told first, then who has come, in the order of their elections."""
    board = ready(holder(0, 5), holder(1, 6), holder(2, 3), fence=6, seats=3)
    after = snapshot(9, holder(0, 9), holder(1, 6, retained=True), holder(2, 8))
    assert look(board, after) == []
    assert told(board.settle(NOW)) == [
        "1:6 2:3",
        "1:6",
        "1:6+",
        "1:6+ 2:8",
        "0:9 1:6+ 2:8",
    ]
    assert board.settle(NOW) == []


def test_after_a_cut_a_snapshot_waits_for_nothing() -> None:
    """What was published meanwhile will not come."""
    board = ready(holder(0, 5), fence=5)
    board.interrupt()
    assert look(board, snapshot(9, holder(0, 9))) == ["-", "0:9"]


def test_a_counter_that_was_lost_is_no_reason_to_believe_the_past() -> None:
    """A server without its data, or another one: what it shows is what is."""
    board = ready(holder(0, 5), fence=5)
    assert look(board, snapshot(0)) == ["-"]
    assert told(board.heard(taken(0, 3), NOW)) == ["0:3"]


def test_a_seat_that_was_stolen_shows_its_thief() -> None:
    """Another's name under the same fence is a change, too."""
    board = ready(holder(0, 5), fence=5)
    board.ask()
    thief = LeaderInfo(leader_id="thief", seat=0, fence=5, since=SINCE, remaining=1.0)
    (state,) = board.answer(snapshot(5, thief), NOW)
    assert state.leaders == (thief,)


# -- a model ---------------------------------------------------------------------------------


class World:
    """A server with its true history, a stream on its way, and at most one snapshot under way."""

    def __init__(self, seats: int) -> None:
        self.board = Board("job", seats)
        self.seats = seats
        self.told: list[LeaderState] = []
        self.true: list[str] = ["-"]
        """What was so, one after the other."""
        self.first_at = 0
        """Where in that the first state was taken."""
        self._held: dict[int, LeaderInfo] = {}
        self._fence = 100
        self._way: deque[Message] = deque()
        self._asked = False
        self._taken: tuple[Snapshot, int] | None = None
        self._known = False

    def now_true(self) -> str:
        """The seats as they are."""
        return " ".join(_short(self._held[seat]) for seat in sorted(self._held)) or "-"

    def take(self, seat: int) -> None:
        """Somebody is elected, if the seat is free."""
        if seat not in self._held:
            self._fence += 1
            self._held[seat] = holder(seat, self._fence)
            self._happened(taken(seat, self._fence))

    def free(self, seat: int) -> None:
        """The holder, if it is one, gives it back."""
        info = self._held.get(seat)
        if info is not None and not info.retained:
            del self._held[seat]
            self._happened(SeatFreed(seat, info.fence))

    def retain(self, seat: int) -> None:
        """The same, with a minimum hold."""
        info = self._held.get(seat)
        if info is not None and not info.retained:
            self._held[seat] = holder(seat, info.fence, retained=True)
            self._happened(SeatRetained(seat, info.fence, 30.0))

    def expire(self, seat: int) -> None:
        """A lease ends; no retention is so short that its end overtakes its message."""
        if any(isinstance(each, SeatRetained) and each.seat == seat for each in self._way):
            return
        if self._held.pop(seat, None) is not None:
            self._happened(None)

    def _happened(self, message: Message | None) -> None:
        self.true.append(self.now_true())
        if message is not None:
            self._way.append(message)

    def deliver(self, _: int = 0) -> None:
        """The oldest message comes."""
        if self._way:
            self.told += self.board.heard(self._way.popleft(), NOW)

    def ask(self, _: int = 0) -> None:
        """A snapshot is asked for, one at a time."""
        if not self._asked and not self.board.early:
            self._asked = True
            self.board.ask()

    def run(self, _: int = 0) -> None:
        """The server takes it."""
        if self._asked and self._taken is None:
            leaders = tuple(self._held[seat] for seat in sorted(self._held))
            self._taken = snapshot(self._fence, *leaders), len(self.true) - 1

    def answer(self, _: int = 0) -> None:
        """It comes."""
        if self._taken is not None:
            if not self._known:
                self._known, self.first_at = True, self._taken[1]
            self.told += self.board.answer(self._taken[0], NOW)
            self._asked, self._taken = False, None

    def cut(self, _: int = 0) -> None:
        """The connection breaks, with all that is on its way, and is back."""
        self._way.clear()
        self._asked, self._taken = False, None
        self.board.interrupt()

    def look(self) -> None:
        """Everything arrives, and a last look is taken."""
        self.run()
        self.answer()
        while self._way:
            self.deliver()
        self.told += self.board.settle(NOW)
        self.ask()
        self.run()
        self.answer()
        self.told += self.board.settle(NOW)


PUBLISHED = ["take", "free", "retain"]
READING = ["deliver", "ask", "run", "answer"]


def courses(*actions: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    """What happens, one after the other, each with a seat."""
    return st.lists(st.tuples(st.sampled_from(actions), st.integers(0, 2)), max_size=60)


def play(world: World, course: list[tuple[str, int]]) -> None:
    """Let it happen."""
    for action, seat in course:
        getattr(world, action)(seat % world.seats)


@given(courses(*PUBLISHED, *READING, "expire", "cut"), st.integers(1, 3))
def test_whatever_happens_it_ends_in_the_truth_and_never_repeats_itself(
    course: list[tuple[str, int]], seats: int
) -> None:
    """Messages late, lost and doubled by snapshots, leases that end, cuts."""
    world = World(seats)
    play(world, course)
    world.look()
    states = told(world.told)
    assert states[-1] == world.now_true()
    assert all(before != after for before, after in pairwise(states))


@settings(max_examples=300)
@given(courses(*PUBLISHED, *READING, "expire"))
def test_of_one_seat_every_change_since_the_first_state_is_told_in_order(
    course: list[tuple[str, int]],
) -> None:
    """As long as the stream is whole, and also what nobody publishes."""
    world = World(1)
    play(world, course)
    world.look()
    assert told(world.told) == world.true[world.first_at :][: len(world.told)]
    assert len(world.told) == len(world.true) - world.first_at


@settings(max_examples=300)
@given(courses(*PUBLISHED, *READING))
def test_of_many_seats_every_published_change_is_told_once(course: list[tuple[str, int]]) -> None:
    """A snapshot may tell of two that have left in another order, but of each of them."""
    world = World(3)
    play(world, course)
    world.look()
    assert len(world.told) == len(world.true) - world.first_at
    assert told(world.told)[-1] == world.now_true()
    assert changes(told(world.told)) == changes(world.true[world.first_at :])


def changes(states: list[str]) -> list[list[str]]:
    """What differs between each state and the next, in any order."""
    return sorted(
        sorted(({*before.split()} ^ {*after.split()}) - {"-"}) for before, after in pairwise(states)
    )


@given(courses(*PUBLISHED, "deliver"))
def test_messages_alone_are_told_as_they_come(course: list[tuple[str, int]]) -> None:
    """Behind a first state, without another snapshot."""
    world = World(3)
    world.look()
    play(world, course)
    while world._way:
        world.deliver()
    assert told(world.told) == world.true
