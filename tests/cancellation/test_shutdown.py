"""Field case 32: programs that end in the midst of it, in asyncio's debug mode, warnings as errors.

Nothing is destroyed while pending, nothing was never retrieved or awaited, and no seat is left.
"""

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys
from pathlib import Path

import anyio
import pytest
import redis.asyncio

from incumbent import LeaderElector, LeaderOptions
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server

PROGRAM = Path(__file__).with_name("program.py")
UNDER_WAY = ("election", "wait", "action", "renewal", "release")


async def run(proxy: Proxy, end: str, *under_way: str) -> tuple[int, str, str]:
    """Run the program to its end; interrupt it if that is how it ends."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-W", "error", str(PROGRAM), proxy.url, end, *under_way),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        assert process.stdout is not None
        said = await asyncio.wait_for(process.stdout.readline(), 20)
        if end == "interrupt":
            process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    assert process.returncode is not None
    return process.returncode, (said + out).decode(), err.decode()


def seats(server: Server) -> list[str]:
    """The seats that are taken."""
    return [key for key in server.cli("KEYS", "incumbent:*") if ":seat:" in key]


@pytest.mark.parametrize("end", ["close", "close_first", "abandon", "abandon_cancelled"])
async def test_case_32_pending_at_the_end(valkey: Server, proxy: Proxy, end: str) -> None:
    """Whatever is under way when the program ends, it ends in silence and leaves no seat."""
    proxy.delay(0.02)
    waited_for = "incumbent:{program-wait}:seat:0"
    valkey.cli("HSET", waited_for, "token", "another", "leader", "x", "fence", 1, "since", 1)
    valkey.cli("PEXPIRE", waited_for, 60_000)
    code, out, err = await run(proxy, end, *UNDER_WAY)
    assert code == 0, err
    assert [line for line in out.splitlines() if "under way" in line] == [
        f"{what} under way" for what in UNDER_WAY
    ]
    complaints = re.findall(
        r"^\w+(?:Error|Warning)\b.*|.*\b(?:pending|never)\b.*", err, re.MULTILINE
    )
    if end.startswith("abandon"):  # who closes no client is told so by it
        complaints = [line for line in complaints if not line.startswith("ResourceWarning")]
    assert not complaints, err
    assert seats(valkey) == [waited_for]


async def test_case_32_interrupted(valkey: Server, proxy: Proxy) -> None:
    """Ctrl-C lets the action clean up, gives the seat back and comes out as itself."""
    code, out, err = await run(proxy, "interrupt", "action")
    assert code == 0, err
    assert out.splitlines() == ["action under way", "cleaned up", "interrupted"]
    assert not seats(valkey)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore:loop is closed")
def test_case_32_the_server_is_silent_at_the_end(
    valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The last release has no answer; what still tries to connect then ends with the loop."""

    async def program(relay: ProxyThread) -> None:
        leading = asyncio.Event()

        async def lead() -> None:
            leading.set()
            await anyio.sleep_forever()

        client = redis.asyncio.Redis.from_url(relay.url)
        elector = LeaderElector(client, LeaderOptions(lease_time=0.25), hooks=())
        campaign = asyncio.create_task(elector.campaign("silent", lead))
        await leading.wait()
        relay.do(lambda proxy: proxy.hold_replies())
        assert not campaign.done()

    with ProxyThread(valkey) as relay:
        asyncio.run(program(relay))
        gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
