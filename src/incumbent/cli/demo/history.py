"""All that the processes have reported, put together as terms.

Pure. A term is told by process number and fence: should two processes ever have the same fence,
they are two terms.
"""

from dataclasses import dataclass, field

from incumbent.cli.demo.reports import Report
from incumbent.cli.demo.verdict import Span, Term


@dataclass(slots=True)
class _Record:
    node: str
    fence: int
    spans: list[Span] = field(default_factory=list[Span])
    stopped_at: float | None = None
    reason: str = ""

    def term(self) -> Term:
        return Term(
            node=self.node,
            fence=self.fence,
            spans=tuple(map(self._cut, self.spans)),
            stopped_at=self.stopped_at,
            reason=self.reason,
        )

    def _cut(self, span: Span) -> Span:
        """What stopped earlier than it had to, relied on its lease until it stopped."""
        start, end = span
        if self.stopped_at is None or start > self.stopped_at:
            return span
        return start, min(end, self.stopped_at)


class History:
    """Who led when, by their own accounts."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], _Record] = {}

    def add(self, node: str, pid: int, report: Report) -> None:
        """Take note of what the process `pid` that plays `node` has said."""
        if report.kind == "leading":
            record = self._records.setdefault((pid, report.fence), _Record(node, report.fence))
            record.spans.append((report.at, report.until))
        elif report.kind == "stopped" and (pid, report.fence) in self._records:
            record = self._records[pid, report.fence]
            record.stopped_at, record.reason = report.at, report.reason

    @property
    def terms(self) -> list[Term]:
        """The terms so far, in the order in which they were first heard of."""
        return [record.term() for record in self._records.values()]
