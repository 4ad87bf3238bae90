"""How commands end that cannot do what they should: exit codes, and the error behind one."""

from typing import Final

EX_UNAVAILABLE: Final = 69
"""What the command needs is not there. Source: sysexits.h, in FreeBSD's manual sysexits(3)."""

INTERRUPTED: Final = 130
"""After Ctrl-C, as shells have it: 128 + SIGINT."""


class UnavailableError(Exception):
    """A server, a package or the like is not there; the message is one line for the user."""
