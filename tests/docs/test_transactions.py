"""In no Python block of ours does a transaction outlive the lease that it is written under."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEADS = {"lead", "try_lead"}
TRANSACTIONS = {"begin", "transaction", "connect"}


def sources() -> Iterator[tuple[str, str]]:
    """Each block of each page, each docstring's block, each example."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        yield from ((f"{page.name}:{number}", block) for number, block in enumerate(blocks))
    for example in (ROOT / "examples").glob("*.py"):
        yield example.name, example.read_text()
    for module in (ROOT / "src").rglob("*.py"):
        for number, block in enumerate(docstring_blocks(module.read_text())):
            yield f"{module.relative_to(ROOT)}:{number}", block


def docstring_blocks(source: str) -> Iterator[str]:
    """What stands behind ``::`` in docstrings, as far as it is Python."""
    if "::\n\n" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for block in re.findall(r"::\n\n((?:    .*\n|\n)+)", f"{ast.get_docstring(node)}\n"):
            lines = [line[4:] for line in block.splitlines()]
            code = "\n".join(lines)
            try:
                compile(code, "", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
            except SyntaxError:
                continue  # a drawing
            yield code


def misplaced(tree: ast.AST, outer: frozenset[str] = frozenset()) -> Iterator[str]:
    """Each lease that is taken within a transaction."""
    for node in ast.iter_child_nodes(tree):
        around = outer
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    if call.func.attr in LEADS and around & TRANSACTIONS:
                        yield ast.unparse(node)
                    around |= {call.func.attr}
        yield from misplaced(node, around)


SOURCES = dict(sources())


@pytest.mark.parametrize("where", SOURCES)
def test_a_transaction_stands_inside_of_the_lease(where: str) -> None:
    """It is committed before the seat is given back."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    assert list(misplaced(compile(SOURCES[where], where, "exec", flags))) == []


def test_it_would_be_found() -> None:
    """In one statement, and in two."""
    for wrong in (
        "async with engine.begin() as c, e.lead('x') as lease: pass",
        "with db.transaction():\n    with e.try_lead('x'): pass",
    ):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        assert list(misplaced(compile(wrong, "", "exec", flags)))
    assert len(SOURCES) > 40
