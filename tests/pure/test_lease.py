"""incumbent.lease: the table, entry by entry, and the numbered rules of the module's docstring."""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from incumbent import lease
from incumbent.lease import (
    GRID,
    TABLE,
    IllegalInputError,
    Input,
    LeaseMachine,
    Lose,
    Phase,
    Renew,
    Stop,
    Wait,
    valid_until,
)
from incumbent.options import LeaderOptions

LEASE = 6.0
PERIOD, BUDGET, GRACE = 2.0, 1.0, 1.0
DEADLINE = 0.99 * LEASE - 0.002
"""Of a lease that was asked for at 0."""
DOC = lease.__doc__ or ""
DIAGRAM = DOC.split("::\n", 1)[1]

Step = Callable[[LeaseMachine], object]

STEPS: dict[Input, Step] = {
    Input.CONFIRMED: lambda machine: machine.confirmed(1.0, LEASE, LEASE),
    Input.REFUSED: lambda machine: machine.refused(),
    Input.FAILED: lambda machine: machine.failed(1.0, 0.5),
    Input.STOP: lambda machine: machine.stop(1.0),
    Input.RESUME: lambda machine: machine.resume(),
    Input.RAN_OUT: lambda machine: machine._step(Input.RAN_OUT),
    Input.CLOSE: lambda machine: machine.close(),
}
PAIRS = list(itertools.product(Phase, Input))
LEGAL = [(phase, happened) for phase, happened in PAIRS if happened in TABLE[phase]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def machine(**options: Any) -> LeaseMachine:
    """A lease of 6 s that was asked for at 0 and granted."""
    made = LeaderOptions(lease_time=LEASE, **options)
    assert (made.renewal_period, made.renewal_budget, made.stop_grace) == (PERIOD, BUDGET, GRACE)
    return LeaseMachine(made, sent_at=0.0, ttl=LEASE)


def in_phase(phase: Phase) -> LeaseMachine:
    """A lease that got into `phase` by legal input alone."""
    made = machine()
    if phase is Phase.STOPPING:
        made.stop(0.5)
    elif phase is Phase.LOST:
        made.refused()
    elif phase is Phase.CLOSED:
        made.stop(0.5)
        made.close()
    assert made.phase is phase
    return made


def content(made: LeaseMachine) -> dict[str, object]:
    """All that a machine knows."""
    return {name: getattr(made, name) for name in LeaseMachine.__slots__}


# -- the table -------------------------------------------------------------------------------


def test_the_table_has_every_phase() -> None:
    """No phase is forgotten, and every input can happen to some lease."""
    assert set(TABLE) == set(Phase)
    assert {happened for row in TABLE.values() for happened in row} == set(Input)
    assert set(STEPS) == set(Input)


@pytest.mark.parametrize(("phase", "happened"), LEGAL, ids=lambda part: part.name)
def test_a_legal_input_leads_where_the_table_says(phase: Phase, happened: Input) -> None:
    """Each entry is reached by the method that stands for the input."""
    made = in_phase(phase)
    STEPS[happened](made)
    assert made.phase is TABLE[phase][happened]


@pytest.mark.parametrize(("phase", "happened"), ILLEGAL, ids=lambda part: part.name)
def test_an_illegal_input_raises_and_changes_nothing(phase: Phase, happened: Input) -> None:
    """A driver's bug is told with both names, and the lease is as it was."""
    made = in_phase(phase)
    before = content(made)
    with pytest.raises(IllegalInputError) as said:
        STEPS[happened](made)
    assert str(said.value) == f"{happened.name} cannot happen to a lease that is {phase.name}"
    assert content(made) == before


def test_the_table_is_this() -> None:
    """What is legal, written out once more: a slip in the table is a slip in P1."""
    answers = {Input.CONFIRMED, Input.REFUSED, Input.FAILED}
    asked = {Input.STOP, Input.RESUME}
    assert {phase: set(row) for phase, row in TABLE.items()} == {
        Phase.HELD: {*answers, *asked, Input.RAN_OUT, Input.CLOSE},
        Phase.STOPPING: {*answers, *asked, Input.RAN_OUT, Input.CLOSE},
        Phase.LOST: {*answers, *asked, Input.CLOSE},
        Phase.CLOSED: answers,
    }
    ends = {Input.REFUSED: Phase.LOST, Input.RAN_OUT: Phase.LOST, Input.CLOSE: Phase.CLOSED}
    for phase in (Phase.HELD, Phase.STOPPING):
        expected = dict.fromkeys(TABLE[phase], phase) | ends
        expected |= {Input.STOP: Phase.STOPPING, Input.RESUME: Phase.HELD}
        assert TABLE[phase] == expected
    assert set(TABLE[Phase.LOST].values()) == {Phase.LOST, Phase.CLOSED}
    assert TABLE[Phase.LOST][Input.CLOSE] is Phase.CLOSED
    assert set(TABLE[Phase.CLOSED].values()) == {Phase.CLOSED}


def test_the_diagram_shows_what_the_table_has() -> None:
    """Every phase and input is drawn, and nothing else is written in capitals."""
    words = set(re.findall(r"\b[A-Z][A-Z_]+\b", DIAGRAM))
    assert words == {phase.name for phase in Phase} | {happened.name for happened in Input}


def test_each_rule_has_its_test() -> None:
    """The docstring's rules are numbered, and a test here bears each number."""
    rules = [int(number) for number in re.findall(r"^(\d)\. ", DOC, re.MULTILINE)]
    tested = {
        int(found[1]) for name in globals() if (found := re.match(r"test_rule_(\d)_", str(name)))
    }
    assert rules == list(range(1, 8))
    assert tested == set(rules)


# -- rule 1: validity ------------------------------------------------------------------------


def test_rule_1_a_lease_is_valid_from_the_send_less_the_drift() -> None:
    """It counts from before the request left: 0.99 of the TTL less two milliseconds (P2)."""
    assert valid_until(100.0, 10.0) == pytest.approx(109.898)
    made = machine()
    assert made.deadline == pytest.approx(DEADLINE)
    made.confirmed(1.5, LEASE, LEASE)
    assert made.deadline == pytest.approx(1.5 + DEADLINE)


def test_rule_1_held_ends_at_the_deadline_itself() -> None:
    """At the deadline it is over, a moment before it is not."""
    made = machine()
    assert made.held(0.0)
    assert made.held(math.nextafter(made.deadline, 0))
    assert not made.held(made.deadline)
    assert made.remaining(1.0) == pytest.approx(DEADLINE - 1)
    assert made.remaining(made.deadline) == made.remaining(made.deadline + 9) == 0.0


def test_rule_1_the_answer_counts_as_the_server_gave_it() -> None:
    """A seat that the server cut shorter than asked for is trusted for that long only."""
    made = LeaseMachine(LeaderOptions(lease_time=LEASE), sent_at=10.0, ttl=3.0)
    assert made.deadline == pytest.approx(10 + 2.97 - 0.002)


@pytest.mark.parametrize("ttl", [LEASE + 0.001, 2 * LEASE, 86_400.0 + LEASE])
def test_p1_rule_1_nobody_relies_on_more_than_it_asked_for(ttl: float) -> None:
    """A clock that was ahead, and set back, makes a TTL of any length."""
    made = LeaseMachine(LeaderOptions(lease_time=LEASE), sent_at=0.0, ttl=ttl)
    assert made.deadline == pytest.approx(DEADLINE)
    made.confirmed(1.0, ttl, LEASE)
    assert made.deadline == pytest.approx(1 + DEADLINE)
    made.confirmed(1.5, ttl, 0.5)
    assert made.deadline == pytest.approx(1 + DEADLINE)


# -- rule 2: only a confirmation moves the deadline, never back -------------------------------


def test_rule_2_a_failed_attempt_leaves_the_deadline() -> None:
    """An unknown outcome is no outcome."""
    made = machine()
    for now in (2.0, 2.5, 3.0):
        made.failed(now, 0.5)
        assert made.deadline == pytest.approx(DEADLINE)
        assert made.held(now)


def test_rule_2_an_older_answer_does_not_move_it_back() -> None:
    """Answers that overtook each other leave the later deadline."""
    made = machine()
    made.confirmed(3.0, LEASE, LEASE)
    latest = made.deadline
    made.confirmed(2.0, LEASE, LEASE)
    made.confirmed(3.5, 1.0, 1.0)
    assert made.deadline == latest


def test_rule_2_refused_says_whether_it_ended_the_lease() -> None:
    """The first refusal ends it, a second one is no news."""
    made = machine()
    assert made.refused()
    assert not made.refused()


# -- rule 3: when a renewal is due -----------------------------------------------------------


@pytest.mark.parametrize("lease_time", [0.25, 0.3, 1.0, 6.0, 31.0, 3600.0])
@pytest.mark.parametrize("sent_at", [0.0, 12.34, 1e6 + 0.017])
def test_rule_3_a_renewal_is_due_after_a_third_on_the_grid(
    lease_time: float, sent_at: float
) -> None:
    """It waits till two thirds are left, snapped down to the common grid, never up."""
    options = LeaderOptions(lease_time=lease_time)
    made = LeaseMachine(options, sent_at=sent_at, ttl=lease_time)
    decision = made.decide(sent_at)
    assert isinstance(decision, Wait)
    third = sent_at + lease_time / 3
    assert third - GRID < decision.until <= third + 1e-6
    turns = decision.until / GRID
    assert turns == pytest.approx(round(turns), abs=1e-6)
    assert made.decide(decision.until) == Renew(options.renewal_budget)


def test_rule_3_leases_of_one_process_renew_together() -> None:
    """Grants that came within one cell of the grid are due at one instant."""
    options = LeaderOptions(lease_time=LEASE)
    dues = {
        LeaseMachine(options, sent_at=100 + shift, ttl=LEASE).decide(100 + shift)
        for shift in (0.001, 0.01, 0.02, 0.049)
    }
    assert len(dues) == 1


@pytest.mark.parametrize("lease_time", [0.25, 6.0, 31.0, 3600.0])
@pytest.mark.parametrize("early", [0.0, 0.3, 0.999])
def test_rule_3_the_first_renewal_comes_early_by_chance(lease_time: float, early: float) -> None:
    """By up to a third of the period, on the grid; the second one has the whole period."""
    options = LeaderOptions(lease_time=lease_time)
    period = options.renewal_period
    made = LeaseMachine(options, sent_at=0.0, ttl=lease_time, early=early)
    first = made.decide(0.0)
    assert isinstance(first, Wait)
    assert period - early * period / 3 - GRID < first.until <= period - early * period / 3 + GRID
    assert first.until / GRID == pytest.approx(round(first.until / GRID), abs=1e-6)
    assert isinstance(made.decide(first.until), Renew)
    made.confirmed(first.until, lease_time, lease_time)
    second = made.decide(first.until)
    assert isinstance(second, Wait)
    # An instant that lies on the grid may snap to the cell below: floats.
    assert first.until + period - GRID - 1e-6 <= second.until <= first.until + period + 1e-6


def test_rule_3_a_renewal_is_decided_once() -> None:
    """While the attempt has its time, nothing else is to be done."""
    made = machine()
    assert made.decide(2.0) == Renew(BUDGET)
    assert made.decide(2.0) == made.decide(2.9) == Wait(3.0)


def test_rule_3_a_confirmation_sets_the_next_one() -> None:
    """After an answer the count begins anew, from its send."""
    made = machine()
    made.decide(2.0)
    made.confirmed(2.0, LEASE, LEASE)
    assert made.decide(2.1) == Wait(4.0)


@pytest.mark.parametrize("asked", [LEASE, 20.0, 86_400.0])
@pytest.mark.parametrize("more", [0.0, 3.5, 86_400.0])
def test_rule_3_no_extension_puts_it_off(asked: float, more: float) -> None:
    """However long the lease lives: a holder hears only by renewals what it is asked to do."""
    made = machine()
    made.confirmed(1.0, asked + more, asked)
    assert made.decide(1.5) == Wait(1.0 + PERIOD)
    assert made.decide(1.0 + PERIOD) == Renew(BUDGET)


@pytest.mark.parametrize("ttl", [1.0, 5.5, LEASE, 86_400.0])
def test_rule_3_an_extension_by_little_leaves_two_attempts(ttl: float) -> None:
    """It moves no deadline, so it does not put off the renewal beyond it, whatever the server."""
    made = machine()
    for now in (0.5, 1.0, 1.5, 2.0, 2.5):
        made.confirmed(now, ttl, 0.01)
        decision = made.decide(now)
        due = decision.until if isinstance(decision, Wait) else now
        assert due <= max(now, DEADLINE - GRACE - 2 * BUDGET)


def test_rule_3_without_auto_extend_nothing_is_renewed() -> None:
    """The only time that matters then is the end."""
    made = machine(auto_extend=False)
    assert made.decide(0.0) == made.decide(4.0) == Wait(made.deadline - GRACE)


# -- rule 4: a failed attempt is tried again -------------------------------------------------


def test_rule_4_failures_are_retried_with_growing_jittered_pauses() -> None:
    """Each pause is a half to a whole of a step that doubles, a whole period at most."""
    for jitter, share in ((0.0, 0.5), (1.0, 1.0)):
        made, now = machine(), 2.0
        for step in (1 / 16, 1 / 8, 1 / 4):
            assert made.decide(now) == Renew(BUDGET)
            made.failed(now, jitter)
            decision = made.decide(now)
            assert isinstance(decision, Wait)
            assert decision.until == pytest.approx(now + PERIOD * step * share)
            now = decision.until


def test_rule_4_the_pauses_are_bounded() -> None:
    """Under a lease of any length the pause is a renewal period at most."""
    made = machine()
    made.confirmed(0.0, 40.0, 40.0)
    now = 36.0
    for _ in range(50):
        made._failures += 1
        made.failed(now, 1.0)
        assert made._renew_at <= now + PERIOD


def test_rule_4_a_confirmation_forgets_the_failures() -> None:
    """The next outage begins with short pauses again."""
    made = machine()
    for now in (2.0, 2.5, 3.0):
        made.decide(now)
        made.failed(now, 1.0)
    made.confirmed(3.5, LEASE, LEASE)
    made.decide(5.5)
    made.failed(5.5, 1.0)
    decision = made.decide(5.5)
    assert isinstance(decision, Wait)
    assert decision.until == pytest.approx(5.5 + PERIOD / 16)


def test_rule_4_an_attempt_that_says_nothing_is_followed_by_another() -> None:
    """A task that hangs does not end the renewing."""
    made = machine()
    assert made.decide(2.0) == Renew(BUDGET)
    assert made.decide(3.0) == Renew(BUDGET)


def test_rule_4_the_last_attempt_has_the_time_that_is_left() -> None:
    """No attempt is given more time than there is before the lease has to stop."""
    made = machine()
    decision = made.decide(4.5)
    assert isinstance(decision, Renew)
    assert decision.within == pytest.approx(DEADLINE - GRACE - 4.5)


@pytest.mark.parametrize("jitter", [0.6, 1.0])
def test_rule_4_the_time_before_the_end_is_used(jitter: float) -> None:
    """The last attempt is not further from the end than the time that it may take."""
    options = LeaderOptions()
    made, now, last = LeaseMachine(options, sent_at=0.0, ttl=30.0), 10.0, 0.0
    while isinstance(decision := made.decide(now), (Renew, Wait)):
        if isinstance(decision, Renew):
            last = now
            made.failed(now, jitter)
        else:
            now = decision.until
    assert decision == Stop("unreachable")
    assert now - last <= options.renewal_budget + 0.001


# -- rule 5: what is not confirmed is told in time -------------------------------------------


def test_p3_rule_5_the_holder_is_asked_to_stop_a_grace_before_the_end() -> None:
    """The action gets `stop_grace` for its cleanup, and the lease is valid for it."""
    made = machine()
    stop_at = made.deadline - GRACE
    made.decide(2.0)
    made.failed(2.0, 0.5)
    made.decide(stop_at - 0.01)
    made.failed(stop_at - 0.005, 0.5)
    assert made.decide(math.nextafter(stop_at, 0)) == Wait(stop_at)
    assert made.decide(stop_at) == Stop("unreachable")
    assert made.phase is Phase.STOPPING
    assert made.held(math.nextafter(made.deadline, 0))
    made.decide(made.deadline - 0.001)
    assert made.decide(made.deadline) == Lose("unreachable")
    assert not made.held(made.deadline)


def test_p3_rule_5_a_renewal_in_the_cleanup_gives_it_more_time() -> None:
    """For one lease time of renewals at most, as after any request to stop."""
    made = machine()
    stop_at = made.deadline - GRACE
    made.decide(2.0)
    made.failed(2.0, 1.0)
    made.decide(stop_at - 0.01)
    made.failed(stop_at - 0.005, 1.0)
    assert made.decide(stop_at) == Stop("unreachable")
    now, renewed = stop_at, list[float]()
    while not isinstance(decision := made.decide(now), Lose):
        if isinstance(decision, Renew):
            made.confirmed(now, LEASE, LEASE)
            renewed.append(now)
        else:
            assert isinstance(decision, Wait), "told once"
            now = decision.until
        assert made.held(now) or now == made.deadline
    assert len(renewed) >= 3
    assert renewed[-1] < stop_at + LEASE
    assert now == pytest.approx(renewed[-1] + DEADLINE)


def test_rule_5_without_a_grace_the_end_is_the_end() -> None:
    """There is nothing to clean up in."""
    made = LeaseMachine(
        LeaderOptions(lease_time=LEASE, stop_grace=0), sent_at=0.0, ttl=LEASE, early=0.0
    )
    made.decide(2.0)
    made.failed(5.9, 1.0)
    made.decide(5.92)
    assert made.decide(made.deadline) == Lose("unreachable")


def test_rule_5_a_refused_lease_is_lost_at_once() -> None:
    """What the server denies needs no timer."""
    made = machine()
    made.refused()
    assert made.phase is Phase.LOST
    assert not made.held(0.1)


@pytest.mark.parametrize("auto_extend", [True, False])
def test_rule_5_a_lease_without_renewal_expires(auto_extend: bool) -> None:
    """The reason is `expired` when nobody was to renew it."""
    made = machine(auto_extend=auto_extend)
    if auto_extend:
        made.stop(0.0)
        made.confirmed(0.0, 3 * LEASE, 3 * LEASE)
        made.decide(LEASE)
    assert made.decide(made.deadline) == Lose("expired")


def test_rule_5_who_slept_past_the_end_has_stalled() -> None:
    """No attempt failed: the loop or the process was not there."""
    made = machine()
    made.decide(0.0)
    assert made.decide(DEADLINE + 60) == Lose("stalled")


def test_rule_5_who_slept_during_an_outage_has_stalled_too() -> None:
    """A wake-up that came much too late tells more than the failure before it."""
    made = machine()
    made.decide(2.0)
    made.failed(2.2, 1.0)
    assert isinstance(made.decide(2.2), Wait)
    assert made.decide(DEADLINE + 60) == Lose("stalled")


def test_rule_5_a_little_late_is_not_stalled() -> None:
    """Within `stop_grace` a late wake-up is the usual jitter of a loop."""
    made = machine()
    made.decide(2.0)
    made.failed(4.8, 1.0)
    assert isinstance(made.decide(4.8), Wait)
    assert made.decide(4.95) == Stop("unreachable")


# -- rule 6: stopping ------------------------------------------------------------------------


def test_rule_6_a_stopping_lease_serves_the_cleanup_to_its_end() -> None:
    """The grace was kept for this: the lease is held up to the deadline."""
    made = machine(auto_extend=False)
    made.stop(DEADLINE - GRACE - 0.1)
    assert made.decide(DEADLINE - 0.1) == Wait(made.deadline)
    assert made.held(DEADLINE - 0.1)
    assert made.decide(made.deadline) == Lose("expired")


def test_rule_6_a_stopping_lease_is_renewed_for_one_lease_time() -> None:
    """A cleanup gets as long as it takes, up to a lease time of renewals and what they gave."""
    made, now = machine(), 1.0
    made.stop(now)
    renewals: list[float] = []
    while isinstance(decision := made.decide(now), (Renew, Wait)):
        if isinstance(decision, Renew):
            renewals.append(now)
            made.confirmed(now, LEASE, LEASE)
        else:
            now = decision.until
    assert decision == Lose("expired")
    assert renewals == pytest.approx([2.0, 4.0, 6.0], abs=GRID)
    assert now == pytest.approx(renewals[-1] + DEADLINE)


def test_rule_6_asking_again_gives_no_more_time() -> None:
    """A caller who cancels every second does not keep the lease for ever."""
    made = machine()
    made.stop(1.0)
    once = made._renew_until
    made.stop(5.0)
    assert made._renew_until == once == 1.0 + LEASE


def test_rule_6_a_withdrawn_request_is_forgotten() -> None:
    """A timeout that the action handled itself does not end its renewal."""
    made = machine()
    made.stop(1.0)
    made.resume()
    assert made.phase is Phase.HELD
    now, renewals = 1.0, 0
    while renewals < 20:
        decision = made.decide(now)
        assert isinstance(decision, (Wait, Renew))
        if isinstance(decision, Wait):
            now = decision.until
        else:
            made.confirmed(now, LEASE, LEASE)
            renewals += 1
    assert now > 5 * LEASE


def test_rule_6_a_resumed_lease_has_its_grace_again() -> None:
    """Who goes on within the grace has to stop at once: the time for the cleanup has begun."""
    made = machine()
    made.stop(1.0)
    made.decide(2.0)
    made.failed(2.1, 1.0)
    made.decide(DEADLINE - GRACE / 2)
    made.resume()
    assert made.decide(DEADLINE - GRACE / 2) == Stop("unreachable")


def test_rule_6_an_extension_by_hand_ends_with_the_maximum_hold() -> None:
    """It reaches as far as a renewal would, or to `max_hold_time`, whichever is later."""
    made = machine(max_hold_time=20.0)
    assert made.allowed(3.0, 1.0) == 3.0
    assert made.allowed(100.0, 1.0) == 19.0
    assert made.allowed(100.0, 18.0) == LEASE
    assert machine().allowed(100.0, 1.0) == 100.0


def test_rule_6_an_extension_by_hand_gives_a_cleanup_no_more_than_renewals_do() -> None:
    """For one lease time, and then nothing any more."""
    made = machine()
    made.stop(1.0)
    assert made.allowed(100.0, 1.0) == made.allowed(100.0, 6.9) == LEASE
    assert made.allowed(100.0, 1.0 + LEASE) == 0.0
    made = machine(max_hold_time=3.0)
    made.decide(2.0)
    made.confirmed(2.0, LEASE, LEASE)
    assert made.decide(3.0) == Stop("max_hold_time")
    assert made.allowed(100.0, 3.5) == LEASE
    assert made.allowed(100.0, 3.0 + LEASE) == 0.0


def test_rule_6_the_maximum_hold_stops_the_action_once() -> None:
    """At `max_hold_time` from the send the action is asked to stop, and keeps the lease for it."""
    made = machine(max_hold_time=3.0)
    assert made.decide(2.0) == Renew(BUDGET)
    made.confirmed(2.0, LEASE, LEASE)
    assert made.decide(2.5) == Wait(3.0)
    assert made.decide(3.0) == Stop("max_hold_time")
    assert made.phase is Phase.STOPPING
    assert made.held(3.0)
    assert made.decide(3.0) == Wait(4.0)
    assert made.decide(4.0) == Renew(BUDGET)


def test_rule_6_a_lost_lease_is_not_asked_to_stop() -> None:
    """When both times have come, the loss counts."""
    made = machine(max_hold_time=3.0)
    assert isinstance(made.decide(DEADLINE), Lose)
    assert made.decide(DEADLINE + 1) == Wait(math.inf)


# -- rule 7: what is over is over ------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.LOST, Phase.CLOSED])
def test_rule_7_late_answers_are_ignored(phase: Phase) -> None:
    """No answer brings a lease back, nor is anything to be done for it."""
    made = in_phase(phase)
    deadline = made.deadline
    for answer in (Input.CONFIRMED, Input.REFUSED, Input.FAILED):
        STEPS[answer](made)
        assert made.phase is phase
        assert made.deadline == deadline
        assert not made.held(1.0)
        assert made.remaining(1.0) == 0.0
        assert made.decide(1.0) == made.decide(1e9) == Wait(math.inf)


def test_rule_7_a_lost_lease_can_only_be_closed() -> None:
    """Every other input leaves it lost."""
    for happened in set(TABLE[Phase.LOST]) - {Input.CLOSE}:
        made = in_phase(Phase.LOST)
        STEPS[happened](made)
        assert made.phase is Phase.LOST
    made = in_phase(Phase.LOST)
    made.close()
    assert made.phase is Phase.CLOSED


def test_a_loss_is_decided_once() -> None:
    """One loss is one decision, so that it can be one event."""
    made = machine()
    decisions = [made.decide(DEADLINE + step / 10) for step in range(10)]
    assert [decision for decision in decisions if isinstance(decision, Lose)] == decisions[:1]
