"""What a candidate says about itself: a small frozen mapping of short strings and numbers.

Pure. Checked when it is made, and when it is read from a server, where anybody may have written it.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

MetaValue: TypeAlias = str | int | float
"""A short string or a finite number; a bool is the number that it is."""

MAX_KEY_BYTES: Final = 64
MAX_TEXT_BYTES: Final = 255
MAX_BYTES: Final = 1024
"""The most that all may have together, as JSON in UTF-8: every election reads every candidate's."""

_LARGEST: Final = sys.float_info.max


class Metadata(Mapping[str, MetaValue]):
    """A checked copy of `values`.

    Raises:
        TypeError: a key is no string, or a value is neither a string nor a number.
        ValueError: a number is not finite, or something is too long.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, MetaValue] | None = None) -> None:
        given: Any = {} if values is None else values
        if not isinstance(given, Mapping):
            raise TypeError(f"metadata must be a mapping, not {type(given).__name__}")
        self._values: dict[str, MetaValue] = dict(cast("Mapping[str, MetaValue]", given))
        check(self._values)
        size = len(self.encoded)
        if size > MAX_BYTES:
            raise ValueError(f"metadata must have {MAX_BYTES} bytes at most as JSON, not {size}")

    @classmethod
    def read(cls, values: dict[str, MetaValue]) -> "Metadata":
        """The metadata of a record, which is nobody else's; of any size, for it is there already.

        Raises:
            TypeError, ValueError: as the constructor does.
        """
        check(values)
        made = cls.__new__(cls)
        object.__setattr__(made, "_values", values)
        return made

    @property
    def encoded(self) -> bytes:
        """As a JSON object in UTF-8."""
        return json.dumps(self._values, ensure_ascii=False, separators=(",", ":")).encode()

    def __getitem__(self, key: str, /) -> MetaValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"


def check(values: Mapping[Any, Any]) -> None:
    """Whether each key and value may be in a candidate's metadata; raises if not."""
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"a key of metadata must be a str, not {type(key).__name__}")
        if not key or _bytes(key) > MAX_KEY_BYTES:
            raise ValueError(
                f"a key of metadata must have 1 to {MAX_KEY_BYTES} bytes in UTF-8: {key[:40]!r}"
            )
        if isinstance(value, str):
            if _bytes(value) > MAX_TEXT_BYTES:
                raise ValueError(
                    f"metadata {key!r} must have {MAX_TEXT_BYTES} bytes at most in UTF-8,"
                    f" not {_bytes(value)}"
                )
        elif not isinstance(value, int | float):
            raise TypeError(
                f"metadata {key!r} must be a str or a number, not {type(value).__name__}"
            )
        elif not -_LARGEST <= value <= _LARGEST:
            raise ValueError(f"metadata {key!r} must be a finite number that a float can hold")


def _bytes(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"metadata must be text that UTF-8 can carry: {text[:40]!r}") from None
