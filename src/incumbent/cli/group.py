"""The command `incumbent`: what it can do, and how its ends become exit codes.

A command is a module, or a package, of this room and is added here. What is heavy it imports when
it runs, so that ``incumbent --help`` stays quick.
"""

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import click

from incumbent.cli.bench.command import bench
from incumbent.cli.demo.command import demo
from incumbent.cli.doctor.command import doctor
from incumbent.cli.elections.commands import candidates, release, status, step_down, watch
from incumbent.cli.endings import INTERRUPTED, UnreadError
from incumbent.cli.output import say_lines
from incumbent.cli.run.commands import campaign, run_once


class _Commands(click.Group):
    """Commands whose reader may go away: click alone would end them with 1, as if they failed."""

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """As click does; here its own pages are written."""
        with _read():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; here everything else is written."""
        with _read():
            return super().invoke(ctx)


@contextmanager
def _read() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise UnreadError from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="incumbent")
def incumbent() -> None:
    r"""Leader election for services that share a Redis or Valkey server.

    Completion of commands, options and names of elections, in the file that your shell reads at its
    start:

    \b
    bash  eval "$(_INCUMBENT_COMPLETE=bash_source incumbent)"
    zsh   eval "$(_INCUMBENT_COMPLETE=zsh_source incumbent)"
    fish  _INCUMBENT_COMPLETE=fish_source incumbent | source
    """


COMMANDS: Final[tuple[click.Command, ...]] = (
    run_once,
    campaign,
    status,
    watch,
    candidates,
    step_down,
    release,
    doctor,
    bench,
    demo,
)


def _complete() -> None:
    for command in COMMANDS:
        incumbent.add_command(command)
    for page in (incumbent, *COMMANDS):
        # What tells click to leave a paragraph as it is; the sources have it in letters.
        page.help = (page.help or "").replace(r"\b", "\b")


_complete()


def run() -> int:
    """Run what the process's arguments say. Returns the exit code."""
    if "_INCUMBENT_COMPLETE" in os.environ:
        from incumbent.cli.completion import shells

        shells.register()
    try:
        return int(incumbent.main(prog_name="incumbent", standalone_mode=False) or 0)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say_lines(shown.getvalue().rstrip("\n"))
        return error.exit_code
