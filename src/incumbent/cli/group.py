"""The command `incumbent`: what it can do, and how its ends become exit codes.

A command is a module, or a package, of this room and is added here. What is heavy it imports when
it runs, so that ``incumbent --help`` stays quick.
"""

import click

from incumbent.cli.demo.command import demo
from incumbent.cli.doctor.command import doctor
from incumbent.cli.elections.commands import candidates, release, status, step_down, watch
from incumbent.cli.endings import INTERRUPTED
from incumbent.cli.run.commands import campaign, run_once


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="incumbent")
def incumbent() -> None:
    r"""Leader election for services that share a Redis or Valkey server.

    Completion of commands and options, in the file that your shell reads at its start:

    \b
    bash  eval "$(_INCUMBENT_COMPLETE=bash_source incumbent)"
    zsh   eval "$(_INCUMBENT_COMPLETE=zsh_source incumbent)"
    fish  _INCUMBENT_COMPLETE=fish_source incumbent | source
    """


incumbent.add_command(run_once)
incumbent.add_command(campaign)
incumbent.add_command(status)
incumbent.add_command(watch)
incumbent.add_command(candidates)
incumbent.add_command(step_down)
incumbent.add_command(release)
incumbent.add_command(doctor)
incumbent.add_command(demo)


def run() -> int:
    """Run what the process's arguments say. Returns the exit code."""
    try:
        return int(incumbent.main(prog_name="incumbent", standalone_mode=False) or 0)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
