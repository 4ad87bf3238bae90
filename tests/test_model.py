"""scripts/model finds that the protocol's model holds, and that a broken one does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts/model.py"
MISSING = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]
with_spin = pytest.mark.skipif(
    bool(MISSING), reason=f"the model's checker needs {' and '.join(MISSING)}: see docs/model.md"
)


def model(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run it as scripts/model does, with the Python of the tests."""
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


@with_spin
def test_the_wake_ups_suffice_and_one_left_out_is_missed() -> None:
    """All states without time and faults; and a release that wakes nobody, with what led there."""
    done = model("quiet", "no-wake-up", "--trace")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok      quiet: wake-ups alone, no time: holds (" in done.stdout
    assert "WAKE-UP breaks (" in done.stdout
    assert "told(releasing, over) -> end_round()" in done.stdout


@with_spin
def test_what_is_not_as_it_must_be_fails_the_run(tmp_path: Path) -> None:
    """The same check, of a model whose release wakes nobody: an error where none may be."""
    for part in ("scripts/model.py", "model/incumbent.pml"):
        copy = tmp_path / part
        copy.parent.mkdir()
        copy.write_text((SCRIPT.parent.parent / part).read_text("utf-8"), "utf-8")
    model_file = tmp_path / "model/incumbent.pml"
    text = model_file.read_text("utf-8")
    assert "#define RELEASE_WAKES 1" in text
    model_file.write_text(text.replace("#define RELEASE_WAKES 1", "#define RELEASE_WAKES 0"))
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "scripts/model.py"), "quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED  quiet" in done.stdout
    assert "expected: holds" in done.stdout
    assert "0 of 1 as they must be" in done.stdout


@with_spin
def test_what_takes_seconds_is_not_put_last(tmp_path: Path) -> None:
    """Last, it would get a hundredth of a busy processor, while somebody waits for it."""
    spin = tmp_path / "spin"
    spin.write_text("#!/bin/sh\nps -o nice= -p $$; exit 1\n")
    spin.chmod(0o700)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    nice = [int(model(name, PATH=path).stdout.split("\n")[2]) for name in ("quiet", "rounds")]
    assert nice[0] == os.nice(0) < nice[1]


def test_without_spin_it_says_where_to_get_it(tmp_path: Path) -> None:
    """One line that can be acted on, and no success."""
    done = model("quiet", PATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "needs spin and cc" in done.stderr
    assert "apt-get install" in done.stderr


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"]])
def test_nonsense_is_refused(arguments: list[str]) -> None:
    """What it does not know ends it, with a line that says so."""
    done = model(*arguments)
    assert done.returncode == 2
    assert "error:" in done.stderr


def test_every_check_says_what_it_is_about() -> None:
    """--list names what must hold and what must break, and needs no Spin."""
    lines = model("--list").stdout.splitlines()
    assert any(line.startswith("two-faults ") for line in lines)
    assert sum(line.endswith(("WAKE-UP", "EXCLUSION", "FENCE", "GIVEN UP")) for line in lines) > 10
