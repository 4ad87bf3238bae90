"""Elections for code without asyncio: Django, Celery, scripts, threads.

::

    from incumbent.blocking import LeaderElector

    elector = LeaderElector("redis://localhost:6379")  # or the redis.Redis that you have
    report = elector.run_if_leader("daily-report", generate)

The same classes and names as in `incumbent`. One thread per process does the waiting and the
renewing, so that renewals go on while your own threads compute; it begins with the first call, ends
with the interpreter, and a forked child has one of its own. What Python cannot do is stop a thread:
when a lease is lost, the action is told (`Lease.lost`, `held`, `ensure_held`), and the call
raises `LeadershipLostError` when the action has ended.
"""

import typing

from incumbent.blocking.electors import GroupElector, LeaderElector
from incumbent.blocking.lease import Lease, current_lease

if typing.TYPE_CHECKING:
    from incumbent.blocking.strategic import StrategicElector

__all__ = ["GroupElector", "LeaderElector", "Lease", "StrategicElector", "current_lease"]


def __getattr__(name: str) -> typing.Any:
    # When it is asked for, as in `incumbent`: what strategies need costs its time to import.
    if name != "StrategicElector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from incumbent.blocking.strategic import StrategicElector  # noqa: PLC0415 - see above

    globals()[name] = StrategicElector
    return StrategicElector
