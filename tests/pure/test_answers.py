"""incumbent.stores.redis.answers: a confirmation that does not come is missed, and no other."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from incumbent.stores.redis.answers import A_LITTLE_LONGER, WITHIN, Answers


class Loop:
    """Timers, and a clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, then: Callable[[], None]) -> Any:
        """As the event loop's."""
        timer = (self.now + seconds, then)
        self._timers.append(timer)

        def cancel() -> None:
            self._timers = [each for each in self._timers if each is not timer]

        return SimpleNamespace(cancel=cancel)

    def pass_(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        while due := sorted(self._timers, key=lambda timer: timer[0]):
            at, then = due[0]
            if at > end:
                break
            self._timers = due[1:]
            self.now = at
            then()
        self.now = end

    def is_idle(self) -> bool:
        """Whether nothing is to come."""
        return not self._timers


class Scene:
    """Answers, their clock, and when they were found to be overdue."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.overdue = list[float]()
        self.answers = Answers(lambda: self.overdue.append(self.loop.now))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """One whose clock is the event loop's."""
    made = Scene()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made.loop)
    return made


def test_one_that_does_not_come_is_overdue(scene: Scene) -> None:
    """Told once, when its time and a little more have passed."""
    scene.answers.expect([b"a"])
    scene.loop.pass_(WITHIN + A_LITTLE_LONGER - 0.01)
    assert scene.overdue == []
    scene.loop.pass_(60)
    assert scene.overdue == [WITHIN + A_LITTLE_LONGER]
    assert scene.loop.is_idle()


def test_what_is_asked_for_after_that_is_waited_for_anew(scene: Scene) -> None:
    """Nobody forgot the first one, which has no session to end any more."""
    scene.answers.expect([b"a"])
    scene.loop.pass_(WITHIN + A_LITTLE_LONGER)
    scene.answers.expect([b"b"])
    scene.loop.pass_(60)
    assert len(scene.overdue) == 2


def test_one_that_comes_in_time_is_not(scene: Scene) -> None:
    """And nothing is waited for any more."""
    scene.answers.expect([b"a"])
    scene.loop.pass_(WITHIN - 0.01)
    assert scene.answers.came(b"a")
    assert scene.loop.is_idle()


def test_one_that_came_while_the_loop_stood_still_is_not(scene: Scene) -> None:
    """The timer rings before the answer is read: hence the little more."""
    scene.answers.expect([b"a"])
    scene.loop.pass_(WITHIN + A_LITTLE_LONGER / 2)
    assert scene.answers.came(b"a")
    scene.loop.pass_(60)
    assert scene.overdue == []


def test_who_subscribes_again_and_again_does_not_put_it_off(scene: Scene) -> None:
    """Nothing was heard since the first one."""
    for number in range(10):
        scene.answers.expect([b"%d" % number])
        scene.loop.pass_(WITHIN / 4)
    assert scene.overdue[0] == WITHIN + A_LITTLE_LONGER


def test_whatever_is_heard_gives_the_others_their_time_anew(scene: Scene) -> None:
    """The server answers, one after the other; the last one is missed all the same."""
    scene.answers.expect([b"a", b"b", b"c"])
    for channel in (b"a", b"b"):
        scene.loop.pass_(WITHIN - 0.01)
        assert scene.answers.came(channel)
    assert scene.overdue == []
    began = scene.loop.now
    scene.loop.pass_(60)
    assert scene.overdue == [pytest.approx(began + WITHIN + A_LITTLE_LONGER)]


def test_a_channel_that_was_left_and_asked_for_anew_is_confirmed_twice(scene: Scene) -> None:
    """The first one says nothing about the second subscription."""
    for _ in range(2):
        scene.answers.expect([b"a"])
    assert not scene.answers.came(b"a")
    assert not scene.loop.is_idle()
    assert scene.answers.came(b"a")
    assert scene.loop.is_idle()
    scene.answers.expect([b"a"])
    assert scene.answers.came(b"a")


def test_one_that_nobody_asked_for_confirms_what_is_there(scene: Scene) -> None:
    """After a loss all is forgotten; a stray answer is then no debt for later."""
    assert scene.answers.came(b"a")
    assert scene.loop.is_idle()
    scene.answers.expect([b"a"])
    assert not scene.loop.is_idle()
    scene.loop.pass_(60)
    assert len(scene.overdue) == 1


def test_what_is_forgotten_is_not_missed(scene: Scene) -> None:
    """The connection is gone, and with it all that was asked for."""
    scene.answers.expect([b"a", b"a", b"b"])
    scene.answers.forget()
    assert scene.loop.is_idle()
    scene.answers.expect([b"a"])
    assert scene.answers.came(b"a")
    assert scene.loop.is_idle()
