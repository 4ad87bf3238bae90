"""P1 and P2 by a model: a lease machine against a server with a clock of its own.

The model knows a server (who has the seat, until when, by its own clock in whole milliseconds),
requests on their way that are lost, late or overtaken, and a driver that may sleep. Hypothesis
looks for a course of events in which the machine trusts a lease that the server has given up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from incumbent.lease import LeaseMachine, Lose, Phase, Renew, Stop, Wait, valid_until
from incumbent.options import LeaderOptions

RATES = st.sampled_from([1.01, 1 / 1.01, 1.0]) | st.floats(1 / 1.01, 1.01)
"""Seconds of the server's clock per second of ours: P1 holds within 1 %."""

STARTS = st.sampled_from([0.0349, 0.0173, 1.2345, 0.0008, 2.7183, 0.0]) | st.floats(0, 3)
"""When the seat is asked for: within a millisecond, and within a cell of the grid."""

TRIPS = st.just(0.0) | st.floats(0, 0.3)
SHARES = st.floats(0, 1)
SELDOM = st.integers(0, 9).map(lambda number: number == 7)
EXTENSIONS = st.floats(0.001, 10) | st.floats(0.001, 10_000)
"""Lease times of an extension by hand."""


class Server:
    """One seat, with the answers that the scripts give."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._owner = ""
        self._expires_ms = 0
        self._longest_ms = 0
        self._behind_ms = 0

    def has(self, token: str, at: float) -> bool:
        """Whether the seat is `token`'s at our time `at`."""
        return self._owner == token and self._ms(at) < self._expires_ms

    def free(self, at: float) -> bool:
        """Whether anybody could take the seat."""
        return not self._owner or self._ms(at) >= self._expires_ms

    def acquire(self, token: str, duration: float, at: float) -> None:
        """Take the free seat."""
        assert self.free(at)
        self._owner, self._longest_ms = token, round(duration * 1000)
        self._expires_ms = self._ms(at) + self._longest_ms

    def extend(self, token: str, duration: float, at: float) -> float | Literal["taken", "gone"]:
        """As extend.lua: compares, cuts what was not asked for, answers with the TTL."""
        if self.free(at):
            return "gone"
        if self._owner != token:
            return "taken"
        return self._bound(round(duration * 1000), at) / 1000

    def look(self, at: float) -> None:
        """As a script that finds the seat taken: acquire.lua, touch.lua and force.lua."""
        if not self.free(at):
            self._bound(0, at)

    def set_back(self, seconds: float) -> None:
        """The server's wall clock, by which keys expire."""
        self._behind_ms += round(seconds * 1000)

    def _bound(self, wanted: int, at: float) -> int:
        self._longest_ms = max(wanted, self._longest_ms)
        ttl = self._expires_ms - self._ms(at)
        ttl = max(wanted, min(ttl, self._longest_ms), 1)
        self._expires_ms = self._ms(at) + ttl
        return ttl

    def release(self, token: str) -> None:
        """Free the seat if it is `token`'s."""
        if self._owner == token:
            self._owner = ""

    def _ms(self, at: float) -> int:
        return math.floor(at * self._rate * 1000) - self._behind_ms


@dataclass
class Request:
    """An extension on its way, and what became of it."""

    sent_at: float
    duration: float
    overdue_at: float = math.inf
    answer: float | str | None = None
    over: bool = False
    """Nobody waits for the answer any more; the request may reach the server all the same."""


class Course(RuleBasedStateMachine):
    """Any course of events between one holder, its rivals and the server."""

    @initialize(
        lease_time=st.sampled_from([0.25, 1.0, 1.5, 30.0]),
        auto_extend=SELDOM.map(lambda seldom: not seldom),
        timeout=st.sampled_from([5.0, 0.02]),
        max_hold=st.none() | st.floats(0.1, 5),
        rate=RATES,
        start=STARTS,
        there=TRIPS,
        back=TRIPS,
        early=st.just(0.0) | SHARES,
    )
    def elect(  # noqa: PLR0917 - hypothesis gives them by name
        self,
        lease_time: float,
        auto_extend: bool,
        timeout: float,
        max_hold: float | None,
        rate: float,
        start: float,
        there: float,
        back: float,
        early: float,
    ) -> None:
        """The seat is granted; request and answer take their time."""
        self.options = LeaderOptions(
            lease_time=lease_time,
            auto_extend=auto_extend,
            request_timeout=timeout,
            max_hold_time=max_hold and max_hold * lease_time,
        )
        self.server = Server(rate)
        self.server.acquire("me", lease_time, start + there * lease_time)
        self.now = start + (there + back) * lease_time
        assume(self.now < valid_until(start, lease_time))
        self.requests: list[Request] = []
        self.served: list[float] = []
        self.latest = -math.inf
        self.over = False
        self.attempts = 0
        self.wake_at = -math.inf
        self.machine = LeaseMachine(self.options, sent_at=start, ttl=lease_time, early=early)
        self.drive()

    # -- the driver, as engine.term is one ---------------------------------------------------

    def drive(self) -> None:
        """Do what the machine decides, until it waits."""
        punctual = self.now == self.wake_at
        while True:
            decision = self.machine.decide(self.now)
            if isinstance(decision, Wait):
                assert decision.until > self.now, "the driver would spin"
                self.wake_at = decision.until
                return
            if isinstance(decision, Renew):
                self.check_attempt(decision.within, punctual=punctual)
                self.attempts += 1
                self.wake_at = self.now + decision.within
                self.requests.append(
                    Request(self.now, self.options.lease_time, overdue_at=self.wake_at)
                )
                return
            if isinstance(decision, Lose):
                assert self.now >= self.machine.deadline
                self.over = True
            else:
                assert isinstance(decision, Stop)
                assert self.machine.held(self.now)
                near = self.now >= self.machine.deadline - self.options.stop_grace
                assert decision.reason == "max_hold_time" or near

    def check_attempt(self, within: float, *, punctual: bool) -> None:
        """A renewal is decided so early that two attempts fit before the lease has to stop."""
        grace = self.options.stop_grace if self.machine.phase is Phase.HELD else 0.0
        stop_at = self.machine.deadline - grace
        assert 0 < within <= self.options.renewal_budget
        assert self.now + within <= stop_at + 1e-9
        if punctual and self.attempts == 0:
            assert stop_at - self.now >= 2 * self.options.renewal_budget - 1e-9

    def fail(self, request: Request, jitter: float) -> None:
        """An attempt ends without an answer."""
        request.over = True
        self.machine.failed(self.now, jitter)

    def waiting(self) -> list[Request]:
        """Attempts that have neither an answer delivered nor failed."""
        return [request for request in self.requests if not request.over]

    # -- what can happen ---------------------------------------------------------------------

    @rule(share=st.just(0.34) | st.floats(0, 0.5), jitter=SHARES)
    def time_passes(self, share: float, jitter: float) -> None:
        """The driver is punctual; attempts that are overdue fail on time."""
        end = self.now + share * self.options.lease_time
        while True:
            due = min([self.wake_at, *(request.overdue_at for request in self.waiting())])
            if due > end:
                break
            self.now = max(self.now, due)
            for request in self.waiting():
                if request.overdue_at <= self.now:
                    self.fail(request, jitter)
            self.drive()
        self.now = end

    @rule(share=st.floats(0, 0.2) | st.floats(0, 3), wakes=st.booleans())
    def the_process_sleeps(self, share: float, wakes: bool) -> None:
        """Time passes and nothing runs; whether the timer is the first to run then is chance."""
        self.now += share * self.options.lease_time
        if wakes:
            self.drive()

    @precondition(lambda self: any(request.answer is None for request in self.requests))
    @rule(data=st.data())
    def a_request_arrives(self, data: st.DataObject) -> None:
        """The server answers one of the requests, not always the oldest."""
        on_the_way = [request for request in self.requests if request.answer is None]
        request = data.draw(st.sampled_from(on_the_way))
        request.answer = self.server.extend("me", request.duration, self.now)
        self.served.append(request.duration)

    @precondition(lambda self: self.served)
    @rule(data=st.data())
    def a_copy_arrives(self, data: st.DataObject) -> None:
        """It was sent twice, by us or by the network; its answer is not received."""
        self.server.extend("me", data.draw(st.sampled_from(self.served)), self.now)

    @rule(seconds=st.floats(0.001, 10) | st.just(86_400.0))
    def the_servers_clock_is_set_back(self, seconds: float) -> None:
        """It was ahead: what was to expire expires later, so that the TTL becomes longer."""
        self.server.set_back(seconds)

    @precondition(lambda self: any(request.answer is not None for request in self.requests))
    @rule(data=st.data())
    def an_answer_arrives(self, data: st.DataObject) -> None:
        """One of the answers gets here, perhaps long after it was given up."""
        answered = [request for request in self.requests if request.answer is not None]
        request = data.draw(st.sampled_from(answered))
        self.requests.remove(request)
        if isinstance(request.answer, float):
            self.machine.confirmed(request.sent_at, request.answer, request.duration)
            self.attempts = 0
        elif self.machine.refused():
            self.over = True
        self.drive()

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), jitter=SHARES)
    def an_attempt_fails(self, data: st.DataObject, jitter: float) -> None:
        """The connection breaks; what was sent may reach the server or not."""
        self.fail(data.draw(st.sampled_from(self.waiting())), jitter)
        self.drive()

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_request_is_lost(self, data: st.DataObject) -> None:
        """Given up and never seen by the server, or its answer never seen by us."""
        lost = [request for request in self.requests if request.over]
        assume(lost)
        self.requests.remove(data.draw(st.sampled_from(lost)))

    @rule(share=EXTENSIONS)
    def the_holder_extends(self, share: float) -> None:
        """An extension by hand is sent; its failure would be the caller's."""
        self.requests.append(Request(self.now, share * self.options.lease_time, over=True))

    @rule(share=st.floats(0.01, 3))
    def a_rival_tries(self, share: float) -> None:
        """Whoever finds the seat free has it, and else sees that it has no more than its due."""
        if self.server.free(self.now):
            self.server.acquire("rival", share * self.options.lease_time, self.now)
        self.server.look(self.now)

    @precondition(lambda self: self.machine.phase is not Phase.CLOSED)
    @rule()
    def the_action_is_asked_to_stop(self) -> None:
        """Somebody cancels the caller."""
        self.machine.stop(self.now)
        self.drive()

    @precondition(lambda self: self.machine.phase is not Phase.CLOSED)
    @rule()
    def the_request_is_withdrawn(self) -> None:
        """It was only a timeout within the action."""
        self.machine.resume()
        self.drive()

    @precondition(lambda self: self.machine.phase is not Phase.CLOSED)
    @rule(seldom=SELDOM)
    def the_term_is_closed(self, *, seldom: bool) -> None:
        """The action has ended: the seat is given back."""
        if not seldom:
            return
        self.machine.close()
        self.server.release("me")
        self.over = True
        self.drive()

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def p1_held_means_that_the_server_says_so(self) -> None:
        """While held, the seat is ours on the server, now and up to the local deadline."""
        if self.machine.held(self.now):
            assert self.server.has("me", self.now)
            assert self.server.has("me", math.nextafter(self.machine.deadline, 0))
            assert 0 < self.machine.remaining(self.now) == self.machine.deadline - self.now
        else:
            assert self.machine.remaining(self.now) == 0

    @invariant()
    def p2_the_deadline_never_moves_back(self) -> None:
        """What was promised once stays promised."""
        assert self.machine.deadline >= self.latest
        self.latest = self.machine.deadline

    @invariant()
    def what_is_over_stays_over(self) -> None:
        """After a loss or the end nothing brings `held` back."""
        assert self.over == (self.machine.phase in (Phase.LOST, Phase.CLOSED))
        if self.over:
            assert not self.machine.held(self.now)


@pytest.mark.timeout(300)  # a course that fails is made short before it is shown
def test_p1_no_course_of_events_makes_two_holders() -> None:
    """Whatever is lost, late, overtaken or asleep, `held` is never wrong, at 1 % of drift too."""
    run_state_machine_as_test(
        Course,
        settings=settings(
            max_examples=120,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        ),
    )


# -- and it is not lost without need ---------------------------------------------------------


def lives(
    options: LeaderOptions, leases: float, answer: Callable[[int], float | None], jitter: float
) -> bool:
    """Whether a lease lives that long; `answer` gives an attempt's round trip, None for none."""
    now, count = 0.003, 0
    machine = LeaseMachine(options, sent_at=0.0, ttl=options.lease_time)
    while now < leases * options.lease_time:
        decision = machine.decide(now)
        if isinstance(decision, Wait):
            now = decision.until
        elif isinstance(decision, Renew):
            trip, sent_at = answer(count), now
            count += 1
            if trip is None or trip > decision.within:
                now += decision.within
                machine.failed(now, jitter)
            else:
                now += trip
                machine.confirmed(sent_at, options.lease_time, options.lease_time)
        else:
            return False
    return True


LEASES = st.sampled_from([0.25, 0.5, 1.0, 3.0, 30.0, 3600.0]) | st.floats(0.25, 100)


@settings(deadline=None, max_examples=50)
@given(lease_time=LEASES, share=SHARES)
def test_case_43_a_lease_lives_as_long_as_it_is_answered(lease_time: float, share: float) -> None:
    """With the defaults an action of 50 lease times stays leader, up to answers of a budget."""
    options = LeaderOptions(lease_time=lease_time)
    assert lives(options, 50, lambda _: share * options.renewal_budget, 0.5)


@settings(deadline=None, max_examples=50)
@given(lease_time=LEASES, share=SHARES, jitter=SHARES, every=st.integers(2, 5))
def test_case_41_one_lost_renewal_never_costs_the_lease(
    lease_time: float, share: float, jitter: float, every: int
) -> None:
    """Every second to fifth attempt gets no answer at all, for 40 lease times."""
    options = LeaderOptions(lease_time=lease_time)
    trip = share * options.renewal_budget / 2
    assert lives(options, 40, lambda count: None if count % every == 0 else trip, jitter)


@settings(deadline=None, max_examples=50)
@given(lease_time=LEASES, jitter=SHARES)
def test_case_4_without_answers_the_lease_is_given_up(lease_time: float, jitter: float) -> None:
    """No renewal comes through: it is over within one lease time, with Redis or without."""
    assert not lives(LeaderOptions(lease_time=lease_time), 1, lambda _: None, jitter)
