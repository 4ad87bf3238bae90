"""One run of `run` or `campaign`, from its arguments to its exit code."""

import asyncio
import errno
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from incumbent import (
    ActionFailed,
    Elected,
    GroupElector,
    LeaderOptions,
    LeadershipLost,
    Outcome,
    Skipped,
)
from incumbent.cli.connection import advice_on, connect, unavailable
from incumbent.cli.endings import (
    CANNOT_RUN,
    EX_LOST,
    INTERRUPTED,
    NOT_FOUND,
    SIGNALLED,
    mistake,
)
from incumbent.cli.output import say
from incumbent.cli.run.child import CannotRunError
from incumbent.cli.run.duty import Duty, TooLateError
from incumbent.cli.run.programs import refusal
from incumbent.cli.run.signals import ENDING, Signals
from incumbent.cli.run.terminal import Terminal, has_terminal
from incumbent.cli.run.words import news, not_elected
from incumbent.cli.serving import serving
from incumbent.cli.tenants import election
from incumbent.events import AttemptDelayed, Event, Hook
from incumbent.stores.redis import Client, ServerError, whereabouts


class FailedError(Exception):
    """The program said that it has failed, in an election where that is to be known."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is asked for."""

    name: str
    command: tuple[str, ...]
    url: str
    prefix: str
    leader_id: str | None
    seats: int
    options: LeaderOptions

    @property
    def program(self) -> str:
        """What is started."""
        return self.command[0]


def options_of(**values: Any) -> LeaderOptions:
    """Options of an elector; those that are None are left at their defaults.

    Raises:
        MistakeError: they do not fit.
    """
    try:
        return LeaderOptions(**{name: value for name, value in values.items() if value is not None})
    except ValueError as error:
        raise mistake(error) from None


def run(task: Task, *, skip_exit_code: int) -> int:
    """Run the program once, if elected. Returns the exit code."""
    if refused := refusal(task.program):
        return _refused(task.program, refused)
    terminal = Terminal() if has_terminal() else None
    with serving(task.url) as url:
        code = asyncio.run(_once(task, url, skip_exit_code, terminal=terminal))
    if terminal is not None and code == INTERRUPTED:
        # The program alone had the terminal; a script around us has to hear of Ctrl-C as well, and
        # to see us end by it. Source: https://www.cons.org/cracauer/sigint.html
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.killpg(0, signal.SIGINT)
    return code


def campaign(task: Task) -> int:
    """Run the program whenever elected, until a signal ends it. Returns the exit code."""
    if refused := refusal(task.program):
        return _refused(task.program, refused)
    with serving(task.url) as url:
        return asyncio.run(_for_ever(task, url))


async def _once(task: Task, url: str, skip_exit_code: int, *, terminal: Terminal | None) -> int:
    duty = Duty(task.name, task.command, grace=task.options.stop_grace, terminal=terminal)
    async with _electing(task, url, duty, terms=False) as (elector, name):
        attempt = asyncio.ensure_future(_attempt(elector, name, duty))
        signals = Signals(duty, attempt)
        with signals.taken():
            try:
                outcome = await attempt
            except asyncio.CancelledError:
                if signals.ended_by is None:
                    raise
                return SIGNALLED + signals.ended_by
    match outcome:
        case Elected(code):
            return exit_code(code)
        case Skipped():
            say(not_elected(task.name, outcome))
            return skip_exit_code
        case LeadershipLost():
            return EX_LOST
        case ActionFailed(FailedError(code=code)):
            return exit_code(code)
        case ActionFailed(error):
            return _failure(task.program, error)


@asynccontextmanager
async def _electing(
    task: Task, url: str, duty: Duty, *, terms: bool
) -> AsyncGenerator[tuple[GroupElector, str]]:
    def told(event: Event) -> None:
        duty.told(event)
        line = news(task.name, event, terms=terms, where=where)
        if line:
            advice = advice_on(event.error, client) if isinstance(event, AttemptDelayed) else ""
            say(f"{line.rstrip('.')}; {advice}" if advice else line)

    client = connect(url)
    where = whereabouts.described(client)
    try:
        async with _family(client, task, told) as family:
            yield election(family, task.name)
    except ServerError as error:
        raise unavailable(error, client) from None
    finally:
        await client.aclose()


def _family(client: Client, task: Task, hook: Hook) -> GroupElector:
    try:
        family = GroupElector(
            client,
            task.options,
            seats=task.seats,
            prefix=task.prefix,
            leader_id=task.leader_id,
            hooks=[hook],
        )
        election(family, task.name)  # so that a name that is not usable is said now
    except ValueError as error:
        raise mistake(error) from None
    return family


async def _attempt(elector: GroupElector, name: str, duty: Duty) -> Outcome[int]:
    once_per = elector.options.once_per

    async def perform() -> int:
        code = await duty.perform()
        if code and once_per is not None and once_per.retry_failed:
            raise FailedError(code)  # which leaves the period open
        return code

    return await elector.attempt(name, perform)


async def _for_ever(task: Task, url: str) -> int:
    duty = Duty(task.name, task.command, grace=task.options.stop_grace)
    async with _electing(task, url, duty, terms=True) as (elector, name):

        async def serve() -> None:
            try:
                code = exit_code(await duty.perform())
                say(f"{task.program} ended with exit code {code}")
            except (CannotRunError, TooLateError) as error:
                _failure(task.program, error)
            except asyncio.CancelledError:
                if signals.ended_by is not None:
                    standing.cancel()  # the loss would be followed by another stand
                raise
            if signals.ended_by is not None:
                raise asyncio.CancelledError  # the seat is given back, and the campaign is over

        standing = asyncio.ensure_future(elector.campaign(name, serve))
        # Without a terminal, SIGHUP asks a service to read its settings again.
        final = ENDING if has_terminal() else ENDING - {signal.SIGHUP}
        signals = Signals(duty, standing, final=final, ending=final)
        with signals.taken():
            try:
                await standing
            except asyncio.CancelledError:
                if signals.ended_by is None:
                    raise
    ended_by = signals.ended_by or 0
    return 0 if ended_by == signal.SIGTERM else SIGNALLED + ended_by


def exit_code(code: int) -> int:
    """`code` as the shell has it: a signal's number is negative before, above 128 after."""
    return code if code >= 0 else SIGNALLED - code


def _failure(program: str, error: Exception) -> int:
    if isinstance(error, CannotRunError):
        return _refused(program, error.number)
    if isinstance(error, TooLateError):
        say(f"{program} was ended: nobody could say in time that the lease is still held")
        return EX_LOST
    raise error


def _refused(program: str, number: int) -> int:
    """Say why the program was not run. Returns the exit code, which is the shell's."""
    if number != errno.ENOENT:
        say(f"{program}: {os.strerror(number)}")
        return CANNOT_RUN
    if refusal(program) != errno.ENOENT:
        say(f"{program}: the interpreter or loader that it names was not found")
        return CANNOT_RUN
    say(f"{program}: command not found")
    return NOT_FOUND
