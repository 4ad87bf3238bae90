"""The type tests leave nothing out: each public member is called in a file of `tests/types`."""

import ast
from pathlib import Path
from typing import Any

import pytest

import incumbent
import incumbent.fastapi
from incumbent import GroupElector, LeaderElector, Lease, StrategicElector, blocking

FOLDER = Path(__file__).parent / "types"


def used(file: str) -> set[tuple[str, str]]:
    """Each ``variable.member`` of a file."""
    tree = ast.parse((FOLDER / file).read_text())
    return {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def members(kind: type[Any], beyond: type[Any] | None = None) -> set[str]:
    """The public ones; with `beyond`, those that it adds."""
    return {name for name in set(dir(kind)) - set(dir(beyond)) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("file", "variable", "wanted"),
    [
        ("asyncio_calls.py", "elector", members(LeaderElector)),
        ("asyncio_calls.py", "group", members(GroupElector, LeaderElector)),
        ("asyncio_calls.py", "lease", members(Lease)),
        ("blocking_calls.py", "elector", members(blocking.LeaderElector)),
        ("blocking_calls.py", "group", members(blocking.GroupElector, blocking.LeaderElector)),
        ("blocking_calls.py", "lease", members(blocking.Lease)),
        ("strategic_calls.py", "elector", members(StrategicElector, LeaderElector)),
        ("fastapi_calls.py", "view", members(incumbent.fastapi.Leadership)),
    ],
)
def test_each_member_has_a_type_test(file: str, variable: str, wanted: set[str]) -> None:
    """A new method without one is noticed here."""
    assert wanted - {name for owner, name in used(file) if owner == variable} == set()


def test_each_name_has_a_type_test() -> None:
    """What the modules export is imported by their type tests."""
    text = "".join(each.read_text() for each in FOLDER.glob("*.py"))
    names = {*incumbent.__all__, *blocking.__all__, *incumbent.fastapi.__all__}
    # Raised, never returned:
    errors = {
        *("ElectorClosedError", "IncumbentError", "LeadershipLostError", "NotDurableError"),
        *("NotElectedError", "StaleFenceError"),
    }
    assert {name for name in names - errors if name not in text} == set()
