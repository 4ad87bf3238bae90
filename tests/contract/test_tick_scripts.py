"""Once per period on the server (rule 8): mine, then the tick, then the line; and the way back."""

from collections.abc import Iterator

import pytest
import redis

from contract.line import LEASE, Line, Processes
from kit.fixtures import StartServer
from kit.leftovers import keys_without_ttl
from kit.servers import Server

HOUR = 3_600_000


@pytest.fixture
def line(server: Server) -> Line:
    """A line of nobody."""
    return Line(server)


@pytest.fixture
def crowd(line: Line) -> Iterator[Processes]:
    """Processes that may stand in it."""
    with Processes(line) as processes:
        yield processes


def period(line: Line, back: int = 0, *, length: int = HOUR) -> tuple[int, int]:
    """A period that began half its length ago, or so many lengths before."""
    start = line.now() - length // 2 - back * length
    return start, start + length


def tick(line: Line) -> str | None:
    """The period that was run last."""
    found: str | None = line.server.cli("GET", line.key("tick"))
    return found and found.split(" ")[0]


# -- the tick --------------------------------------------------------------------------------


def test_rule_8_a_period_is_run_once(line: Line) -> None:
    """The first is elected; everyone after it hears that it ran, with the server's time."""
    now = period(line)
    first, second = line.waiter(), line.waiter()
    assert line.once(first, now)[0] == "granted"
    assert tick(line) == str(now[0])
    line.release(first)
    before = line.now()
    answer = line.once(second, now)
    assert answer[0] == "ran"
    assert before <= answer[1] <= line.now()
    assert line.holders() == {}


def test_rule_8_the_next_period_is_run_again(line: Line) -> None:
    """Its start is later than what was run."""
    before, now = period(line, 1), period(line)
    line.server.cli("SET", line.key("tick"), before[0], "PX", HOUR)
    who = line.waiter()
    assert line.once(who, now)[0] == "granted"
    assert tick(line) == str(now[0])
    assert line.server.cli("GET", line.key("tick")) == f"{now[0]} {who.token} {before[0]}"


def test_rule_8_a_shorter_period_inside_one_that_ran(line: Line) -> None:
    """What began later has not been run; what began earlier has."""
    start, end = period(line)
    line.once(who := line.waiter(), (start, end))
    line.release(who)
    assert line.once(line.waiter(), (start - HOUR, end))[0] == "ran"
    assert line.once(line.waiter(), (start, end))[0] == "ran"
    assert line.once(line.waiter(), (start + 1, end))[0] == "granted"


def test_rule_8_mine_comes_before_the_tick(line: Line) -> None:
    """Asked again after a lost reply: the run is mine, and is not taken for another's."""
    now, who = period(line), line.waiter()
    first = line.once(who, now)
    assert line.once(who, now)[:4] == first[:4]
    assert line.once(who, (0, 1))[:4] == first[:4], "also when its period is over"
    assert line.server.cli("GET", line.key("tick")) == f"{now[0]} {who.token} "


def test_rule_8_the_tick_comes_before_the_line(line: Line, crowd: Processes) -> None:
    """Who asks for a period that ran does not stand, although the seat is busy."""
    now = period(line)
    line.once(line.waiter(), now)
    who = crowd.waiter("a")
    assert line.ask(who, period=now)[0] == "ran"
    assert line.places() == []


@pytest.mark.parametrize("back", [1, -1], ids=["over", "to come"])
def test_rule_8_a_period_that_is_not_now_changes_nothing(
    line: Line, crowd: Processes, back: int
) -> None:
    """The client's reckoning was off: it hears the time; a place in line is kept."""
    line.take(line.waiter())
    (who,) = crowd.standing("a")
    line.expire()
    before = line.content()
    answer = line.ask(who, period=period(line, back))
    assert answer[0] == "when"
    assert abs(answer[1] - line.now()) < 5_000
    assert line.once(line.waiter(), period(line, back))[0] == "when"
    assert line.content() == before
    assert crowd.told() == {}


def test_rule_8_who_does_not_stand_hears_who_leads(line: Line, crowd: Processes) -> None:
    """A busy seat and a period that has not been run: the same answer as without a period."""
    line.take(line.waiter())
    for _ in range(2):
        assert line.once(line.waiter(), period(line))[:3] == ["busy", 0, "leader-1"]
        crowd.standing("a")
    assert tick(line) is None


def test_rule_8_a_period_ends_where_the_next_begins(line: Line) -> None:
    """[from, to): of two periods that meet, now is in one."""

    def hear(cut: int) -> tuple[str, str]:
        early, late = (cut - HOUR, cut), (cut, cut + HOUR)
        answers = (line.once(line.waiter(), early)[0], line.once(line.waiter(), late)[0])
        for name in ("seat:0", "tick"):
            line.server.cli("DEL", line.key(name))
        return answers

    assert hear(line.now() + HOUR // 2) == ("granted", "when")
    cut = line.now() + 100
    heard: list[tuple[str, str]] = []
    while not heard or heard[-1][0] != "when":
        heard.append(hear(cut))
    assert set(heard[:-2]) <= {("granted", "when")}
    assert heard[-1] == ("when", "granted")
    # The moment between may fall between the two questions.
    assert set(heard[-2:-1]) <= {("granted", "when"), ("granted", "busy")}


def test_rule_8_a_waiter_whose_period_was_run_passes_its_wake_up_on(
    line: Line, crowd: Processes
) -> None:
    """It leaves the line, and the next one has the seat at once."""
    now, holder = period(line), line.waiter()
    line.take(holder)
    first = crowd.waiter("a")
    assert line.ask(first, period=now)[0] == "busy"
    (second,) = crowd.standing("b")
    line.server.cli("SET", line.key("tick"), now[0], "PX", HOUR)
    line.release(holder)
    assert crowd.told() == {"a": [f"wake {first.place}"]}
    assert line.ask(first, period=now)[0] == "ran"
    assert crowd.told() == {"b": [f"wake {second.place}"]}
    assert line.places() == [second.place]
    assert line.take(second) == 0


def test_rule_8_a_run_is_one_over_all_seats(line: Line) -> None:
    """In a group the first seat's run counts for all."""
    now = period(line)
    assert line.once(line.waiter(size=3), now)[:2] == ["granted", 0]
    assert [line.once(line.waiter(size=3), now)[0] for _ in range(3)] == ["ran"] * 3


def test_rule_8_elections_without_a_period_leave_the_tick_alone(line: Line) -> None:
    """Neither asked for nor set, also by a release that would restore it."""
    who = line.waiter()
    line.take(who)
    assert tick(line) is None
    line.server.cli("SET", line.key("tick"), 1, "PX", HOUR)
    line.release(who, restore=True)
    assert tick(line) == "1"


def test_p4_the_tick_lives_two_periods_and_the_lease_at_least(line: Line) -> None:
    """Long enough to be found by everybody who asks for this period."""
    for length, least in ((HOUR, 2 * HOUR), (1_000, LEASE)):
        line.server.flush()
        assert line.once(line.waiter(), period(line, length=length))[0] == "granted"
        assert least - 5_000 < line.server.cli("PTTL", line.key("tick")) <= least


def test_rule_8_a_grant_that_was_lost_with_its_lease_is_no_run(line: Line) -> None:
    """Asked again after that, it is granted, whatever else happens to the seat; nobody else is."""
    before, now = period(line, 1), period(line)
    line.server.cli("SET", line.key("tick"), before[0], "PX", HOUR)
    who, other = line.waiter(), line.waiter()
    for _ in range(2):
        assert line.once(who, now)[0] == "granted"
        line.expire()
        assert line.once(other, now)[0] == "ran"
        assert line.server.cli("GET", line.key("tick")) == f"{now[0]} {who.token} {before[0]}"
    line.take(other)
    assert line.once(who, now)[0] == "busy"
    line.release(other, restore=True)
    line.leave(who, full=True)
    assert tick(line) == str(before[0])
    assert line.once(other, now)[0] == "granted"


# -- a run that does not count ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["release", "keep", "leave", "leave late"])
@pytest.mark.parametrize("ran_before", [False, True], ids=["first", "later"])
def test_rule_6_a_run_that_does_not_count_is_put_back(
    line: Line, how: str, ran_before: bool
) -> None:
    """The tick is what it was, with its time to live; the next contender runs the period."""
    before, now = period(line, 1), period(line)
    if ran_before:
        line.once(earlier := line.waiter(), before)
        line.server.cli("SET", line.key("tick"), before[0], "PX", HOUR)
        line.release(earlier)
    who = line.waiter()
    line.once(who, now)
    if how == "leave late":
        line.expire()
    if how.startswith("leave"):
        line.leave(who, full=True)
    else:
        line.release(who, keep=5_000 if how == "keep" else 0, restore=True)
    assert tick(line) == (str(before[0]) if ran_before else None)
    assert keys_without_ttl(line.server) == []
    if how == "keep":
        line.expire()
    assert line.once(line.waiter(), now)[0] == "granted"


def test_rule_6_a_run_that_counts_is_not_put_back(line: Line) -> None:
    """The usual release, and one that comes when the lease is over."""
    now, who = period(line), line.waiter()
    line.once(who, now)
    line.release(who)
    line.release(who, restore=True)
    line.leave(who)
    assert tick(line) == str(now[0])


def test_rule_6_the_run_of_another_is_not_put_back(line: Line) -> None:
    """Two seats: the second ran the next period meanwhile; the first one's failure is past."""
    now = period(line)
    first, second = line.waiter(size=2), line.waiter(size=2)
    line.once(first, now)
    next_one = now[0] + 1, now[1]
    assert line.once(second, next_one)[:2] == ["granted", 1]
    line.release(first, 0, restore=True)
    assert tick(line) == str(next_one[0])
    line.release(second, 1, restore=True)
    assert tick(line) == str(now[0])


def test_rule_6_a_tick_that_somebody_persisted_ends_again(line: Line) -> None:
    """Putting back never leaves a key for ever."""
    now, who = period(line), line.waiter()
    line.server.cli("SET", line.key("tick"), 1, "PX", HOUR)
    line.once(who, now)
    line.server.cli("PERSIST", line.key("tick"))
    line.release(who, restore=True)
    assert tick(line) == "1"
    assert line.server.cli("PTTL", line.key("tick")) > HOUR


def test_p4_on_a_full_server_a_run_can_be_put_back(start_server: StartServer) -> None:
    """By a release and by a full leave; a new run is refused, and nothing of it stays."""
    line = Line(start_server())
    now = period(line)
    for how in ("release", "leave"):
        line.server.flush()
        line.server.cli("SET", line.key("tick"), 1, "PX", HOUR)
        line.once(who := line.waiter(), now)
        line.server.cli("CONFIG", "SET", "maxmemory", 1)
        if how == "leave":
            line.leave(who, full=True)
        else:
            line.release(who, restore=True)
        assert tick(line) == "1"
        before = line.content()
        with pytest.raises(redis.ResponseError, match=r"OOM|maxmemory"):
            line.once(line.waiter(), now)
        assert line.content() == before
        line.server.cli("CONFIG", "SET", "maxmemory", 0)
