"""What values have in common: they are the same when their kind and their fields are.

Written once here, for dataclasses that are made with ``eq=False, repr=False`` and for classes that
name their fields in ``__match_args__``: to have it generated for each of them anew would be a third
of the time that it takes to import this library.
"""

from typing import Any


class Value:
    """A value: compared, hashed and shown by its fields."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash((type(self), *_content(self)))

    def __repr__(self) -> str:
        named = (f"{name}={getattr(self, name)!r}" for name in _names(self))
        return f"{type(self).__name__}({', '.join(named)})"


def _content(value: Value) -> tuple[object, ...]:
    fields: dict[str, Any] = getattr(value, "__dataclass_fields__", {})
    names = [name for name in _names(value) if name not in fields or fields[name].compare]
    return tuple([getattr(value, name) for name in names])


def _names(value: Value) -> tuple[str, ...]:
    fields: dict[str, object] = getattr(value, "__dataclass_fields__", {})
    names: tuple[str, ...] = getattr(value, "__match_args__", ())
    return tuple(fields) or names
