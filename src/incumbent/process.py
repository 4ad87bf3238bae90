"""The id of this process, and whether an elector may move from one event loop to another.

The id is kept, because asking the system is slow; a fork renews it.
"""

import asyncio
import os

pid: int = os.getpid()
"""As `os.getpid` would say now."""


def leave(loop: asyncio.AbstractEventLoop | None, owner: int) -> None:
    """Leave `loop`, in which process `owner` has used an elector so far.

    One loop after another may use it; two at once would use each other's connections. In a forked
    child the loop is the parent's, and the elector a copy: it may leave.

    Raises:
        RuntimeError: `loop` still runs in this process.
    """
    if loop is not None and owner == pid and loop.is_running():
        raise RuntimeError(
            "this elector is in use in another event loop, which still runs: "
            "make one for each loop, or use incumbent.blocking"
        )


def _renew() -> None:
    global pid  # noqa: PLW0603 - what the system keeps is global, too
    pid = os.getpid()


os.register_at_fork(after_in_child=_renew)
