"""An application as gunicorn's users write it: WSGI, its elector made and used before the fork.

``URL`` names the server. ``/`` runs a job if elected, ``/lead`` leads until the process is ended.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from incumbent import LeaderOptions
from incumbent.blocking import LeaderElector, current_lease

elector = LeaderElector(
    os.environ["URL"], LeaderOptions(lease_time=1.5, request_timeout=1.0, wait_time=5)
)
before_the_fork = elector.run_if_leader("warm-up", os.getpid)


def job() -> str:
    lease = current_lease()
    assert lease is not None
    return lease.leader_id


def lead() -> None:
    with elector.using(wait_time=None).lead("main") as lease:
        lease.lost.wait()


standing: list[threading.Thread] = []


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/lead" and not standing:
        standing.append(threading.Thread(target=lead, daemon=True))
        standing[0].start()
    answer = {
        "pid": os.getpid(),
        "parent": before_the_fork,
        "standing": bool(standing),
        "elected_as": elector.run_if_leader("job", job),
        "leading": elector.is_leading("main"),
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
