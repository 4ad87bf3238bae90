"""What a leader does here: run the program, and no longer than it leads.

The action of an elector, and a hook of it. It knows nothing of signals to this process.
"""

import os
import signal
from collections.abc import Sequence

from incumbent import Lease, clock, current_lease
from incumbent.cli.run.child import CannotRunError, Child
from incumbent.cli.run.signals import suspend
from incumbent.cli.run.terminal import Terminal, in_foreground
from incumbent.events import Event, TermRenewed


class TooLateError(Exception):
    """The program was ended because this process had not told in time that it still leads."""


class Duty:
    """Runs `command` under each lease that is won."""

    def __init__(
        self,
        election: str,
        command: Sequence[str],
        *,
        grace: float,
        terminal: Terminal | None = None,
    ) -> None:
        """For `election`, as the user calls it.

        `grace` are the seconds from SIGTERM to SIGKILL; the program gets the `terminal`.
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
        ended_by_itself = False
        try:
            code = await child.wait()
            ended_by_itself = code >= 0 and not child.late
        finally:
            self._child = None
            if self._terminal is not None:
                # As shells do: a program that ends by itself may leave other modes, as stty does.
                self._terminal.take_back(restore=not ended_by_itself)
        if child.late:
            raise TooLateError
        return code

    def _start(self, lease: Lease) -> Child:
        try:
            child = Child(
                self._command,
                env=os.environ | environment(self._election, lease),
                until=clock.now() + lease.remaining,
                grace=self._grace,
                terminal=self._terminal is not None,
                stopped=self._suspend,
            )
        except OSError as error:  # no more processes or descriptors, too long a command line
            raise CannotRunError(error.errno or 0) from error
        if self._terminal is not None:
            self._terminal.lent()
        return child

    def _suspend(self, number: int) -> None:
        """The program was stopped by signal `number`: be stopped as well, and go on together.

        In the background a program is stopped when it asks for the terminal. It goes on when the
        shell has put this process into the foreground.
        """
        child, terminal = self._child, self._terminal
        if child is None or (terminal is None and number != signal.SIGTSTP):
            return
        if number == signal.SIGTSTP or not in_foreground():
            if terminal is not None:
                terminal.suspend()
            # Where no shell could let us go on, a program that was stopped by Ctrl-Z goes on.
            if not suspend(number) and number != signal.SIGTSTP:
                return
        if terminal is not None:
            terminal.lend(child.group)
        child.signal(signal.SIGCONT)


def environment(election: str, lease: Lease) -> dict[str, str]:
    """What the program is told of its lease."""
    return {
        "INCUMBENT_ELECTION": election,
        "INCUMBENT_FENCE": str(lease.fence),
        "INCUMBENT_SEAT": str(lease.seat),
        "INCUMBENT_LEADER_ID": lease.leader_id,
    }
