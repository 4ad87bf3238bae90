"""What short elections write down: two small binary records for each, in a file per process.

A million of them is 80 MB and is read as a stream. Like `kit.records`, each is appended by one
write that outlives a SIGKILL, with times of the same clock.
"""

import heapq
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

_FORM = struct.Struct("<BBHxxxxQddd")  # kind seat election fence at valid_until asked
_CHUNK = _FORM.size * 4096

ELECTED, ENDED, LOST = 1, 2, 3


class Entry(NamedTuple):
    """One line of a ledger, `at` first: entries of one process are in order."""

    at: float
    process: str
    kind: int
    election: int
    seat: int
    fence: int
    valid_until: float  # of ELECTED; at most `at` when the term was over before it began
    asked: float  # of ELECTED: when the call for it began


class Ledger:
    """Appends to one process's ledger."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def elected(
        self, election: int, seat: int, fence: int, *, at: float, valid_until: float, asked: float
    ) -> None:
        """A term begins."""
        self._write(ELECTED, seat, election, fence, at, valid_until, asked)

    def ended(self, election: int, seat: int, fence: int, *, at: float, lost: bool) -> None:
        """It ends: the seat is about to be released, or was lost."""
        self._write(LOST if lost else ENDED, seat, election, fence, at, 0.0, 0.0)

    def _write(self, *fields: float) -> None:
        os.write(self._file, _FORM.pack(*fields))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_ledgers(folder: Path) -> Iterator[Entry]:
    """All entries of the ``*.ledger`` of a folder by time; a part of one at the end is left out."""
    return merged(_entries(path) for path in sorted(folder.glob("*.ledger")))


def merged(ledgers: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Several ledgers as one."""
    return heapq.merge(*ledgers)


def _entries(path: Path) -> Iterator[Entry]:
    process = path.stem
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            whole = len(chunk) - len(chunk) % _FORM.size
            for kind, seat, election, fence, at, valid, asked in _FORM.iter_unpack(chunk[:whole]):
                yield Entry(at, process, kind, election, seat, fence, valid, asked)
            if whole < len(chunk):
                return  # what comes next would be the rest of this one
