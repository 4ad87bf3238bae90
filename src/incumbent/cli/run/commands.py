"""The commands `run` and `campaign`: their options and their help."""

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from incumbent.cli.endings import in_options
from incumbent.cli.parameters import DURATION, PERIOD, WAIT, prefix_option, url_option
from incumbent.options import LeaderOptions
from incumbent.periods import OncePer

TOLERANCE: Final = 30.0
"""Seconds: crontabs start things at whole minutes, so a start is for the minute that is nearest."""

F = TypeVar("F", bound=Callable[..., Any])

SHARED: Final = (
    url_option,
    click.option(
        "--lease",
        type=DURATION,
        default=30.0,
        metavar="DURATION",
        help="How long the seat stays taken after this host has died. It is renewed every third"
        " of that, however long CMD runs. [default: 30s]",
    ),
    click.option(
        "--min-hold",
        type=DURATION,
        default=0.0,
        metavar="DURATION",
        help="Keep the seat at least this long, also after a short CMD. Not longer than the lease.",
    ),
    click.option(
        "--max-hold",
        type=DURATION,
        metavar="DURATION",
        help="End CMD when it has led this long.",
    ),
    click.option(
        "--grace",
        type=DURATION,
        metavar="DURATION",
        help="From SIGTERM to SIGKILL when the leadership ends. [default: a sixth of the lease]",
    ),
    click.option(
        "--seats",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        metavar="N",
        help="How many may lead at the same time.",
    ),
    prefix_option,
    click.option("--leader-id", metavar="TEXT", help="Who this is. [default: host:pid:hex]"),
    click.argument("name"),
    click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED),
)


def shared(function: F) -> F:
    """Add what both commands take."""
    for decorate in reversed(SHARED):
        function = decorate(function)
    return function


@click.command("run", options_metavar="[OPTIONS]")
@click.option(
    "--wait",
    type=WAIT,
    default=0.0,
    metavar="DURATION|forever",
    help="How long to stand in line for the seat. [default: one try]",
)
@click.option(
    "--once-per",
    type=PERIOD,
    metavar="PERIOD",
    help="Run at most once per period on all hosts together, by the server's clock: a duration"
    " ('1d', counted from 1970 in UTC), or a cron expression ('0 3 * * *', in UTC unless --tz"
    " says otherwise; needs the extra 'cron'). A start up to 30s before a period begins counts for"
    " that period, because clocks differ; at most a quarter of a period early.",
)
@click.option(
    "--tz",
    metavar="ZONE",
    help="The time zone of the cron expression, as 'Europe/Berlin'.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="A CMD that failed (any exit code but 0) leaves the period open for the next to try.",
)
@click.option(
    "--skip-exit-code",
    type=click.IntRange(0, 255),
    default=0,
    show_default=True,
    metavar="N",
    help="Exit code when CMD was not run.",
)
@shared
@click.pass_context
def run_once(
    context: click.Context,
    /,
    *,
    wait: float,
    once_per: OncePer | None,
    tz: str | None,
    retry_failed: bool,
    skip_exit_code: int,
    **arguments: Any,
) -> None:
    r"""Run CMD if elected in NAME, only as long as this host leads.

    \b
    incumbent run migrate --wait 5m -- ./manage.py migrate
    incumbent run nightly --once-per 1d -- ./report.sh

    A line in the crontab of several hosts NEEDS --once-per: a CMD that is done in a second has
    given its seat back when the clock of the next host comes to that minute, which would run it
    again. A run counts from its start, also if its host dies. Give --once-per the times of the
    line, and --tz the zone of the hosts' clocks if that is not UTC:

    \b
    0 3 * * *  incumbent run x --once-per '0 3 * * *' --tz Europe/Rome -- CMD

    CMD sees INCUMBENT_ELECTION, INCUMBENT_FENCE, INCUMBENT_SEAT and INCUMBENT_LEADER_ID, and runs
    in a process group of its own, to which signals are forwarded. When the leadership is lost the
    group gets SIGTERM, and SIGKILL after the grace, before the lease can end; SIGKILL at once when
    this command itself is killed. What CMD leaves behind in its group is ended as well.

    CMD has the terminal, if there is one. Ctrl-Z stops both, and the shell's fg lets both go on;
    but nobody renews the lease meanwhile, so CMD is ended if that takes longer than the lease.

    When the leadership is lost, stderr says which of these it was:

    \b
    taken          another leader has the seat, or it was released by force
    expired        the lease ran out, or was deleted on the server
    unreachable    it could not be renewed in time: the server did not answer,
                   or refused
    stalled        this process stood still for too long to renew it
    max_hold_time  it was held for as long as --max-hold allows
    stepped_down   it was asked to hand over

    The NAME of a tenant's election is written @TENANT:NAME.

    \b
    Exit codes:
      CMD's own, or 128 and the number of the signal that ended it
      0    not elected, or run already (see --skip-exit-code)
      2    usage
      64   an argument cannot be used
      69   no server, or none that answers as it should
      75   the leadership was lost, or the time of --max-hold was over
      126  CMD cannot be executed
      127  CMD was not found
    """
    from incumbent.cli.run import performance

    wait_time = None if math.isinf(wait) else wait
    once_per = _period(once_per, tz, retry_failed=retry_failed)
    options = _options(arguments, once_per=once_per).changed(wait_time=wait_time)
    task = performance.Task(options=options, **arguments)
    context.exit(performance.run(task, skip_exit_code=skip_exit_code))


@click.command(options_metavar="[OPTIONS]")
@shared
@click.pass_context
def campaign(context: click.Context, /, **arguments: Any) -> None:
    r"""Stand by for ever, and run CMD whenever this host leads NAME.

    \b
    incumbent campaign scheduler -- ./scheduler --port 80

    CMD is started when this host is elected, ended when the leadership is lost, and started anew,
    with a pause that doubles up to 30 s while it ends sooner than a lease lasts. It cannot read
    from a terminal. SIGTERM, SIGINT and SIGQUIT are forwarded, and end this command when CMD has
    ended; only then the seat is given back, and the next in line leads. SIGHUP, SIGUSR1 and
    SIGUSR2 are only forwarded (SIGHUP ends it, too, where it has a terminal). Ctrl-Z stops both.

    CMD's environment, process group and end are those of 'incumbent run', and so are the words for
    why a leadership was lost, and the NAMEs of tenants' elections.

    \b
    Exit codes:
      0    ended by SIGTERM (130 by Ctrl-C, 128 and the number by another signal)
      2    usage
      64   an argument cannot be used
      69   the server refuses (password, rights, wrong type of key), or is none
      126  CMD cannot be executed
      127  CMD was not found
    """
    from incumbent.cli.run import performance

    options = _options(arguments, restart=True)
    context.exit(performance.campaign(performance.Task(options=options, **arguments)))


def _period(every: OncePer | None, tz: str | None, *, retry_failed: bool) -> OncePer | None:
    """What the three options say together."""
    if every is None:
        if tz is not None or retry_failed:
            raise click.UsageError(
                f"{'--tz' if tz is not None else '--retry-failed'} needs --once-per"
            )
        return None
    try:
        return OncePer(every.every, tz=tz, retry_failed=retry_failed, tolerance=TOLERANCE)
    except ValueError as error:
        raise click.BadParameter(in_options(str(error)), param_hint="'--tz'") from None


def _options(arguments: dict[str, Any], **more: Any) -> LeaderOptions:
    """Take the timers out of `arguments`."""
    from incumbent.cli.run import performance

    return performance.options_of(
        lease_time=arguments.pop("lease"),
        min_hold_time=arguments.pop("min_hold"),
        max_hold_time=arguments.pop("max_hold"),
        stop_grace=arguments.pop("grace"),
        **more,
    )
