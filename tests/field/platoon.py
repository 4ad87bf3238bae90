"""Processes with waiters in one line, for the tests of its order; see `standing.py`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import incumbent
from kit import warden
from kit.servers import Server
from kit.stops import freeze
from kit.waiting import wait_until
from promises.scene import in_line

STANDING = Path(__file__).with_name("standing.py")
START_WITHIN = 20.0


class Platoon:
    """Five processes, and who stands in line in which; use as a context manager."""

    def __init__(self, server: Server, *, lease_time: float = 30.0, size: int = 5) -> None:
        self.server = server
        self.names = "abcdefgh"[:size]
        self.stood = 0
        self._lease_time = lease_time
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        places = [Path(__file__).parents[1], Path(incumbent.__file__).parents[1]]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        for name in self.names:
            command = [sys.executable, str(STANDING), self.server.url, name, str(self._lease_time)]
            self._children[name] = warden.start_child(command, env=env)
        return self

    def __exit__(self, *_: object) -> None:
        for name in tuple(self._children):
            self.kill(name)

    async def stand(self, name: str) -> int:
        """One more waiter of that process stands in line; its number, which is its rank."""
        number, before = self.stood, len(in_line(self.server, "one"))
        self.stood += 1
        self.server.cli("RPUSH", f"orders:{name}", number)
        await wait_until(
            lambda: len(in_line(self.server, "one")) == before + 1,
            within=START_WITHIN,
            what=f"{name} stands in line",
        )
        return number

    def freeze(self, name: str) -> None:
        """SIGSTOP: its sockets take what comes, and it does nothing."""
        freeze(self._children[name].pid)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        child = self._children.pop(name)
        child.kill()
        child.wait()
        warden.reaped(child)

    def elected(self) -> list[int]:
        """The numbers of those who were elected, in this order."""
        return [int(number) for number in self.server.cli("LRANGE", "elected", 0, -1)]

    async def has_elected(self, numbers: list[int], within: float) -> None:
        """Wait until exactly these were elected, in this order."""
        await wait_until(lambda: len(self.elected()) >= len(numbers), within=within)
        assert self.elected() == numbers
