"""What a view sees of an election that its application serves: who leads, and whether we do.

Knows no framework.
"""

from typing import Any

from incumbent import IncumbentError, LeaderInfo, LeaderState
from incumbent.asgi.lifespan import services_of
from incumbent.asgi.service import AnyElector, Service


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


def leadership_in(app: Any, name: str | None = None) -> Leadership:
    """The election `name` of an application; with None the only one that it serves.

    Raises:
        IncumbentError: it serves none of that name, none at all, or several and none was named.
    """
    services = services_of(app)
    if name is not None and name in services:
        return Leadership(services[name])
    if name is None and len(services) == 1:
        return Leadership(next(iter(services.values())))
    if name is not None:
        raise IncumbentError(f"this application serves no election {name!r}")
    if services:
        raise IncumbentError("this application serves several elections: name one")
    raise IncumbentError("this application serves no election: see leadership() and leading()")
