"""A house of a primary and a replica, and electors in it."""

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import pytest

from durability.scene import NO_DELAY, AnyElector, House, elector_of, lasting
from incumbent import LeaderOptions
from incumbent.events import Hook
from kit.fixtures import CHOSEN, ELSEWHERE, HasUrl, MakeClient
from kit.leftovers import keys_without_ttl
from kit.servers import Server
from promises.scene import Journal


class MakeElector(Protocol):
    """The type of the `make_elector` fixture."""

    def __call__(
        self,
        target: HasUrl,
        options: LeaderOptions | None = None,
        *,
        kind: str = ...,
        hook: Hook | None = ...,
    ) -> AnyElector:
        """An elector with a client of its own, closed after the test; it tells `journal` too."""
        ...


@pytest.fixture
def journal() -> Journal:
    """What all electors of `make_elector` tell their hooks."""
    return Journal()


@pytest.fixture(scope="session")
def shared_house() -> Iterator[House]:
    """One for the tests of this process: to bring a replica in step takes a second."""
    if ELSEWHERE:
        pytest.skip(ELSEWHERE)
    primary, replica = (Server(CHOSEN[0], args=NO_DELAY) for _ in range(2))
    with primary, replica:
        house = House(primary, replica)
        try:
            house.attach()
            yield house
        finally:
            house.close()


@pytest.fixture
def house(shared_house: House, watched_prefixes: list[str]) -> Iterator[House]:
    """A primary with its replica in step, and no key."""
    shared_house.primary.flush()
    shared_house.in_step()
    yield shared_house
    shared_house.relay.release()
    if shared_house.replica.paused:
        shared_house.replica.resume()
    left = keys_without_ttl(shared_house.primary, watched_prefixes)
    assert not left, f"keys without TTL: {left}"


@pytest.fixture
async def make_elector(make_client: MakeClient, journal: Journal) -> AsyncIterator[MakeElector]:
    """Makes electors; options by default with `PATIENT` durability."""
    made: list[AnyElector] = []

    def make(
        target: HasUrl,
        options: LeaderOptions | None = None,
        *,
        kind: str = "leader",
        hook: Hook | None = None,
    ) -> AnyElector:
        hooks: list[Hook] = [journal] if hook is None else [journal, hook]
        made.append(elector_of(kind, make_client(target), options or lasting(), hooks))
        return made[-1]

    yield make
    for elector in made:
        await elector.aclose()
