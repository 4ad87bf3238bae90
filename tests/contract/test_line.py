"""The line of one election in a process, without a server: what calls its places, and when."""

import asyncio
import math

import pytest
from redis import exceptions as redis_errors

from incumbent import clock
from incumbent.stores.base import Budget
from incumbent.stores.redis import line as lines
from incumbent.stores.redis.line import LONGEST_PERIOD, SILENT, Line, Touch
from incumbent.stores.redis.place import ServerPlace
from kit.waiting import wait_until

LEASE = 12.0
NOW = 0.05
EARLY = 0.002
"""uvloop counts milliseconds, and rounds."""
"""Seconds within which something counts as "at once"."""

ASLEEP = Touch(standing=True, free=0, soonest=math.inf)


class Desk:
    """A process without a server: touches are answered as the test says."""

    def __init__(self) -> None:
        self.answer: Touch | redis_errors.RedisError = ASLEEP
        self.touches: list[bytes] = []
        """The place that each touch asked after."""
        self.probes: list[int] = []
        self.left: list[bytes] = []
        self.strangers: list[bytes] = []
        self.calls: list[str] = []
        """What else was asked of it."""
        self.hold = asyncio.Event()
        self.hold.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, line: Line) -> None:
        self.calls.append("listen")

    def dismiss(self, line: Line) -> None:
        self.calls.append("dismiss")

    def distrust(self, line: Line) -> None:
        self.calls.append("distrust")

    def start_touch(self, line: Line) -> None:
        task = asyncio.create_task(line.touch())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start_leave(self, line: Line, place: bytes) -> None:
        self.strangers.append(place)

    async def ask_touch(self, line: Line, place: ServerPlace, probe: int) -> Touch:
        self.touches.append(place.name)
        self.probes.append(probe)
        await self.hold.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def leave(self, line: Line, place: bytes, budget: Budget) -> None:
        self.left.append(place)


class Scene:
    """A line that listens, and places that have been refused once."""

    def __init__(self, *, hearing: bool = True, lease: float = LEASE) -> None:
        self.desk = Desk()
        self.line = Line(self.desk, "job")
        self.lease = lease
        self.places: list[ServerPlace] = []
        if hearing:
            self.line.listening()
        else:
            self.line.deaf()

    def stand(self, *, soonest: float = math.inf) -> ServerPlace:
        """One more, which asks and is refused."""
        place = ServerPlace(self.line, 1, b"1:p:%d" % len(self.places))
        self.places.append(place)
        self.line.add(place, self.lease)
        self.ask(place, soonest=soonest)
        return place

    def ask(self, place: ServerPlace, *, soonest: float = math.inf) -> None:
        """Ask, and be refused."""
        place.asking()
        place.refused(arrival=place.arrival or len(self.places), soonest=soonest)

    def due_in(self) -> float:
        """Seconds until the next touch."""
        assert self.line._timer is not None
        when = min(self.line._touch_at, self.line._free_at)
        return when - asyncio.get_running_loop().time()

    async def touched(self, count: int = 1) -> None:
        """Wait for so many touches, each with its answer taken."""
        await wait_until(lambda: len(self.desk.touches) >= count)
        await wait_until(lambda: not self.line._touching)

    async def end(self) -> None:
        """Everybody goes."""
        for place in self.places:
            place.close()
        self.line._stop_timers()
        await wait_until(lambda: not self.desk._tasks)


async def is_called(place: ServerPlace) -> bool:
    """Whether it was called since it asked last."""
    before = clock.now()
    await place.called(before + NOW)
    return clock.now() - before < NOW - EARLY


async def test_who_stands_in_a_line_that_is_heard_waits_for_nothing() -> None:
    """Not even for a turn of the loop: its request leaves at once."""
    scene = Scene()
    with pytest.raises(StopIteration):
        scene.line.settled(10.0).send(None)
    await scene.end()


async def test_a_wake_up_calls_the_one_it_names() -> None:
    """Nobody else stirs; and who asked again sleeps on until the next one."""
    scene = Scene()
    first, second = scene.stand(), scene.stand()
    scene.line.heard(b"wake " + second.name)
    assert await is_called(second)
    assert not await is_called(first)
    scene.ask(second)
    assert not await is_called(second)
    await scene.end()


async def test_a_wake_up_that_comes_while_it_asks_is_not_lost() -> None:
    """It was sent after the server had looked: the place asks again at once."""
    scene = Scene()
    place = scene.stand()
    place.asking()
    scene.line.heard(b"wake " + place.name)
    place.refused(1, math.inf)
    assert await is_called(place)
    await scene.end()


async def test_a_wake_up_for_nobody_is_passed_on() -> None:
    """Whoever was meant is gone: that place leaves the line, so that the next is woken."""
    scene = Scene()
    place = scene.stand()
    place.close()
    scene.line.heard(b"wake " + place.name)
    assert scene.desk.strangers == [place.name]
    await scene.end()


async def test_what_nobody_knows_is_ignored() -> None:
    """A newer release may say more: the line neither fails nor stirs."""
    scene = Scene()
    place = scene.stand()
    scene.line.heard(b"something new")
    scene.line.heard(b"")
    assert not await is_called(place)
    await scene.end()


async def test_who_begins_to_listen_asks_again() -> None:
    """The first confirmation, and each after a cut: what was published before was not heard."""
    scene = Scene(hearing=False)
    places = [scene.stand() for _ in range(3)]
    for _ in range(2):
        scene.line.listening()
        assert [await is_called(place) for place in places] == [True] * 3
        for place in places:
            scene.ask(place)
    await scene.end()


@pytest.mark.parametrize(
    ("lease", "period"), [(0.9, 0.3), (LEASE, 4.0), (30.0, 10.0), (600.0, LONGEST_PERIOD)]
)
async def test_a_touch_comes_every_third_of_a_lease(lease: float, period: float) -> None:
    """And every ten seconds at least, however long leases are; the first comes early."""
    scene = Scene(lease=lease)
    scene.stand()
    assert scene.due_in() <= lines.FIRST_TOUCH[1]
    await scene.touched()
    assert period - NOW < scene.due_in() <= period + lines.A_LITTLE_LATER[1]
    await scene.end()


async def test_one_timer_serves_all() -> None:
    """Two hundred places: one touch, and it asks after the one that came first."""
    scene = Scene()
    for _ in range(200):
        scene.stand()
    scene.places[0].arrival, scene.places[7].arrival = 300, 0
    await scene.touched()
    assert scene.desk.touches == [scene.places[1].name]
    await scene.end()


@pytest.mark.parametrize("told_by", ["refusal", "touch"])
async def test_a_touch_comes_when_a_lease_ends(told_by: str) -> None:
    """Nobody publishes that: the end is known from a refusal, or from the last touch."""
    scene = Scene()
    scene.desk.answer = Touch(standing=True, free=0, soonest=2.0 if told_by == "touch" else 9.0)
    place = scene.stand()
    await scene.touched()
    if told_by == "refusal":
        scene.ask(place, soonest=2.0)
    assert 2.0 - NOW < scene.due_in() <= 2.0 + lines.A_LITTLE_LATER[1]
    await scene.end()


async def test_the_latest_word_of_a_seat_counts() -> None:
    """A seat that was about to be free is taken again: there is nothing to look at before that."""
    scene = Scene()
    place = scene.stand()
    await scene.touched()
    scene.ask(place, soonest=0.5)
    assert scene.due_in() < 1
    scene.ask(place, soonest=3.0)
    assert 3.0 - NOW < scene.due_in() <= 3.0 + lines.A_LITTLE_LATER[1]
    await scene.end()


async def test_a_touch_comes_when_a_free_seat_is_kept_no_longer() -> None:
    """The woken waiter may never come; the server knows how long it has."""
    scene = Scene()
    scene.desk.answer = Touch(standing=True, free=1, soonest=2.5)
    scene.stand()
    await scene.touched()
    assert 2.5 - NOW < scene.due_in() <= 2.5 + lines.A_LITTLE_LATER[1]
    await scene.end()


async def test_who_was_dropped_asks_again() -> None:
    """The oldest is not in line any more, so nobody of this process may be."""
    scene = Scene()
    scene.desk.answer = ASLEEP._replace(standing=False)
    places = [scene.stand() for _ in range(3)]
    await scene.touched()
    assert [await is_called(place) for place in places] == [True] * 3
    await scene.end()


async def test_who_left_meanwhile_is_no_sign_that_all_were_dropped() -> None:
    """The touch asked after one that is elected by the time of the answer."""
    scene = Scene()
    scene.desk.answer = ASLEEP._replace(standing=False)
    first, second = scene.stand(), scene.stand()
    scene.desk.hold.clear()
    await wait_until(lambda: scene.desk.touches)
    first.close()
    scene.desk.hold.set()
    await scene.touched()
    assert not await is_called(second)
    await scene.end()


async def test_a_nudge_makes_it_look_at_once() -> None:
    """The seat will be free sooner than was known."""
    scene = Scene()
    scene.stand()
    await scene.touched()
    scene.line.heard(b"nudge")
    assert scene.due_in() <= 0
    await scene.touched(2)
    await scene.end()


async def test_a_nudge_during_a_touch_makes_it_look_once_more() -> None:
    """The answer that is on its way may be older than the nudge."""
    scene = Scene()
    scene.stand()
    scene.desk.hold.clear()
    await wait_until(lambda: scene.desk.touches)
    scene.line.heard(b"nudge")
    await asyncio.sleep(NOW)
    assert len(scene.desk.touches) == 1, "one touch at a time"
    scene.desk.hold.set()
    await wait_until(lambda: len(scene.desk.touches) == 2)
    await scene.end()


async def test_a_probe_that_does_not_come_back_means_deaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The inbox is told to connect anew; a probe that is heard says that all is well."""
    monkeypatch.setattr(lines, "PROBE_WITHIN", NOW)
    scene = Scene()
    scene.stand()
    await scene.touched()
    scene.line.heard(b"probe %d" % scene.desk.probes[-1])
    await asyncio.sleep(2 * NOW)
    assert "distrust" not in scene.desk.calls
    scene.line.heard(b"nudge")
    await scene.touched(2)
    await wait_until(lambda: "distrust" in scene.desk.calls)
    await scene.end()


async def test_a_probe_from_before_it_listened_means_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was published before the subscription was confirmed."""
    monkeypatch.setattr(lines, "PROBE_WITHIN", NOW)
    scene = Scene(hearing=False)
    scene.stand()
    scene.desk.hold.clear()
    await wait_until(lambda: scene.desk.touches)
    scene.line.listening()
    scene.desk.hold.set()
    await scene.touched()
    await asyncio.sleep(2 * NOW)
    assert "distrust" not in scene.desk.calls
    await scene.end()


async def test_deaf_it_looks_often_and_calls_the_first_when_a_seat_is_free() -> None:
    """No wake-up would be heard; the others sleep on."""
    scene = Scene(hearing=False)
    first, second = scene.stand(), scene.stand()
    assert scene.due_in() <= SILENT[1]
    await scene.touched()
    assert scene.due_in() <= SILENT[1]
    assert not await is_called(first)
    scene.desk.answer = Touch(standing=True, free=1, soonest=math.inf)
    await scene.touched(2)
    assert await is_called(first)
    assert not await is_called(second)
    await scene.end()


@pytest.mark.parametrize("passing", [True, False])
async def test_a_touch_that_fails_lets_the_waiters_find_out(*, passing: bool) -> None:
    """One of them if it may pass, so that one tells of it; all if it will not, so that all do."""
    scene = Scene()
    scene.desk.answer = (
        redis_errors.ConnectionError("cut") if passing else redis_errors.NoPermissionError("NOPERM")
    )
    first, second = scene.stand(), scene.stand()
    await scene.touched()
    assert scene.due_in() <= 0.1
    assert await is_called(first)
    assert await is_called(second) is not passing
    await scene.end()


async def test_the_last_to_go_ends_the_line_a_little_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who comes back at once need not subscribe again; without anybody there are no touches."""
    linger = 1.0
    monkeypatch.setattr(lines, "LINGER", linger)
    scene = Scene()
    scene.stand().close()
    await asyncio.sleep(NOW)
    assert "dismiss" not in scene.desk.calls
    place = scene.stand()
    await asyncio.sleep(linger + NOW)
    assert "dismiss" not in scene.desk.calls
    place.close()
    touches = list(scene.desk.touches)
    await wait_until(lambda: "dismiss" in scene.desk.calls)
    assert scene.line._timer is None
    assert scene.desk.touches == touches


async def test_it_ends_also_when_it_begins_to_listen_with_nobody_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A confirmation that comes late keeps no line alive."""
    monkeypatch.setattr(lines, "LINGER", NOW)
    scene = Scene()
    scene.stand().close()
    scene.line.listening()
    await wait_until(lambda: "dismiss" in scene.desk.calls)


async def test_to_leave_is_said_once_and_only_by_who_stood() -> None:
    """A place that never asked, was elected or has left says nothing to the server."""
    scene = Scene()
    place, elected = scene.stand(), scene.stand()
    unasked = ServerPlace(scene.line, 1, b"1:p:9")
    scene.line.add(unasked, LEASE)
    elected.close()
    for each in (place, place, elected, unasked):
        await each.leave(Budget(1, 1))
    assert scene.desk.left == [place.name]
    await scene.end()


async def test_without_time_to_leave_it_is_said_in_the_background() -> None:
    """Once, and nobody waits for it."""
    scene = Scene()
    place = scene.stand()
    for _ in range(2):
        await place.leave(Budget(0, 1))
    assert (scene.desk.left, scene.desk.strangers) == ([], [place.name])
    await scene.end()
