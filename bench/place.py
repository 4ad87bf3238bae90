"""Where and with what the figures were measured."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kit.servers import Server

ROOT = Path(__file__).resolve().parent.parent


def describe(server: Server) -> dict[str, str]:
    """Command, date, machine and versions, by name."""
    info = server.admin.info("server")
    load = ", ".join(f"{average:.2f}" for average in os.getloadavg())
    return {
        "command": shlex.join(["scripts/bench", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.platform()}",
        "load before": load,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(
            f"{name} {_version(name)}" for name in ("incumbent", "redis", "hiredis", "anyio")
        ),
        "commit": _commit(),
        "server": f"{server.kind}: Valkey {info.get('valkey_version', '?')}",
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
