"""Every example runs as it stands, and shows what it says it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import incumbent
from kit.servers import Server

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    """What an example prints; it must end well, and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env=os.environ | {"PYTHONPATH": str(Path(incumbent.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_each_example_has_a_test() -> None:
    """None is forgotten: its file is named in one of the modules that run them."""
    examples = {each.name for each in EXAMPLES.iterdir() if each.is_file()}
    assert examples >= {"cron.sh", "fastapi_app.py", "threads.py"}
    here = Path(__file__)
    tests = here.read_text() + (here.parents[1] / "docs/test_examples.py").read_text()
    modules = {f"{Path(name).stem}:app": name for name in examples}
    named = {name for app, name in modules.items() if name in tests or app in tests}
    assert named == examples


def test_the_strategic_election_on_a_server_of_its_own() -> None:
    """The readiest runs the task; when it is busy, the next; the table says why not the others."""
    first, second, end = run("strategic_election.py").split("=> ")
    assert re.findall(r"^  (\w+) +\d+\.\d", first, re.MULTILINE)[0] == "birch"
    assert re.search(r"^  delta +[\d.]+  scores [\d.]+, 'birch' scores 9\d", first, re.MULTILINE)
    assert second.startswith("birch has cleaned up")
    assert re.findall(r"^  (\w+) +\d+\.\d", second, re.MULTILINE)[::4] == ["ember", "birch"]
    assert end == "ember has cleaned up\n\n"


def test_the_strategic_election_on_a_server_of_ones_own(valkey: Server) -> None:
    """The same where an address is given, and nothing is left behind that never ends."""
    assert run("strategic_election.py", valkey.url).endswith("=> ember has cleaned up\n\n")
