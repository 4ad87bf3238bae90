"""Run nox's default sessions in three lanes at once: a single one leaves the processor idle.

One lane has the tests on the oldest Python, the longest session; another those on the other Pythons
and clients. They wait more than they compute. The third has what only computes, which are lint,
types and the package, and makes way for the tests. What the first lane says is shown while it runs,
what the others said follows when all have ended. Coverage is judged last.

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

ASIDE = {"lint", "types", "package"}
JUDGED_LAST = {"coverage"}
YIELDING = ["nice", "-n", "5"]
"""Before a command: it gets a third of what others get, that it ends before them all the same."""


def split(names: Sequence[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Tell the sessions of the three lanes, and what is judged last, each in the order given."""
    aside = [name for name in names if name in ASIDE]
    last = [name for name in names if name in JUDGED_LAST]
    oldest, *others = [name for name in names if name not in {*aside, *last}]
    return [oldest], others, aside, last


def failed(report: Path) -> list[str]:
    """Name the sessions of a lane that failed, as nox's report has them."""
    try:
        sessions = json.loads(report.read_text(encoding="utf-8"))["sessions"]
    except FileNotFoundError:  # the lane was interrupted
        return ["interrupted"]
    bad = (each for each in sessions if each["result"] not in {"success", "skipped"})
    return [each["signatures"][-1] for each in bad]


class Lane:
    """Sessions that are run one after another, by a nox of their own."""

    def __init__(self, nox: Sequence[str], sessions: Sequence[str], folder: Path) -> None:
        self.sessions = sessions
        self._report = folder / f"{sessions[0]}.json"
        self._said = folder / f"{sessions[0]}.txt"
        self._command = [*nox, "--report", str(self._report), "--session", *sessions]

    def start(self, before: Sequence[str] = (), *, shown: bool) -> None:
        """Start them; `before` stands before the command."""
        with self._said.open("wb") as said:
            output = None if shown else said
            command = [*before, *self._command]
            self._nox = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def interrupt(self) -> None:
        """Send what nox ends its session by."""
        self._nox.send_signal(signal.SIGINT)

    def wait(self) -> list[str]:
        """Wait for the end; name the sessions that failed."""
        return failed(self._report) if self._nox.wait() else []

    def said(self) -> bytes:
        """What was not shown."""
        return self._said.read_bytes()


def run(nox: Sequence[str], folder: Path) -> int:
    """Run them all; 0 if each ended well. `folder` is for files of this run."""
    listed = subprocess.run([*nox, "--list", "--json"], check=True, capture_output=True, text=True)
    names = split([each["session"] for each in json.loads(listed.stdout)])
    shown, tests, aside, judged_last = (Lane(nox, sessions, folder) for sessions in names)
    hidden = " ".join([*tests.sessions, *aside.sessions])
    print(f"beside what follows, and shown at the end: {hidden}", flush=True)
    started: list[Lane] = []
    signals: list[int] = []

    def interrupt(number: int, _: object) -> None:
        signals.append(number)
        if number == signal.SIGTERM:  # the other comes from a terminal, which sends it to all
            for each in started:
                each.interrupt()

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    for lane in (shown, tests, aside):
        lane.start(YIELDING if lane is aside else (), shown=lane is shown)
        started.append(lane)
    bad = [name for each in started for name in each.wait()]
    for lane in (tests, aside):
        sys.stdout.buffer.write(lane.said())
    sys.stdout.flush()
    if not signals:
        judged_last.start(shown=True)
        started[:] = [judged_last]
        bad += judged_last.wait()
    if bad:
        print(f"not successful: {' '.join(bad)}", flush=True)
    return int(bool(bad or signals))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="incumbent-lanes-") as temporary:
        sys.exit(run(sys.argv[1:], Path(temporary)))
