"""`status` and `watch` on a cluster: one look at each node serves all elections that are there."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from redis.asyncio.connection import AbstractConnection

from incumbent import LeaderElector
from incumbent.cli.asking import Where, asking
from incumbent.cli.elections import news
from incumbent.cli.elections.following import Fleet
from incumbent.stores.redis.wire import Request, Wire
from kit.cluster import Cluster
from kit.waiting import wait_until
from topology.scene import MakeElector

NAMES = [f"job-{number:02}" for number in range(60)]


class Recorder:
    """Keeps what happens."""

    def __init__(self) -> None:
        self.led: dict[str, str] = {}

    def show(self, happened: news.News) -> None:
        """Keep who leads."""
        if isinstance(happened, news.Changed):
            leaders = happened.new.leaders
            self.led[happened.name] = leaders[0].leader_id if leaders else "nobody"

    def remark(self, sentences: Sequence[str]) -> None:
        """Not of interest here."""


def where(cluster: Cluster) -> Where:
    """As the command line names it."""
    url = cluster.url.replace("redis://", "redis+cluster://")
    return Where(url=url, prefix="incumbent", timeout=10.0)


async def test_many_elections_are_asked_about_node_by_node(
    any_cluster: Cluster, make_elector: MakeElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few requests to each, not one for each election."""
    elector: LeaderElector = make_elector(any_cluster)
    for name in NAMES:
        await elector.run_if_leader(name, lambda: asyncio.sleep(0))
    sent: Counter[object] = Counter()
    write = Wire._write

    def counted(wire: Wire, requests: Sequence[Request], connection: AbstractConnection) -> None:
        sent[wire.address] += 1
        write(wire, requests, connection)

    async with asking(where(any_cluster)) as asker:
        assert await asker.names() == NAMES
        monkeypatch.setattr(Wire, "_write", counted)
        states = await asker.states(NAMES)
    assert list(states) == NAMES
    assert sum(sent.values()) <= 20, sent


async def test_a_fleet_is_followed_on_all_nodes_and_through_a_failover(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """What changes is heard wherever it is; another node takes over the slots of one."""
    elector: LeaderElector = make_elector(cluster, lease_time=60)
    screen = Recorder()
    for name in NAMES:
        await elector.run_if_leader(name, lambda: asyncio.sleep(0))
    async with asking(where(cluster)) as asker, Fleet(asker, (), screen) as fleet:
        await wait_until(lambda: len(screen.led) == len(NAMES), within=60)
        blocks = [elector.lead(name) for name in NAMES]
        for block in blocks:
            await block.__aenter__()
        await wait_until(lambda: set(screen.led.values()) == {elector.leader_id}, within=60)
        cluster.fail_over(cluster.primary_of("incumbent:{job-00}:fence"))
        for block in blocks:
            await block.__aexit__(None, None, None)
        await wait_until(lambda: set(screen.led.values()) == {"nobody"}, within=120)
        await wait_until(lambda: fleet.known()[1] == "", within=60)
