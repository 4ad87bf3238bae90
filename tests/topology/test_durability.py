"""`Durability` on a cluster and with Sentinels: each primary's own replicas are waited for."""

import pytest

from incumbent import Durability, NotDurableError
from kit.cluster import Cluster
from topology.scene import MakeElector, MakeWatchedElector, StartWatched, led, seat_of

PATIENT = Durability(timeout=2)
BRIEF = Durability(timeout=0.1)


@pytest.mark.parametrize("seats", [0, 2], ids=["leader", "group"])
async def test_each_node_is_waited_for_by_itself(
    cluster: Cluster, make_elector: MakeElector, seats: int
) -> None:
    """A replica that does not answer is the affair of its own primary's elections."""
    near, far, *_ = cluster.primaries
    here, there = cluster.name_on(near), cluster.name_on(far)
    elector = make_elector(cluster, durability=PATIENT, seats=seats)
    for name in (here, there):
        async with led(elector, name) as lease:
            assert await lease.extend(120)
    replica = cluster.replica_of(near)
    async with led(elector, here) as lease:
        replica.pause()
        with pytest.raises(NotDurableError, match="0 of 1"):
            await lease.extend(600)
        assert lease.remaining < 300
        async with led(elector, there) as other:
            assert await other.extend(600)
    with pytest.raises(NotDurableError) as said:
        async with elector.using(durability=BRIEF).lead(here):
            raise AssertionError("nobody leads")
    assert said.value.election == here
    assert near.cli("EXISTS", seat_of(here)) == 0
    replica.resume()


async def test_a_lease_is_confirmed_where_its_slot_has_gone(
    cluster: Cluster, make_elector: MakeElector
) -> None:
    """The slot moves while somebody leads: the extension follows, and its WAIT with it."""
    name = cluster.name_on(cluster.primaries[0], "moving")
    async with led(make_elector(cluster, durability=PATIENT), name) as lease:
        cluster.move(name)
        assert await lease.extend(600)
        assert lease.remaining > 500
    assert cluster.primary_of(name).cli("EXISTS", seat_of(name)) == 0


async def test_a_primary_found_by_sentinels_is_waited_for(
    start_watched: StartWatched, make_watched_elector: MakeWatchedElector
) -> None:
    """With its replica there is a lease, without it none."""
    watched = start_watched()
    elector = make_watched_elector(watched, durability=PATIENT)
    async with led(elector, "one") as lease:
        assert await lease.extend(120)
    with pytest.raises(NotDurableError, match="1 of 2"):
        async with elector.using(durability=Durability(replicas=2, timeout=0.1)).lead("one"):
            raise AssertionError("nobody leads")
    async with led(elector, "one"):
        pass
