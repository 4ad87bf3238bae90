"""Every call on a sick cluster, and on a sick primary that Sentinels name; see `promises`."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from incumbent import LeaderElector, StrategicElector
from incumbent.strategy import Fifo
from kit.cluster import Cluster
from kit.sentinels import SERVICE
from kit.servers import Server
from kit.sickness import SICKNESSES
from promises.scene import at_most
from promises.test_sick_servers import ASKING, OF_CANDIDATES, OPTIONS, T, came_of
from topology.scene import StartWatched, manager_of

WRITING = {"run_if_leader", "attempt", "in line", "once_per", "lead", "try_lead", "candidate"}
NEED_NO_MEMORY = {"OOM": {"candidate"}}
WORDS = {"MISCONF": "MISCONF", "OOM": "maxmemory", "NOPERM": "permission"}


def without_rights(servers: list[Server]) -> dict[str, str]:
    """A user that may run no script, on each of them."""
    for server in servers:
        server.cli("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-eval", "-evalsha")
    return {"username": "few", "password": "pw"}


async def each_call_says(client: Any, servers: list[Server], says: str) -> None:
    """What the sick servers say."""
    elector = LeaderElector(client, OPTIONS)
    best = StrategicElector(client, OPTIONS, strategy=Fifo(), node_id="n")
    async with elector, best:
        with ExitStack() as stack:
            if says in SICKNESSES:
                await elector.state("warm")
                for server in servers:
                    stack.enter_context(SICKNESSES[says](server))
            calls = {name: call(elector) for name, call in ASKING.items()}
            calls |= {name: call(best) for name, call in OF_CANDIDATES.items()}
            with at_most(2 * T + 0.2):
                found = await asyncio.gather(*map(came_of, calls.values()))
        for name, result in zip(calls, found, strict=True):
            if name in WRITING - NEED_NO_MEMORY.get(says, set()) or says == "NOPERM":
                assert isinstance(result, RedisError), (name, result)
                assert WORDS[says] in str(result), name


@pytest.mark.parametrize("says", WORDS)
async def test_on_a_cluster(cluster: Cluster, says: str) -> None:
    """All of its nodes are sick."""
    rights: Any = without_rights(cluster.nodes) if says == "NOPERM" else {}
    node = cluster.nodes[0]
    async with RedisCluster(host=node.host, port=node.port, **rights) as client:
        await each_call_says(client, cluster.primaries, says)
    for each in cluster.nodes:
        each.cli("ACL", "DELUSER", "few")


async def test_by_sentinels(start_watched: StartWatched) -> None:
    """The primary is sick, and stays the primary."""
    watched = start_watched()
    for says in WORDS:
        rights: Any = without_rights(watched.servers) if says == "NOPERM" else {}
        manager = manager_of(watched.sentinel)
        client = manager.master_for(SERVICE, **rights)
        await each_call_says(client, [watched.primary], says)
        for each in (client, *manager.sentinels):
            await each.aclose()
