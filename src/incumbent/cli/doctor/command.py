"""The command `doctor`: its options and its help."""

from typing import Any

import click

from incumbent.cli.asking import Where
from incumbent.cli.parameters import DURATION, asks, json_option


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@click.option(
    "--lease",
    type=DURATION,
    default=30.0,
    metavar="DURATION",
    help="The lease time that your electors use. [default: 30s]",
)
@click.pass_context
def doctor(context: click.Context, /, *, lease: float, as_json: bool, **where: Any) -> None:
    r"""Tell whether the server is fit for elections, and what to do.

    \b
    incumbent doctor
    incumbent doctor --lease 5s --json

    It looks at the server's version, eviction, replication, min-replicas, persistence, the rights
    of this user, the clocks, pub/sub, and all keys under the prefix: those without a TTL, and
    corrupt ones. What the server refuses, or does not answer within --timeout, is a finding, too.
    It changes nothing, and takes a second or more.

    --json gives {"ok", "findings": [{"about", "level", "found", "means", "advice"}]}; a level is
    "ok", "note" (a bound that one should know) or "wrong".

    \b
    Exit codes:
      0    nothing is wrong (there may be notes)
      1    something is wrong
      2    usage
      64   an argument cannot be used
      69   no server, or it refuses the log-in
    """
    from incumbent.cli.doctor import performance

    context.exit(0 if performance.examine(Where(**where), lease, as_json=as_json) else 1)
