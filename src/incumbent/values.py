"""What frozen values have in common: they are the same when their kind and their fields are.

Written once here, for dataclasses that are made with ``eq=False, repr=False``: to have it generated
for each of them anew would be a third of the time that it takes to import this library.
"""

from dataclasses import fields
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
        named = (f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self))
        return f"{type(self).__name__}({', '.join(named)})"


def _content(value: Any) -> tuple[object, ...]:
    return tuple([getattr(value, field.name) for field in _fields(value)])


def _fields(value: Any) -> tuple[Any, ...]:
    return fields(value)
