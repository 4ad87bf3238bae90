"""mishaps: what the user's code raises is told once, and ends where it is."""

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from incumbent import mishaps

OURS = logging.getLogger("incumbent")


class Away(logging.Handler):
    """A handler that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        raise self._error


@pytest.fixture
def away() -> Iterator[Away]:
    """One whose collector cannot be reached."""
    handler = Away(ConnectionError("the collector is away"))
    OURS.addHandler(handler)
    yield handler
    OURS.removeHandler(handler)


async def test_an_error_is_logged_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """With where it was raised, and its traceback; also one that is no `Exception`."""
    for error in (ValueError("mine"), asyncio.CancelledError(), GeneratorExit()):
        mishaps.contain(error, "a hook failed on %s", "it")
        record = caplog.records[-1]
        assert record.getMessage() == "a hook failed on it"
        assert record.exc_info is not None
        assert record.exc_info[1] is error


@pytest.mark.usefixtures("away")
async def test_a_handler_that_raises_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nowhere else to tell it; what the record was about stands there as well."""
    try:
        int("mine")
    except ValueError as error:
        mishaps.contain(error, "a hook failed")
    told = capsys.readouterr().err
    assert "a log record could not be written" in told
    assert "ConnectionError: the collector is away" in told
    assert "'mine'" in told


@pytest.mark.usefixtures("away")
def test_without_stderr_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a console."""
    monkeypatch.setattr(sys, "stderr", None)
    mishaps.log(logging.ERROR, "something")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("by", ["hook", "handler"])
def test_what_ends_the_program_ends_it(kind: type[BaseException], by: str) -> None:
    """In the next turn of the loop: the step in which it was raised is completed."""
    completed: list[str] = []

    async def step() -> None:
        if by == "hook":
            mishaps.contain(kind("mine"), "a hook failed")
        else:
            handler = Away(kind("mine"))
            OURS.addHandler(handler)
            mishaps.log(logging.ERROR, "something")
            OURS.removeHandler(handler)
        completed.append("step")
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            completed.append("clean-up")

    with pytest.raises(kind, match="mine"):
        asyncio.run(step())
    assert completed == ["step", "clean-up"]


def test_without_a_loop_it_is_forgotten() -> None:
    """As at the interpreter's exit."""
    mishaps.contain(SystemExit(), "a hook failed")


def test_in_another_thread_it_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """No more than it would end the program from there: it is logged."""

    async def step() -> str:
        mishaps.contain(SystemExit("mine"), "a hook failed")
        await asyncio.sleep(0.01)
        return "went on"

    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(asyncio.run(step())))
    thread.start()
    thread.join()
    assert said == ["went on"]
    assert [each.getMessage() for each in caplog.records] == ["a hook failed"]


def test_an_error_that_takes_no_note_is_left_alone() -> None:
    """A frozen one, for example."""

    class Frozen(Exception):  # noqa: N818 - a name of the user's
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError("frozen")

    error = Frozen()
    mishaps.note(error, "a note")
    assert not hasattr(error, "__notes__")
    other = ValueError()
    mishaps.note(other, "a note")
    assert other.__notes__ == ["a note"]
