"""Who leads, as values that any framework makes JSON of; and whether the server can be reached.

Knows no framework.
"""

import asyncio
from typing import Any, Final

from incumbent import IncumbentError, LeaderState
from incumbent.asgi.leaders import NOTHING_RUNS
from incumbent.asgi.lifespan import services_for
from incumbent.asgi.service import AnyElector

LOOK_WITHIN: Final = 2.0
"""Seconds that the server has to answer."""


async def status(elector: AnyElector, *names: str, app: Any = None) -> dict[str, Any]:
    """The elections `names`, and those that `app` serves, for a page that shows them.

    Args:
        elector: asks the server.
        names: elections to show besides those of `leading` and `leadership`.
        app: the application; None for none.

    Returns:
        ``{"leader_id", "elections": [{"name", "leading", "reachable", "waiting", "leaders"}]}``,
        with a ``"service"`` where the application serves. It is told as well when the server does
        not answer: ``reachable`` is false then.

    Raises:
        IncumbentError: there is nothing to show: no names, and `app` serves no election.
    """
    services = {} if app is None else services_for(app)
    if app is not None and not services and not names:
        raise IncumbentError(NOTHING_RUNS)
    electors = dict.fromkeys(names, elector)
    electors |= {name: service.elector for name, service in services.items()}
    shown = await asyncio.gather(*(_election(each, name) for name, each in electors.items()))
    for election in shown:
        if (service := services.get(election["name"])) is not None:
            election["service"] = service.facts()
    return {"leader_id": elector.leader_id, "elections": shown}


async def reachable(elector: AnyElector) -> bool:
    """Whether the server answers: all that readiness may depend on, and never on who leads.

    A roll-out that waits for each new replica to be ready would wait for ever otherwise.
    """
    return await _state(elector, "readiness") is not None


async def _election(elector: AnyElector, name: str) -> dict[str, Any]:
    state = await _state(elector, name)
    return {
        "name": name,
        "leading": elector.is_leading(name),
        "reachable": state is not None,
        "waiting": None if state is None else state.waiting,
        "leaders": [
            {
                "leader_id": leader.leader_id,
                "seat": leader.seat,
                "fence": leader.fence,
                "since": leader.since.isoformat(),
                "remaining": leader.remaining,
                "retained": leader.retained,
            }
            for leader in (() if state is None else state.leaders)
        ],
    }


async def _state(elector: AnyElector, name: str) -> LeaderState | None:
    """None when the server does not answer, or says no: its words may hold addresses."""
    try:
        async with asyncio.timeout(LOOK_WITHIN):
            return await elector.state(name)
    except Exception:  # noqa: BLE001 - whatever it is, the page is shown
        return None
