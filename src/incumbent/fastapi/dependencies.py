"""What a view asks for: who leads, and that this process does."""

import math
from collections.abc import Callable
from typing import Annotated, Final

try:
    from fastapi import Depends, HTTPException
except ImportError as _error:
    raise ImportError(
        "incumbent.fastapi needs FastAPI: pip install 'incumbent[fastapi]'"
    ) from _error
from starlette.requests import HTTPConnection

from incumbent import IncumbentError, LeaderInfo, LeaderState
from incumbent.fastapi.lifespan import services_of
from incumbent.fastapi.service import AnyElector, Service

LEADER_HEADER: Final = "X-Leader"
SHORTEST_WAIT: Final = 1
"""Seconds of the least `Retry-After`."""


class Leadership:
    """One election, as a view sees it."""

    __slots__ = ("_service",)

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def name(self) -> str:
        """The election."""
        return self._service.name

    @property
    def elector(self) -> AnyElector:
        """Who stands in it."""
        return self._service.elector

    @property
    def leading(self) -> bool:
        """Whether this process leads now. Local: no round trip."""
        return self._service.leading

    async def state(self) -> LeaderState:
        """Who leads, by one round trip."""
        return await self._service.state()

    async def leader(self) -> LeaderInfo | None:
        """The leader (of the lowest seat that is taken), by one round trip; None if there is none.

        Its `leader_id` is what its elector was given as ``leader_id=``: an address, say.
        """
        leaders = [each for each in (await self.state()).leaders if not each.retained]
        return leaders[0] if leaders else None


def leadership_of(name: str | None = None) -> Callable[[HTTPConnection], Leadership]:
    """A dependency: the election `name`; with None the only one that the application serves.

    ::

        Scheduler = Annotated[Leadership, Depends(leadership_of("scheduler"))]
    """

    def find(connection: HTTPConnection) -> Leadership:
        return Leadership(_service(connection, name))

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
        leadership = Leadership(_service(connection, self._name))
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


def _service(connection: HTTPConnection, name: str | None) -> Service:
    services = services_of(connection.app)
    if name is not None and name in services:
        return services[name]
    if name is None and len(services) == 1:
        return next(iter(services.values()))
    if name is not None:
        raise IncumbentError(f"this application serves no election {name!r}")
    if services:
        raise IncumbentError("this application serves several elections: name one")
    raise IncumbentError("this application serves no election: see leadership() and leading()")
