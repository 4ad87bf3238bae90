"""What `status`, `step-down` and `release` do, once their arguments are known."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from incumbent import LeaderInfo, LeaderState
from incumbent.cli.asking import Unreadable, Where, ask, asking, insist
from incumbent.cli.elections import words
from incumbent.cli.elections.absent import absent, none_at_all, unknown
from incumbent.cli.endings import MistakeError
from incumbent.cli.output import say, tell, tell_json
from incumbent.durations import about
from incumbent.printable import printable


def status(where: Where, names: Sequence[str], *, as_json: bool) -> bool:
    """Show some elections, or all. Returns whether all could be read."""

    async def question(where: Where) -> dict[str, LeaderState | Unreadable]:
        async with asking(where) as asker:
            return insist(await asker.states(names or await asker.names()))

    states = ask(where, question)
    if as_json:
        values = [words.state_value(name, state) for name, state in states.items()]
        tell_json({"elections": values})
    else:
        for line in words.state_lines(states, datetime.now(UTC)):
            tell(line)
        if not states:
            say(none_at_all(where.prefix))
        missing = absent(where, filter(lambda name: unknown(states[name]), names))
        for sentence in dict.fromkeys(missing.values()):
            say(sentence)
    return not any(isinstance(state, Unreadable) for state in states.values())


def step_down(where: Where, name: str, seat: int | None, *, as_json: bool) -> int:
    """Ask the holders to go. Returns how many were asked."""

    async def question(where: Where) -> int:
        async with asking(where) as asker:
            elector, its_name = asker.election(name)
            return await elector.request_step_down(its_name, seat=seat)

    asked = ask(where, question)
    if as_json:
        tell_json({"name": name, "asked": asked})
    elif asked:
        tell(f"{asked} asked to step down, and will learn it with the next renewal")
    else:
        say(_nobody(where, name, seat))
    return asked


def release(where: Where, name: str, seat: int | None, *, yes: bool, as_json: bool) -> bool:
    """Take a seat from its holder, if the user wants that. Returns whether it was taken."""
    holder = ask(where, lambda where: _holder(where, name, seat))
    taken = None
    if holder is None:
        say(_nobody(where, name, seat))
    elif yes or _wanted(name, holder):
        taken = ask(where, lambda where: _force(where, name, holder))
        if taken is None:
            say(f"{printable(holder.leader_id)} has just left the seat: nothing done")
    if as_json:
        tell_json({"name": name, "released": taken and words.leader_value(taken)})
    elif taken is not None:
        tell(
            f"taken from {printable(taken.leader_id)};"
            f" the seat is free in {about(taken.remaining)} at the latest"
        )
    return taken is not None


async def _holder(where: Where, name: str, seat: int | None) -> LeaderInfo | None:
    async with asking(where) as asker:
        state = await asker.state(name)
    held = [each for each in state.leaders if seat in {None, each.seat} and not each.retained]
    if len(held) > 1:
        seats = ", ".join(str(each.seat) for each in held)
        raise MistakeError(f"seats {seats} of {name!r} are held: say which one by --seat")
    return held[0] if held else None


async def _force(where: Where, name: str, holder: LeaderInfo) -> LeaderInfo | None:
    async with asking(where) as asker:
        elector, its_name = asker.election(name)
        # The fence, because the person has seen this term, and was asked about no other.
        return await elector.force_release(its_name, seat=holder.seat, fence=holder.fence)


def _wanted(name: str, holder: LeaderInfo) -> bool:
    say(f"{printable(name)}, {words.seat_line(holder, datetime.now(UTC))}")
    if not sys.stdin.isatty():
        raise MistakeError("there is no terminal to ask on: say --yes if you mean it")
    return click.confirm("Take the seat from it?", err=True)


def _nobody(where: Where, name: str, seat: int | None) -> str:
    what = repr(name) if seat is None else f"{name!r}, seat {seat}"
    return absent(where, [name]).get(name, f"nobody leads {what}")
