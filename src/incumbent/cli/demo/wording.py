"""The demo's words for what is known: of the server, of a process, of a report.

Pure, and in ASCII, so that every terminal can show them.
"""

from incumbent import LeaderState
from incumbent.cli.demo.node import Node
from incumbent.cli.demo.reports import Report
from incumbent.printable import printable


def server(state: LeaderState) -> str:
    """Who has the seat, as the server knows it."""
    if not state.leaders:
        return "nobody leads"
    info = state.leaders[0]
    return f"{printable(info.leader_id)} leads, fence {info.fence}"


def view(node: Node) -> str:
    """What a process thinks of itself, or why it thinks nothing."""
    if node.condition in ("killed", "left"):
        return "killed (SIGKILL)" if node.condition == "killed" else "has left"
    if node.condition == "stopped":
        believes = "leads" if node.last and node.last.kind == "leading" else "stands by"
        return f"stopped (SIGSTOP), believes it {believes}"
    return "starting" if node.last is None else _claim(node.last)


def news(before: Report | None, report: Report) -> str:
    """What is new in `report`; empty when it only repeats `before`."""
    if before is not None and (before.kind, before.fence) == (report.kind, report.fence):
        return ""
    return _claim(report)


def _claim(report: Report) -> str:
    if report.kind == "leading":
        return f"leading, fence {report.fence}"
    if report.kind == "standing":
        return "standing by"
    return f"action cancelled, lease lost: {report.reason}" if report.reason else "stops leading"
