"""Who a process is in elections: the default leader id.

A process that was forked gets an id of its own, also from an elector made before the fork.
"""

import os
import socket

from incumbent import process


class Identity:
    """A leader id: the given one, or ``host:pid:hex``, made anew in a forked child."""

    __slots__ = ("_given", "_made", "_pid")

    def __init__(self, given: str | None) -> None:
        self._given = given
        self._made = ""
        self._pid = -1

    @property
    def leader_id(self) -> str:
        """The id of this process."""
        if self._given is not None:
            return self._given
        if self._pid != process.pid:
            self._pid = process.pid
            self._made = f"{socket.gethostname()}:{self._pid}:{os.urandom(4).hex()}"
        return self._made
