"""`leader_only`: each call of the function is an election."""

import inspect
from typing import Any

import pytest

from incumbent import LeaderElector
from promises.scene import here


async def test_each_call_runs_if_elected(elector: LeaderElector) -> None:
    """Its value, or None while somebody leads; the function keeps its name and its signature."""

    @elector.leader_only("cleanup")
    async def cleanup(size: int, *, factor: int = 2) -> int:
        """Clean up."""
        assert here().name == "cleanup"
        return size * factor

    assert await cleanup(2, factor=3) == 6
    async with elector.lead("cleanup"):
        assert await cleanup(2) is None
    assert (cleanup.__name__, cleanup.__doc__) == ("cleanup", "Clean up.")
    assert list(inspect.signature(cleanup).parameters) == ["size", "factor"]
    assert inspect.iscoroutinefunction(cleanup)


async def test_the_name_may_come_from_arguments(elector: LeaderElector) -> None:
    """Each tenant has an election of its own; also on a method."""

    class Service:
        @elector.leader_only("tenant-{tenant}")
        async def tidy(self, tenant: str) -> str:
            return here().name

    async with elector.lead("tenant-a"):
        assert await Service().tidy("a") is None
        assert await Service().tidy(tenant="b") == "tenant-b"
        with pytest.raises(ValueError, match="braces"):
            await Service().tidy("{b}")


async def test_what_cannot_be_decorated_is_refused_at_once(elector: LeaderElector) -> None:
    """A plain function, a generator, a name that asks for what is not there."""

    async def generator() -> Any:
        yield

    async def fits() -> None: ...

    wrongs: list[Any] = [print, generator]
    for wrong in wrongs:
        with pytest.raises(TypeError, match="coroutine functions"):
            elector.leader_only("one")(wrong)
    with pytest.raises(ValueError, match="tenant"):
        elector.leader_only("{tenant}")(fits)


async def test_errors_of_the_function_come_out_as_they_are(elector: LeaderElector) -> None:
    """As from `run_if_leader`."""

    @elector.leader_only("one")
    async def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fails()
