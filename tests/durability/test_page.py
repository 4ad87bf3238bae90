"""The example of `docs/durability.md` runs, with a replica and without."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from durability.scene import House
from kit.fixtures import MakeClient

PAGE = Path(__file__).parents[2] / "docs" / "durability.md"


async def test_the_example_runs(
    house: House, make_client: MakeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """Paid when the replica answers; the sentence of the page when it does not."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    paid: list[str] = []

    async def pay() -> None:
        paid.append("paid")

    names: dict[str, Any] = {"redis": make_client(house.primary), "pay": pay}
    code = compile(
        example.replace("timeout=0.2", "timeout=1"),
        str(PAGE),
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )

    async def run() -> None:
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
        await names["elector"].aclose()

    await run()
    assert paid == ["paid"]
    house.relay.hold()
    await run()
    assert paid == ["paid"]
    assert capsys.readouterr().out == "0 of 1 replicas: nobody was paid\n"
