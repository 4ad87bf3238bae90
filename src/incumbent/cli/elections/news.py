"""What happens to elections that are followed, and how it is told in lines. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from incumbent import LeaderState, Outage
from incumbent.cli.asking import Unreadable
from incumbent.cli.elections.words import (
    change_lines,
    clock_time,
    state_value,
    unreadable_line,
)
from incumbent.durations import age
from incumbent.printable import printable

ONE_BY_ONE: Final = 3
"""Elections that are told of one by one where all have met the same; more share a line."""


class Changed(NamedTuple):
    """An election was `old`, which is None at first, and is `new` now."""

    name: str
    old: LeaderState | None
    new: LeaderState


class Spoiled(NamedTuple):
    """These cannot be read any more, all for the same reason."""

    found: Mapping[str, Unreadable]


class Silent(NamedTuple):
    """From now on these are not heard of: by name, or none if there are none to hear of."""

    outages: Mapping[str, Outage]
    since: datetime
    why: str


class Heard(NamedTuple):
    """These are heard of again, and as what."""

    states: Mapping[str, LeaderState | None]


class Refused(NamedTuple):
    """The server refuses writes, so that nobody is elected; or takes them again, if `why` is ''."""

    why: str


News: TypeAlias = Changed | Spoiled | Silent | Heard | Refused


def lines(news: News, now: datetime) -> Iterable[str]:
    """What has just happened, for people."""
    match news:
        case Changed(name, old, new):
            yield from change_lines(name, old, new, now)
        case Spoiled(found):
            any_of_them = next(iter(found.values()))
            for who in _those(found):
                yield unreadable_line(who, any_of_them)
        case Refused(why):
            yield refusal(why) if why else "the server takes writes again"
        case Silent(outages, since, why):
            for who in _those(outages):
                begun = outages[who].since if who in outages else since
                yield f"{printable(who)}: no word since {clock_time(begun)}: {printable(why)}"
        case Heard(states):
            for who in _those(states):
                yield f"{printable(who)}: heard of again"
                if (state := states.get(who)) is not None:
                    yield from change_lines(who, None, state, now)


def values(news: News) -> Iterable[dict[str, Any]]:
    """What happened, for programs: a value for each election."""
    match news:
        case Changed(name, _, new):
            yield state_value(name, new)
        case Spoiled(found):
            for name, unreadable in found.items():
                yield state_value(name, unreadable)
        case Refused(why):
            yield {"refuses_writes": why or None}
        case Silent(outages, _, why):
            for name, outage in outages.items():
                yield {"name": name, "error": why, "silent_since": outage.since}
        case Heard(states):
            for name, state in states.items():
                if state is not None:
                    yield state_value(name, state)


def refusal(why: str) -> str:
    """That nobody can be elected."""
    return f"the server refuses writes, and so nobody is elected: {printable(why)}"


def trouble(since: datetime, why: str, now: datetime, *, silent: int, of: int) -> str:
    """What the table says of an outage: all elections, or some, are not heard of."""
    what = "from the server" if silent == of else f"of {silent} elections"
    return f"No word {what} for {age(since, now)}: {why}"


def _those(names: Mapping[str, object]) -> Iterable[str]:
    """Each of `names`, or all in one."""
    if not names:
        return ["the server"]
    return names if len(names) <= ONE_BY_ONE else [f"{len(names)} elections"]
