"""Fixtures of the cancellation tests."""

from collections.abc import AsyncIterator

import pytest

from cancellation.stage import Theatre
from kit.fixtures import MakeClient
from kit.servers import Server


@pytest.fixture
async def theatre(valkey: Server, make_client: MakeClient) -> AsyncIterator[Theatre]:
    """Stages on the shared server."""
    made = Theatre(valkey, make_client)
    await made.open()
    yield made
    await made.close()
