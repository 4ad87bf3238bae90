"""Every Python example of the README runs, in the order of the page, against a real server."""

import ast
import inspect
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from incumbent import LeaderElector
from kit.servers import Server

README = Path(__file__).parents[2] / "README.md"


def examples() -> list[str]:
    """The Python blocks of the page."""
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_has_examples() -> None:
    """The pattern that finds the examples finds them."""
    assert len(examples()) == 14


async def test_the_first_example_runs_as_a_program(valkey: Server, capsys: Any) -> None:
    """The first example, started as it stands with only the port changed, prints its report."""
    program = examples()[0].replace("asyncio.run(main())", "await main()")
    program = program.replace("Redis()", f"Redis.from_url({valkey.url!r})")
    await run(program, {})
    assert capsys.readouterr().out == "42 pages\n"


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
        for example in examples()[1:]:
            with suppress(Tidied):
                await run(example.replace("every=60", "every=0.2"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "done: 42 pages"
    assert "web-1 {'web-1': -0.5} {}" in said
    assert "worker-1 2" in said
    assert len(saved) == 1


async def run(source: str, names: dict[str, Any]) -> None:
    """Run `source` with `names`; it may await at its top level."""
    code = compile(source, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.isawaitable(result):
        await result
