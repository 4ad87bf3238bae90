"""incumbent.backoff: pauses that double, end at a limit, and never meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incumbent.backoff import pause_after


def test_pauses_double_up_to_the_longest() -> None:
    """The first failure costs `first`, each more twice as much, none more than `longest`."""
    pauses = [pause_after(n, first=0.1, longest=1.0, jitter=1.0) for n in range(1, 7)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_jitter_takes_up_to_a_half() -> None:
    """Those who failed together do not come back together, and nobody comes back at once."""
    assert pause_after(3, first=0.1, longest=9, jitter=0.0) == pytest.approx(0.2)
    assert pause_after(3, first=0.1, longest=9, jitter=0.5) == pytest.approx(0.3)
    assert pause_after(3, first=0.1, longest=9, jitter=1.0) == pytest.approx(0.4)


@given(
    failures=st.integers(1, 10**9),
    first=st.floats(1e-3, 10),
    longest=st.floats(1e-3, 100),
    jitter=st.floats(0, 1),
)
def test_no_number_of_failures_is_too_many(
    failures: int, first: float, longest: float, jitter: float
) -> None:
    """An outage of days neither overflows nor pauses longer than it may, nor not at all."""
    pause = pause_after(failures, first=first, longest=longest, jitter=jitter)
    assert min(first, longest) / 2 <= pause <= longest
