"""incumbent.stores.redis.records: many records are read in slices, and none twice."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from incumbent.stores.redis import records
from incumbent.stores.redis.records import SLICE, snapshot_of


def reply(count: int, *tail: str) -> Sequence[Any]:
    """What the server answers with so many candidates."""
    pairs: list[bytes] = []
    for number in range(count):
        known = f'1700000030000000,30000,1,0,0,0,0,0,"aa","bb",{{"load":{number}}}'
        pairs += [b"node-%d" % number, f"[{','.join([known, *tail])}]".encode()]
    return b"1700000000000000", b"0", [], pairs


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, 10 * SLICE])
async def test_the_loop_goes_on_between_slices(count: int) -> None:
    """However many there are, no more than one slice is read at a time."""
    turns, over = 0, False

    async def turn() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    snapshot, _ = await snapshot_of("job", reply(count))
    over = True
    await turning
    assert len(snapshot.candidates) == count
    assert turns >= max(0, count - 1) // SLICE


async def test_ten_thousand_are_remembered() -> None:
    """A second look makes no value anew."""
    first, _ = await snapshot_of("job", reply(10_000))
    records._candidate.cache_info()
    misses = records._candidate.cache_info().misses
    again, _ = await snapshot_of("job", reply(10_000))
    assert records._candidate.cache_info().misses == misses
    assert again.candidates[7] is first.candidates[7]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ((), (False, 0, None)),
        (('["s",1,0,0,""]',), (True, 0, None)),
        (('["s",0,3,1700000000000000,"aa=5;"]',), (False, 3, 1700000000.0)),
        (('{"later":["s",1,1,1]}', '["s",1,2,1000000,"",7]', "8"), (True, 2, 1.0)),
        (("[]", "[[]]", '"s"'), (False, 0, None)),
    ],
)
async def test_what_may_follow_the_known_places(
    tail: tuple[str, ...], expected: tuple[bool, int, float | None]
) -> None:
    """Wherever it stands among what later releases append."""
    snapshot, _ = await snapshot_of("job", reply(1, *tail))
    (candidate,) = snapshot.candidates
    at = candidate.last_early_failure_at
    told = candidate.contending, candidate.early_failures, at and at.timestamp()
    assert told == expected


@pytest.mark.parametrize("tail", ['["s"]', '["s",1]', '["s",1,-1,0,""]', '["s",true,1,1,""]'])
async def test_a_tail_that_is_none_makes_a_record_unreadable(tail: str) -> None:
    """It is told, as any record that is none of ours."""
    snapshot, _ = await snapshot_of("job", reply(1, tail))
    assert (snapshot.candidates, snapshot.corrupt) == ((), ("node-0",))
