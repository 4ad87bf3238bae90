"""What the tests of the electors for threads share, and the programs that they run."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import incumbent
from incumbent import LeaderOptions
from kit.servers import Server

SOURCE = Path(incumbent.__file__).parents[1]
TESTS = Path(__file__).parents[1]
PORTAL = "incumbent portal"


def quick(**changes: Any) -> LeaderOptions:
    """Options with a short lease, which bears a process or two that stand still for a moment."""
    return LeaderOptions(**({"lease_time": 3.0, "request_timeout": 1.0} | changes))


def environment() -> dict[str, str]:
    """In which a child process finds the library and the kit."""
    return os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}"}


def start(code: str, server: Server, *args: str, first: str = "") -> "subprocess.Popen[str]":
    """A Python program of its own; `url` and `incumbent.blocking` are there after `first`."""
    head = first + (
        "import os, signal, sys, threading, time\n"
        "from incumbent import *\n"
        "from incumbent.blocking import *\n"
        "from incumbent.blocking import LeaderElector, current_lease\n"
        "url = sys.argv[1]\n"
        "quick = LeaderOptions(lease_time=3.0, request_timeout=1.0)\n"
        "def say(*words):  # at once, for two threads may speak\n"
        "    sys.stdout.write(' '.join(map(str, words)) + '\\n')\n"
        "    sys.stdout.flush()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", head + code, server.url, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def finished(child: "subprocess.Popen[str]", within: float = 60.0) -> tuple[int, str, str]:
    """Wait for its end: exit code, what it said, what it complained of."""
    try:
        out, err = child.communicate(timeout=within)
    finally:
        child.kill()
    return child.returncode, out, err


def program(code: str, server: Server, *args: str, first: str = "") -> list[str]:
    """Run a program that must end well and complain of nothing; its lines."""
    returncode, out, err = finished(start(code, server, *args, first=first))
    assert (returncode, err) == (0, ""), (returncode, out, err)
    return out.splitlines()


def heard(child: "subprocess.Popen[str]") -> str:
    """The next line that it says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


RENEWED = (
    "import logging\n"
    "logging.getLogger('incumbent').setLevel(logging.ERROR)  # a busy machine delays renewals\n"
    "renewed = LeaderOptions(lease_time=6.0, request_timeout=1.0)\n"
    "until = {}\n"
    "def more():\n"
    "    'Whether the lease would still last that was granted, or a moment more.'\n"
    "    lease = current_lease()\n"
    "    return time.monotonic() < until.setdefault(lease.fence, time.monotonic() + 6.5)\n"
)
"""For programs whose actions go on until their leases would be over, had they not been renewed."""


@contextmanager
def thread(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """A thread that has ended when the block has."""
    running = threading.Thread(target=work)
    running.start()
    try:
        yield running
    finally:
        running.join(60)
        assert not running.is_alive()
