"""Run nox's default sessions in three lanes at once: a single one leaves the processor idle.

The two longest, which are the tests on the oldest Python and on the newest, have a lane each: they
wait more than they compute. All others are run in the third, one after another. What the first lane
says is shown while it runs, what the others said follows when all have ended. Coverage is judged
last.

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

JUDGED_LAST = {"coverage"}


def split(names: Sequence[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Tell the sessions of the three lanes, and what is judged last, each in the order given."""
    last = [name for name in names if name in JUDGED_LAST]
    oldest, *_, newest = (name for name in names if name.startswith("tests"))
    others = [name for name in names if name not in {oldest, newest, *last}]
    return [oldest], [newest], others, last


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

    def start(self, *, shown: bool) -> None:
        """Start them."""
        with self._said.open("wb") as said:
            output = None if shown else said
            self._nox = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)

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
    shown, newest, others, judged_last = (Lane(nox, sessions, folder) for sessions in names)
    hidden = " ".join([*newest.sessions, *others.sessions])
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
    for lane in (shown, newest, others):
        lane.start(shown=lane is shown)
        started.append(lane)
    bad = [name for each in started for name in each.wait()]
    for lane in (newest, others):
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
