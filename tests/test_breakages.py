"""The list of breakages fits the code, and scripts/breakages notices what no test catches."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/breakages.py"


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("breakages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BREAKAGES: list[Any] = _script().read()


def test_each_breakage_has_an_id_of_its_own() -> None:
    ids = [each.id for each in BREAKAGES]
    assert len(set(ids)) == len(ids) >= 60


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda each: each.id)
def test_what_a_breakage_changes_is_there_once_and_so_are_its_tests(breakage: Any) -> None:
    """Whoever changes the line, or moves the test, changes the list."""
    text = (ROOT / breakage.file).read_text("utf-8")
    assert breakage.applied_to(text) != text
    assert breakage.breaks
    assert breakage.tests
    for test in breakage.tests:
        path, _, name = test.partition("::")
        tests = (ROOT / path).read_text("utf-8")
        assert not name or re.search(rf"^(async )?def {name}\(", tests, re.MULTILINE), test


# -- the program, in a tree of its own --------------------------------------------------------

CODE = """
def double(number):
    return 2 * number  # twice
"""
TESTS = """
from it import double

def test_double():
    assert double(2) == 4

def test_red_anyway():
    assert double(2) == 5
"""
CAUGHT = ("caught", "2 * number", "3 * number", "test_double")
UNCAUGHT = ("uncaught", "2 * number", "number * 2", "test_double")
ABSENT = ("absent", "4 * number", "3 * number", "test_double")
TWICE = ("twice", "number", "nombre", "test_double")
NO_TEST = ("no-test", "2 * number", "3 * number", "test_nothing")
QUICK_START = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}
RED = ("red", "2 * number", "3 * number", "test_red_anyway")


def _run(
    tree: Path, entries: list[tuple[str, str, str, str]], *ids: str
) -> "subprocess.CompletedProcess[str]":
    for folder in ("scripts", "src", "tests"):
        (tree / folder).mkdir()
    shutil.copy(SCRIPT, tree / "scripts")
    (tree / "src/it.py").write_text(CODE, "utf-8")
    (tree / "tests/test_it.py").write_text(TESTS, "utf-8")
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", "utf-8")
    entry = """
        [[breakage]]
        id = "{}"
        file = "src/it.py"
        before = "{}"
        after = "{}"
        breaks = "a rule"
        tests = ["tests/test_it.py::{}"]
        """
    listed = "".join(textwrap.dedent(entry).format(*each) for each in entries)
    (tree / "tests/breakages.toml").write_text(listed, "utf-8")
    return subprocess.run(
        [sys.executable, "-I", str(tree / "scripts/breakages.py"), *ids],
        env={**os.environ, **QUICK_START},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


def test_what_no_test_notices_fails_the_run(tmp_path: Path) -> None:
    """Each is told in a line, and the tree stays as it was."""
    done = _run(tmp_path, [CAUGHT, UNCAUGHT, ABSENT, TWICE])
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("caught: caught by tests/test_it.py::test_double [a rule]")
    assert lines[1].startswith("uncaught: NOT CAUGHT [a rule]")
    assert lines[2].startswith("absent: UNUSABLE: absent: src/it.py has 0 times, and not once")
    assert lines[3].startswith("twice: UNUSABLE: twice: src/it.py has 2 times, and not once")
    assert lines[4:] == ["1 of 4 caught"]
    assert (tmp_path / "src/it.py").read_text("utf-8") == CODE


def test_those_that_are_named_are_tried(tmp_path: Path) -> None:
    """All of them are caught, so it ends well."""
    done = _run(tmp_path, [CAUGHT, UNCAUGHT], "caught")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1:] == ["1 of 1 caught"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [(RED, "test_red_anyway fails although nothing is broken"), (NO_TEST, "pytest ended with 4")],
    ids=["red-anyway", "no-such-test"],
)
def test_a_test_that_shows_nothing_is_no_proof(
    tmp_path: Path, entry: tuple[str, str, str, str], said: str
) -> None:
    """Nothing is tried then."""
    done = _run(tmp_path, [entry])
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
