"""Electors for threads."""

from collections.abc import Iterator

import pytest

from blocking.scene import quick
from incumbent.blocking import LeaderElector
from kit.servers import Server
from promises.scene import Journal


@pytest.fixture
def journal() -> Journal:
    """What `elector` tells its hook."""
    return Journal()


@pytest.fixture
def elector(valkey: Server, journal: Journal) -> Iterator[LeaderElector]:
    """An elector with short leases on `valkey`."""
    with LeaderElector(valkey.url, quick(), hooks=[journal]) as ready:
        yield ready


@pytest.fixture
def other(valkey: Server) -> Iterator[LeaderElector]:
    """Another one, as in another process."""
    with LeaderElector(valkey.url, quick()) as ready:
        yield ready
