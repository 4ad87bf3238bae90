"""scripts/lanes.py runs all sessions, three at a time, and fails when one of them does."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.waiting import wait_until_blocking

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
SCRIPT = SCRIPTS / "lanes.py"
NAMES = ["lint", "tests-3.11", "tests-3.12", "tests-3.13", "coverage", "types"]
NOX = f"""
import json, pathlib, sys, time

here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
assert arguments[:2] == ["--noxfile", "its"]
if arguments[2:] == ["--list", "--json"]:
    print(json.dumps([{{"session": name, "name": name[:5]}} for name in {NAMES}]))
    sys.exit()
option, report, session, *names = arguments[2:]
assert (option, session) == ("--report", "--session")
results = []
try:
    for name in names:
        print("begin", name, flush=True)
        (here / ("began-" + name)).touch()
        while not (here / ("end-" + name)).exists():
            time.sleep(0.01)
        result = "failed" if (here / ("fail-" + name)).exists() else "success"
        print("end", name, result, file=sys.stderr, flush=True)
        results.append({{"name": name[:5], "signatures": [name], "result": result}})
except KeyboardInterrupt:
    sys.exit("told to end")
pathlib.Path(report).write_text(json.dumps({{"sessions": results}}))
sys.exit(any(each["result"] == "failed" for each in results))
"""
"""Its sessions last until a file tells them to end."""


class Lanes:
    """A run with a nox that does what files say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        nox = folder / "nox.py"
        nox.write_text(NOX)
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(SCRIPT), sys.executable, str(nox), "--noxfile", "its"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fails(self, name: str) -> None:
        """Have a session fail."""
        (self._folder / f"fail-{name}").touch()

    def end(self, *names: str) -> None:
        """Let sessions end."""
        for name in names:
            (self._folder / f"end-{name}").touch()

    def began(self, name: str) -> None:
        """Wait until a session has begun."""
        wait_until_blocking((self._folder / f"began-{name}").exists, within=60, what=name)

    def ended(self) -> list[str]:
        """Wait for the end; what was said."""
        out, _ = self.process.communicate(timeout=60)
        return out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        ([], ["/env/bin/python", "-I", str(SCRIPT)], []),
        (["lint"], [], ["--session", "lint"]),
        (["--list"], [], ["--list"]),
    ],
)
def test_what_scripts_test_becomes(
    arguments: list[str], before: list[str], after: list[str]
) -> None:
    """Lanes for all of it; what is named is run one after another."""
    told = "import sys; sys.path.insert(0, sys.argv[1]); import bootstrap, pathlib as p;"
    told += " print(*bootstrap.command('test', p.Path('/env'), sys.argv[2:]), sep='\\n')"
    said = subprocess.run(
        [sys.executable, "-c", told, str(SCRIPTS), *arguments],
        env={},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    nox = ["/env/bin/nox", "--noxfile", f"{SCRIPTS.parent}/noxfile.py", "--envdir", "/env/nox"]
    assert said == [*before, *nox, *after]


@pytest.fixture
def lanes(tmp_path: Path) -> "Lanes":
    """Three lanes that have begun with their first sessions."""
    lanes = Lanes(tmp_path)
    for name in ("lint", "tests-3.11", "tests-3.13"):
        lanes.began(name)
    return lanes


def test_every_session_is_run_and_told_in_order(lanes: Lanes, tmp_path: Path) -> None:
    """The longest beside all others; what is said is not mixed; coverage is judged last."""
    lanes.end("tests-3.11", "lint", "tests-3.13")
    lanes.began("tests-3.12")
    lanes.end("tests-3.12")
    lanes.began("types")
    assert not (tmp_path / "began-coverage").exists(), "there are sessions still to come"
    lanes.end("types", "coverage")
    said = lanes.ended()
    assert lanes.process.returncode == 0
    assert said[0] == "beside what follows, and shown at the end: tests-3.13 lint tests-3.12 types"
    expected = ["tests-3.11", "tests-3.13", "lint", "tests-3.12", "types", "coverage"]
    assert [re.sub("^end (.*) success$", r"\1", line) for line in said[2::2]] == expected
    assert [line.removeprefix("begin ") for line in said[1::2]] == expected


@pytest.mark.parametrize("name", NAMES)
def test_one_that_fails_fails_the_run(lanes: Lanes, name: str) -> None:
    """All others are run as well, and its name stands at the end."""
    lanes.fails(name)
    lanes.end(*NAMES)
    said = lanes.ended()
    assert lanes.process.returncode == 1
    assert said[-1] == f"not successful: {name}"
    assert len([line for line in said if line.startswith("end ")]) == len(NAMES)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(lanes: Lanes, number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C comes from the terminal to all of them, SIGTERM to the script alone."""
    if number is signal.SIGINT:
        os.killpg(lanes.process.pid, number)
    else:
        lanes.process.send_signal(number)
    said = lanes.ended()
    assert lanes.process.returncode == 1
    assert said.count("told to end") == 3, "as by Ctrl-C, so that nox ends what it runs"
    assert said[-1] == "not successful: interrupted interrupted interrupted"
    assert not (tmp_path / "began-coverage").exists(), "there is nothing to judge"
