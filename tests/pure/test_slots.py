"""Which node has which slot: what nodes answer and redirect to, and where that can be reached."""

import pytest

from incumbent.stores.redis.keys import channels_of, keys_of
from incumbent.stores.redis.slots import Address, address_of, read, slot_of

A, B, C = (("10.0.0.1", 7000), ("10.0.0.2", 7000), ("10.0.0.3", 7001))
ASKED = ("asked", 1)


def as_told(host: str, port: int) -> Address:
    """Nodes can be reached where they say that they are."""
    return host, port


def node(address: Address) -> list[object]:
    """As CLUSTER SLOTS tells of it."""
    return [address[0].encode(), address[1], b"id", []]


REPLY = [
    [8000, 16383, node(B)],
    [0, 100, node(A), node(C)],
    [200, 7999, node(A), node(C)],
]


def test_who_has_a_slot() -> None:
    """The first of those that are named for its range; nobody for a gap."""
    slots = read(REPLY, ASKED, as_told)
    assert [slots.owner(slot) for slot in (0, 100, 200, 7999, 8000, 16383)] == [A, A, A, A, B, B]
    assert [slots.owner(slot) for slot in (101, 199)] == [None, None]
    assert slots.nodes == {A, B, C}
    assert read([], ASKED, as_told).owner(0) is None


def test_a_slot_moves() -> None:
    """It alone, and again; one that nobody had is had from then on."""
    slots = read(REPLY, ASKED, as_told)
    new = ("10.0.0.9", 1)
    for owner in (B, new):
        slots.move(7, owner)
        assert [slots.owner(slot) for slot in (6, 7, 8)] == [A, owner, A]
    slots.move(150, B)
    assert slots.owner(150) == B
    assert new in slots.nodes


def test_a_node_that_does_not_know_its_host_is_the_one_that_was_asked() -> None:
    """At the port that it says."""
    for host in (b"", b"?", "", None):
        assert address_of(host, 7, ASKED, as_told) == ("asked", 7)


def test_addresses_are_mapped_as_the_client_wishes() -> None:
    """From those of the nodes to those that can be reached from here."""
    slots = read(REPLY, ASKED, lambda host, port: ("gate", port + int(host[-1])))
    assert slots.owner(0) == ("gate", 7001)
    assert slots.nodes == {("gate", 7001), ("gate", 7002), ("gate", 7004)}


@pytest.mark.parametrize("name", ["job", "with blanks", "ünïcödé", "@acme:job"])
def test_keys_and_channels_of_an_election_share_a_slot(name: str) -> None:
    """That of its name; whatever the prefix."""
    keys = keys_of("any-prefix", name, 3)
    slots = {
        slot_of(each.first) for each in (keys.acquire, keys.touch, keys.step_down, keys.seat(2))
    }
    slots |= {
        slot_of(channels_of("any-prefix", name, b"0") + b"events"),
        slot_of(channels_of("any-prefix", name, b"15") + b"inbox:0a"),
        slot_of(name.encode()),
    }
    assert len(slots) == 1
