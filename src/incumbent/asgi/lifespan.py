"""Tying a service to the life of an application: it begins with it, and ends before it does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from incumbent.asgi.mounts import depth_of
from incumbent.asgi.service import AnyElector, Serve, Service
from incumbent.durations import seconds

DEADLINE: Final = 10.0
"""Seconds that `serve` and the seat have at shutdown."""

_running: Final[list[tuple[Any, Service]]] = []
"""Each service between its start and its end, with the application that it was started for."""


def leadership(
    elector: AnyElector, name: str, serve: Serve, *, deadline: float = DEADLINE
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """A lifespan that runs `serve` while this process leads `name`.

    ::

        app = FastAPI(lifespan=leadership(elector, "scheduler", serve))

    Give it to the application that the server runs: nobody runs the lifespan of one that is mounted
    in another. The views of both find the election.

    Start-up does not wait for the election. After a loss it stands by again; when `serve` raises,
    that is logged, counted and tried again with back-off; when it returns, that is its end (with
    ``restart=True`` it is called again). At shutdown it is cancelled, its cleanup is awaited, and
    the seat is given back, all within `deadline` seconds.

    Raises:
        TypeError, ValueError: the name or `serve` is not usable.
    """
    seconds("deadline", deadline)
    Service(elector, name, serve)  # so that what is not usable is said when the module is loaded

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None, None]:
        async with leading(app, elector, name, serve, deadline=deadline):
            yield

    return lifespan


@asynccontextmanager
async def leading(
    app: Any, elector: AnyElector, name: str, serve: Serve, *, deadline: float = DEADLINE
) -> AsyncGenerator[Service, None]:
    """The same as a block, within a lifespan of your own; several of them may stand side by side.

    ::

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            async with leading(app, elector, "scheduler", serve):
                yield

    Raises:
        ValueError: the application has a service of that name already.
    """
    within, service = seconds("deadline", deadline), Service(elector, name, serve)
    if name in services_of(app):
        raise ValueError(f"this application serves {name!r} already")
    entry = (app, service)
    _running.append(entry)
    try:
        service.start()
        yield service
    finally:
        _running.remove(entry)
        await service.stop(within)


def services_of(app: Any) -> dict[str, Service]:
    """The services of an application itself, by the names of their elections."""
    return {service.name: service for owner, service in _running if owner is app}


def services_for(app: Any, name: str | None = None) -> dict[str, Service]:
    """What the views of an application may ask for, by the names of the elections.

    The services of the application; if it has none (of that name), those of the application that it
    is mounted in, and so on outwards.
    """
    by_depth: dict[int, dict[str, Service]] = {}
    for owner, service in _running:
        if name in {None, service.name} and (depth := depth_of(app, owner)) is not None:
            by_depth.setdefault(depth, {})[service.name] = service
    return by_depth[min(by_depth)] if by_depth else {}
