"""A short text by which nodes find out whether they go by the same strategy.

Pure. Two strategies of one fingerprint are the same as far as their names and settings tell: what a
function does is not looked into, only which one it is.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, cast

from incumbent.strategy.strategies import Strategy


def fingerprint(strategy: Strategy) -> str:
    """12 hexadecimal digits, the same in every process and on every machine."""
    return blake2b(_description(strategy).encode(), digest_size=6).hexdigest()


def _description(thing: Any) -> str:
    """`thing` in words that have no addresses in them, as a `repr` might."""
    if thing is None or isinstance(thing, str | int | float | bytes):
        return repr(thing)
    if isinstance(thing, functools.partial):
        return _description((thing.func, thing.args, thing.keywords))
    if isinstance(thing, tuple | list):
        return f"({','.join(_description(part) for part in cast('tuple[Any, ...]', thing))})"
    if issubclass(type(thing), Mapping):  # after isinstance pyright knows less than "any"
        pairs: Iterable[Any] = thing.items()
        return f"{{{','.join(sorted(map(_description, pairs)))}}}"
    name = f"{_module(thing)}.{_qualname(thing)}"
    if is_dataclass(thing) and not isinstance(thing, type):
        name += _description({each.name: getattr(thing, each.name) for each in fields(thing)})
    bound = getattr(thing, "__self__", None)  # the object that a method belongs to
    return name if bound is None else f"{name}@{_description(bound)}"


def _module(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def _qualname(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", None) or type(thing).__qualname__)
