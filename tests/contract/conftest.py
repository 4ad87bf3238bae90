"""The stores under contract: the one in memory, and one on each server that is here."""

from collections.abc import AsyncIterator

import pytest

from contract.bench import MEMORY, Bench
from contract.registrar import Registrar, registrar_on
from incumbent.stores.memory import MemoryStore
from incumbent.stores.redis import RedisStore
from kit.binaries import KINDS
from kit.fixtures import CHOSEN, MakeClient
from kit.leftovers import keys_without_ttl
from kit.pool import ServerPool, missing
from kit.servers import Server

# What is missing is told once by the kit's own tests, unless it was asked for.
HERE = [kind for kind in CHOSEN if not missing(kind) or CHOSEN != KINDS]


@pytest.fixture(params=[MEMORY, *HERE])
async def bench(
    request: pytest.FixtureRequest,
    server_pool: ServerPool,
    watched_prefixes: list[str],
    make_client: MakeClient,
) -> AsyncIterator[Bench]:
    """A store without leases, once for each kind; on a server no key may stay without TTL."""
    kind = str(request.param)
    if kind == MEMORY:
        yield Bench(MemoryStore(), None)
        return
    if reason := missing(kind):
        pytest.skip(reason)
    server = server_pool.get(kind)
    store = RedisStore(make_client(server), "incumbent")
    yield Bench(store, server)
    await store.aclose()
    left = keys_without_ttl(server, watched_prefixes)
    assert not left, f"keys without TTL: {left}"


@pytest.fixture
async def redis_bench(server: Server, make_client: MakeClient) -> AsyncIterator[Bench]:
    """The same, for what only a server has."""
    store = RedisStore(make_client(server), "incumbent")
    yield Bench(store, server)
    await store.aclose()


@pytest.fixture
async def bench_of_first(valkey: Server, make_client: MakeClient) -> AsyncIterator[Bench]:
    """The same on one server, where one is enough."""
    store = RedisStore(make_client(valkey), "incumbent")
    yield Bench(store, valkey)
    await store.aclose()


@pytest.fixture(params=[MEMORY, *HERE])
async def registrar(
    request: pytest.FixtureRequest,
    server_pool: ServerPool,
    watched_prefixes: list[str],
    make_client: MakeClient,
) -> AsyncIterator[Registrar]:
    """A registry without candidates, once for each kind, beside a store without leases."""
    kind = str(request.param)
    if kind == MEMORY:
        memory = MemoryStore()
        yield Registrar(memory.registry, memory)
        return
    if reason := missing(kind):
        pytest.skip(reason)
    server = server_pool.get(kind)
    async with registrar_on(server, make_client(server)) as on_server:
        yield on_server
    left = keys_without_ttl(server, watched_prefixes)
    assert not left, f"keys without TTL: {left}"


@pytest.fixture
async def redis_registrar(server: Server, make_client: MakeClient) -> AsyncIterator[Registrar]:
    """The same, for what only a server has."""
    async with registrar_on(server, make_client(server)) as registrar:
        yield registrar


@pytest.fixture
async def registrar_of_first(valkey: Server, make_client: MakeClient) -> AsyncIterator[Registrar]:
    """The same on one server, where one is enough."""
    async with registrar_on(valkey, make_client(valkey)) as registrar:
        yield registrar
