"""A real server whose wall clock a test can set, ahead and back: keys expire by it.

By libfaketime, which is preloaded into the server's process. Its monotonic clock stays as it is.
"""

import importlib.util
import os
import time
from collections.abc import Mapping
from pathlib import Path

from kit.servers import Server
from kit.waiting import wait_until_blocking

DAY = 86_400.0


class ClockServer(Server):
    """A server whose wall clock is `ahead` seconds ahead of ours from its start on."""

    def __init__(self, kind: str = "valkey-9", *, ahead: float = 0.0) -> None:
        super().__init__(kind)
        self.ahead = ahead

    def set_clock(self, ahead: float) -> None:
        """Set it; returns when the server goes by it."""
        self.ahead = ahead
        self._write()
        wait_until_blocking(
            lambda: abs(self._apart() - ahead) < 1, within=20, what=f"{self!r} has its clock set"
        )

    def _apart(self) -> float:
        """How far its clock is ahead of that of this machine."""
        seconds, micros = self.cli("TIME")
        return int(seconds) + int(micros) / 1e6 - time.time()

    @property
    def _file(self) -> Path:
        return self._home / "clock"

    def _write(self) -> None:
        new = self._home / "clock.new"
        new.write_text(f"{self.ahead:+f}")
        new.replace(self._file)

    def _environment(self) -> Mapping[str, str]:
        library = faketime()
        if library is None:
            raise RuntimeError(WHY_NOT)
        self._write()
        return os.environ | {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


WHY_NOT = "libfaketime is not installed, or has no library for this machine"


def faketime() -> Path | None:
    """The library that is preloaded; None where there is none."""
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    return library if library.is_file() else None
