"""Fixtures that promises' tests and field cases share; each folder's conftest takes them."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from incumbent import LeaderElector
from promises.scene import Journal, quick

__all__ = ["elector", "journal"]


@pytest.fixture
def journal() -> Journal:
    """What `elector` tells its hook."""
    return Journal()


@pytest.fixture
async def elector(client: "redis.asyncio.Redis", journal: Journal) -> AsyncIterator[LeaderElector]:
    """An elector with short leases on `valkey`, whose hook is `journal`."""
    async with LeaderElector(client, quick(), hooks=[journal]) as ready:
        yield ready
