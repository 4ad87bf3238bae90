"""The end of the demo: a short table of who took over from whom, and the verdict in words.

Pure; in ASCII and within 80 columns.
"""

from collections.abc import Iterator
from typing import Final

from incumbent.cli.demo.verdict import TakeOver, Verdict

LAYOUT: Final = "{:<17}  {:<8}  {:>16}  {:>9}  {:>10}"
HEADINGS: Final = ("event", "leader", "fence", "take-over", "overlap")


def lines(verdict: Verdict) -> Iterator[str]:
    """The table, and below it what follows from it."""
    headings = LAYOUT.format(*HEADINGS)
    yield headings
    yield "-" * len(headings)
    for number, step in enumerate(verdict.take_overs):
        yield LAYOUT.format(*_cells(step, "unprovoked" if number else "first election"))
    yield ""
    if verdict.failures:
        yield from (f"FAILED: {failure}" for failure in verdict.failures)
    else:
        slowest = f"slowest take-over {verdict.slowest:.2f} s (limit {verdict.limit:.2f} s)"
        yield f"OK: fences grow strictly, overlap {_zero(verdict.overlap)}, {slowest}"


def _cells(step: TakeOver, otherwise: str) -> tuple[str, ...]:
    event = f"{step.fault.what} of {step.fault.node}" if step.fault else otherwise
    seconds = "" if step.seconds is None else f"{step.seconds:.2f} s"
    return event, step.term.node, str(step.term.fence), seconds, _zero(step.overlap)


def _zero(seconds: float) -> str:
    return f"{seconds:.6f} s" if seconds else "0 s"
