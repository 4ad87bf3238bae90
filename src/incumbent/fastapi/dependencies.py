"""What a view asks for: who leads, and that this process does."""

import math
from collections.abc import Callable
from typing import Annotated, Final

try:
    from fastapi import Depends, HTTPException
except ImportError as _error:
    raise ImportError(
        "incumbent.fastapi needs FastAPI: pip install 'incumbent[fastapi]'"
        " (without it there is incumbent.asgi)"
    ) from _error
from starlette.requests import HTTPConnection

from incumbent import LeaderInfo
from incumbent.asgi.leaders import Leadership, leadership_in

LEADER_HEADER: Final = "X-Leader"
SHORTEST_WAIT: Final = 1
"""Seconds of the least `Retry-After`."""


def leadership_of(name: str | None = None) -> Callable[[HTTPConnection], Leadership]:
    """A dependency: the election `name`; with None the only one that the application serves.

    ::

        Scheduler = Annotated[Leadership, Depends(leadership_of("scheduler"))]
    """

    def find(connection: HTTPConnection) -> Leadership:
        return leadership_in(connection.app, name)

    return find


LeadershipDep = Annotated[Leadership, Depends(leadership_of())]
"""``leadership: LeadershipDep`` in a view's signature: the application's only election."""


class RequireLeader:
    """A dependency that lets a request pass only where the leader is.

    ::

        @app.post("/jobs", dependencies=[Depends(RequireLeader("scheduler"))])

    Everybody else answers 503 with ``Retry-After``, and with the leader's id in ``X-Leader``: give
    electors their own address as ``leader_id=``, and a client or a proxy knows where to go.
    """

    def __init__(self, name: str | None = None) -> None:
        """Of election `name`; with None, of the only one that the application serves."""
        self._name = name

    async def __call__(self, connection: HTTPConnection) -> None:
        """Pass, or raise the 503."""
        leadership = leadership_in(connection.app, self._name)
        if leadership.leading:
            return
        try:
            leader = await leadership.leader()
        except Exception:  # noqa: BLE001 - who leads cannot be told; that it is not us, can
            leader = None
        headers = {"Retry-After": str(_wait(leader))}
        detail = f"another process leads {leadership.name!r}"
        if leader is None:
            detail = f"nobody is known to lead {leadership.name!r}"
        elif leader.leader_id.isascii() and leader.leader_id.isprintable():  # as a header has to be
            headers[LEADER_HEADER] = leader.leader_id
        raise HTTPException(503, detail, headers=headers)


require_leader: Final = RequireLeader()
"""``Depends(require_leader)``: of the application's only election."""


def _wait(leader: LeaderInfo | None) -> int:
    return SHORTEST_WAIT if leader is None else max(SHORTEST_WAIT, math.ceil(leader.remaining))
