"""The command `bench`: its options and its help."""

from typing import Any, Final

import click

from incumbent.cli.asking import Where
from incumbent.cli.parameters import DURATION, asks, json_option

SECONDS: Final = 4.0
QUICK: Final = 1.0


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@click.option(
    "--seconds",
    type=DURATION,
    metavar="DURATION",
    help="How long to measure, in all. [default: 4s]",
)
@click.option("--quick", is_flag=True, help="The same as --seconds 1.")
@click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="How many elections are held side by side in the third measurement.",
)
def bench(*, seconds: float | None, quick: bool, at_once: int, as_json: bool, **where: Any) -> None:
    r"""How fast is this server, from here? Measures four things.

    \b
    PING           a round trip, without any election
    one by one     elections (elected, done, seat given back), one after another
    at once        the same with N elections side by side
    hand-over      from the end of a leader's work to the first line of the
                   next one in line, each with connections of its own

    It works at full speed, so it is a load; on a server in use, prefer --quick. All keys begin with
    the prefix and ':bench-', are of this run alone, and are removed at its end, also by Ctrl-C or
    when the terminal is closed.

    --json gives {"measurements": [{"about", "at_once", "count", "per_second", "p50", "p99",
    "max"}]}: times in seconds, and a rate of null for hand-overs.

    \b
    Exit codes:
      0    measured
      2    usage
      64   an argument cannot be used
      69   no server, or none that answers as it should
      130  ended by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP
    """
    from incumbent.cli.bench import performance

    if quick and seconds is not None:
        raise click.UsageError("--quick is --seconds 1: give one of them")
    if seconds is None:
        seconds = QUICK if quick else SECONDS
    performance.bench(Where(**where), seconds, at_once, as_json=as_json)
