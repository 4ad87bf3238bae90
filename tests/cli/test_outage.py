"""`campaign` on a server that cannot save: it says why, and is not heard for each of its tries."""

from cli.stage import Program, Runs
from kit.fixtures import StartServer
from kit.sickness import full_disk
from kit.waiting import wait_until_blocking


def test_a_campaign_on_a_full_disk(start_server: StartServer, runs: Runs, program: Program) -> None:
    """The reason, the loss and its reason, and that it is over: a line for each."""
    server = start_server()
    command = program.command("tell pid $$; sleep 100")
    run = runs.start("campaign", "job", "--lease", "6s", "--", *command, url=server.url)
    program.wait_for("pid")
    with full_disk(server):
        wait_until_blocking(
            lambda: (
                server.admin.info("errorstats").get("errorstat_MISCONF", {}).get("count", 0) > 9
            ),
            within=60,
            what="ten tries that were refused",
        )
    program.wait_for("pid", times=2)
    words = [
        "leading 'job'",
        "'job' was not renewed",
        "leadership of 'job' lost: unreachable (it could not be renewed in time: refused: MISCONF",
        "the seat of 'job' could not be given back, and frees itself",
        "no longer leading 'job'",
        "the server answers again for 'job', after ",
        "leading 'job'",
    ]
    lines = wait_until_blocking(
        lambda: told if len(told := run.errors.splitlines()) >= len(words) else None
    )
    for line, word in zip(lines, words, strict=True):
        assert line.startswith(f"incumbent: {word}"), lines
    assert "refused: MISCONF" in lines[1]
