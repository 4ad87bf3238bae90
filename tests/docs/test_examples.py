"""The files in `examples` run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import incumbent
from kit.ports import free_port
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import token_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(incumbent.__file__).parents[1]


def environment(server: Server) -> dict[str, str]:
    """In which an example finds the library and the server."""
    return os.environ | {"PYTHONPATH": str(SOURCE), "REDIS_URL": server.url}


def test_threads(valkey: Server) -> None:
    """It prints the sum, and leaves the seat free."""
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "threads.py"],
        capture_output=True,
        text=True,
        timeout=150,
        env=environment(valkey),
    )
    assert (run.stdout, run.stderr) == (f"the sum is {sum(range(2_000_000))}\n", "")
    assert token_of(valkey, "sum") is None


def test_fastapi_app(valkey: Server) -> None:
    """It answers, leads, takes a job, and releases the seat at its end."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--port", str(port)]
    command += ["--app-dir", str(EXAMPLES), "fastapi_app:app"]
    process = subprocess.Popen(command, env=environment(valkey), stderr=subprocess.DEVNULL)

    def get(path: str, method: str = "GET") -> int:
        try:
            return httpx.request(method, f"http://127.0.0.1:{port}{path}").status_code
        except httpx.TransportError:
            return 0

    try:
        wait_until_blocking(lambda: get("/jobs", "POST") == 200, within=120, what="it leads")
        assert [get(path) for path in ("/", "/leadership", "/ready")] == [200, 200, 200]
    finally:
        process.terminate()
        process.wait(20)
    assert token_of(valkey, "scheduler") is None


def test_cron(valkey: Server, tmp_path: Path) -> None:
    """Four hosts with the same line, at the same moment: one makes the report; the others say so.

    ``incumbent`` is found as in a crontab, by its name.
    """
    command = tmp_path / "incumbent"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m incumbent.cli "$@"\n')
    command.chmod(0o755)
    env = environment(valkey) | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "INCUMBENT_URL": valkey.url,
    }

    def period() -> int:
        """By the server: it begins at 3:00, and starts half a minute early count for it."""
        return (int(valkey.cli("TIME")[0]) - 3 * 3600 + 30) // 86_400

    before = period()
    hosts = [
        subprocess.Popen(
            [EXAMPLES / "cron.sh"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for _ in range(4)
    ]
    told = sorted((*host.communicate(timeout=150), host.returncode) for host in hosts)
    if period() != before:
        pytest.skip("it was 3:00 in UTC: two days, two reports")
    skipped = "incumbent: not run: 'nightly-report' has been run in this period\n"
    assert told[:-1] == [("", skipped, 0)] * 3
    report, complaints, code = told[-1]
    assert (complaints, code) == ("", 0)
    assert report.startswith("report, under fence ")
    assert token_of(valkey, "nightly-report") is None


def test_tenants(valkey: Server) -> None:
    """Each tenant has its total; the one that fails disturbs nobody."""
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "tenants.py"],
        capture_output=True,
        text=True,
        timeout=150,
        env=environment(valkey),
    )
    lines = {"acme: 6", "globex: 9", "broken: failed, no numbers for broken"}
    assert set(run.stdout.splitlines()) == lines
    assert run.stderr.startswith("action raised (election='@broken:totals'"), "the log says so"


def test_fenced_writes(valkey: Server) -> None:
    """The second leader writes, the first is refused by each storage; nothing is left behind."""
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "fenced_writes.py"],
        capture_output=True,
        text=True,
        timeout=150,
        env=environment(valkey),
    )
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "database: the stale write is refused",
        "transaction: the stale write is refused",
        "script: the stale write is refused",
        "['first', 'second']",
    ]
    assert token_of(valkey, "reports") is None
    assert not valkey.cli("KEYS", "example:*")


def test_batch_scheduler(valkey: Server) -> None:
    """Its heart beats, and SIGTERM ends it in order."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", EXAMPLES / "batch_scheduler.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(valkey),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"heartbeat from process {process.pid}\n"
        process.terminate()
        _, complaints = process.communicate(timeout=150)
    finally:
        process.kill()
    assert (process.returncode, complaints) == (0, "")
    assert token_of(valkey, "heartbeat") is None
