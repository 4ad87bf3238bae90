"""Checks of single arguments: each message names the argument, the rule and the value. Pure."""

from typing import Any


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
