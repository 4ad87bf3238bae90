"""How commands end that cannot do what they should: exit codes, and the errors behind them.

Source of the numbers from 64 on: sysexits.h, in FreeBSD's manual sysexits(3); of 126 and above:
the shell's, https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html
"""

import re
from typing import Final

EX_USAGE: Final = 64
"""The user's mistake in an argument; click's own complaints are 2."""

EX_UNAVAILABLE: Final = 69
"""What the command needs is not there."""

EX_IO: Final = 74
"""The system refuses something: to write what should be shown, for instance."""

EX_LOST: Final = 75
"""The leadership was lost while the command ran: EX_TEMPFAIL, another time it may succeed."""

CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""The command that should be run cannot be, or is not there."""

SIGNALLED: Final = 128
"""Ended by a signal: this and the number of the signal."""

INTERRUPTED: Final = SIGNALLED + 2
"""After Ctrl-C."""

UNREAD: Final = SIGNALLED + 13
"""Nobody reads what is written any more: as a shell has it of who was ended by SIGPIPE."""


class UnavailableError(Exception):
    """A server, a package or the like is not there; the message is one line for the user."""


class UnreadError(Exception):
    """Nobody reads stdout any more."""


class MistakeError(Exception):
    """An argument cannot be used; the message is one line for the user."""


OPTIONS: Final = {
    "lease_time": "--lease",
    "wait_time": "--wait",
    "min_hold_time": "--min-hold",
    "max_hold_time": "--max-hold",
    "stop_grace": "--grace",
    "once_per": "--once-per",
    "retry_failed": "--retry-failed",
    "request_timeout": "--timeout",
    "leader_id": "--leader-id",
    "the key prefix": "--prefix",
}
"""What the library calls an option, and what the command line does."""


def in_options(message: str) -> str:
    """A message of the library, with the names that the command line's options have."""
    names = "|".join(OPTIONS)
    return re.sub(rf"\b(?:{names})\b", lambda found: OPTIONS[found.group()], message)


def mistake(error: ValueError) -> MistakeError:
    """What ends a command of which the library refuses an argument."""
    return MistakeError(in_options(str(error)))
