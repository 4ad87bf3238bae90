"""scripts/bench still runs. How fast anything is, no test says: the machine has other work too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it as scripts/bench does, with the Python of the tests."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


def test_every_part_gives_its_figures_as_json() -> None:
    """Tiny counts: each figure is there, positive, and says what is asked of it."""
    done = bench("--smoke", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {"command", "date", "machine", "python", "packages", "server"} <= said.keys()
    asked = [figure for figure in said["figures"] if figure["met"] is not None]
    assert len(asked) == 13
    for figure in said["figures"]:
        number = figure["value"]
        assert number > 0 or "memory" in figure["what"] or "CPU" in figure["what"], figure


def test_one_part_as_a_table() -> None:
    """A part by name; without --check no figure can fail the run."""
    done = bench("--smoke", "lone")
    assert done.returncode == 0, done.stderr
    assert "after another" in done.stdout
    assert "at once" not in done.stdout


def test_check_fails_when_a_figure_is_short() -> None:
    """A crowd of twenty cannot show four times the rate of Lock."""
    done = bench("--smoke", "--check", "crowd")
    assert done.returncode == (1 if "  short\n" in done.stdout + "\n" else 0), done.stderr


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["--quick", "--smoke"]])
def test_nonsense_is_refused(arguments: list[str]) -> None:
    """What it does not know ends it, with a line that says so."""
    done = bench(*arguments)
    assert done.returncode == 2
    assert "error:" in done.stderr
