"""What a leader does here: run the program, and no longer than it leads.

The action of an elector, and a hook of it. It knows nothing of signals to this process.
"""

import contextlib
import os
import signal
from collections.abc import Sequence

from incumbent import Lease, clock, current_lease
from incumbent.cli.run.child import CannotRunError, Child
from incumbent.events import Event, TermRenewed


class TooLateError(Exception):
    """The program was ended because this process had not told in time that it still leads."""


class Duty:
    """Runs `command` under each lease that is won."""

    def __init__(
        self, election: str, command: Sequence[str], *, grace: float, terminal: bool
    ) -> None:
        """For `election`, as the user calls it.

        `grace` are the seconds from SIGTERM to SIGKILL; with `terminal` it gets the terminal.
        """
        self._election = election
        self._command = command
        self._grace = grace
        self._terminal = terminal
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        """Whether the program, or what it left behind, runs now."""
        return self._child is not None

    def signal(self, number: int) -> None:
        """Hand a signal on to the program."""
        if self._child is not None:
            self._child.signal(number)

    def told(self, event: Event) -> None:
        """Hand each renewal on to the supervisor."""
        if isinstance(event, TermRenewed) and self._child is not None:
            self._child.trust(clock.now() + event.remaining)

    async def perform(self) -> int:
        """Run the program to its end. Returns its code, negative when a signal ended it.

        Raises:
            CannotRunError: it could not be started.
            TooLateError: the lease was held to the end, but the program had to be ended before.
        """
        lease = current_lease()
        if lease is None:
            raise RuntimeError("perform() is for leaders")
        child = self._child = self._start(lease)
        try:
            code = await child.wait()
        finally:
            self._child = None
            if self._terminal:
                _take_terminal_back()
        if child.late:
            raise TooLateError
        return code

    def _start(self, lease: Lease) -> Child:
        try:
            return Child(
                self._command,
                env=os.environ | environment(self._election, lease),
                until=clock.now() + lease.remaining,
                grace=self._grace,
                terminal=self._terminal,
            )
        except OSError as error:  # no more processes or descriptors, too long a command line
            raise CannotRunError(error.errno or 0) from error


def environment(election: str, lease: Lease) -> dict[str, str]:
    """What the program is told of its lease."""
    return {
        "INCUMBENT_ELECTION": election,
        "INCUMBENT_FENCE": str(lease.fence),
        "INCUMBENT_SEAT": str(lease.seat),
        "INCUMBENT_LEADER_ID": lease.leader_id,
    }


def has_terminal() -> bool:
    """Whether this process is in the foreground of a terminal, and in no pipe.

    Others in a pipe are of our process group, and would be in the background without us.
    """
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _take_terminal_back() -> None:
    # Who is not in the foreground is stopped for this, unless it does not care.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, os.getpgrp())
    finally:
        signal.signal(signal.SIGTTOU, before)
