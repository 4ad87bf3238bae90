"""The line on the server: who is next, who is woken, who is gone (rules 1 to 4 and 6 of the line).

Raw scripts and raw subscriptions: what is wrong here, no client can mend.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import ANY

import pytest
import redis

from contract.line import GRACE, LEASE, STALE, Line, Processes, Waiter, watching
from kit.fixtures import StartServer
from kit.leftovers import keys_without_ttl
from kit.servers import Server
from kit.waiting import wait_until_blocking


@pytest.fixture
def line(server: Server) -> Line:
    """A line of nobody."""
    return Line(server)


@pytest.fixture
def crowd(line: Line) -> Iterator[Processes]:
    """Processes that may stand in it."""
    with Processes(line) as processes:
        yield processes


FULL = re.compile("OOM|maxmemory")
DENIED = re.compile("perm|can't run this command")


def wake(*who: Waiter) -> list[str]:
    """The wake-ups of these waiters."""
    return [f"wake {each.place}" for each in who]


# -- rule 1: order ---------------------------------------------------------------------------


def test_rule_1_waiters_are_elected_in_order_of_arrival(line: Line, crowd: Processes) -> None:
    """Six waiters of three processes: each release wakes the next one, and no other."""
    holder = line.waiter()
    line.take(holder)
    waiters = crowd.standing("a", "b", "a", "c", "b", "a")
    assert line.places() == [who.place for who in waiters]
    for who in waiters:
        assert line.release(holder) == "released"
        assert crowd.told() == {who.process: wake(who)}
        assert line.take(who) == 0
        holder = who
    assert line.places() == []
    assert crowd.told() == {}


def test_rule_1_arrivals_grow_although_the_clock_stands_behind(
    line: Line, crowd: Processes
) -> None:
    """Whoever comes later is later, also when the last one came from the future."""
    line.take(line.waiter())
    first = crowd.waiter("a")
    first.arrival = (line.now() + 60_000) * 1000
    line.stand(first)
    second, third = crowd.standing("b", "a")
    assert [second.arrival, third.arrival] == [first.arrival + 1, first.arrival + 2]
    assert line.places() == [first.place, second.place, third.place]


def test_rule_1_arrivals_are_the_servers_microseconds(line: Line, crowd: Processes) -> None:
    """A newcomer to an empty line arrives now."""
    line.take(line.waiter())
    before = line.now() * 1000
    (who,) = crowd.standing("a")
    assert before <= who.arrival <= (line.now() + 1) * 1000


def test_rule_1_asking_again_keeps_the_place(line: Line, crowd: Processes) -> None:
    """With the arrival that it was told, or with none because no answer came, or a false one."""
    line.take(line.waiter())
    first, second = crowd.standing("a", "b")
    told = first.arrival
    for arrival in (told, 0, told + 10**9):
        first.arrival = arrival
        line.stand(first)
        assert line.places() == [first.place, second.place]
    first.arrival = 0
    line.stand(first)
    assert first.arrival == told


def test_rule_1_a_dropped_waiter_gets_its_place_back(line: Line, crowd: Processes) -> None:
    """It presents its arrival, and stands before those who came later."""
    line.take(line.waiter())
    first, second, third = crowd.standing("a", "b", "c")
    line.overdue("p:b")
    line.touch(first)
    assert line.places() == [first.place, third.place]
    line.stand(second)
    assert line.places() == [first.place, second.place, third.place]


def test_rule_1_nobody_passes_a_live_head(line: Line, crowd: Processes) -> None:
    """A free seat that is due to the head is not for a newcomer, standing or not."""
    holder = line.waiter()
    line.take(holder)
    (head,) = crowd.standing("a")
    line.release(holder)
    for newcomer in (line.waiter(), crowd.waiter("b")):
        answer = line.acquire(newcomer) if newcomer.process == "none" else line.ask(newcomer)
        assert answer[:7] == ["busy", -1, "", "0", "0", ANY, 0]
        assert 0 < answer[5] <= GRACE
    assert line.take(head) == 0


def test_rule_1_a_lease_that_ended_unseen_is_the_heads_too(line: Line, crowd: Processes) -> None:
    """Nobody published that it ended: who asks first finds it, and wakes the head."""
    line.take(line.waiter())
    (head,) = crowd.standing("a")
    line.expire()
    assert line.acquire(line.waiter())[0] == "busy"
    assert crowd.told() == {"a": wake(head)}
    assert line.take(head) == 0


def test_rule_1_a_newcomer_takes_what_the_line_leaves(line: Line, crowd: Processes) -> None:
    """Three seats fall free, two wait: the third is a passer-by's, and then nothing is left."""
    holders = [line.waiter(size=3) for _ in range(3)]
    for who in holders:
        line.take(who)
    first, second = crowd.standing("a", "b", size=3)
    for seat, who in enumerate(holders):
        line.release(who, seat)
    passer_by = line.waiter(size=3)
    answer = line.acquire(passer_by)
    assert answer[:2] == ["granted", 2]
    assert line.acquire(line.waiter(size=3))[:2] == ["busy", 2]
    assert [line.take(first), line.take(second)] == [0, 1]


def test_rule_1_a_waiter_behind_others_takes_what_they_leave(line: Line, crowd: Processes) -> None:
    """The same for one who stands: woken or not, it has the seat that those before it leave."""
    holders = [line.waiter(size=2) for _ in range(2)]
    for who in holders:
        line.take(who)
    first, second, third = crowd.standing("a", "b", "c", size=2)
    for seat in range(2):
        line.expire(seat)
    assert line.take(second) == 1
    assert crowd.told() == {"a": wake(first)}
    assert line.ask(third)[0] == "busy"
    assert line.take(first) == 0


# -- rule 2: the walk ------------------------------------------------------------------------


def test_rule_2_as_many_are_woken_as_seats_are_free(line: Line, crowd: Processes) -> None:
    """Three of four seats end together: the first three are woken by one call, and fill them."""
    for _ in range(4):
        line.take(line.waiter(size=4))
    waiters = crowd.standing("a", "b", "a", "c", "d", size=4)
    for seat in (0, 1, 3):
        line.expire(seat)
    line.touch(waiters[4])
    assert crowd.told() == {
        "a": wake(waiters[0], waiters[2]),
        "b": wake(waiters[1]),
        "d": ["probe 1"],
    }
    assert [line.take(who) for who in waiters[:3]] == [0, 1, 3]
    assert line.places() == [waiters[3].place, waiters[4].place]


def test_rule_2_who_asks_first_wakes_the_others_too(line: Line, crowd: Processes) -> None:
    """The head takes its seat, and in the same call the second learns of its own."""
    for _ in range(2):
        line.take(line.waiter(size=2))
    first, second = crowd.standing("a", "b", size=2)
    line.expire(0)
    line.expire(1)
    assert line.take(first) == 0
    assert crowd.told() == {"b": wake(second)}


def test_rule_2_nobody_is_woken_twice_within_the_grace(line: Line, crowd: Processes) -> None:
    """However often the line is walked; after it has asked, a waiter may be woken again."""
    holder = line.waiter()
    line.take(holder)
    head, second = crowd.standing("a", "b")
    line.release(holder)
    assert crowd.told() == {"a": wake(head)}
    for _ in range(3):
        line.touch(second, probe=7)
        line.acquire(line.waiter())
        line.leave(line.waiter())
    assert crowd.told() == {"b": ["probe 7"] * 3}
    line.take(head)
    line.release(head)
    assert crowd.told() == {"b": wake(second)}


def test_rule_2_who_was_woken_and_finds_nothing_is_woken_again(
    line: Line, crowd: Processes
) -> None:
    """A returning waiter took the seat before it: its wake-up is used up, not held against it."""
    holder = line.waiter()
    line.take(holder)
    first, second = crowd.standing("a", "b")
    line.overdue("p:a")
    line.release(holder)
    assert crowd.told() == {"b": wake(second)}
    assert line.take(first) == 0
    line.stand(second)
    assert line.woken() == set()
    line.release(first)
    assert crowd.told() == {"b": wake(second)}


def test_rule_2_the_wake_up_lasts_a_grace(line: Line, crowd: Processes) -> None:
    """By the server's clock, in the deadlines beside the line."""
    holder = line.waiter()
    line.take(holder)
    (head,) = crowd.standing("a")
    before = line.now()
    line.release(holder)
    deadline = line.alive()[f"w:{head.place}"]
    assert before + GRACE <= deadline <= line.now() + GRACE


@pytest.mark.parametrize("graces", [(9_000, 4_000), (4_000, 9_000)])
def test_rule_2_each_waiter_has_its_own_grace(
    line: Line, crowd: Processes, graces: tuple[int, int]
) -> None:
    """Whoever it is that wakes it; a touch says when the first one of them must have come."""
    holders = [line.waiter(size=2) for _ in range(2)]
    for holder in holders:
        line.take(holder)
    first, second, last = (crowd.waiter(name, size=2) for name in ("first", "second", "last"))
    first.grace, second.grace = graces
    for who in (first, second, last):
        line.stand(who)
    before = line.now()
    line.release(holders[0])
    line.expire(1)
    _, free, soonest = line.touch(last)
    deadlines, after = line.alive(), line.now()
    for who in (first, second):
        assert before + who.grace <= deadlines[f"w:{who.place}"] <= after + who.grace
    assert free == 2
    assert min(graces) - (after - before) <= soonest <= min(graces)
    answer = line.ask(last)
    assert answer[:2] == ["busy", -1]
    assert min(graces) - (line.now() - before) <= answer[5] <= min(graces)


def test_rule_2_a_head_that_nobody_hears_is_passed(line: Line, crowd: Processes) -> None:
    """The publish that no one receives drops it; the next one is woken by the same call."""
    holder = line.waiter()
    line.take(holder)
    dead, _, alive, last = crowd.standing("dead", "dead", "alive", "dead")
    crowd.die("dead")
    line.release(holder)
    assert crowd.told() == {"alive": wake(alive)}
    assert line.places() == [alive.place, last.place]
    assert line.take(alive) == 0
    assert dead.place not in line.woken()


def test_rule_2_a_long_line_of_the_dead_is_passed_at_once(line: Line, crowd: Processes) -> None:
    """More than are read at one time, with living ones between."""
    holder = line.waiter(size=2)
    line.take(holder)
    line.take(line.waiter(size=2))
    processes = ["dead"] * 40 + ["a"] + ["dead"] * 40 + ["b", "dead"]
    waiters = crowd.standing(*processes, size=2)
    crowd.die("dead")
    line.expire(1)
    line.release(holder)
    a, b = waiters[40], waiters[81]
    assert crowd.told() == {"a": wake(a), "b": wake(b)}
    assert line.places() == [a.place, b.place, waiters[82].place]


def test_rule_2_a_line_of_thousands_of_dead_is_passed_in_parts(
    line: Line, crowd: Processes
) -> None:
    """No script blocks the server for long; a waiter that hears it sends the next one at once."""
    holder = line.waiter()
    line.take(holder)
    last = crowd.waiter("last")
    many = [part for number in range(2500) for part in (number, f"1:dead:1000:{number}")]
    line.server.cli("ZADD", line.key("queue"), *many)
    line.stand(last)
    line.release(holder)
    told: list[list[str]] = []
    for probe in range(3):
        told.append(crowd.told()["last"])
        line.touch(last, probe=probe)
    assert told == [["nudge"], ["nudge", "probe 0"], [*wake(last), "probe 1"]]
    line.take(last)
    line.release(last)
    line.server.cli("ZADD", line.key("queue"), *many)
    line.server.cli("PEXPIRE", line.key("queue"), 60_000)
    assert line.acquire(line.waiter())[0] == "granted", "who asks only once is not put off"
    assert line.places() == []


def test_rule_2_electors_of_different_size_share_an_election(line: Line, crowd: Processes) -> None:
    """Each is due the lowest free seat that it can see; who sees none is skipped, not dropped."""
    for _ in range(3):
        line.take(line.waiter(size=3))
    small, large, small_too, larger = (
        line.stand(crowd.waiter(name, size))
        for name, size in zip("abcd", (1, 3, 1, 3), strict=True)
    )
    line.expire(2)
    line.touch(larger)
    assert crowd.told() == {"b": wake(large), "d": ["probe 1"]}
    assert line.take(large) == 2
    line.expire(0)
    line.expire(1)
    line.touch(larger)
    assert crowd.told() == {"a": wake(small), "d": [*wake(larger), "probe 1"]}
    assert [line.take(small), line.take(larger)] == [0, 1]
    assert line.places() == [small_too.place]


def test_rule_2_a_small_elector_leaves_the_seats_of_a_large_head(
    line: Line, crowd: Processes
) -> None:
    """The one free seat that both can see is the head's, although it could see more."""
    line.take(line.waiter(size=1))
    line.take(line.waiter(size=2))
    (head,) = crowd.standing("a", size=2)
    line.expire(0)
    assert line.acquire(line.waiter(size=1))[0] == "busy"
    assert line.take(head) == 0


def test_rule_2_a_place_of_a_later_release_is_skipped(line: Line, crowd: Processes) -> None:
    """What a script does not understand it neither wakes nor drops; those behind it are served."""
    holder = line.waiter()
    line.take(holder)
    (who,) = crowd.standing("a")
    line.server.cli("ZADD", line.key("queue"), 1, "future")
    line.server.cli("ZADD", line.key("alive"), 1, "w:future")
    line.server.cli("ZADD", line.key("alive"), 1, "future")
    line.release(holder)
    assert crowd.told() == {"a": wake(who)}
    assert line.places() == ["future", who.place]


def test_rule_2_a_walk_reads_a_long_line_only_as_far_as_needed(
    line: Line, crowd: Processes
) -> None:
    """A thousand stand: with nothing free nothing is read, with one seat the first few are."""
    holder = line.waiter()
    line.take(holder)
    who = crowd.waiter("a")
    line.stand(who)
    many = [
        part for number in range(1000) for part in (who.arrival + 1 + number, f"1:a:1000:x{number}")
    ]
    line.server.cli("ZADD", line.key("queue"), *many)
    calls = commands(line, lambda: line.touch(who))
    assert "zrange" not in calls
    calls = commands(line, lambda: line.release(holder))
    assert calls["zrange"] == 1
    assert sum(calls.values()) < 20
    assert crowd.told() == {"a": ["probe 1", *wake(who)]}


# -- rule 3: pruning -------------------------------------------------------------------------

PRUNERS = ["ask", "acquire", "release", "leave", "touch"]


def call(line: Line, script: str, who: Waiter) -> None:
    """One call of a script that prunes, by somebody else."""
    calls: dict[str, Callable[[], object]] = {
        "ask": lambda: line.ask(who),
        "acquire": lambda: line.acquire(line.waiter()),
        "release": lambda: line.release(line.waiter()),
        "leave": lambda: line.leave(line.waiter()),
        "touch": lambda: line.touch(who),
    }
    calls[script]()


@pytest.mark.parametrize("script", PRUNERS)
def test_rule_3_a_stale_process_loses_all_its_places(
    line: Line, crowd: Processes, script: str
) -> None:
    """Whatever is called first; the others keep theirs."""
    line.take(line.waiter())
    _, kept, *_ = crowd.standing("frozen", "a", "frozen", "frozen")
    line.overdue("p:frozen")
    call(line, script, kept)
    assert line.places() == [kept.place]
    assert set(line.alive()) == {"p:a"}


@pytest.mark.parametrize("script", PRUNERS)
def test_rule_3_a_process_that_lets_a_wake_up_pass_loses_all_its_places(
    line: Line, crowd: Processes, script: str
) -> None:
    """Three hundred frozen waiters cost one grace: the seat goes to the first of the others."""
    holder = line.waiter()
    line.take(holder)
    *frozen, kept, _ = crowd.standing(*["frozen"] * 20, "a", "frozen")
    line.release(holder)
    assert line.woken() == {frozen[0].place}
    line.overdue(f"w:{frozen[0].place}")
    if script == "ask":
        assert line.take(kept) == 0
        return
    call(line, script, kept)
    assert line.places() == [kept.place]
    assert wake(kept)[0] in crowd.heard("a")
    assert set(line.alive()) == {"p:a", f"w:{kept.place}"}


def test_rule_3_a_deadline_passes_by_the_servers_clock(line: Line, crowd: Processes) -> None:
    """A short grace, for once not by hand: until then the seat is kept, after that it is not."""
    line.grace = 200
    holder = line.waiter()
    line.take(holder)
    first, last = crowd.standing("a", "b")
    line.release(holder)
    deadline = line.alive()[f"w:{first.place}"]

    def passed_on() -> bool:
        before = line.now()
        line.touch(last)
        now, woken = line.now(), line.woken()
        assert woken == {first.place} or now >= deadline
        assert woken == {last.place} or before < deadline
        return woken == {last.place}

    wait_until_blocking(passed_on)
    assert line.places() == [last.place]


def test_rule_3_belief_is_never_shortened(line: Line, crowd: Processes) -> None:
    """A waiter with a short lease does not make its process look dead to one with a long lease."""
    line.take(line.waiter())
    line.stand(crowd.waiter("a"), stale=STALE)
    long = line.alive()["p:a"]
    hasty = line.stand(crowd.waiter("a"), stale=1_000)
    line.touch(hasty, stale=1_000)
    assert line.alive()["p:a"] == long


# -- rule 4: touches -------------------------------------------------------------------------


def test_rule_4_a_touch_keeps_a_process_and_its_line_alive(line: Line, crowd: Processes) -> None:
    """It moves the process's deadline and the end of both sets."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    sets = line.key("queue"), line.key("alive")
    for name in sets:
        line.server.cli("PEXPIRE", name, 5_000)
    line.overdue("p:a")
    line.server.cli("ZADD", line.key("alive"), line.now() + 5_000, "p:a")
    assert line.touch(who)[0] == 1
    assert line.alive()["p:a"] > line.now() + STALE - 5_000
    for name in sets:
        assert 2 * STALE - 5_000 < line.server.cli("PTTL", name) <= 2 * STALE


def test_rule_4_a_touch_says_whether_its_place_still_stands(line: Line, crowd: Processes) -> None:
    """One that was dropped hears 0, and is not believed in by that."""
    line.take(line.waiter())
    who, _ = crowd.standing("a", "b")
    line.overdue("p:a")
    assert line.touch(who)[0] == 0
    assert set(line.alive()) == {"p:b"}
    line.stand(who)
    assert line.touch(who)[0] == 1


def test_rule_4_a_touch_says_what_is_free_and_what_will_be(line: Line, crowd: Processes) -> None:
    """How many seats are, and the milliseconds until the next one may be."""
    line.take(line.waiter(size=3))
    line.take(line.waiter(size=3), lease=9_000)
    line.take(line.waiter(size=3))
    (who,) = crowd.standing("a", size=3)
    _, free, soonest = line.touch(who)
    assert free == 0
    assert 5_000 < soonest <= 9_000
    for seat in range(3):
        line.expire(seat)
        assert line.touch(who)[1] == seat + 1
    left = line.touch(who)[2]
    assert 0 < left <= GRACE, "one is kept for who was called to it"
    line.take(who)
    assert line.touch(who)[1:] == (2, ANY)


def test_rule_4_a_touch_probes_its_own_inbox_only(line: Line, crowd: Processes) -> None:
    """Who does not hear its own probe is deaf."""
    line.take(line.waiter())
    who, _ = crowd.standing("a", "b")
    line.touch(who, probe=41)
    line.touch(who, probe=42)
    assert crowd.told() == {"a": ["probe 41", "probe 42"]}


def test_rule_4_a_touch_mends_a_seat_without_an_end(line: Line, crowd: Processes) -> None:
    """Somebody persisted it: no waiter would ever be told when it is free."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    line.server.cli("PERSIST", line.key("seat:0"))
    assert LEASE - 10_000 < line.touch(who)[2] <= LEASE
    assert LEASE - 10_000 < line.server.cli("PTTL", line.key("seat:0")) <= LEASE


def test_rule_4_a_touch_without_a_line_makes_none(line: Line) -> None:
    """Nothing is written by a process that has no place."""
    assert line.touch(line.waiter("a")) == (0, 1, -1)
    assert line.content() == {}


# -- the last try ----------------------------------------------------------------------------


def test_rule_5_the_last_try_takes_the_seat(line: Line, crowd: Processes) -> None:
    """At the end of its time a waiter is elected if it is its turn."""
    holder = line.waiter()
    line.take(holder)
    (who,) = crowd.standing("a")
    line.release(holder)
    assert line.take(who, stale=0) == 0
    assert line.places() == []
    assert line.alive() == {}


@pytest.mark.parametrize("dropped", [False, True], ids=["standing", "dropped"])
def test_rule_5_the_last_try_leaves_the_line(line: Line, crowd: Processes, dropped: bool) -> None:
    """Not its turn: it is told who leads, stands no more, and has not become a dead process."""
    line.take(line.waiter())
    first, last = crowd.standing("a", "a")
    if dropped:
        line.server.cli("ZREM", line.key("queue"), last.place)
    answer = line.ask(last, stale=0)
    assert answer[:3] == ["busy", 0, "leader-1"]
    assert line.places() == [first.place]
    assert line.alive()["p:a"] > line.now() + STALE - 5_000
    assert line.ask(first, stale=0)[0] == "busy"
    assert set(line.content()) == {line.key("seat:0"), line.key("fence")}


def test_rule_5_a_last_try_says_nothing_of_its_process(line: Line, crowd: Processes) -> None:
    """A process that leaves at once is neither believed in nor given up."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    assert line.ask(crowd.waiter("b"), stale=0)[0] == "busy"
    assert set(line.alive()) == {"p:a"}
    assert line.places() == [who.place]


def test_rule_5_a_last_try_does_not_pass_the_head(line: Line, crowd: Processes) -> None:
    """The free seat is due to the one before it."""
    line.take(line.waiter())
    first, last = crowd.standing("a", "b")
    line.expire()
    assert line.ask(last, stale=0)[0] == "busy"
    assert crowd.told() == {"a": wake(first)}
    assert line.places() == [first.place]


# -- rule 6: release and leave ---------------------------------------------------------------


def test_rule_6_a_kept_seat_nudges_the_first_in_line(line: Line, crowd: Processes) -> None:
    """It will be free sooner than its waiters think; nobody is woken, and one touches anew."""
    holder = line.waiter()
    line.take(holder)
    first, _ = crowd.standing("a", "b")
    assert line.release(holder, keep=5_000) == "released"
    assert crowd.told() == {"a": ["nudge"]}
    assert 0 < line.touch(first)[2] <= 5_000
    assert line.extend(holder) == ["taken"]
    assert line.release(holder) == "taken"


def test_rule_6_the_nudge_goes_to_who_can_see_the_seat_and_hears(
    line: Line, crowd: Processes
) -> None:
    """Not to a smaller elector, nor to one that is gone."""
    holders = [line.waiter(size=2) for _ in range(2)]
    for who in holders:
        line.take(who)
    line.stand(crowd.waiter("small"))
    line.stand(crowd.waiter("dead", 2))
    line.stand(crowd.waiter("large", 2))
    crowd.die("dead")
    line.release(holders[1], 1, keep=5_000)
    assert crowd.told() == {"large": ["nudge"]}


def test_rule_6_a_release_without_a_seat_frees_nothing(line: Line, crowd: Processes) -> None:
    """Field case 86: of a foreign or an ended claim, three times; the capacity is as it was."""
    holders = [line.waiter(size=2) for _ in range(2)]
    for who in holders:
        line.take(who)
    crowd.standing("a", size=2)
    for _ in range(3):
        assert line.release(line.waiter(size=2), 0) == "taken"
    assert line.holders(2) == {0: "leader-1", 1: "leader-2"}
    line.expire(1)
    assert line.release(holders[1], 1) == "gone"
    assert line.holders(2) == {0: "leader-1"}


def test_rule_6_a_release_that_comes_late_still_wakes(line: Line, crowd: Processes) -> None:
    """Its lease had ended: the seat is free all the same, and the next one is told."""
    holder = line.waiter()
    line.take(holder)
    (who,) = crowd.standing("a")
    line.expire()
    assert line.release(holder) == "gone"
    assert crowd.told() == {"a": wake(who)}


def test_rule_6_who_leaves_passes_its_wake_up_on(line: Line, crowd: Processes) -> None:
    """Cancelled between wake-up and asking: the next one has the seat at once."""
    holder = line.waiter()
    line.take(holder)
    first, second = crowd.standing("a", "b")
    line.release(holder)
    assert crowd.told() == {"a": wake(first)}
    line.leave(first)
    assert crowd.told() == {"b": wake(second)}
    assert line.woken() == {second.place}
    line.leave(first)
    assert crowd.told() == {}
    assert line.take(second) == 0


def test_rule_6_leaving_the_line_frees_no_seat(line: Line, crowd: Processes) -> None:
    """A late wake-up of a claim that has its seat already: only the place is given up."""
    who = crowd.waiter("a")
    line.take(who)
    line.leave(who)
    assert line.holders() == {0: who.leader}
    assert line.ask(who)[0] == "granted"


def test_rule_6_a_full_leave_undoes_one_claim_only(line: Line, crowd: Processes) -> None:
    """Seat and place go, a late request finds the tombstone; the seats of others are theirs."""
    mine, other = crowd.waiter("a", 2), crowd.waiter("b", 2)
    line.take(mine)
    line.take(other)
    (who,) = crowd.standing("c", size=2)
    line.leave(mine, full=True)
    assert line.holders(2) == {1: other.leader}
    assert crowd.told() == {"c": wake(who)}
    assert line.ask(mine) == ["gone"]
    assert line.acquire(mine) == ["gone"]
    assert line.places() == [who.place]
    line.leave(who, full=True)
    assert line.places() == []
    assert line.holders(2) == {1: other.leader}


def test_rule_6_the_last_one_out_leaves_nothing(line: Line, crowd: Processes) -> None:
    """Neither the line nor its deadlines stay, so that what comes next is as fast as before."""
    line.take(line.waiter())
    waiters = crowd.standing("a", "b", "a")
    for who in waiters:
        line.leave(who)
    assert set(line.content()) == {line.key("seat:0"), line.key("fence")}


# -- grants ----------------------------------------------------------------------------------


def test_a_claim_that_is_mine_already_forgets_its_place(line: Line, crowd: Processes) -> None:
    """Asked twice, granted once: same fence, same time, no place, and its wake-up passed on."""
    who = crowd.waiter("a", 2)
    first = line.ask(who)
    line.take(line.waiter(size=2))
    (behind,) = crowd.standing("b", size=2)
    line.server.cli("ZADD", line.key("queue"), 1, who.place)
    line.expire(1)
    line.touch(behind)
    assert crowd.told() == {"a": wake(who), "b": ["probe 1"]}
    again = line.ask(who)
    assert again[:4] == first[:4]
    assert crowd.told() == {"b": wake(behind)}
    assert line.places() == [behind.place]


def test_asking_and_waiting_touch_neither_fence_nor_since(line: Line, crowd: Processes) -> None:
    """P7: only an election makes the counter grow, and only the holder's lease changes."""
    who = line.waiter()
    _, _, fence, since, _ = line.acquire(who)
    seat, counter = line.key("seat:0"), line.key("fence")
    waiters = crowd.standing("a", "b")
    for each in waiters:
        line.touch(each)
        line.ask(each)
    line.ask(waiters[1], stale=0)
    line.extend(who, duration=60_000)
    line.step_down()
    assert line.server.cli("GET", counter) == fence
    assert line.server.cli("HMGET", seat, "fence", "since") == [fence, since]
    assert line.acquire(who)[1:4] == [0, fence, since]
    line.release(who)
    assert int(line.ask(waiters[0])[2]) > int(fence)


def test_state_counts_who_waits(line: Line, crowd: Processes) -> None:
    """Seat by seat, and the length of the line; it changes nothing."""
    line.take(line.waiter(size=2))
    line.take(line.waiter(size=2))
    crowd.standing("a", "b", "c", size=2)
    before = line.content()
    waiting, fence, size, *seats = line.state(2)
    assert (waiting, fence, size) == (3, seats[1][2], 2)
    assert [seat[:2] for seat in seats] == [[0, "leader-1"], [1, "leader-2"]]
    assert line.content() == before


@pytest.mark.parametrize("what", ["process", "wake-up"])
def test_p10_who_is_dead_does_not_count_as_waiting(line: Line, crowd: Processes, what: str) -> None:
    """As soon as its process counts as gone, also if no other process asks or waits."""
    holder = line.waiter()
    line.take(holder)
    dead, *_ = crowd.standing("dead", "a", "dead")
    if what == "wake-up":
        line.release(holder)
    line.overdue("p:dead" if what == "process" else f"w:{dead.place}")
    before = line.content()
    assert line.state()[0] == 1
    assert line.content() == before


# -- step-down -------------------------------------------------------------------------------


def test_a_holder_that_is_asked_to_step_down_hears_it_when_it_extends(line: Line) -> None:
    """All of them, or one seat; a seat that is only kept, or free, has nobody to ask."""
    a, b, c = (line.waiter(size=4) for _ in range(3))
    for seat, who in enumerate((a, b, c)):
        assert line.take(who) == seat
    line.release(c, 2, keep=5_000)
    assert line.extend(a, 0)[2] == 0
    assert line.step_down(4, 1) == ["asked", 1]
    assert [line.extend(a, 0)[2], line.extend(b, 1)[2]] == [0, 1]
    assert line.step_down(4) == ["asked", 2]
    assert [line.extend(a, 0)[2], line.extend(b, 1)[2]] == [1, 1]
    assert line.step_down(4, 3) == ["asked", 0]
    assert line.step_down(4, 9) == ["asked", 0]
    line.release(a, 0)
    line.take(a)
    assert line.extend(a, 0)[2] == 0, "another term"


# -- force -----------------------------------------------------------------------------------


def test_a_seat_that_is_forced_keeps_its_end_and_its_fence(line: Line) -> None:
    """P1: nobody gets it sooner, and the old holder can neither extend nor free it."""
    a = line.waiter()
    _, _, fence, since, _ = line.acquire(a, lease=20_000)
    seat = line.key("seat:0")
    before = line.server.cli("PTTL", seat)
    with watching(line) as watcher:
        answer = line.force()
        assert answer[:5] == ["forced", 0, a.leader, fence, since]
        assert before - 10_000 < answer[5] <= before
        (word,) = watcher.heard()
        assert word == f"retained 0 {fence} {answer[5]}"
    assert answer[5] - 10_000 < line.server.cli("PTTL", seat) <= answer[5]
    assert line.acquire(line.waiter())[:3] == ["busy", 0, a.leader]
    assert line.extend(a, duration=60_000) == ["taken"]
    assert line.release(a) == "taken"
    assert line.server.cli("HGET", seat, "fence") == fence
    assert line.force()[0] == "kept"
    line.expire()
    assert line.acquire(line.waiter())[0] == "granted"


def test_only_the_term_that_was_meant_is_forced(line: Line) -> None:
    """By its fence: what the operator saw may be over, and another's turn."""
    a = line.waiter()
    old = line.acquire(a)[2]
    assert line.force(fence="7") == ["free"]
    line.release(a)
    assert line.force(fence=old) == ["free"]
    assert line.force() == ["free"]
    b = line.waiter()
    new = line.acquire(b)[2]
    before = line.content()
    assert line.force(fence=old) == ["free"]
    assert line.content() == before
    assert line.extend(b)[0] == "held"
    assert line.force(fence=new)[0] == "forced"


def test_a_seat_without_an_end_gets_one_when_it_is_forced(line: Line) -> None:
    """P4: its TTL was removed by hand; it gets one again, as long as its holder relies on."""
    line.acquire(line.waiter())
    line.server.cli("PERSIST", line.key("seat:0"))
    assert line.force()[0] == "forced"
    assert LEASE - 10_000 < line.server.cli("PTTL", line.key("seat:0")) <= LEASE


# -- events ----------------------------------------------------------------------------------


def test_every_change_of_a_seat_is_told(line: Line, crowd: Processes) -> None:
    """Elected, released, kept, undone; and nothing else is."""
    a, b = line.waiter(size=2), crowd.waiter("x", 2)
    with watching(line) as watcher:
        _, _, fence, since, ttl = line.acquire(a)
        line.acquire(a)
        assert watcher.heard() == [f"elected 0 {fence} {since} {ttl} {a.leader}"]
        _, _, fence_b, since_b, ttl_b = line.ask(b)
        assert watcher.heard() == [f"elected 1 {fence_b} {since_b} {ttl_b} {b.leader}"]
        line.stand(crowd.waiter("x", 2))
        line.extend(a)
        line.release(line.waiter(size=2))
        line.touch(b)
        assert watcher.heard() == []
        line.release(a, 0)
        line.release(a, 0)
        assert watcher.heard() == [f"released 0 {fence}"]
        line.leave(b, full=True)
        line.leave(b, full=True)
        assert watcher.heard() == [f"released 1 {fence_b}"]
        c = line.waiter()
        fence_c = line.run("acquire", line.keys(1), c.token, c.leader, LEASE, 0)
        assert fence_c[0] == "busy", "the line has it"


def test_a_database_does_not_hear_another(line: Line, crowd: Processes) -> None:
    """Channels belong to no database, so their names do; also where a seat is forced."""
    elsewhere = Line(line.server, database=7)
    with watching(line) as one, watching(elsewhere) as other, Processes(elsewhere) as there:
        stranger = there.waiter("a")
        line.take(line.waiter())
        mine = line.stand(crowd.waiter("a"))
        line.force()
        line.expire()
        line.touch(mine)
        assert [message.split()[0] for message in one.heard()] == ["elected", "retained"]
        assert crowd.told() == {"a": [*wake(mine), "probe 1"]}
        assert other.heard() == []
        assert there.told() == {}
        elsewhere.touch(stranger)
        assert there.told() == {"a": ["probe 1"]}
        assert crowd.told() == {}


def test_a_kept_seat_is_told_with_its_time(line: Line) -> None:
    """How long it stays taken: never longer than the lease would have."""
    a = line.waiter()
    with watching(line) as watcher:
        fence = line.acquire(a)[2]
        line.release(a, keep=5_000)
        assert watcher.heard()[1:] == [f"retained 0 {fence} 5000"]
        line.expire()
        fence = line.acquire(a, lease=400)[2]
        line.release(a, keep=5_000)
        word, seat, told, ttl = watcher.heard()[1].split()
        assert (word, seat, told) == ("retained", "0", fence)
        assert 1 <= int(ttl) <= 400


def test_a_leaders_name_may_have_spaces(line: Line) -> None:
    """It stands last in its message."""
    with watching(line) as watcher:
        line.run("acquire", line.keys(1), "token", "a b  c", LEASE, 0)
        (told,) = watcher.heard()
        assert told.split(" ", 5)[5] == "a b  c"


# -- P4 --------------------------------------------------------------------------------------


def ttls(line: Line) -> dict[str, int]:
    """The TTL of each key of the line."""
    return {name: line.server.cli("PTTL", line.key(name)) for name in ("queue", "alive")}


def test_p4_the_lines_keys_live_twice_the_stale_time(line: Line, crowd: Processes) -> None:
    """The longest of those who stand; a shorter one never shortens it, nor does a wake-up."""
    holder = line.waiter()
    line.take(holder)
    line.stand(crowd.waiter("a"), stale=60_000)
    for stale in (60_000, 1_000, 0):
        line.ask(crowd.waiter("b"), stale=stale)
        assert all(110_000 < ttl <= 120_000 for ttl in ttls(line).values())
    line.release(holder)
    assert all(110_000 < ttl <= 120_000 for ttl in ttls(line).values())


def test_p4_a_line_that_somebody_persisted_ends_again(line: Line, crowd: Processes) -> None:
    """The next touch gives both sets an end."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    for name in ("queue", "alive"):
        line.server.cli("PERSIST", line.key(name))
    line.touch(who)
    assert keys_without_ttl(line.server) == []


def test_p4_a_wake_up_without_deadlines_ends(line: Line, crowd: Processes) -> None:
    """Only `alive` was lost: what the walk makes anew has an end."""
    holder = line.waiter()
    line.take(holder)
    (who,) = crowd.standing("a")
    line.server.cli("DEL", line.key("alive"))
    line.release(holder)
    assert line.woken() == {who.place}
    assert 0 < ttls(line)["alive"] <= 2 * GRACE
    line.touch(who)
    assert ttls(line)["alive"] > STALE


# -- servers in trouble ----------------------------------------------------------------------


@pytest.fixture
def own_line(start_server: StartServer) -> Line:
    """A line on a server of its own."""
    return Line(start_server())


def test_p4_on_a_full_server_one_can_leave_but_not_come(own_line: Line) -> None:
    """Newcomers are refused and change nothing; touch, extend, release and leave work, and wake."""
    with Processes(own_line) as crowd:
        holder = own_line.waiter()
        own_line.take(holder)
        first, second, third = crowd.standing("a", "b", "c")
        own_line.server.cli("CONFIG", "SET", "maxmemory", 1)
        before = own_line.content()
        for newcomer in (own_line.waiter(), own_line.waiter("a", size=2)):
            with pytest.raises(redis.ResponseError, match=FULL):
                own_line.ask(newcomer)
            assert own_line.content() == before
        assert own_line.touch(first)[0] == 1
        assert own_line.extend(holder)[0] == "held"
        assert own_line.release(holder, keep=200) == "released"
        wait_until_blocking(lambda: own_line.holders() == {})
        own_line.touch(second)
        assert own_line.woken() == {first.place}
        own_line.leave(first)
        assert own_line.woken() == {second.place}
        own_line.leave(second, full=True)
        assert own_line.woken() == {third.place}
        with pytest.raises(redis.ResponseError, match=FULL):
            own_line.acquire(own_line.waiter())
        assert keys_without_ttl(own_line.server) == []
        own_line.server.cli("CONFIG", "SET", "maxmemory", 0)
        assert own_line.take(third) == 0


def test_on_a_full_server_nobody_loses_its_rank(own_line: Line) -> None:
    """A waiter keeps its place and is elected in its turn: that takes no more memory."""
    with Processes(own_line) as crowd:
        holder = own_line.waiter()
        own_line.take(holder)
        short = own_line.stand(crowd.waiter("short"), stale=5_000)
        long, dropped, last = crowd.standing("long", "dropped", "last")
        believed = own_line.alive()["p:short"]
        own_line.server.cli("CONFIG", "SET", "maxmemory", 1)
        wait_until_blocking(lambda: own_line.now() > believed - 4_900)
        assert own_line.touch(short, stale=5_000)[0] == 1
        assert own_line.alive()["p:short"] > believed
        own_line.server.cli("CONFIG", "SET", "maxmemory", 0)
        own_line.overdue("p:dropped")
        own_line.server.cli("CONFIG", "SET", "maxmemory", 1)
        assert own_line.touch(last)[0] == 1
        assert own_line.ask(short, stale=STALE)[0] == own_line.ask(dropped)[0] == "busy"
        everybody = [short, long, dropped, last]
        assert own_line.places() == [each.place for each in everybody]
        for who in everybody:
            own_line.release(holder)
            assert own_line.woken() == {who.place}
            assert own_line.take(who) == 0
            holder = who
        assert keys_without_ttl(own_line.server) == []


USER = "line-test"


@pytest.fixture
def limited(line: Line) -> Iterator[Any]:
    """Makes the scripts' caller a user with rights of its own."""
    if not line.server.ours:
        pytest.skip("makes a user on the server")
    clients: list[redis.Redis] = []

    def limit(*rules: str) -> None:
        base = ("reset", "on", ">secret", "~incumbent:*", "resetchannels", "&incumbent:*", "+@all")
        line.server.cli("ACL", "SETUSER", USER, *base, *rules)
        line.caller = redis.Redis(
            host=line.server.host,
            port=line.server.port,
            username=USER,
            password="secret",
            decode_responses=True,
        )
        clients.append(line.caller)

    yield limit
    for client in clients:
        client.close()
    line.server.cli("ACL", "DELUSER", USER)


@pytest.mark.parametrize("rule", ["-publish", "resetchannels"])
def test_without_the_right_to_publish_the_line_moves_on(
    line: Line, crowd: Processes, limited: Any, rule: str
) -> None:
    """Nobody is woken, but nobody is taken for dead: who asks in its turn is elected."""
    limited(rule)
    holder = line.waiter()
    line.take(holder)
    first, second = crowd.standing("a", "b")
    assert line.release(holder) == "released"
    assert crowd.told() == {}
    assert line.ask(second)[0] == "busy"
    assert line.touch(first)[:2] == (1, 1)
    assert line.take(first) == 0
    line.leave(first, full=True)
    assert line.take(second) == 0


def commands(line: Line, run: Any) -> dict[str, int]:
    """How often a script called each command."""
    line.server.cli("CONFIG", "RESETSTAT")
    run()
    stats = line.server.admin.info("commandstats")
    own = {"cmdstat_eval", "cmdstat_config|resetstat", "cmdstat_config", "cmdstat_info"}
    return {
        name.removeprefix("cmdstat_"): stat["calls"]
        for name, stat in stats.items()
        if name not in own
    }


RIGHTS = ["pexpire", "zadd", "set", "hset", "zrem", "zrange", "zrangebyscore", "zscore", "del"]
RIGHTS += ["get", "hget", "hmget", "pttl", "exists", "time", "zremrangebyscore"]


def steps(line: Line, first: Waiter, second: Waiter, holder: Waiter) -> list[Callable[[], Any]]:
    """Calls that write, each to be made where `holder` leads and two stand in line."""
    return [
        lambda: line.ask(first),
        lambda: line.ask(line.waiter("a")),
        lambda: line.touch(second),
        lambda: line.release(holder, doubtful=True),
        lambda: line.release(holder, keep=5_000, doubtful=True, restore=True),
        lambda: line.leave(first),
        lambda: line.leave(holder, full=True),
        lambda: line.ask(second, stale=0),
        lambda: (line.server.cli("DEL", line.key("seat:0")), line.touch(second)),
        lambda: (line.server.cli("FLUSHALL"), line.ask(first, period=(0, 2**52))),
    ]


@pytest.mark.parametrize("right", RIGHTS)
def test_p4_without_one_right_no_key_of_the_line_lasts(
    line: Line, crowd: Processes, limited: Any, right: str
) -> None:
    """Whatever is refused in whatever script, a key without TTL is never left behind."""
    limited(f"-{right}")
    user, refused = line.caller, 0
    holder, first, second = line.waiter(), crowd.waiter("a"), crowd.waiter("b")
    for step in steps(line, first, second, holder):
        line.server.flush()
        line.caller = None
        line.ask(holder, period=(1, 2**52))
        line.stand(first)
        line.stand(second)
        line.caller = user
        with suppress(redis.ResponseError):
            try:
                step()
            except redis.ResponseError as error:
                refused += bool(DENIED.search(str(error)))
                raise
        assert keys_without_ttl(line.server) == []
    line.caller = None
    assert refused


# -- speed -----------------------------------------------------------------------------------


def test_without_a_line_no_command_is_spent_on_it(line: Line) -> None:
    """The usual case: one question whether there is anything, and one message for watchers."""
    who = line.waiter()
    once = {"exists": 1, "time": 1, "set": 1, "pexpire": 1, "hset": 1, "publish": 1}
    assert commands(line, lambda: line.acquire(who)) == once
    extended = commands(line, lambda: line.extend(who))
    assert extended == {"hmget": 1, "pttl": 1, "pexpire": 2}
    assert commands(line, lambda: line.release(who)) == {
        "hmget": 1,
        "del": 1,
        "publish": 1,
        "exists": 1,
    }


def test_a_hand_over_costs_as_few_commands_as_can_be(line: Line, crowd: Processes) -> None:
    """A release that wakes the next in line, and the request that takes the seat."""
    holder = line.waiter()
    line.take(holder)
    (who,) = crowd.standing("a")
    release = {"hmget": 1, "del": 1, "exists": 1, "time": 1, "zrangebyscore": 1, "hget": 1}
    release |= {"zrange": 1, "zscore": 1, "publish": 2, "pttl": 1, "pexpire": 1, "zadd": 1}
    assert commands(line, lambda: line.release(holder)) == release
    ask = {"zscore": 2, "hget": 1, "time": 1, "pexpire": 2, "zrangebyscore": 1, "zrange": 1}
    ask |= {"set": 1, "hset": 1, "zrem": 1, "exists": 1, "del": 1, "publish": 1}
    assert commands(line, lambda: line.ask(who)) == ask
    assert line.holders() == {0: who.leader}


def test_a_large_group_costs_one_read_per_seat(line: Line) -> None:
    """Field case 59: with 64 seats an acquire looks at each once at most, a release at none."""
    first, who = line.waiter(size=64), line.waiter(size=64)
    assert sum(commands(line, lambda: line.acquire(first)).values()) == 6
    calls = commands(line, lambda: line.acquire(who))
    assert calls["hget"] == 64
    assert sum(calls.values()) == 64 + 7
    assert sum(commands(line, lambda: line.release(first)).values()) == 4
