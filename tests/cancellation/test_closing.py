"""P4: an elector that is closed while it waits is not elected, wherever the wait has come to.

Each run has a fresh elector, client and election; the k-th run's elector is closed at its k-th
suspension, until a run ends before it comes to that.
"""

import asyncio
from contextlib import suppress
from contextvars import Context
from typing import Any

import pytest

from cancellation.stage import ENTRIES, Action, Entry, Theatre
from cancellation.stepping import Stepped
from cancellation.test_every_point import MOST, PLAYED, PLOTS, Plot, Record
from incumbent import ElectorClosedError


async def close_at(
    theatre: Theatre, entry: Entry, plot: Plot, at: int, *, late: bool
) -> Stepped[Any]:
    """One run, whose elector is closed at suspension number `at`, and all that holds after it."""
    stage = await theatre.stage(cold=plot.cold, wait_time=plot.wait_time)
    if plot.held_for:
        stage.occupy(plot.held_for)
    action, closing, had_a_term = Action(), list[asyncio.Task[None]](), list[bool]()

    def close() -> None:
        had_a_term.append(action.began or bool(stage.elector._office.terms))
        closing.append(
            asyncio.get_running_loop().create_task(stage.elector.aclose(), context=Context())
        )

    run: Stepped[Any] = Stepped(stage.enter(entry, action), at, close, late=late)

    async def counted() -> int:
        with suppress(Exception):  # looked at below
            await run
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert await asyncio.create_task(counted()) == 0
    for each in closing:
        async with asyncio.timeout(10):
            await each
    if had_a_term == [False]:
        assert isinstance(run.error, ElectorClosedError), (run.places[at - 1], run.value, run.error)
        assert not action.began
    elif had_a_term:
        assert run.value == "done", (run.places[at - 1], run.error)
        assert not action.cancelled, "a term that runs ends as it would"
    await stage.empty()
    return run


async def close_at_each(theatre: Theatre, entry: Entry, plot: Plot, *, late: bool) -> int:
    """Close a run's elector at each of its suspensions in turn; how many there were."""
    for at in range(1, MOST):
        run = await close_at(theatre, entry, plot, at, late=late)
        if not run.struck:
            return at - 1
    raise AssertionError(f"{MOST} suspensions and no end")


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("entry", ENTRIES)
async def test_p4_closed_at_each_point(
    theatre: Theatre, entry: Entry, late: bool, record_property: Record
) -> None:
    """Not elected unless it was before; what was granted meanwhile is given back."""
    points = 0
    for name in PLAYED[entry]:
        if PLOTS[name].wins:
            points += await close_at_each(theatre, entry, PLOTS[name], late=late)
    record_property("points", points)
    assert points


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
async def test_p4_closed_at_each_point_of_a_wait_in_vain(theatre: Theatre, late: bool) -> None:
    """It may just have come to its end: then it was skipped."""
    plot = PLOTS["waits in vain"]
    for at in range(1, MOST):
        stage = await theatre.stage(cold=False, wait_time=plot.wait_time)
        stage.occupy(plot.held_for)
        closing: list[asyncio.Task[None]] = []

        def close(
            aclose: Any = stage.elector.aclose, closing: list[asyncio.Task[None]] = closing
        ) -> None:
            closing.append(asyncio.get_running_loop().create_task(aclose(), context=Context()))

        run = Stepped(stage.enter("attempt", Action()), at, close, late=late)
        await asyncio.wait((asyncio.create_task(_seen(run)),))
        await asyncio.gather(*closing)
        assert run.value is None
        assert isinstance(run.error, ElectorClosedError | None)
        await stage.empty()
        if not run.struck:
            return
        assert isinstance(run.error, ElectorClosedError), run.places[at - 1]


async def _seen(run: Stepped[Any]) -> None:
    try:
        await run
    except ElectorClosedError:
        return
