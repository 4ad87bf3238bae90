"""Which process this is, and whether something of it may move from one event loop to another.

The process is kept, because the system takes its time to say so; a fork renews it.
"""

import asyncio
import os

pid: int = os.getpid()
"""As `os.getpid` would say now."""


def leave(loop: asyncio.AbstractEventLoop | None, owner: int) -> None:
    """Raise if `loop` still runs, in which process `owner` has used an elector so far.

    One loop after another may use it; two at once would take each other's connections. What a
    forked child has is a copy, and the loop its parent's.

    Raises:
        RuntimeError: see above.
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
