"""A figure: what was measured, what is asked of it, and whether that is met."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value. Without `at_least` or `below` nothing is asked: it stands beside."""

    part: str
    what: str
    value: float
    unit: str = ""
    at_least: float | None = None
    below: float | None = None
    stretch: float | None = None
    """More than is asked: shown only."""

    @property
    def met(self) -> bool | None:
        """Whether the value is what is asked; None when nothing is asked."""
        if self.at_least is not None:
            return self.value >= self.at_least
        if self.below is not None:
            return self.value < self.below
        return None

    @property
    def verdict(self) -> str:
        """``OK``, ``short``, or nothing."""
        return {True: "OK", False: "short", None: ""}[self.met]

    @property
    def asked(self) -> str:
        """What is asked, for the table."""
        if self.at_least is not None:
            more = "" if self.stretch is None else f" (stretch {self.stretch:g})"
            return f">= {self.at_least:g}{more}"
        return "" if self.below is None else f"< {self.below:g}"

    def as_json(self) -> dict[str, Any]:
        """All fields and the verdict, for programs."""
        return asdict(self) | {"met": self.met}


def table(figures: Iterable[Figure]) -> str:
    """The figures as aligned text, by part."""
    lines: list[str] = []
    part = ""
    for figure in figures:
        if figure.part != part:
            part = figure.part
            lines += ["", part]
        shown = f"{_rounded(figure.value)} {figure.unit}".rstrip()
        line = f"  {figure.what:<58} {shown:>16}  {figure.asked:<20} {figure.verdict}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _rounded(value: float) -> str:
    """Three digits, and no fractions of hundreds."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
