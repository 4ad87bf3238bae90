"""P11: the same answers by every protocol and parser, on every server, with a cold cache or not."""

from typing import Any

import pytest

from contract import story
from contract.bench import BUDGET, Bench
from incumbent.stores.memory import MemoryStore
from incumbent.stores.redis import RedisStore
from kit.fixtures import MakeClient, StartServer
from kit.servers import Server


async def test_the_story_in_memory() -> None:
    """What the servers are compared with is what the store in memory says, too."""
    assert await story.tell(MemoryStore()) == story.EXPECTED


@pytest.mark.parametrize("hiredis", [True, False], ids=["hiredis", "python"])
async def test_p11_case_67_each_wire_gives_the_same_answers(
    server: Server, wire: dict[str, Any], hiredis: bool, make_client: MakeClient
) -> None:
    """RESP2 and RESP3, bytes and text, hiredis and the parser in Python: identical results."""
    store = RedisStore(make_client(server, hiredis=hiredis, **wire), "incumbent")
    assert await story.tell(store) == story.EXPECTED
    await store.aclose()


async def test_p11_a_clients_other_encoding_changes_nothing(
    valkey: Server, make_client: MakeClient
) -> None:
    """Keys and names are UTF-8 whatever the caller reads its own values as."""
    client = make_client(valkey, encoding="latin-1", decode_responses=True)
    store = RedisStore(client, "incumbent")
    assert await story.tell(store) == story.EXPECTED
    plain = RedisStore(make_client(valkey), "incumbent")
    state = await plain.state(story.NAME, 2, BUDGET)
    assert [info.leader_id for info in state.leaders] == ["leader-a"]


async def test_p11_by_a_unix_socket(valkey: Server, make_client: MakeClient) -> None:
    """Where the server listens makes no difference."""
    if not valkey.has_socket:
        pytest.skip("needs a server with a Unix socket on this machine")
    store = RedisStore(make_client(valkey.unix_url), "incumbent")
    assert await story.tell(store) == story.EXPECTED


async def test_case_60_a_flushed_script_cache_is_invisible(redis_bench: Bench) -> None:
    """The server forgets every script before every call, and nobody notices."""
    server = redis_bench.server
    assert server is not None

    async def flush(step: str) -> None:
        server.cli("SCRIPT", "FLUSH")

    assert await story.tell(redis_bench.store, flush) == story.EXPECTED


async def test_p10_case_60_a_lost_lease_is_told_with_a_cold_cache_too(redis_bench: Bench) -> None:
    """The request that met an empty cache did nothing, so the second is no repetition."""
    server = redis_bench.server
    assert server is not None
    lines = await story.tell(redis_bench.store)
    server.cli("SCRIPT", "FLUSH")
    assert lines == story.EXPECTED
    again = await story.tell(redis_bench.store, election="another")
    assert again == story.EXPECTED


async def test_case_62_two_servers_in_one_process_are_isolated(
    valkey: Server, start_server: StartServer, make_client: MakeClient
) -> None:
    """The same names and tokens on two servers: two elections, two caches, one story each."""
    other = start_server()
    one = RedisStore(make_client(valkey), "incumbent")
    two = RedisStore(make_client(other), "incumbent")

    async def alone(step: str) -> None:
        """The other server's side of the story is told in between."""
        inner.append(await story.tell(two, election=f"{story.NAME} {len(inner)}"))

    inner: list[list[str]] = []
    assert await story.tell(one, alone) == story.EXPECTED
    assert inner == [story.EXPECTED] * len(story.EXPECTED)
    assert await story.tell(two) == story.EXPECTED


async def test_two_prefixes_on_one_server_are_isolated(
    valkey: Server, make_client: MakeClient, watched_prefixes: list[str]
) -> None:
    """Who shares a server need not share elections."""
    watched_prefixes.append("kit-other")
    client = make_client(valkey)
    assert await story.tell(RedisStore(client, "incumbent")) == story.EXPECTED
    assert await story.tell(RedisStore(client, "kit-other")) == story.EXPECTED
