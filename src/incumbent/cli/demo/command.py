"""The command `incumbent demo`: its options, its help and its exit code."""

import click


@click.command()
@click.option(
    "--url",
    metavar="URL",
    help="Use this server instead of an embedded Valkey. Only keys that begin with"
    " 'incumbent-demo' are touched, and all expire by themselves.",
)
@click.pass_context
def demo(context: click.Context, url: str | None) -> None:
    r"""Watch three processes elect a leader, and lose it twice.

    Three real processes stand for one election on an embedded Valkey (extra 'embedded'). The leader
    is killed (SIGKILL); a later one is frozen (SIGSTOP) for longer than its lease, and resumed.
    Takes about 15 seconds.

    \b
    Exit codes:
      0    no two led at once, each fence was larger than the one before, and
           each take-over came within the lease time and half a second
      1    one of these was not so, or a process failed
      2    usage
      64   the URL cannot be used
      69   no server, or none that answers as it should
      130  ended by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP
    """
    from incumbent.cli.demo.performance import give

    context.exit(0 if give(url) else 1)
