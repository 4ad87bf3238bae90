"""kit.ledger, kit.ledger_check: short elections, judged as a stream; each broken rule is found."""

import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.growing import growing
from kit.ledger import ELECTED, ENDED, LOST, Entry, Ledger, merged, read_ledgers
from kit.ledger_check import Times, check_ledgers


def term(
    process: str,
    start: float,
    end: float | None,
    fence: int,
    *,
    valid: float = math.inf,
    asked: float | None = None,
    election: int = 1,
    seat: int = 0,
) -> list[Entry]:
    """A whole term; without an end when `end` is None."""
    began = Entry(
        start, process, ELECTED, election, seat, fence, valid, start if asked is None else asked
    )
    if end is None:
        return [began]
    return [began, Entry(end, process, ENDED, election, seat, fence, 0.0, 0.0)]


SOUND = [term("a", 1, 2, 10), term("b", 2, 3, 11, asked=1.5), term("a", 3.5, 4, 12, asked=2.5)]


def test_a_sound_ledger() -> None:
    """Terms that touch do not overlap; who asked while another held was handed it over."""
    report = check_ledgers(merged(SOUND))
    report.assert_sound(min_elections=3)
    assert (report.elections, report.handed_over, report.between_processes) == (3, 2, 2)
    assert report.hand_over.longest == pytest.approx(0.5)


def test_nothing_is_no_proof() -> None:
    """An empty ledger proves nothing."""
    with pytest.raises(AssertionError, match="only 0 elections"):
        check_ledgers([]).assert_sound()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ([term("a", 1, 2.001, 10), term("b", 2, 3, 11)], "two holders"),
        ([term("a", 1, None, 10, valid=2.5), term("b", 2, 3, 11)], r"up to 500\.000 ms"),
        ([term("a", 1, 9, 1), term("b", 2, 3, 2), term("c", 4, 5, 3)], "two holders"),
        ([term("a", 1, 2, 11), term("b", 2, 3, 10)], "did not grow"),
        ([term("a", 1, 2, 10), term("b", 2, 3, 10)], "given twice"),
        ([term("a", 1, 2, 10), term("b", 1, 2, 10, seat=1)], "given twice"),
        ([term("a", 1, 2, 10), term("b", 3, 2.5, 10, valid=2.5)], "given twice"),
        ([term("a", 1, 2, 10), term("b", 5, 6, 11, asked=1.5)], "lay free for 3"),
    ],
)
def test_each_broken_rule_is_found(terms: list[list[Entry]], words: str) -> None:
    """Two at once, by their ends or by what they believed; fences; a seat that nobody took."""
    with pytest.raises(AssertionError, match=words):
        check_ledgers(merged(terms), max_idle=2).assert_sound()


@pytest.mark.parametrize(
    "terms",
    [
        [term("a", 1, 2, 10), term("b", 1, 2, 11, seat=1)],
        [term("a", 1, 2, 10), term("b", 1, 2, 10, election=2)],
        [term("a", 1, None, 10, valid=2), term("b", 2, 3, 11)],
        [term("a", 1, 3, 10, valid=2), term("b", 2, 3, 11)],
        [term("a", 3, 3.5, 9, valid=2), term("b", 2, 4, 11)],
        [term("dead", 1, None, 10), term("b", 2, 3, 11)],
        [term("a", 1, 2, 10), term("b", 5, 6, 11, asked=3)],
    ],
)
def test_what_must_not_be_mistaken(terms: list[list[Entry]]) -> None:
    """Other seats; the end of validity; a term that was over before it began; a kill; no asker."""
    check_ledgers(merged(terms), killed={"dead": 1.5}, max_idle=2).assert_sound()


def test_who_was_hindered_is_no_sleeper() -> None:
    """The taker itself, as long as it was; another that was called first costs a grace."""
    gap = [term("a", 1, 2, 10), term("b", 4.5, 6, 11, asked=1.5)]
    assert check_ledgers(merged(gap), max_idle=2).sleepers
    assert not check_ledgers(merged(gap), hindered={"b": [(1.0, 2.1)]}, max_idle=2).sleepers
    assert not check_ledgers(merged(gap), hindered={"c": [(1.0, 2.1)]}, max_idle=2).sleepers
    assert check_ledgers(merged(gap), hindered={"c": [(1.0, 2.1)]}, max_idle=1).sleepers
    assert check_ledgers(merged(gap), hindered={"c": [(0.0, 2.0)]}, max_idle=2).sleepers


def test_what_was_written_is_read_by_time(tmp_path: Path) -> None:
    """Two processes' ledgers are one stream; what a kill left of an entry is not counted."""
    fence = 2**53 - 1
    with Ledger(tmp_path / "b7.ledger") as ledger:
        ledger.elected(1000, 3, fence, at=1.0, valid_until=2.0, asked=0.5)
        ledger.ended(1000, 3, fence, at=3.0, lost=True)
    with Ledger(tmp_path / "a1.ledger") as ledger:
        ledger.elected(7, 0, 5, at=2.0, valid_until=9.0, asked=1.5)
    with (tmp_path / "a1.ledger").open("ab") as file:
        file.write(b"\1\0")
    assert list(read_ledgers(tmp_path)) == [
        Entry(1.0, "b7", ELECTED, 1000, 3, fence, 2.0, 0.5),
        Entry(2.0, "a1", ELECTED, 7, 0, 5, 9.0, 1.5),
        Entry(3.0, "b7", LOST, 1000, 3, fence, 0.0, 0.0),
    ]


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_an_entry_that_is_being_written(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest, which comes while the ledger is read, is not taken for the begin of another."""
    path = tmp_path / "a.ledger"
    with Ledger(path) as ledger:
        ledger.elected(1, 0, 7, at=1.0, valid_until=2.0, asked=0.5)
        ledger.ended(1, 0, 7, at=1.5, lost=False)
    both = path.read_bytes()
    half = len(both) // 2
    file = growing(both[:half][:cut], b"", both[:half][cut:] + both[half:])
    monkeypatch.setattr(Path, "open", lambda *_: file)
    assert list(read_ledgers(tmp_path)) == []


def test_times_stay_small_and_near() -> None:
    """Within 5 % at each share, exact at the end, nothing where there is nothing."""
    times = Times()
    assert times.within(0.5) == 0
    for number in range(1, 1001):
        times.add(number / 1000)
    assert times.within(0.5) == pytest.approx(0.5, rel=0.05)
    assert times.within(0.99) == pytest.approx(0.99, rel=0.05)
    assert times.within(1.0) == times.longest == 1.0
    assert len(times) == 1000


def test_memory_does_not_grow_with_the_number_of_elections() -> None:
    """Three times as many elections on as many names take no more memory, kills included."""

    def entries(count: int) -> Iterator[Entry]:
        for number in range(count):
            killed = number % 10 == 0
            yield from term(
                f"p{number % 7}", number, None if killed else number + 0.5, number + 1,
                valid=number + 0.9, election=number % 50,
            )  # fmt: skip

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            check_ledgers(entries(count)).assert_sound(min_elections=count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Each of the 50 names remembers up to 64 fences, and as many terms that were never ended.
    assert peak(24_000) < 1.5 * peak(8_000)
