"""Run nox's default sessions in two lanes at once: a single one leaves the processor idle.

One lane has the tests, one session after another: they measure leases, and wait more than they
compute. The other has what only computes, which are lint, types and the package, with what the
tests leave of the processor. What the tests say is shown while they run, what the others said
follows at the end.

    lanes.py NOX OPTION...

Standard library only.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ASIDE = {"lint", "types", "package"}
LAST = ["nice", "-n", "19"]
"""Before a command: it gets what nobody else needs of the processor."""


def split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell the sessions that only compute and those that test, each in the order that they have."""
    aside = [name for name in names if name in ASIDE]
    return aside, [name for name in names if name not in aside]


def failed(report: Path) -> list[str]:
    """Name the sessions of a lane that failed, as nox's report has them."""
    try:
        sessions = json.loads(report.read_text(encoding="utf-8"))["sessions"]
    except FileNotFoundError:  # the lane was interrupted
        return ["interrupted"]
    bad = (each for each in sessions if each["result"] not in {"success", "skipped"})
    return [each["signatures"][-1] for each in bad]


def run(nox: Sequence[str], folder: Path) -> int:
    """Run them all; 0 if each lane ended well. `folder` is for files of this run."""
    listed = subprocess.run([*nox, "--list", "--json"], check=True, capture_output=True, text=True)
    lanes = split([each["session"] for each in json.loads(listed.stdout)])
    reports = [folder / "first.json", folder / "other.json"]

    def start(number: int, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        command = [*nox, "--report", str(reports[number]), "--session", *lanes[number]]
        if number == 0:
            command = [*LAST, *command]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    with (folder / "said").open("w+b") as said:
        print(f"beside what follows, and shown at the end: {' '.join(lanes[0])}", flush=True)
        running: list[subprocess.Popen[bytes]] = []

        def interrupt(*_: object) -> None:
            for each in running:
                each.send_signal(signal.SIGINT)  # by which nox ends what it runs

        signal.signal(signal.SIGTERM, interrupt)
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to them as well
        for number, output in ((0, said), (1, None)):
            running.append(start(number, output))
        codes = [each.wait() for each in running]
        said.seek(0)
        for line in said:
            sys.stdout.buffer.write(line)
    if any(codes):
        print(f"not successful: {' '.join(name for each in reports for name in failed(each))}")
    sys.stdout.flush()
    return int(any(codes))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="incumbent-lanes-") as temporary:
        sys.exit(run(sys.argv[1:], Path(temporary)))
