"""Names from the arguments of a call: what a template may ask for, and what it gives."""

from typing import Any

import pytest

from incumbent.templates import NameTemplate


def call(tenant: str, number: int = 7, *rest: Any, kind: str = "x", **more: Any) -> None:
    """What is called."""


@pytest.mark.parametrize(
    ("text", "args", "kwargs", "name"),
    [
        ("plain", ("a",), {}, "plain"),
        ("t-{tenant}", ("acme",), {}, "t-acme"),
        ("t-{tenant}", (), {"tenant": "acme"}, "t-acme"),
        ("{tenant}:{number}:{kind}", ("a",), {}, "a:7:x"),
        ("{tenant}:{number}:{kind}", ("a", 8), {"kind": "y"}, "a:8:y"),
        ("{tenant}-{tenant}", ("a",), {"other": 1}, "a-a"),
    ],
)
def test_a_name_is_made_of_the_arguments(
    text: str, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> None:
    """By position, by name, or by default."""
    assert NameTemplate(text, call).name(args, kwargs) == name


@pytest.mark.parametrize(
    "text",
    ["{}", "{0}", "{tenant.x}", "{tenant[0]}", "{tenant!r}", "{tenant:>9}", "{nobody}", "{rest}",
     "{more}", "{", "}", "", " ", "{{x}}"],
)  # fmt: skip
def test_what_is_no_argument_is_refused_when_it_is_made(text: str) -> None:
    """Whole arguments only, by name: a template can run nothing."""
    with pytest.raises(ValueError, match=r"argument|brace|blank|format|encountered"):
        NameTemplate(text, call)


def test_a_template_is_text() -> None:
    """Not a function that was decorated without a name."""
    with pytest.raises(TypeError, match="must be a str"):
        NameTemplate(call, call)  # type: ignore[arg-type]


def test_arguments_that_do_not_fit_are_the_caller_s_error() -> None:
    """As when the function itself is called."""
    with pytest.raises(TypeError, match="tenant"):
        NameTemplate("{tenant}", call).name((), {})
