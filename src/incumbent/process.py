"""Which process this is: kept, because the system takes its time to say so; a fork renews it."""

import os

pid: int = os.getpid()
"""As `os.getpid` would say now."""


def _renew() -> None:
    global pid  # noqa: PLW0603 - what the system keeps is global, too
    pid = os.getpid()


os.register_at_fork(after_in_child=_renew)
