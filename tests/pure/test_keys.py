"""stores.redis.keys and scripts: what keys are called, and how a command is written."""

import hiredis
from hypothesis import assume, given
from hypothesis import strategies as st
from redis.crc import key_slot

from incumbent.names import election_name, key_prefix
from incumbent.stores.redis.keys import keys_of
from incumbent.stores.redis.scripts import ACQUIRE, pack

NAME = st.text(
    st.characters(codec="utf-8", exclude_characters="{}", exclude_categories=["Cc"]),
    min_size=1,
    max_size=10,
) | st.text(":seat0", min_size=1, max_size=10)


def test_the_keys_of_an_election() -> None:
    """As the design lists them, one for each seat."""
    keys = keys_of("app", "täglich", 2)
    assert keys.fence == "app:{täglich}:fence".encode()
    assert keys.gone == "app:{täglich}:gone".encode()
    assert keys.seats == (
        "app:{täglich}:seat:0".encode(),
        "app:{täglich}:seat:1".encode(),
    )


@given(NAME, NAME, NAME, NAME)
def test_no_two_elections_share_a_key(prefix: str, name: str, other: str, third: str) -> None:
    """Whatever prefixes and names look like, different ones have no key in common."""
    assume((prefix, name) != (other, third))
    for part in (prefix, name, other, third):
        assume(part.strip() and not part.startswith("@"))
    one = keys_of(key_prefix(prefix), election_name(name), 3)
    two = keys_of(key_prefix(other), election_name(third), 3)
    assert not {one.fence, one.gone, *one.seats} & {two.fence, two.gone, *two.seats}


@given(NAME, NAME)
def test_case_64_all_keys_of_an_election_share_its_slot(prefix: str, name: str) -> None:
    """The election's name alone is the hash tag, so that a cluster keeps the keys together."""
    keys = keys_of(prefix, name, 5)
    slots = {key_slot(key) for key in (keys.fence, keys.gone, *keys.seats)}
    assert slots == {key_slot(name.encode())}


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
def test_a_command_arrives_as_it_was_meant(parts: list[bytes]) -> None:
    """Any bytes, line ends and nothing at all among them, come out as they went in."""
    reader = hiredis.Reader()
    reader.feed(pack(*parts))
    assert reader.gets() == parts
    assert reader.gets() is False


def test_a_script_is_called_by_digest_or_by_text() -> None:
    """The number of keys stands before them, so that no argument is taken for a key."""
    for packed, name, script in (
        (ACQUIRE.by_digest([b"k1", b"k2"], [b"a1"]), b"EVALSHA", ACQUIRE.sha),
        (ACQUIRE.by_text([b"k1", b"k2"], [b"a1"]), b"EVAL", ACQUIRE.text),
    ):
        reader = hiredis.Reader()
        reader.feed(packed)
        assert reader.gets() == [name, script, b"2", b"k1", b"k2", b"a1"]
