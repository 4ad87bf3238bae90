"""The two stores compared: whatever is asked, in whatever order, both say the same."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from contract import story
from contract.bench import BUDGET, Bench, claim
from incumbent.stores.base import Claim, Grant
from incumbent.stores.memory import MemoryStore

SEATS = 3
WHO = st.integers(0, 4)
NUMBER = st.integers(0, SEATS - 1)
STEP = st.one_of(
    st.tuples(st.just("acquire"), WHO, st.sampled_from([1, 2, 3])),
    st.tuples(st.just("extend"), WHO, NUMBER, st.integers(1, 200)),
    st.tuples(st.just("release"), WHO, NUMBER, st.sampled_from([0, 0, 5, 500])),
    st.tuples(st.just("expire"), NUMBER),
    st.tuples(st.just("state"), st.sampled_from([1, 2, 3])),
)
ELECTIONS = count()


def candidate(election: str, who: int, seats: int, life: int) -> Claim:
    """One of five candidates; no two have leases of about one length. A token is used once."""
    return claim(election, f"{who}-{life}", seats=seats, lease_time=10.0 + 20 * who)


async def play(bench: Bench, election: str, steps: Sequence[tuple[Any, ...]]) -> list[str]:
    """Do the steps; each answer as a line."""
    lines: list[str] = []
    lives = [0] * 5
    grants: dict[int, Grant] = {}
    for kind, *values in steps:
        if kind == "acquire":
            who, seats = values
            answer = await bench.store.acquire(candidate(election, who, seats, lives[who]), BUDGET)
            if isinstance(answer, Grant):
                grants[who] = answer
            lines.append(story.told(answer))
        elif kind == "extend":
            who, seat, duration = values
            mine = candidate(election, who, SEATS, lives[who])
            lines.append(story.told(await bench.store.extend(mine, seat, duration, BUDGET)))
        elif kind == "release" and values[0] in grants:
            who, _, keep = values
            mine = candidate(election, who, SEATS, lives[who])
            lines.append(await bench.store.release(mine, grants.pop(who), keep, BUDGET))
            lives[who] += 1
        elif kind == "expire" and await is_taken(bench, election, values[0]):
            bench.expire(election, values[0])
        elif kind == "state":
            lines.append(story.told(await bench.store.state(election, values[0], BUDGET)))
    return lines


async def is_taken(bench: Bench, election: str, seat: int) -> bool:
    """Whether somebody has the seat."""
    return seat in {info.seat for info in await bench.leaders(election, SEATS)}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEP, min_size=5, max_size=25))
@example(
    # One claim, of one seat and of two in turn, has both: it is told of the lower one.
    steps=[
        ("acquire", 0, 1), ("acquire", 3, 2), ("expire", 0), ("acquire", 3, 1), ("acquire", 3, 2),
    ]
)  # fmt: skip
async def test_memory_and_server_say_the_same(
    bench_of_first: Bench, steps: list[tuple[Any, ...]]
) -> None:
    """The store in memory is a stand-in that can be believed in a user's unit tests."""
    election = f"job-{next(ELECTIONS)}"
    memory = Bench(MemoryStore(), None)
    assert await play(bench_of_first, election, steps) == await play(memory, election, steps)
