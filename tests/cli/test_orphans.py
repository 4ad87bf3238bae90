"""Whatever is done to the command, at whatever moment, nothing of its program is left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.stage import SOURCE
from kit import orphans


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Some rounds, from a process that has no threads and can be forked."""
    path = os.pathsep.join([SOURCE, str(Path(orphans.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-m", "kit.orphans", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_some_rounds_of_each_fault() -> None:
    """Hundreds of them are in docs/reliability.md."""
    said = play("--rounds", "2", "--jobs", "4")
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    assert said.stdout.count("2 rounds, 0 bad") == len(orphans.FAULTS)


@pytest.mark.skipif(sys.platform != "linux", reason="which child dies with its parent")
def test_orphans_are_found() -> None:
    """When command and supervisor are killed at once, nobody is left to end all of the group."""
    said = play("killed-both", "--rounds", "1")
    assert (said.returncode, said.stderr) == (1, "")
    assert "ended 9, left [" in said.stdout
