"""One run of the demo, from an empty stage to the verdict, with nothing left behind."""

import asyncio
import secrets
import signal
import sys
from types import FrameType
from typing import Final

from incumbent import LeaderElector, LeaderOptions
from incumbent.cli.connection import connect, unavailable
from incumbent.cli.demo import script, summary
from incumbent.cli.demo.node import NodeDiedError
from incumbent.cli.demo.screen import Screen, open_screen
from incumbent.cli.demo.server import Server
from incumbent.cli.demo.stage import LEASE_TIME, Stage, WaitedInVainError
from incumbent.cli.demo.verdict import Verdict, judge
from incumbent.cli.demo.warden import Warden
from incumbent.stores.redis import ServerError

LIMIT: Final = LEASE_TIME + 0.5
"""Seconds from a fault to the next leader: the lease, and a little for noticing."""

ANSWER_WITHIN: Final = 1.0
"""Seconds for one answer of the server to the demo itself."""


def give(url: str | None) -> bool:
    """Play the demo on the server at `url`, or on one of its own. Returns whether all was right.

    Raises:
        UnavailableError: there is no server, or it is gone.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as it is under nohup
            signal.signal(number, _exit)
    with Warden() as warden, open_screen(LEASE_TIME) as screen:
        title = "a server of yours"
        if url is None:
            server = Server(warden)
            url, title = server.url, f"an embedded Valkey (pid {server.pid})"
        verdict = asyncio.run(_play(url, title, warden, screen))
    screen.print("")
    for line in summary.lines(verdict):
        screen.print(line, "bold red" if verdict.failures else "bold green")
    return not verdict.failures


async def _play(url: str, title: str, warden: Warden, screen: Screen) -> Verdict:
    client = connect(url)
    prefix = f"incumbent-demo-{secrets.token_hex(4)}"
    try:
        options = LeaderOptions(request_timeout=ANSWER_WITHIN)
        async with LeaderElector(client, options, prefix=prefix, hooks=()) as elector:
            stage = Stage(url, prefix, warden=warden, elector=elector, screen=screen)
            await stage.look()
            screen.print(f"incumbent demo on {title}")
            troubles = await _perform(stage)
    except ServerError as error:
        raise unavailable(error, client) from None
    finally:
        await client.aclose()
    return judge(stage.terms, stage.faults, limit=LIMIT, troubles=troubles)


async def _perform(stage: Stage) -> list[str]:
    """Let the script play. Returns why it could not be played to its end."""
    try:
        await script.perform(stage)
    except (NodeDiedError, WaitedInVainError) as trouble:
        return [str(trouble)]
    return []


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
