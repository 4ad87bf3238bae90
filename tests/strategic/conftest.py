"""The town, in memory and on a server."""

from collections.abc import AsyncIterator

import pytest

from incumbent import MemoryStore
from kit.fixtures import MakeClient
from kit.servers import Server
from strategic.scene import Town


@pytest.fixture(params=["memory", "server"])
async def town(
    request: pytest.FixtureRequest, valkey: Server, make_client: MakeClient
) -> AsyncIterator[Town]:
    """Nodes that share a store in memory, or a server."""
    memory = MemoryStore()
    made = Town(lambda: memory if request.param == "memory" else make_client(valkey))
    yield made
    await made.aclose()


@pytest.fixture
async def city(valkey: Server, make_client: MakeClient) -> AsyncIterator[Town]:
    """The same on the server, for what only a server has."""
    made = Town(lambda: make_client(valkey))
    yield made
    await made.aclose()
