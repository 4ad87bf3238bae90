"""What a contender writes down while it lives, in a file of its own that outlives a SIGKILL.

One JSON object per line, appended by one write each. Times are seconds of the clock that all
processes of this machine share (and that counts suspend), so records of all can be laid side by
side. The kit reads that clock itself: a library with a wrong clock must not vouch for itself.
"""

import heapq
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self, get_args

Kind = Literal[
    "standing",  # from now on a candidate
    "elected",
    "extended",
    "work",
    "stopped",  # the action ended, still held: the seat is about to be released
    "lost",  # the action ended because the lease did
    "skipped",  # not elected within the wait
    "away",  # no candidate any more
    "ran",  # a tick of a schedule
    "leak",  # something was left behind at an orderly end; `detail` says what
    # What the crew did to the process, written by the crew (a process whose loop is stalled or
    # whose clock jumps writes "paused" and "resumed" itself):
    "killed",
    "paused",
    "resumed",
    "cut",
    "restored",
    "fault",  # one begins; `detail` is its name; `process` is empty when the server is the victim
    "over",  # it ends
    "claimed",  # the server says that this process holds the seat; seen from outside
]
KINDS: tuple[str, ...] = get_args(Kind)

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds of the clock of all records."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line. `process` is unique to one life: a restarted contender has a new name."""

    process: str
    kind: Kind
    at: float
    election: str = ""
    seat: int = 0
    fence: int = 0
    valid_until: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")

    def line(self) -> bytes:
        """As it stands in the file."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


class Recorder:
    """Appends records to a file; each is on its way to the disk before `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, record: Record) -> None:
        """Append one record in one piece."""
        os.write(self._file, record.line())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RecordFiles:
    """All records of the ``*.jsonl`` of a folder by time, read anew at each iteration.

    Nothing is kept: a long run's records need no memory. Each file must be in order itself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[Record]:
        files = (_records(path) for path in sorted(self._folder.glob("*.jsonl")))
        return heapq.merge(*files, key=lambda record: record.at)


def read_records(paths: Path | Iterable[Path]) -> list[Record]:
    """All records of these files (or of the ``*.jsonl`` of a folder), by time.

    A last line without its end is what a kill left of a write, or is being written, and is not
    counted. (A write is one piece to other writers, but not to who reads beside it.)
    """
    files = sorted(paths.glob("*.jsonl")) if isinstance(paths, Path) else paths
    found = [record for path in files for record in _records(path)]
    return sorted(found, key=lambda record: record.at)


def _records(path: Path) -> Iterator[Record]:
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return  # a look for more could find the rest of this line, and take it for one
            yield Record(**json.loads(line))
