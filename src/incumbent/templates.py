"""Names of elections that are made from the arguments of a call: ``"tenant-{tenant_id}"``.

Pure. Only whole arguments by name: no attributes, no items, no conversions, so that a template can
run nothing and show nothing that was not meant.
"""

import inspect
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from incumbent.names import election_name


class NameTemplate:
    """A template that fits the signature of `function`; checked when it is made."""

    __slots__ = ("_fields", "_signature", "_text")

    def __init__(self, text: str, function: Callable[..., Any]) -> None:
        """Take `text` and find its fields.

        Raises:
            TypeError, ValueError: it is no text, has a field that is no argument of `function`, or
                could be no name of an election.
        """
        if not isinstance(text, str):
            raise TypeError(f"an election's name must be a str, not {type(text).__name__}")
        self._text = text
        self._fields = _fields_of(text)
        self._signature: inspect.Signature | None = None
        if not self._fields:
            election_name(text)
            return
        self._signature = inspect.signature(function)
        named = {
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
        if unknown := sorted(self._fields - named):
            raise ValueError(
                f"{text!r} asks for {unknown[0]!r}, which is no argument of the function"
            )

    def name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The name for a call with these arguments; `TypeError` when they do not fit."""
        if self._signature is None:
            return self._text
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        # By text, and not by a value's own __format__.
        return self._text.format_map({field: str(bound.arguments[field]) for field in self._fields})


def _fields_of(text: str) -> frozenset[str]:
    found: set[str] = set()
    for _, field, form, conversion in Formatter().parse(text):
        if field is None:
            continue
        if not field.isidentifier() or form or conversion:
            raise ValueError(
                f"{text!r}: a field must be the name of an argument, like {{tenant_id}}"
            )
        found.add(field)
    return frozenset(found)
