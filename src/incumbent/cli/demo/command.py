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
    """Watch three processes elect a leader, and lose it twice.

    Three real processes stand for one election on an embedded Valkey (extra 'embedded'). The leader
    is killed (SIGKILL); a later one is frozen (SIGSTOP) for longer than its lease, and resumed.
    Takes about 15 seconds. Exit code 0 only if no two ever led at once, fences grew strictly, and
    each take-over came within the lease time and half a second.
    """
    from incumbent.cli.demo.performance import give

    context.exit(0 if give(url) else 1)
