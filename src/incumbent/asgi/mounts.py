"""Which application is mounted in which.

A request to a mounted application names that one only, but elections are served where the lifespan
runs, in the outermost. Pure; knows Starlette's routes by their attributes.
"""

from collections.abc import Iterable, Iterator
from typing import Any


def depth_of(app: Any, outer: Any) -> int | None:
    """How many steps lead from `outer` to `app`: 0 if they are the same, None if none do.

    Each route is a step, and so is each middleware around an application.
    """
    seen: set[int] = set()
    level, depth = [outer], 0
    while level:
        if any(each is app for each in level):
            return depth
        seen.update(map(id, level))
        level = [each for holder in level for each in _held_by(holder) if id(each) not in seen]
        depth += 1
    return None


def _held_by(holder: Any) -> Iterator[Any]:
    routes = getattr(holder, "routes", None)
    if isinstance(routes, Iterable):
        yield from routes
    if (app := getattr(holder, "app", None)) is not None:
        yield app
