"""`doctor` of a node of a cluster, and of whom Sentinels name: what is sick there is a finding."""

from typing import Any

import pytest

from cli.inside import Inside
from kit.cluster import Cluster
from kit.sentinels import SERVICE
from kit.sickness import SICKNESSES
from topology.scene import StartWatched


class Doctor:
    """Asks it, without the second in which it watches the clocks."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], url: str
    ) -> None:
        monkeypatch.setattr("incumbent.stores.redis.facts.WATCHED", 0.0)
        self._ask = Inside(monkeypatch, capfd, url)

    def __call__(self, url: str) -> list[dict[str, Any]]:
        """What is not well."""
        said = self._ask("doctor", "--json", url=url)
        assert said.code in {0, 1}, said
        return [each for each in said.value["findings"] if each["level"] == "wrong"]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Doctor:
    """Asks `doctor`."""
    return Doctor(monkeypatch, capfd, "")


@pytest.mark.parametrize("says", ["MISCONF", "OOM"])
def test_a_sick_node_of_a_cluster(cluster: Cluster, doctor: Doctor, says: str) -> None:
    """It is tried with keys that this node has: for others it says MOVED, and nothing else."""
    for node in cluster.primaries:
        assert doctor(node.url) == []
        with SICKNESSES[says](node):
            assert [each["found"] for each in doctor(node.url) if says in each["found"]]


def test_a_replica_of_a_cluster(cluster: Cluster, doctor: Doctor) -> None:
    """It has no keys to try, which is no other finding."""
    (finding,) = doctor(cluster.replica_of(cluster.primaries[0]).url)
    assert finding["found"] == "this is a replica"


def test_a_sick_primary(start_watched: StartWatched, doctor: Doctor) -> None:
    """Of whom Sentinels name."""
    watched = start_watched()
    sentinel = watched.sentinel
    url = f"redis+sentinel://{sentinel.host}:{sentinel.port}/{SERVICE}"
    assert doctor(url) == []
    for says in ("MISCONF", "OOM"):
        with SICKNESSES[says](watched.primary):
            assert [each["found"] for each in doctor(url) if says in each["found"]]
