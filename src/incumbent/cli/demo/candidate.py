"""One process of the demo: stands for the election, leads when elected, and says what it does.

It uses the library as any service would; what is special is that each report says until when the
process may rely on its lease. It leaves, and gives the seat back, when its stdin closes.
"""

import asyncio
import contextlib
import sys
from typing import Final, NoReturn

from incumbent import LeaderElector, LeaderOptions, clock, current_lease
from incumbent.cli.connection import connect
from incumbent.cli.demo.reports import Report
from incumbent.events import Event, TermEnded, TermRenewed

PERIOD: Final = 0.1
"""Seconds between two pieces of work of the leader."""


def report(report: Report) -> None:
    """Tell the demo, at once."""
    sys.stdout.write(report.line())
    sys.stdout.flush()


async def serve() -> NoReturn:
    """What the leader does: say so, ten times a second, as long as it holds its lease."""
    lease = current_lease()
    if lease is None:
        raise RuntimeError("serve() is for leaders")
    try:
        while True:
            now = clock.now()
            if lease.held:
                until = now + lease.remaining
                report(Report(kind="leading", at=now, fence=lease.fence, until=until))
            await asyncio.sleep(PERIOD)
    finally:
        reason = lease.loss_reason or ""
        report(Report(kind="stopped", at=clock.now(), fence=lease.fence, reason=reason))


def hook(event: Event) -> None:
    """Report what happens between two pieces of work."""
    now = clock.now()
    if isinstance(event, TermRenewed):
        report(Report(kind="leading", at=now, fence=event.fence, until=now + event.remaining))
    elif isinstance(event, TermEnded):
        report(Report(kind="standing", at=now))


async def stand(url: str, election: str, prefix: str, name: str, lease_time: float) -> None:
    """Stand for `election` until stdin closes."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("stand() needs a task")
    client = connect(url)
    options = LeaderOptions(lease_time=lease_time)
    asyncio.get_running_loop().add_reader(0, _leave, task)
    report(Report(kind="standing", at=clock.now()))
    try:
        async with LeaderElector(
            client, options, prefix=prefix, leader_id=name, hooks=[hook]
        ) as elector:
            await elector.campaign(election, serve)
    finally:
        await client.aclose()


def _leave(task: asyncio.Task[None]) -> None:
    asyncio.get_running_loop().remove_reader(0)
    task.cancel()


def main(url: str, election: str, prefix: str, name: str, lease_time: str) -> None:
    """Be the process `name`."""
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(stand(url, election, prefix, name, float(lease_time)))


if __name__ == "__main__":
    main(*sys.argv[1:])
