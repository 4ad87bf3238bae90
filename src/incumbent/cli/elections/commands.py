"""The commands `status`, `watch`, `candidates`, `step-down`, `release`: options and help."""

from typing import Any, Final

import click

from incumbent.cli.asking import Where
from incumbent.cli.completion.names import elections
from incumbent.cli.parameters import asks, json_option

NOTHING_DONE: Final = 1
"""Exit code of a command that found nobody to do it to, or was told not to."""

NOT_ALL: Final = 1
"""Exit code of a command that could not read all that it should show."""

seat_option: Final = click.option(
    "--seat", type=click.IntRange(0, 1023), metavar="N", help="Which seat of a group."
)


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=elections)
@click.pass_context
def status(
    context: click.Context, /, *, names: tuple[str, ...], as_json: bool, **where: Any
) -> None:
    r"""Show who leads NAME, and how many wait; or all elections.

    \b
    incumbent status
    incumbent status scheduler --json

    Without a NAME it shows all elections under the prefix that had a leader within the last day, or
    that somebody waits for or is a candidate for. To find them, it looks through all keys of the
    server, without blocking it. An election of a tenant is written @TENANT:NAME.

    --json gives {"elections": [{"name", "leaders", "waiting"}]}; each of the leaders has "seat",
    "leader_id", "fence", "since", "remaining" (seconds) and "retained" (true where only a minimum
    hold keeps the seat, and nobody leads). An election that cannot be read, because a key of it has
    a wrong type or this user has no right to it, has an "error" instead.

    \b
    Exit codes:
      0    shown, also when nobody leads
      1    shown, but some of them cannot be read
      2    usage
      64   an argument cannot be used
      69   no server, or none of them can be read
    """
    from incumbent.cli.elections import performance

    read = performance.status(Where(**where), names, as_json=as_json)
    context.exit(0 if read else NOT_ALL)


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=elections)
def watch(*, names: tuple[str, ...], as_json: bool, **where: Any) -> None:
    r"""Follow who leads NAME, or all elections, until Ctrl-C.

    \b
    incumbent watch scheduler
    incumbent watch --json | jq .leaders

    On a terminal this is a table. Elections that cannot be read, or have no leader, come first.
    Space and b turn the pages, and the arrows move by a row. / shows only the elections whose names
    or leaders contain what you type; Escape shows all again. q quits. Elsewhere, and with
    TERM=dumb, each change is a line: first what is now, then what happens.

    A NAME that no election has yet may be misspelt: the table, or stderr, says so and names the
    most similar one. The NAME is followed anyway.

    The server tells of changes when they happen, and nothing is polled; without a NAME, new
    elections are looked for every ten seconds. When the server is not heard, watch says since when,
    and shows nobody as a leader until it is heard again. It notices a broken connection at once,
    and a silent server within twelve seconds.

    --json gives one line for each change: {"at", "name", "leaders", "waiting"}, with all the
    leaders that there are then; {"at", "name", "error", "silent_since"} when an election is not
    heard of any more, and {"at", "name", "error"} when it cannot be read. {"at", "refuses_writes"}
    says why nobody can be elected, as on a full disk, and null when that is over.

    \b
    Exit codes:
      0    ended by q
      2    usage
      64   an argument cannot be used
      69   no server, or none of them can be read, at the beginning
      130  ended by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP
      141  nobody reads what is written any more
    """
    from incumbent.cli.elections import following

    following.watch(Where(**where), names, as_json=as_json)


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@click.option(
    "--strategy",
    metavar="MODULE:NAME",
    help="Also whom this strategy would choose, the scores and the reasons: an object, a function,"
    " or a class that needs no arguments.",
)
@click.argument("name", shell_complete=elections)
def candidates(*, name: str, strategy: str | None, as_json: bool, **where: Any) -> None:
    r"""Show the candidates for NAME. The best of them leads.

    \b
    incumbent candidates reports
    incumbent candidates reports --strategy myapp.elections:strategy
    incumbent candidates reports --strategy incumbent.strategy:Fifo --json

    Without a strategy it shows their records, in the order of registration. With one it does a dry
    run, and shows the order, the scores, and for each loser the reason. It changes nothing.

    \b
    Exit codes:
      0    shown, also when nobody stands
      2    usage
      64   an argument cannot be used
      69   no server, or none that answers as it should
    """
    from incumbent.cli.elections import standing

    standing.candidates(Where(**where), name, strategy, as_json=as_json)


@click.command("step-down", options_metavar="[OPTIONS]")
@asks
@json_option
@seat_option
@click.argument("name", shell_complete=elections)
@click.pass_context
def step_down(
    context: click.Context, /, *, name: str, seat: int | None, as_json: bool, **where: Any
) -> None:
    r"""Ask who leads NAME to hand over to the next in line.

    \b
    incumbent step-down scheduler

    The holder learns it with its next renewal, within a third of its lease time: its work is
    stopped, cleans up, and the seat is given back. In a group all are asked, or that of --seat.

    \b
    Exit codes:
      0    asked
      1    nobody was there to be asked
      2    usage
      64   an argument cannot be used
      69   no server, or none that answers as it should
    """
    from incumbent.cli.elections import performance

    asked = performance.step_down(Where(**where), name, seat, as_json=as_json)
    context.exit(0 if asked else NOTHING_DONE)


@click.command(options_metavar="[OPTIONS]")
@asks
@json_option
@seat_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("name", shell_complete=elections)
@click.pass_context
def release(
    context: click.Context,
    /,
    *,
    name: str,
    seat: int | None,
    yes: bool,
    as_json: bool,
    **where: Any,
) -> None:
    r"""Take a seat of NAME from a holder that does not listen.

    \b
    incumbent release scheduler
    incumbent release partitions --seat 3 --yes

    For a holder that hangs but still renews its lease. Try 'incumbent step-down' first, which asks
    it. Nobody gets the seat at once: it stays blocked until the lease expires. The holder learns
    with its next renewal that it has lost the seat, and is stopped before another can lead. The
    command shows the holder and asks you, unless you say --yes. Where several seats are held,
    --seat must say which.

    \b
    Exit codes:
      0    taken
      1    nobody holds it, another one holds it by now, or you said no
      2    usage
      64   an argument cannot be used
      69   no server, or none that answers as it should
    """
    from incumbent.cli.elections import performance

    taken = performance.release(Where(**where), name, seat, yes=yes, as_json=as_json)
    context.exit(0 if taken else NOTHING_DONE)
