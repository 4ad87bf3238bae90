"""kit.checker: sound histories pass, and each kind of broken promise is found."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.checker import check
from kit.records import Kind, Record


def term(
    process: str,
    start: float,
    end: float,
    fence: int,
    *,
    how: Kind | None = "stopped",
    valid: float | None = None,
    seat: int = 0,
) -> list[Record]:
    """A whole term: elected, worked at its start, ended as `how` says (None: not at all)."""

    def record(kind: Kind, at: float) -> Record:
        until = end + 1 if valid is None else valid
        return Record(
            process=process, kind=kind, at=at, election="e", seat=seat, fence=fence,
            valid_until=None if kind == "lost" else until,
        )  # fmt: skip

    kinds: list[tuple[Kind, float]] = [("elected", start), ("work", start)]
    return [record(kind, at) for kind, at in (*kinds, *([(how, end)] if how else []))]


def event(process: str, kind: Kind, at: float) -> Record:
    """Something that happened to a process."""
    return Record(process=process, kind=kind, at=at, election="e")


SOUND = [*term("a", 1, 2, 10), *term("b", 2, 3, 11), *term("a", 3.5, 4, 12, how="lost")]


def test_a_sound_history() -> None:
    """Terms that touch but do not overlap are fine, and are measured."""
    report = check(SOUND)
    report.assert_sound(min_terms=3)
    assert [(each.process, each.start, each.end) for each in report.terms] == [
        ("a", 1, 2),
        ("b", 2, 3),
        ("a", 3.5, 4),
    ]
    assert report.take_overs == (0.0, 0.5)
    assert (report.take_over(0.5), report.take_over(0.99)) == (0.0, 0.5)


def test_nothing_is_no_proof() -> None:
    """An empty history is not sound: there was nothing to look at."""
    with pytest.raises(AssertionError, match="only 0 terms"):
        check([]).assert_sound()
    assert check([]).take_over(0.5) == 0.0


def test_overlap() -> None:
    """Two holders at one time are found, and the message says who and for how long."""
    report = check([*term("a", 1, 2.25, 10), *term("b", 2, 3, 11)])
    assert len(report.overlaps) == 1
    with pytest.raises(AssertionError, match=r"two holders .* 250\.000 ms: a fence=10 .*, b fen"):
        report.assert_sound()


def test_overlap_with_one_long_before() -> None:
    """A long term is compared with all that follow, not only with the next one."""
    report = check([*term("a", 1, 9, 1), *term("b", 2, 3, 2), *term("c", 4, 5, 3)])
    assert len(report.overlaps) == 2


def test_overlap_by_a_microsecond_and_none_between_seats() -> None:
    """There is no tolerance within a seat; different seats do not concern each other."""
    assert check([*term("a", 1, 2.000001, 10), *term("b", 2, 3, 11)]).overlaps
    assert not check([*term("a", 1, 2, 10), *term("b", 1, 2, 11, seat=1)]).violations


def test_a_term_without_end_lasts_as_long_as_it_was_valid() -> None:
    """A frozen holder counts until its last known deadline; one that was killed, until then."""
    frozen = term("a", 1, 1, 10, how=None, valid=5.0)
    follower = term("b", 4, 6, 11)
    assert check(frozen + follower).overlaps
    assert not check([*frozen, *follower, event("a", "killed", 3)]).violations
    extended = replace(frozen[0], kind="extended", at=2.0, valid_until=6.0)
    assert check([*frozen, extended, *term("b", 5.5, 6, 11)]).overlaps


def test_validity_ends_a_term_before_its_action_does() -> None:
    """An action that ended after its deadline held only until the deadline."""
    assert not check([*term("a", 1, 3, 10, valid=2.0), *term("b", 2.5, 3, 11)]).overlaps


def test_fence_that_shrinks_or_repeats() -> None:
    """Both are found."""
    shrinks = check([*term("a", 1, 2, 10), *term("b", 2, 3, 9)])
    assert "did not grow" in shrinks.violations[0]
    repeats = check([*term("a", 1, 2, 10), *term("b", 2, 3, 10)])
    assert "given twice" in repeats.violations[0]


def test_a_stillborn_term_counts_only_for_its_fence() -> None:
    """Over before its first record: no overlap, no order; its fence must still be its own."""
    stillborn = term("a", 2.5, 2.5, 10, how="lost", valid=2.0)[:1]
    assert not check([*stillborn, *term("b", 2, 3, 11)]).violations
    assert check([*stillborn, *term("b", 2, 3, 10)]).violations


def test_work_outside_a_term() -> None:
    """Before it, after it, or with a fence that was never granted."""
    (work,) = [record for record in SOUND if record.kind == "work" and record.fence == 11]
    for stray in (replace(work, at=1.9), replace(work, at=3.1), replace(work, fence=99)):
        assert len(check([*SOUND, stray]).stray_work) == 1
    assert not check([*SOUND, replace(work, at=2.9)]).stray_work


def test_idle_while_somebody_stands() -> None:
    """A free seat with a candidate is idle; from the end of the one to the start of the next."""
    stands = event("c", "standing", 0.9)
    report = check([*SOUND, stands])
    assert report.longest_idle == pytest.approx(0.5)
    report.assert_sound(max_idle=0.5)
    with pytest.raises(AssertionError, match=r"idle for 0\.500 s > 0\.4 s: .* c from 3\.0"):
        report.assert_sound(max_idle=0.4)


def test_idle_to_the_end_of_the_run() -> None:
    """When nobody is ever elected again, the time up to the end of the run counts."""
    stands = event("c", "standing", 0.5)
    assert check([*SOUND, stands], until=9.0).longest_idle == pytest.approx(5)
    assert check([stands], until=9.0).longest_idle == pytest.approx(8.5)


@pytest.mark.parametrize(
    ("hindrance", "idle"),
    [
        ([], 6.0),
        ([("away", 5)], 1.0),
        ([("killed", 5)], 1.0),
        ([("paused", 3), ("resumed", 8)], 2.0),
        ([("cut", 5), ("restored", 9)], 1.0),
        ([("cut", 3), ("paused", 4), ("restored", 5), ("resumed", 9)], 1.0),
        ([("cut", 3), ("cut", 4), ("restored", 5), ("restored", 9)], 1.0),
        ([("paused", 3)], 0.0),
        ([("paused", 1), ("resumed", 2)], 6.0),
    ],
)
def test_who_cannot_lead_is_not_idle(hindrance: list[tuple[Kind, float]], idle: float) -> None:
    """Paused, cut off, gone or dead: no candidate, as long as that lasts."""
    happened = [event("c", kind, at) for kind, at in hindrance]
    history = [*term("a", 0.5, 4, 10), event("c", "standing", 0.5), *happened]
    assert check(history, until=10.0).longest_idle == pytest.approx(idle)


def test_settling() -> None:
    """After a hindrance a candidate has `settle` seconds; a fresh one has none."""
    history = [
        *term("a", 1, 4, 10),
        event("c", "standing", 0.5),
        event("c", "paused", 3),
        event("c", "resumed", 8),
    ]
    assert check(history, until=10.0, settle=0.5).longest_idle == pytest.approx(1.5)
    assert check(history[:-2], until=10.0, settle=0.5).longest_idle == pytest.approx(6.0)


def test_a_leader_is_no_candidate() -> None:
    """Who was elected stands no more, until it says so again."""
    history = [event("a", "standing", 0.5), *term("a", 1, 2, 10), event("a", "standing", 3)]
    assert check(history, until=4.0).longest_idle == pytest.approx(1)


# -- random histories ------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.floats(0.01, 2), st.floats(0, 1), st.integers(1, 9)),
    min_size=2,
    max_size=12,
)


def build(steps: list[tuple[str, float, float, int]]) -> list[list[Record]]:
    """One term after another, each with a length, a gap before it and a fence that grows."""
    terms, clock, fence = [], 1.0, 0
    for process, length, gap, growth in steps:
        clock, fence = clock + gap, fence + growth
        terms.append(term(process, clock, clock + length, fence))
        clock += length
    return terms


@given(steps=STEPS)
def test_any_sound_history_passes(steps: list[tuple[str, float, float, int]]) -> None:
    """One holder after another with growing fences is always sound."""
    report = check([record for each in build(steps) for record in each])
    report.assert_sound(min_terms=len(steps))
    assert report.longest_idle == 0  # nobody stood by


@given(steps=STEPS, data=st.data())
def test_any_overlap_is_found(
    steps: list[tuple[str, float, float, int]], data: st.DataObject
) -> None:
    """Let any term begin before the end of the one before it."""
    terms = build(steps)
    which = data.draw(st.integers(1, len(terms) - 1))
    before = terms[which - 1]
    into = data.draw(st.floats(0.1, 0.9))
    start = before[0].at + into * (before[-1].at - before[0].at)
    terms[which] = term("z", start, terms[which][-1].at, terms[which][0].fence)
    assert check([record for each in terms for record in each]).overlaps


@given(steps=STEPS, data=st.data())
def test_any_swapped_fence_is_found(
    steps: list[tuple[str, float, float, int]], data: st.DataObject
) -> None:
    """Let any two terms have each other's fence."""
    terms = build(steps)
    first, second = sorted(
        data.draw(st.lists(st.integers(0, len(terms) - 1), min_size=2, max_size=2, unique=True))
    )
    fences = terms[first][0].fence, terms[second][0].fence
    terms[first] = [replace(record, fence=fences[1]) for record in terms[first]]
    terms[second] = [replace(record, fence=fences[0]) for record in terms[second]]
    assert check([record for each in terms for record in each]).fence_violations
