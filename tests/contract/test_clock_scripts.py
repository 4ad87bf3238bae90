"""What a clock leaves that was ahead and is set back: TTLs, graces and periods that are too long.

Each is put there by hand, so that it can be done on every server; `promises/test_clock_set_back.py`
does it by the clock itself.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contract.bench import SCRIPTS
from contract.line import GRACE, LEASE, Line, Processes, Waiter
from incumbent.stores.redis.line import LONGEST_PERIOD
from incumbent.stores.redis.place import STALE_AFTER
from kit.fixtures import StartServer
from kit.servers import Server

DAY = 86_400_000
HOUR = 3_600_000
MOST_STALE = 30_000
BUSY = 10_000
"""Milliseconds that may pass between two commands of a test."""


@pytest.fixture
def line(server: Server) -> Line:
    """A line of nobody."""
    return Line(server)


@pytest.fixture
def crowd(line: Line) -> Iterator[Processes]:
    """Processes that may stand in it."""
    with Processes(line) as processes:
        yield processes


def ttl(line: Line, seat: int = 0) -> int:
    """What a seat has left."""
    return int(line.server.cli("PTTL", line.key(f"seat:{seat}")))


def outlive(line: Line, seat: int = 0, by: int = DAY) -> None:
    """The clock was ahead by so much when the seat's TTL was set."""
    assert line.server.cli("PEXPIRE", line.key(f"seat:{seat}"), ttl(line, seat) + by) == 1


def about(wanted: int, found: int) -> bool:
    """Whether it is what is wanted, on a busy machine."""
    return wanted - BUSY < found <= wanted


# -- seats -----------------------------------------------------------------------------------

HEALS: dict[str, Callable[[Line, Waiter, Waiter], Any]] = {
    "extend": lambda line, holder, _: line.extend(holder),
    "extend shorter": lambda line, holder, _: line.extend(holder, duration=1_000),
    "the same claim": lambda line, holder, _: line.acquire(holder),
    "one try": lambda line, _, other: line.acquire(other),
    "one short try": lambda line, _, other: line.acquire(other, lease=250),
    "a waiter": lambda line, _, other: line.ask(other),
    "a look": lambda line, *_: line.state(),
    "a touch": lambda line, _, other: line.touch(other),
    "force": lambda line, *_: line.force(),
    "minimum hold": lambda line, holder, _: line.release(holder, keep=LEASE),
}


@pytest.mark.parametrize("heal", HEALS)
def test_p1_a_seat_lives_as_long_as_was_asked_for(line: Line, heal: str) -> None:
    """Whoever comes by cuts it to the longest time that its holder may rely on, and no shorter."""
    holder, other = line.waiter(), line.waiter("a")
    line.take(holder)
    outlive(line)
    HEALS[heal](line, holder, other)
    assert about(LEASE, ttl(line))


@pytest.mark.parametrize("heal", HEALS)
@pytest.mark.parametrize("left", [500, LEASE, 5 * LEASE])
def test_p1_nothing_is_cut_below_what_its_holder_asked_for(
    line: Line, heal: str, left: int
) -> None:
    """It was extended by hand; whether it is near that end or beyond it."""
    holder, other = line.waiter(), line.waiter("a")
    line.take(holder)
    line.extend(holder, duration=3 * LEASE)
    line.server.cli("PEXPIRE", line.key("seat:0"), left)
    due = min(left, 3 * LEASE)
    HEALS[heal](line, holder, other)
    if heal == "minimum hold":  # the work is over: nobody relies on it any more
        assert 0 < ttl(line) <= min(LEASE, due)
    elif heal in {"extend", "the same claim"}:
        assert about(max(LEASE, due), ttl(line))
    elif heal == "extend shorter" and left == 500:
        assert 0 < ttl(line) <= 1_000
    else:
        assert about(due, ttl(line))


def test_p1_a_late_copy_of_a_shorter_request_cuts_nothing(line: Line) -> None:
    """The holder relies on the longer one, whose answer it has; also while the clock is set."""
    holder = line.waiter()
    line.take(holder)
    assert line.extend(holder, duration=4 * LEASE)[1] == 4 * LEASE
    for by in (0, DAY):
        outlive(line, by=by)
        for late in (LEASE, 2 * LEASE, 1):
            assert about(4 * LEASE, line.extend(holder, duration=late)[1])
        line.acquire(line.waiter())
        assert about(4 * LEASE, ttl(line))


def test_a_forced_seat_is_free_when_its_holder_has_ended(line: Line) -> None:
    """Before, between and after: an operator's release frees it within a lease."""
    holder = line.waiter()
    line.take(holder)
    outlive(line)
    forced = line.force()
    assert forced[0] == "forced"
    assert about(LEASE, forced[5])
    outlive(line)
    kept = line.force()
    assert kept[0] == "kept"
    assert about(LEASE, kept[5])
    assert about(LEASE, ttl(line))
    outlive(line)
    busy = line.acquire(line.waiter())
    assert busy[0] == "busy"
    assert about(LEASE, busy[5])


def test_each_seat_of_a_group_is_cut_to_its_own_time(line: Line) -> None:
    """One had a longer lease than the other; a third was not touched by the clock."""
    leases = (LEASE, 2 * LEASE, 3 * LEASE)
    for lease in leases:
        line.take(line.waiter(size=3), lease=lease)
    outlive(line, 0)
    outlive(line, 1)
    assert line.acquire(line.waiter(size=3), lease=1_000)[0] == "busy"
    for seat, lease in enumerate(leases):
        assert about(lease, ttl(line, seat))


def test_p4_on_a_full_server_a_seat_is_extended_and_cut(start_server: StartServer) -> None:
    """The first write is one that a full server allows, and what follows is not refused."""
    line = Line(start_server())
    holder = line.waiter()
    line.take(holder)
    line.server.cli("CONFIG", "SET", "maxmemory", 1)
    assert line.extend(holder, duration=2 * LEASE)[0] == "held"
    outlive(line)
    assert about(2 * LEASE, line.extend(holder)[1])


# -- the line --------------------------------------------------------------------------------


def test_a_seat_is_not_kept_for_a_day_for_who_was_woken(line: Line, crowd: Processes) -> None:
    """Woken when the clock was ahead, and it has died since: the next touch goes on to another."""
    holder = line.waiter()
    line.take(holder)
    first, second = crowd.standing("a", "b")
    line.release(holder)
    assert line.woken() == {first.place}
    line.server.cli("ZADD", line.key("alive"), line.now() + DAY, f"w:{first.place}")
    crowd.die("a")
    line.touch(second)
    assert line.woken() == {second.place}
    assert crowd.heard("b")[0] == f"wake {second.place}"


def test_who_was_woken_by_a_clock_that_was_ahead_is_woken_again(
    line: Line, crowd: Processes
) -> None:
    """It still counts as alive, gets its turn, and a grace by the clock as it is now."""
    holder = line.waiter()
    line.take(holder)
    first, second = crowd.standing("a", "b")
    line.release(holder)
    line.server.cli("ZADD", line.key("alive"), line.now() + DAY, f"w:{first.place}")
    line.touch(second)
    assert line.woken() == {first.place}
    assert line.alive()[f"w:{first.place}"] <= line.now() + GRACE
    assert line.ask(first)[0] == "granted"


def test_a_process_that_died_is_not_believed_in_for_a_day(line: Line, crowd: Processes) -> None:
    """It is not counted, and the next touch of another one ends the belief in it."""
    line.take(line.waiter())
    dead, living = crowd.standing("a", "b")
    line.server.cli("ZADD", line.key("alive"), line.now() + DAY, "p:a")
    crowd.die("a")
    assert line.state()[0] == 1
    line.touch(living)
    deadline = line.alive()["p:a"]
    assert about(MOST_STALE, round(deadline - line.now()))
    assert line.places() == [dead.place, living.place], "it may live, and has the time to say so"
    line.touch(living)
    assert line.alive()["p:a"] == deadline
    assert line.state()[0] == 2


def test_who_lives_keeps_its_place(line: Line, crowd: Processes) -> None:
    """Its next touch is believed for as long as any."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    line.server.cli("ZADD", line.key("alive"), line.now() + DAY, "p:a")
    assert line.touch(who)[0] == 1
    assert about(MOST_STALE, round(line.alive()["p:a"] - line.now()))
    assert line.state()[0] == 1


def test_p4_on_a_full_server_no_process_is_believed_in_for_a_day(
    start_server: StartServer,
) -> None:
    """The first write is one that a full server allows."""
    line = Line(start_server())
    line.take(line.waiter())
    with Processes(line) as crowd:
        (who,) = crowd.standing("a")
        line.server.cli("ZADD", line.key("alive"), line.now() + DAY, "p:a")
        line.server.cli("CONFIG", "SET", "maxmemory", 1)
        assert line.touch(who)[0] == 1
        assert line.state()[0] == 1


def test_no_line_asks_to_be_believed_in_for_longer() -> None:
    """What the scripts take for the most is the most that is asked for."""
    said = re.search(rb"MOST_STALE = (\d+)", SCRIPTS["touch"].text)
    assert said is not None
    assert int(said[1]) == MOST_STALE == 1000 * LONGEST_PERIOD * STALE_AFTER


# -- periods ---------------------------------------------------------------------------------


def period(line: Line) -> tuple[int, int]:
    """An hour that began half an hour ago."""
    begins = line.now() - HOUR // 2
    return begins, begins + HOUR


def tick(line: Line, begins: int | None = None) -> int:
    """When the last period began that was run; set first, if it is given."""
    key = line.key("tick")
    if begins is not None:
        line.server.cli("SET", key, begins, "PX", 400 * DAY)
    return int(str(line.server.cli("GET", key)).split(" ")[0])


@pytest.mark.parametrize("ahead", [HOUR + 1, DAY, 400 * DAY])
@pytest.mark.parametrize("place", [False, True])
def test_a_period_that_is_yet_to_come_silences_one_period(
    line: Line, crowd: Processes, ahead: int, place: bool
) -> None:
    """The present one counts as run, as it may have been; the next one does not."""
    now = period(line)
    tick(line, now[0] + ahead)
    ask = (lambda who, at: line.ask(who, period=at)) if place else line.once
    said = ask(crowd.waiter("a"), now)
    assert said == ["ran", said[1], now[0] + ahead - said[1]]
    assert tick(line) == now[0]
    assert 0 < line.server.cli("PTTL", line.key("tick")) <= 2 * HOUR
    assert ask(crowd.waiter("a"), now)[2] == 0, "told once"
    assert line.places() == []
    following = now[0] + 1, now[1] + 1
    assert ask(crowd.waiter("a"), following)[0] == "granted"


@pytest.mark.parametrize("ahead", [1, HOUR // 2 + 1, HOUR])
def test_a_run_of_the_next_period_counts(line: Line, ahead: int) -> None:
    """The clock was set back a little, over a tick: nothing runs twice for it."""
    now = period(line)
    tick(line, now[0] + ahead)
    assert line.once(line.waiter(), now)[::2] == ["ran", 0]
    assert tick(line) == now[0] + ahead


def test_a_run_that_is_yet_to_come_and_failed_leaves_its_period_open(line: Line) -> None:
    """The tick still knows whose run it was, and what it said before."""
    now = period(line)
    line.server.cli("SET", line.key("tick"), now[0] - HOUR, "PX", HOUR)
    who = line.waiter()
    assert line.once(who, now)[0] == "granted"
    tick_of_tomorrow = line.server.cli("GET", line.key("tick")).replace(
        str(now[0]), str(now[0] + DAY)
    )
    line.server.cli("SET", line.key("tick"), tick_of_tomorrow, "PX", DAY)
    assert line.once(line.waiter(), now)[0] == "ran"
    line.release(who, restore=True)
    assert tick(line) == now[0] - HOUR
    assert line.once(line.waiter(), now)[0] == "granted"


def test_p4_on_a_full_server_a_period_that_is_yet_to_come_is_mended(
    start_server: StartServer,
) -> None:
    """It is told as on any other."""
    line = Line(start_server())
    now = period(line)
    tick(line, now[0] + DAY)
    line.server.cli("CONFIG", "SET", "maxmemory", 1)
    assert line.once(line.waiter(), now)[0] == "ran"
    assert tick(line) == now[0]
