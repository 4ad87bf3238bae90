"""kit.wallclock: a failed test says that the machine's clock was set meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit import wallclock

TESTS = Path(__file__).parent
FAILING = """
from kit import wallclock

def test_it():
    before = wallclock.ahead()
    wallclock.ahead = lambda: before + {step}
    assert {passes}
"""


@pytest.mark.parametrize(
    ("step", "passes", "said"), [(1.7, False, True), (0.0, False, False), (1.7, True, False)]
)
def test_a_step_is_told(tmp_path: Path, step: float, passes: bool, said: bool) -> None:
    """With a failure, and only then; what failed stays failed."""
    (tmp_path / "test_it.py").write_text(FAILING.format(step=step, passes=passes))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kit.fixtures", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == (0 if passes else 1), run.stdout
    assert ("wall clock was set by +1.7" in run.stdout) is said


def test_it_is_read_where_nobody_was_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stands still between two readings believes in no step."""
    readings = [(0.4, 100.2), *[(0.001, 100.0)] * (wallclock.READINGS - 1)]
    monkeypatch.setattr(wallclock, "_reading", lambda number: readings[number])
    assert wallclock.ahead() == 100.0
