"""Every Python example of the README runs, in the order of the page, against a real server."""

import ast
import inspect
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from incumbent import LeaderElector
from kit.servers import Server

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def examples() -> list[str]:
    """The Python blocks of the page."""
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def programs() -> list[str]:
    """Those that are whole programs."""
    return [example for example in examples() if "asyncio.run(" in example]


def test_the_page_has_examples() -> None:
    """The pattern that finds the examples finds them."""
    assert len(examples()) == 16
    assert len(programs()) == 2


async def test_the_first_example_runs_as_a_program(valkey: Server, capsys: Any) -> None:
    """The first example, started as it stands with only the port changed, makes one report."""
    program = examples()[0].replace("asyncio.run(main())", "await main()")
    program = program.replace("Redis()", f"Redis.from_url({valkey.url!r})")
    await run(program, {})
    await run(program, {})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "42 pages"
    assert len(said) == 2


def test_three_processes_make_one_report(valkey: Server, tmp_path: Path) -> None:
    """The first example claims that: at once, and one after another."""
    program = tmp_path / "first.py"
    program.write_text(examples()[0].replace("Redis()", f"Redis.from_url({valkey.url!r})"))
    assert_once(valkey, program, "42 pages")


@pytest.mark.parametrize(
    ("name", "work"), [("threads.py", "the sum is"), ("tenants.py", "acme: 6")]
)
def test_three_processes_of_an_example_do_the_work_once(
    valkey: Server, name: str, work: str
) -> None:
    """What its first line says of several processes is so."""
    assert_once(valkey, ROOT / "examples" / name, work)


def assert_once(server: Server, program: Path, work: str) -> None:
    """Of three processes at once and one that comes later, one says that it did the work."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "REDIS_URL": server.url}

    def start() -> "subprocess.Popen[str]":
        command: list[str | Path] = [sys.executable, program]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)

    day = int(server.cli("TIME")[0]) // 900
    said = [process.communicate(timeout=150)[0] for process in [start() for _ in range(3)]]
    said.append(start().communicate(timeout=150)[0])
    periods = int(server.cli("TIME")[0]) // 900 - day + 1  # it may be just midnight
    assert 1 <= sum(work in each for each in said) <= periods, said
    assert all(said), said


async def test_the_other_examples_run_one_after_another(valkey: Server, capsys: Any) -> None:
    """The other examples run with what the text around them speaks of."""
    saved: list[int] = []

    async def generate() -> str:
        return "42 pages"

    async def serve() -> None:
        state = await elector.state("scheduler")
        assert state.leaders[0].leader_id == elector.leader_id

    class Tidied(BaseException):
        """Ends the schedule, which nothing else does."""

    async def tidy_up() -> None:
        raise Tidied

    async def consume(partition: int) -> None:
        assert partition == 0

    async def save(rows: object, fence: int) -> None:
        saved.append(fence)

    async with (
        Redis.from_url(valkey.url) as redis,
        LeaderElector(redis) as elector,
    ):
        names = {
            "elector": elector,
            "redis": redis,
            "generate": generate,
            "serve": serve,
            "save": save,
            "rows": [],
            "tidy_up": tidy_up,
            "consume": consume,
            "url": valkey.url,
        }
        for example in (each for each in examples() if each not in programs()):
            with suppress(Tidied):
                await run(example.replace("every=60", "every=0.2"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "done: 42 pages"
    assert "web-1 {'web-1': -0.5} {}" in said
    assert "{} 3" in said
    assert len(saved) == 1


async def run(source: str, names: dict[str, Any]) -> None:
    """Run `source` with `names`; it may await at its top level."""
    code = compile(source, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.isawaitable(result):
        await result
