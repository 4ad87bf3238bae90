"""Every Python block of the README and the pages under `docs` passes `mypy --strict`."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if "```python" in page.read_text()
]
WHAT_THE_TEXT_SPEAKS_OF = """
import sqlite3

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from incumbent import LeaderElector
from incumbent.blocking import LeaderElector as ThreadElector
from incumbent.events import Event
from incumbent.strategy import Strategy

blocking_elector: ThreadElector
connection: AsyncConnection
elector: LeaderElector
engine: AsyncEngine
other: Redis
path: str
redis: Redis
rows: list[str]
strategy: Strategy
url: str

def compute() -> int: return 0
async def consume(partition: int) -> None: ...
async def generate() -> str: return ""
async def pay() -> None: ...
async def save(rows: list[str], fence: int) -> None: ...
async def serve() -> None: ...
async def tidy_up() -> None: ...
"""


def blocks(page: Path) -> list[str]:
    """Its Python examples."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def module(page: Path) -> str:
    """A module in which each block is a function of its own, as if it were copied into one."""
    parts = [WHAT_THE_TEXT_SPEAKS_OF]
    for number, block in enumerate(blocks(page)):
        parts.append(f"async def block_{number}() -> None:\n{indent(block, '    ')}")
    return "\n\n".join(parts)


def test_all_blocks_pass_mypy(tmp_path: Path) -> None:
    """As a user checks them who has copied them."""
    for page in PAGES:
        (tmp_path / f"{page.stem.lower()}_page.py").write_text(module(page))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-incremental"]
    run = subprocess.run(
        [*command, "--no-error-summary", *tmp_path.iterdir()],
        capture_output=True,
        text=True,
        timeout=170,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr
    assert len(PAGES) == 4
