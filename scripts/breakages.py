"""Apply the breakages of tests/breakages.toml, one at a time, and show that tests go red.

Everything happens in copies of `src` and `tests`: the working tree is only read. The named tests
run on an unchanged copy first, because a test that is red anyway notices nothing. Standard library
only; pytest runs with the Python that runs this.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/breakages.toml"
COPIED = ("src", "tests", "pyproject.toml")
TEST_LIMIT = 20
"""Seconds for one test: a breakage may make it hang, which is red, too."""
RUN_LIMIT = 600
"""Seconds for all tests of a run."""
SERVER = "valkey-9"
"""The one server that the tests run on, unless the caller says which."""
RED = 1
"""How pytest ends when tests have failed; more than that means that it could not run them."""


class UnusableError(Exception):
    """A breakage, or its tests, cannot be used: nothing has been shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """One plausible mistake."""

    id: str
    file: str
    before: str
    """What the file has now, exactly once."""
    after: str
    breaks: str
    """The promise or the rule that is broken."""
    tests: tuple[str, ...]
    """Node ids, of which at least one must go red."""

    def applied_to(self, text: str) -> str:
        """The text of the file with the breakage in it."""
        count = text.count(self.before)
        if count != 1:
            raise UnusableError(
                f"{self.id}: {self.file} has {count} times, and not once: {self.before}"
            )
        return text.replace(self.before, self.after)


def read(path: Path = LIST) -> list[Breakage]:
    """The breakages of the list at `path`."""
    entries = tomllib.loads(path.read_text("utf-8"))["breakage"]
    return [Breakage(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tree. Compiled files are copied as well: they are valid there, too."""
    with tempfile.TemporaryDirectory(prefix="incumbent-breakages-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name)
            else:
                shutil.copy2(ROOT / name, copy / name)
        yield copy


def red(copy: Path, tests: Sequence[str]) -> str | None:
    """The first of `tests` that fails on `copy`; None when all pass."""
    options = ["-q", "-x", "-rfE", "--tb=no", "--no-header", f"--timeout={TEST_LIMIT}"]
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *plugins, *tests]
    variables = {"INCUMBENT_TEST_SERVER": SERVER, **os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        run = subprocess.run(
            command,
            cwd=copy,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=RUN_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise UnusableError(f"the tests take more than {RUN_LIMIT} s") from None
    if run.returncode == 0:
        return None
    # With 1 pytest has run the tests; what it could not collect or find is no test that went red.
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    if run.returncode != RED or found is None:
        raise UnusableError(f"pytest ended with {run.returncode}:\n{run.stdout[-2000:]}")
    return found[1]


def check_green(breakages: Sequence[Breakage]) -> None:
    """Raise unless all their tests pass on an unchanged copy."""
    tests = dict.fromkeys(test for each in breakages for test in each.tests)
    with copied() as copy:
        if failed := red(copy, list(tests)):
            raise UnusableError(f"{failed} fails although nothing is broken")


def catcher(breakage: Breakage) -> str | None:
    """The test that goes red; None when there is none."""
    with copied() as copy:
        file = copy / breakage.file
        file.write_text(breakage.applied_to(file.read_text("utf-8")), "utf-8")
        return red(copy, breakage.tests)


def show(breakage: Breakage) -> bool:
    """Try one, and say how it went. Returns whether it was caught."""
    began, caught = time.monotonic(), False
    try:
        test = catcher(breakage)
        caught, said = test is not None, f"caught by {test}" if test else "NOT CAUGHT"
    except (OSError, UnusableError) as error:
        said = f"UNUSABLE: {error}"
    seconds = time.monotonic() - began
    print(f"{breakage.id}: {said} [{breakage.breaks}] ({seconds:.1f} s)", flush=True)
    return caught


def main() -> int:
    """Try what the command line names."""
    known = {each.id: each for each in read()}
    parser = argparse.ArgumentParser(prog="scripts/breakages", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="breakages to try: all, if none")
    parser.add_argument("--list", action="store_true", help="say what there is, and end")
    asked = parser.parse_args()
    if unknown := [name for name in asked.ids if name not in known]:
        parser.error(f"no such breakage: {', '.join(unknown)} (--list names them)")
    chosen = [known[name] for name in asked.ids] or list(known.values())
    if asked.list:
        for each in chosen:
            print(f"{each.id}: {each.file}: {each.breaks}")
        return 0
    try:
        check_green(chosen)
    except UnusableError as error:
        print(error, file=sys.stderr)
        return 1
    caught = sum([show(each) for each in chosen])
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
