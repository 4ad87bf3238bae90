"""The holder's hand on a program: starts its supervisor, tells it the lease, hears how it ended."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from incumbent import clock
from incumbent.shield import outlast

SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
SLACK: Final = 1.0
"""Seconds that the supervisor has beyond the grace, before it counts as frozen itself: while the
lease lasts, and no longer."""
GONE_WITHIN: Final = 2.0
"""Seconds in which a group that was killed is gone, if anybody reaps it."""
POLL: Final = 0.01


class CannotRunError(Exception):
    """The program cannot be run, for the reason that an error number (`errno`) says."""

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


class Child:
    """A program in a process group of its own, from its start to its group's end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        until: float,
        grace: float,
        terminal: bool,
        stopped: Callable[[int], None] | None = None,
    ) -> None:
        """Start it, in a running event loop.

        `until` is the time (`incumbent.clock`) until when the lease may be relied on, `grace` the
        seconds from SIGTERM to SIGKILL. With `terminal` it gets the terminal that stdin is; without
        it cannot read from one. `stopped` is called with the signal if the program was stopped as
        from a terminal: it goes on with SIGCONT.
        """
        self.late: bool = False
        self.code: int | None = None
        self._grace = grace
        self._until = until
        self._ends_by: float | None = None
        self.group: int = 0
        """The number of its process group; 0 until it has been started."""
        self._stopped = stopped
        self._failed = 0
        self._gone = False
        self._pending = b""
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._frozen: asyncio.TimerHandle | None = None
        orders, self._orders = os.pipe()
        self._report, report = os.pipe()
        mode = "terminal" if terminal else "-"
        arguments = [str(orders), str(report), repr(grace), repr(until), mode, *command]
        try:
            for pipe in (orders, report):
                os.set_inheritable(pipe, True)
            self._supervisor = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                [sys.executable, "-I", "-S", SUPERVISOR, *arguments],
                stdin=subprocess.DEVNULL if not terminal and os.isatty(0) else None,
                env=env,
                close_fds=False,  # what the user's shell opened for the program is for the program
                process_group=0,
            )
        except BaseException:
            os.close(self._orders)
            os.close(self._report)
            raise
        finally:
            os.close(orders)
            os.close(report)
        os.set_blocking(self._orders, False)
        os.set_blocking(self._report, False)
        self._loop.add_reader(self._report, self._hear)

    def trust(self, until: float) -> None:
        """The lease may be relied on until then."""
        self._until = until
        self._tell(f"until {until!r}")
        self._look_after_supervisor()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        self._tell(f"signal {int(number)}")

    def end(self) -> None:
        """End the group: SIGTERM now, SIGKILL after the grace, or before the lease can end."""
        self._tell("end")
        if self._ends_by is None:
            self._ends_by = clock.now() + self._grace + SLACK
        self._look_after_supervisor()

    def _look_after_supervisor(self) -> None:
        """Once the group is to end: kill the supervisor when it must have done that, but has not.

        What it watched is ended from here then, which it would be too late for after the lease.
        """
        if self._ends_by is None:
            return
        if self._frozen is not None:
            self._frozen.cancel()
        left = min(self._ends_by, self._until) - clock.now()
        self._frozen = self._loop.call_later(max(0.0, left), self._supervisor.kill)

    async def wait(self) -> int:
        """Wait until the whole group is gone, whoever cancels the caller; the exit code.

        A cancellation ends the group, and is handed on when it is gone. A program that was ended by
        a signal has the negative number of that as its code.

        Raises:
            CannotRunError: it could not be started.
        """
        try:
            await asyncio.wait((self._over,))
        except asyncio.CancelledError:
            self.end()
            raise
        finally:
            await outlast(self._loop.create_task(self._see_it_gone()))
        if self._failed:
            raise CannotRunError(self._failed)
        return -signal.SIGKILL if self.code is None else self.code

    async def _see_it_gone(self) -> None:
        await outlast(self._over)
        if self._frozen is not None:
            self._frozen.cancel()
        os.close(self._orders)
        self._supervisor.wait()  # it has closed its pipe, so it has ended
        # Killed instead of done: then what it watched has to be ended from here.
        give_up_at = time.monotonic() + GONE_WITHIN
        while self.group and not self._gone:
            try:
                os.killpg(self.group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return
            if time.monotonic() >= give_up_at:
                return
            await asyncio.sleep(POLL)

    def _tell(self, order: str) -> None:
        # Full, or nobody reads: then it is frozen or gone, which is looked after elsewhere.
        with contextlib.suppress(OSError):
            os.write(self._orders, f"{order}\n".encode())

    def _hear(self) -> None:
        try:
            heard = os.read(self._report, 4096)
        except BlockingIOError:
            return
        *lines, self._pending = (self._pending + heard).split(b"\n")
        for line in lines:
            self._note(line.decode().split())
        if not heard:
            self._loop.remove_reader(self._report)
            os.close(self._report)
            self._over.set_result(None)

    def _note(self, words: list[str]) -> None:
        if words[0] == "started":
            self.group = int(words[1])
        elif words[0] == "stopped":
            if self._stopped is not None and self._ends_by is None:
                self._stopped(int(words[1]))
        elif words[0] == "failed":
            self._failed = int(words[1])
            self._gone = True
        elif words[0] == "exited":
            self.code = int(words[1])
        elif words[0] == "late":
            self.late = True
        else:
            self._gone = True
