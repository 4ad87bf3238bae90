"""Clusters and Sentinels by URL: for threads, and for the command line."""

from typing import Any

import pytest
import redis

from cli.inside import Inside
from incumbent.blocking import LeaderElector
from kit.cluster import Cluster
from kit.sentinels import SERVICE
from topology.scene import StartWatched


def url_of(cluster: Cluster) -> str:
    """As commands are given it."""
    places = ",".join(f"{node.host}:{node.port}" for node in cluster.nodes[:2])
    return f"redis+cluster://{places}"


@pytest.mark.parametrize("by_client", [False, True])
def test_threads_elect_on_a_cluster(cluster: Cluster, *, by_client: bool) -> None:
    """By its URL, or by a client that was made for threads, which stays the caller's."""
    client: Any = redis.RedisCluster.from_url(cluster.url) if by_client else url_of(cluster)
    names = [cluster.name_on(node) for node in cluster.primaries]
    with LeaderElector(client) as elector:
        for name in names:
            with elector.lead(name) as lease:
                assert [each.fence for each in elector.state(name).leaders] == [lease.fence]
    if by_client:
        assert client.ping()
        client.close()


def test_threads_elect_by_way_of_sentinels(start_watched: StartWatched) -> None:
    """By a URL that names the service."""
    watched = start_watched()
    place = f"{watched.sentinel.host}:{watched.sentinel.port}"
    with LeaderElector(f"redis+sentinel://{place}/{SERVICE}") as elector:
        assert elector.run_if_leader("job", lambda: 5) == 5


@pytest.fixture
def ask(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inside:
    """Runs the command in this process, on the cluster."""
    return Inside(monkeypatch, capfd, url_of(cluster))


def test_commands_see_the_whole_cluster(cluster: Cluster, ask: Inside) -> None:
    """`status` finds the elections of all primaries, and who leads them."""
    names = [cluster.name_on(node) for node in cluster.primaries]
    with LeaderElector(url_of(cluster)) as elector, elector.lead(names[0]):
        for name in names[1:]:
            elector.run_if_leader(name, int)
        found = ask("status", "--json").out
        assert all(f'"{name}"' in found for name in names)


def test_doctor_looks_at_one_server(cluster: Cluster, ask: Inside) -> None:
    """It says so, and what to give it; it does look at one primary of a cluster."""
    refused = ask("doctor")
    assert refused.code == 64
    assert "one server at a time" in refused.err
    looked = ask("doctor", url=cluster.primaries[0].url)
    assert looked.code == 0, looked.out
    assert "it is a node of a cluster" in looked.out
