"""What is said of elections on stdout: lines for people, values for programs. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from incumbent import LeaderInfo, LeaderState
from incumbent.cli.asking import Unreadable
from incumbent.durations import about, age
from incumbent.printable import printable

_WRONG_TYPE: Final = re.compile(r"WRONGTYPE .*: (\S.*)")
_NO_RIGHT: Final = re.compile(
    r"permissions to access|ACL failure in script|can't access at least one of the keys",
    re.IGNORECASE,
)
"""How servers refuse keys to a user: Redis 7 and Valkey, Redis 7 in a script, Redis 6.2."""


def leader_value(leader: LeaderInfo) -> dict[str, Any]:
    """Who has a seat, for programs."""
    return {
        "seat": leader.seat,
        "leader_id": leader.leader_id,
        "fence": leader.fence,
        "since": leader.since,
        "remaining": leader.remaining,
        "retained": leader.retained,
    }


def state_value(name: str, state: LeaderState | Unreadable) -> dict[str, Any]:
    """An election, for programs."""
    if isinstance(state, Unreadable):
        return {"name": name, "error": state.reason}
    leaders = [leader_value(leader) for leader in state.leaders]
    return {"name": name, "leaders": leaders, "waiting": state.waiting}


def seat_line(leader: LeaderInfo, now: datetime) -> str:
    """Who has a seat, for people."""
    left = about(leader.remaining)
    if leader.retained:
        leads = f"led, the seat is kept for {left}"
    else:
        leads = f"leads for {age(leader.since, now)}, lease {left}"
    return f"seat {leader.seat}: {printable(leader.leader_id)} {leads}, fence {leader.fence}"


def state_lines(states: Mapping[str, LeaderState | Unreadable], now: datetime) -> Iterable[str]:
    """All there is to say about some elections at `now`."""
    for name, state in states.items():
        if isinstance(state, Unreadable):
            yield unreadable_line(name, state)
            continue
        waiting = f", {state.waiting} in line" if state.waiting else ""
        nobody = "" if state.leaders else ": nobody leads"
        yield f"{printable(name)}{nobody}{waiting}"
        for leader in state.leaders:
            yield f"  {seat_line(leader, now)}"


def unreadable_line(name: str, state: Unreadable) -> str:
    """What is the matter with an election that cannot be read."""
    return f"{printable(name)}: cannot be read: {printable(trouble(state.reason), longest=None)}"


def trouble(reason: str) -> str:
    """What a server means that lets an election not be read, and what it says."""
    wrong_type = _WRONG_TYPE.match(reason)
    if wrong_type is not None:
        return f"wrong type: {wrong_type[1]} ({reason})"
    return f"no right to its keys ({reason})" if _NO_RIGHT.search(reason) else reason


def trouble_in_short(name: str, reason: str) -> str:
    """The same of election `name`, where there is little room: which key is told without it."""
    said, _, _ = trouble(reason).partition(" (")
    return re.sub(rf"\S*\{{{re.escape(name)}\}}:", "", said)


def change_lines(
    name: str, old: LeaderState | None, new: LeaderState, now: datetime
) -> Iterable[str]:
    """What has changed in an election; all there is to say about it when there was no `old`."""
    before = {} if old is None else {each.seat: each for each in old.leaders}
    after = {each.seat: each for each in new.leaders}
    shown = printable(name)
    for seat in sorted(before.keys() - after.keys()):
        yield f"{shown}: seat {seat}: free"
    for seat, leader in after.items():
        known = before.get(seat)
        if known is None or (known.fence, known.retained) != (leader.fence, leader.retained):
            yield f"{shown}: {seat_line(leader, now)}"
    if old is None and not after:
        yield f"{shown}: nobody leads"


def clock_time(instant: datetime) -> str:
    """A time in UTC, to the second."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
