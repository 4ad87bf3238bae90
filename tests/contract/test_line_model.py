"""The line on a server against a line in a few lines of Python, by random calls.

After each call both have the same waiters in the same order, the same wake-ups, the same leaders,
and have told the same processes the same things.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from contract.line import Line, Processes, Waiter
from kit.leftovers import keys_without_ttl
from kit.servers import Server

SEATS = 3
GRACE = 60_000
"""Milliseconds; no deadline passes by itself, however busy the machine is."""
PROCESSES = ("a", "b", "c", "dead")
SLOTS = 8
"""So many candidates are there at a time; one whose claim is over comes back as a new one."""


@dataclass
class Model:
    """What the line should be: no server, no time, and nothing clever."""

    places: list[Waiter] = field(default_factory=list[Waiter])
    """In order of arrival."""
    woken: set[str] = field(default_factory=set[str])
    late: set[str] = field(default_factory=set[str])
    """Processes of which a deadline has passed."""
    holders: dict[int, Waiter] = field(default_factory=dict[int, Waiter])
    told: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def ask(self, who: Waiter, *, last: bool = False) -> bool:
        """Whether it is elected; else it stands in line, unless it was its last try."""
        self._prune()
        if who not in self.places:
            self.places.append(who)
            self.places.sort(key=lambda each: each.arrival or float("inf"))
        self.woken.discard(who.place)
        seat = self._walk(who.size, who)
        if seat is not None:
            self.holders[seat] = who
        if seat is not None or last:
            self._forget(who)
        return seat is not None

    def pass_by(self, who: Waiter) -> bool:
        """One try without standing."""
        if not self.places:
            self.late.clear()
        self._prune()
        self._walk(who.size, None)
        kept = self._reserved(who.size)
        free = [seat for seat in self._free(who.size) if seat not in kept]
        if free:
            self.holders[free[0]] = who
        return bool(free)

    def leave(self, who: Waiter, size: int, *, full: bool) -> None:
        """Leave the line, or give everything up."""
        if full:
            self.holders = {at: each for at, each in self.holders.items() if each is not who}
        if self.places:
            self._prune()
            self._forget(who)
            self._walk(size, None)

    def release(self, who: Waiter) -> bool:
        """Give a seat back; whether there was one."""
        seats = [seat for seat, each in self.holders.items() if each is who]
        for seat in seats:
            del self.holders[seat]
        if self.places:
            self._prune()
            self._walk(who.size, None)
        return bool(seats)

    def touch(self, who: Waiter) -> bool:
        """Whether it still stands."""
        self._prune()
        self._walk(who.size, None)
        return who in self.places

    def _free(self, size: int) -> list[int]:
        return [seat for seat in range(size) if seat not in self.holders]

    def _reserved(self, size: int) -> set[int]:
        return self._due(size).keys() - {-1}

    def _due(self, size: int) -> dict[int, Waiter]:
        """Free seats and whose they are, by the order of the line."""
        free, due = self._free(size), dict[int, Waiter]()
        for who in self.places:
            seat = next((seat for seat in free if seat < who.size), None)
            if seat is not None:
                free.remove(seat)
                due[seat] = who
        return due

    def _walk(self, size: int, mine: Waiter | None) -> int | None:
        while True:
            due = self._due(size)
            unheard = [
                who
                for who in due.values()
                if who is not mine and who.place not in self.woken and who.process == "dead"
            ]
            if not unheard:
                break
            self.places.remove(unheard[0])
        for who in sorted(due.values(), key=self.places.index):
            if who is not mine and who.place not in self.woken:
                self.woken.add(who.place)
                self.told.setdefault(who.process, []).append(f"wake {who.place}")
        return next((seat for seat, who in due.items() if who is mine), None)

    def _forget(self, who: Waiter) -> None:
        if who in self.places:
            self.places.remove(who)
        self.woken.discard(who.place)

    def _prune(self) -> None:
        for who in [who for who in self.places if who.process in self.late]:
            self._forget(who)
        self.late.clear()


OPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, SLOTS - 1)),
    st.tuples(st.just("ask"), st.integers(0, SLOTS - 1)),
    st.tuples(
        st.sampled_from(["last", "leave", "undo", "release", "touch", "pass", "silent", "late"]),
        st.integers(0, SLOTS - 1),
    ),
    st.tuples(st.just("expire"), st.integers(0, SEATS - 1)),
    st.tuples(st.just("outage"), st.integers(1, SEATS)),
)
CROWDED = [("ask", slot) for slot in (2, 5, 1, 0, 4)]
"""How it begins: the seats are taken, and two stand in line."""


@dataclass
class Pair:
    """The line and its model, and the candidates that both know."""

    line: Line
    crowd: Processes
    model: Model = field(default_factory=Model)
    slots: dict[int, Waiter] = field(default_factory=dict[int, Waiter])

    def who(self, slot: int) -> Waiter:
        """The candidate of a slot: its process and size are always the same."""
        if slot not in self.slots:
            process, size = PROCESSES[slot % len(PROCESSES)], 1 + slot % SEATS
            waiter = self.line.waiter if process == "dead" else self.crowd.waiter
            self.slots[slot] = waiter(process, size)
        return self.slots[slot]

    def step(self, name: str, number: int) -> None:
        """Do one thing to both; they must answer the same."""
        if name in {"expire", "outage"}:
            for seat in [number] if name == "expire" else range(number):
                if self.model.holders.pop(seat, None):
                    self.line.expire(seat)
            return
        who = self.who(number)
        held = who in self.model.holders.values()
        if name in {"ask", "last", "pass"}:
            if not held:
                self._ask(name, who, number)
        elif name == "leave":
            self.line.leave(who)
            self.model.leave(who, who.size, full=False)
        elif name == "undo":
            self.line.leave(who, full=True)
            self.model.leave(who, who.size, full=True)
            del self.slots[number]
        elif name == "release":
            seat = next((at for at, each in self.model.holders.items() if each is who), 0)
            answer = self.line.release(who, seat)
            assert (answer == "released") == self.model.release(who)
        elif name == "touch":
            assert self.line.touch(who)[0] == self.model.touch(who)
        else:
            self._let_pass(name, who)

    def _ask(self, name: str, who: Waiter, number: int) -> None:
        if name == "pass":
            if who in self.model.places:
                return
            answer, elected = self.line.acquire(who), self.model.pass_by(who)
        else:
            answer = self.line.ask(who, stale=0 if name == "last" else 30_000)
            elected = self.model.ask(who, last=name == "last")
        assert (answer[0] == "granted") == elected, answer
        if elected:
            assert self.model.holders[int(answer[1])] is who
        elif name == "last":
            del self.slots[number]

    def _let_pass(self, name: str, who: Waiter) -> None:
        """A deadline is over: of a process, or of a wake-up."""
        entry = f"p:{who.process}" if name == "silent" else f"w:{who.place}"
        if entry in self.line.alive():
            self.line.overdue(entry)
            self.model.late.add(who.process)

    def compare(self) -> None:
        """Both are the same, and no key stays for ever."""
        assert self.line.places() == [who.place for who in self.model.places]
        assert self.line.woken() == self.model.woken
        assert self.line.holders(SEATS) == {
            seat: who.leader for seat, who in sorted(self.model.holders.items())
        }
        assert self.crowd.told() == {
            name: [word for word in words if word]
            for name, words in self.model.told.items()
            if words
        }
        self.model.told.clear()
        assert keys_without_ttl(self.line.server) == []


@pytest.fixture(scope="module")
def inboxes() -> Iterator[dict[str, Processes]]:
    """The processes of each server, kept for all examples."""
    found: dict[str, Processes] = {}
    yield found
    for processes in found.values():
        processes.close()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ops=st.lists(OPS, min_size=5, max_size=60))
@example(ops=[("ask", 0), ("ask", 7), ("outage", 2), ("silent", 0), ("touch", 7)])
def test_the_line_is_as_its_model_says(
    server: Server, inboxes: dict[str, Processes], ops: list[tuple[str, int]]
) -> None:
    """Order, wake-ups, leaders and what is told, after each of some random calls."""
    server.flush()
    crowd = inboxes.setdefault(server.url, Processes(Line(server, grace=GRACE)))
    pair = Pair(crowd.line, crowd)
    crowd.told()
    for name, number in CROWDED + ops:
        pair.step(name, number)
        probes = {"touch": ["probe 1"]}.get(name)
        if probes and pair.who(number).process != "dead":
            pair.model.told.setdefault(pair.who(number).process, []).extend(probes)
        pair.compare()
