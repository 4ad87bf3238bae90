"""`incumbent demo` as a person would run it: real processes, a pipe, a pseudo-terminal, Ctrl-C."""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil  # type: ignore[import-untyped] # it has no types, and its stubs are no dependency
import pytest

from kit.fixtures import CHOSEN
from kit.leftovers import keys_without_ttl
from kit.pool import ServerPool
from kit.waiting import wait_until_blocking

# A demo takes 13 seconds, or twice as long where Python starts slowly because all cores are busy.
pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.timeout(120)]

# As a shell does it: the terminal becomes that of the new session, so that Ctrl-C works.
IN_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from incumbent.cli import main
main()
"""
ESCAPE = "\x1b"


class Run:
    """One demo, with a temporary folder of its own, by which all its processes are known."""

    def __init__(
        self, command: list[str], env: dict[str, str], *, terminal: int | None = None
    ) -> None:
        self.folder = tempfile.mkdtemp(prefix="demo-", dir="/tmp")  # short: for Unix sockets
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=subprocess.STDOUT if terminal is None else terminal,
            start_new_session=True,
            env={**os.environ, "TMPDIR": self.folder, **env},
        )

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def read_until(self, text: str) -> str:
        """What it prints, up to a line with `text` in it."""
        heard = ""
        for line in self.stdout:
            heard += line.decode()
            if text in heard:
                return heard
        raise AssertionError(f"{text!r} does not come:\n{heard}")

    def processes(self) -> list[psutil.Process]:
        """Every process that was started by this demo, directly or not, itself included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                # Valkey writes its title over its environment; the title names its socket.
                signs = [process.environ().get("TMPDIR", ""), *process.cmdline()]
                if any(self.folder in sign for sign in signs) and process.status() != "zombie":
                    found.append(process)
        return found

    def named(self, name: str) -> psutil.Process:
        """The process with `name` as one of its arguments."""
        (found,) = [each for each in self.processes() if name in each.cmdline()]
        return found

    def left(self) -> list[object]:
        """What there is of it: processes and files."""
        return [*self.processes(), *Path(self.folder).iterdir()]

    def close(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def running(*arguments: str, **env: str) -> Iterator[Run]:
    """A demo whose output goes into a pipe."""
    run = Run([sys.executable, "-m", "incumbent.cli", "demo", *arguments], env)
    try:
        yield run
    finally:
        run.close()


@contextlib.contextmanager
def running_in_terminal(*arguments: str, **env: str) -> Iterator[tuple[Run, int]]:
    """A demo in a pseudo-terminal of 80 by 24, and our end of that."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-c", IN_TERMINAL, "demo", *arguments]
    env = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **env}
    run = Run(command, env, terminal=its)
    os.close(its)
    try:
        yield run, ours
    finally:
        run.close()
        os.close(ours)


def read_terminal(ours: int, until: str | None = None) -> str:
    """What appears on it, up to `until` or to its end."""
    seen = b""
    while until is None or until.encode() not in seen:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    return seen.decode(errors="replace")  # ^C drops what the terminal has not shown yet


@dataclass(slots=True)
class Show:
    """A demo that was played to its end."""

    output: str = ""
    code: int = -1
    seconds: float = 0.0
    left: list[object] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lasting_keys: list[str] = field(default_factory=list)

    def end(self, run: Run) -> None:
        self.code = run.process.wait()
        self.seconds = time.monotonic() - run.started_at
        self.left = run.left()


@pytest.fixture(scope="module")
def shows(server_pool: ServerPool) -> dict[str, Show]:
    """Two whole demos, at the same time because they mostly wait: one on a server of the user's."""
    server = server_pool.get(CHOSEN[0])
    shows = {"pipe": Show(), "terminal": Show()}
    colours = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}  # which CI sets, and a pipe must not heed
    with (
        running(**colours) as piped,
        running_in_terminal("--url", server.url) as (in_terminal, ours),
    ):
        shows["terminal"].output = read_terminal(ours)
        shows["terminal"].end(in_terminal)
        shows["terminal"].keys = list(server.admin.scan_iter("incumbent-demo*"))
        shows["terminal"].lasting_keys = keys_without_ttl(server, ["incumbent"])
        shows["pipe"].output = piped.stdout.read().decode()
        shows["pipe"].end(piped)
    return shows


def test_in_a_pipe(shows: dict[str, Show]) -> None:
    """Plain lines that tell the whole story, and exit code 0."""
    show = shows["pipe"]
    assert show.code == 0, show.output
    assert show.seconds - _time(show.output, "is elected, the others stand by") < 60
    lines = show.output.splitlines()
    assert show.output.isascii()
    assert all(line.isprintable() and len(line) <= 80 for line in lines), show.output
    parts = [
        r"^incumbent demo on an embedded Valkey \(pid \d+\)$",
        r"three processes stand for election 'demo', lease 2 s$",
        r"node-\d: standing by$",
        r"node-\d: leading, fence \d{16}$",
        r"node-\d is elected, the others stand by$",
        r"SIGKILL for node-\d, the leader",
        r"the server: node-\d leads, fence \d{16}, lease \d\.\d\d s$",
        r"node-\d took over, \d\.\d\d s after the kill$",
        r"node-\d is started again, as a new process$",
        r"SIGSTOP for node-\d, the leader, for longer than its lease$",
        r"node-\d took over, \d\.\d\d s after the stop$",
        r"SIGCONT for node-\d after \d\.\d s",
        r"node-\d: action cancelled, lease lost: stalled$",
        r"node-\d noticed within \d+ ms, by itself \(stalled\); stands by again$",
        r"all leave; node-\d is the last, and gives its seat back$",
        r"the server: nobody leads$",
        r"^event +leader +fence +take-over +overlap$",
        r"^first election +node-\d +\d{16} +0 s$",
        r"^SIGKILL of node-\d +node-\d +\d{16} +\d\.\d\d s +0 s$",
        r"^SIGSTOP of node-\d +node-\d +\d{16} +\d\.\d\d s +0 s$",
        r"^OK: fences grow strictly, overlap 0 s, slowest take-over \d\.\d\d s \(limit 2\.50 s\)$",
    ]
    for part in parts:
        assert re.search(part, show.output, re.MULTILINE), f"{part!r} is not in:\n{show.output}"
    fences = [int(fence) for fence in re.findall(r"leading, fence (\d+)", show.output)]
    assert len(fences) == 3
    assert fences == sorted(set(fences))


def _time(story: str, what: str) -> float:
    """When a line was told, in seconds from the start: how long it took to come up."""
    (found,) = re.findall(rf"^ *([0-9.]+) s  .*{what}$", story, re.MULTILINE)
    return float(found)


def test_the_picture_in_the_docs(shows: dict[str, Show]) -> None:
    """docs/demo.txt, which the README shows, is what one sees; names, numbers and order vary."""
    picture = (Path(__file__).parents[2] / "docs/demo.txt").read_text()
    assert _shape(picture) == _shape(shows["pipe"].output)


def _shape(story: str) -> list[str]:
    return sorted(re.sub(r" *[0-9][0-9.]*", "#", line) for line in story.splitlines())


def test_in_a_terminal(shows: dict[str, Show]) -> None:
    """A live table with each process's own view, under the same story; the cursor comes back."""
    show = shows["terminal"]
    assert show.code == 0, show.output
    assert "incumbent demo on a server of yours" in show.output
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", show.output)
    assert text.count("its own view") > 50  # drawn again and again
    for view in (
        "starting",
        "standing by",
        "leading, fence ",
        "killed (SIGKILL)",
        "stopped (SIGSTOP), believes it leads",
    ):
        assert re.search(rf"│ node-\d +│ \d+ +│ {re.escape(view)}", text), view
    assert re.search(r"the server: node-\d leads, fence \d{16} .*1\.\d s", text)
    assert show.output.rindex(f"{ESCAPE}[?25h") > show.output.rindex(f"{ESCAPE}[?25l")
    ending = text[text.rindex("the server: nobody leads") :]
    assert "its own view" not in ending[ending.index("event") :]
    assert "OK: fences grow strictly, overlap 0 s" in ending


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_nothing_is_left_of_it(shows: dict[str, Show], kind: str) -> None:
    """No process, no file."""
    assert shows[kind].left == []


def test_a_users_server_is_left_clean(shows: dict[str, Show]) -> None:
    """All keys have the demo's prefix, and expire by themselves; nobody has the seat."""
    show = shows["terminal"]
    assert show.keys
    assert all(re.match(r"incumbent-demo-[0-9a-f]{8}:\{demo\}:", key) for key in show.keys)
    assert not any("seat" in key for key in show.keys)
    assert show.lasting_keys == []


def test_ctrl_c() -> None:
    """Everything ends at once, exit code 130, the terminal as it was, no traceback."""
    with running_in_terminal() as (run, ours):
        seen = read_terminal(ours, until="the others stand by")
        pressed_at = time.monotonic()
        os.write(ours, b"\x03")
        seen += read_terminal(ours)
        assert run.process.wait() == 130
        assert time.monotonic() - pressed_at < 15
        assert "Traceback" not in seen
        assert seen.rindex(f"{ESCAPE}[?25h") > seen.rindex(f"{ESCAPE}[?25l")
        assert run.left() == []


def test_sigterm() -> None:
    """As Ctrl-C, with the exit code of its signal."""
    with running() as run:
        run.read_until("three processes")
        run.process.terminate()
        assert run.process.wait() == 128 + signal.SIGTERM
        assert b"Traceback" not in run.stdout.read()
        assert run.left() == []


def test_a_closed_terminal_means_nothing_under_nohup() -> None:
    """SIGHUP that was ignored before still is: it goes on until another signal ends it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with running() as run:
            run.read_until("three processes")
            run.process.send_signal(signal.SIGHUP)
            run.read_until("the others stand by")
            run.process.terminate()
            assert run.process.wait() == 128 + signal.SIGTERM
            assert run.left() == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_sigkill_of_the_demo() -> None:
    """Its processes and its server end with it, one that is frozen as well, and its files go."""
    with running() as run:
        run.read_until("the others stand by")
        run.named("node-2").suspend()
        assert len(run.processes()) == 6
        run.process.kill()
        run.process.wait()
        with contextlib.suppress(AssertionError):  # then the next line says what is left
            wait_until_blocking(lambda: not run.left(), within=60, every=0.05)
        assert run.left() == []


def test_a_process_that_dies() -> None:
    """Nobody had planned that: the demo says so and ends with 1."""
    with running() as run:
        story = run.read_until("the others stand by")
        leader = re.findall(r"(node-\d) is elected", story)[0]
        run.named(leader).kill()
        rest = run.stdout.read().decode()
        assert run.process.wait() == 1
        assert f"FAILED: {leader} died" in rest
        assert run.left() == []


def test_a_server_that_dies() -> None:
    """One line and exit code 69."""
    with running() as run:
        run.read_until("the others stand by")
        (server,) = [each for each in run.processes() if "valkey" in each.name()]
        server.kill()
        rest = run.stdout.read().decode().splitlines()
        assert run.process.wait() == 69
        assert re.match("incumbent: the server at /.* does not answer as it should: ", rest[-1])
        assert "Traceback" not in rest
        assert run.left() == []


def test_a_reader_that_goes_away() -> None:
    """As in ``incumbent demo | head -2``: it ends, without a traceback."""
    with running() as run:
        run.read_until("three processes")
        run.stdout.close()
        assert run.process.wait() == 141
        run.process.stdout = None
        assert run.left() == []
