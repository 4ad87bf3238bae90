"""A broken rule, as a sentence that knows when it was broken."""

from typing import Self


class Finding(str):
    """`at` is a time of the records' clock; 0 when there is none."""

    __slots__ = ("at",)

    at: float

    def __new__(cls, sentence: str, at: float = 0.0) -> Self:
        """A sentence, and when."""
        self = super().__new__(cls, sentence)
        self.at = at
        return self
