"""What a view sees of an election that its application serves: who leads, and whether we do.

Knows no framework.
"""

from typing import Any, Final

from incumbent import IncumbentError, LeaderInfo, LeaderState
from incumbent.asgi.lifespan import services_for
from incumbent.asgi.service import AnyElector, Service

NOTHING_RUNS: Final = (
    "this application serves no election: no lifespan with leadership() or leading() runs for it."
    " A server runs the lifespan of the outermost application only, not of one that is mounted in"
    " it, and a TestClient runs it in a `with` block only. Give lifespan=leadership(...) to the"
    " outermost application: views of mounted ones find the election there"
)


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

    An application that serves none has those of the application that it is mounted in.

    Raises:
        IncumbentError: it serves none of that name, none at all, or several and none was named.
    """
    services = services_for(app, name)
    if len(services) == 1:
        return Leadership(next(iter(services.values())))
    if services:
        raise IncumbentError(
            f"this application serves several elections: name one of {_listed(services)}"
        )
    if name is not None and (others := services_for(app)):
        raise IncumbentError(
            f"this application serves no election {name!r}, only {_listed(others)}"
        )
    raise IncumbentError(NOTHING_RUNS)


def _listed(services: dict[str, Service]) -> str:
    return ", ".join(map(repr, sorted(services)))
