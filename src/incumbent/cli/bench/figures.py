"""What is told of a measurement: rates and percentiles, as a table or as JSON. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

LAYOUT: Final = "{:<27}{:>12}{:>9}{:>9}{:>9}{:>9}"
HEADINGS: Final = ("", "per second", "p50 ms", "p99 ms", "max ms", "count")


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long something took, each time that it was done."""

    about: str
    took: Sequence[float]
    """Seconds, in the order in which they were measured."""
    within: float | None = None
    """Seconds in which all of it was done; None where a rate would mean nothing."""
    at_once: int = 1
    """How many did it side by side."""

    @property
    def per_second(self) -> float | None:
        """How often it was done in a second."""
        return len(self.took) / self.within if self.within else None

    def percentile(self, percent: int) -> float | None:
        """The nearest rank; None when nothing was measured."""
        if not self.took:
            return None
        rank = max(1, -(-len(self.took) * percent // 100))  # rounded up
        return sorted(self.took)[rank - 1]


def value(measurement: Measurement) -> dict[str, Any]:
    """For programs."""
    return {
        "about": measurement.about,
        "at_once": measurement.at_once,
        "count": len(measurement.took),
        "per_second": measurement.per_second,
        "p50": measurement.percentile(50),
        "p99": measurement.percentile(99),
        "max": measurement.percentile(100),
    }


def lines(measurements: Iterable[Measurement]) -> Iterator[str]:
    """For people; within 80 columns."""
    yield LAYOUT.format(*HEADINGS)
    for each in measurements:
        rate = "" if each.per_second is None else f"{each.per_second:,.0f}"
        times = (_ms(each.percentile(percent)) for percent in (50, 99, 100))
        about = each.about if each.at_once == 1 else f"{each.at_once:,} {each.about}"
        yield LAYOUT.format(about, rate, *times, len(each.took))


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.2f}"
