"""Tying a service to the life of an application: it begins with it, and ends before it does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from incumbent.asgi.service import AnyElector, Serve, Service
from incumbent.durations import seconds

DEADLINE: Final = 10.0
"""Seconds that `serve` and the seat have at shutdown."""

_STATE: Final = "incumbent_services"


def leadership(
    elector: AnyElector, name: str, serve: Serve, *, deadline: float = DEADLINE
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """A lifespan that runs `serve` while this process leads `name`.

    ::

        app = FastAPI(lifespan=leadership(elector, "scheduler", serve))

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
    services = _kept(app)
    if name in services:
        raise ValueError(f"this application serves {name!r} already")
    services[name] = service
    try:
        service.start()
        yield service
    finally:
        services.pop(name, None)
        await service.stop(within)


def services_of(app: Any) -> dict[str, Service]:
    """The services of an application, by the names of their elections."""
    return dict(_kept(app))


def _kept(app: Any) -> dict[str, Service]:
    services: dict[str, Service] | None = getattr(app.state, _STATE, None)
    if services is None:
        services = {}
        setattr(app.state, _STATE, services)
    return services
