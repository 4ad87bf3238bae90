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

from incumbent.blocking.electors import GroupElector, LeaderElector
from incumbent.blocking.lease import Lease, current_lease

__all__ = ["GroupElector", "LeaderElector", "Lease", "current_lease"]
