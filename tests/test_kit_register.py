"""kit.register: the server's own list of who wrote when; no process can talk itself out of it."""

from dataclasses import replace

import pytest

from kit.fixtures import MakeClient
from kit.register import Write, check_register, keys, read, wall, write
from kit.servers import Server


async def test_accepts_and_refuses(server: Server, make_client: MakeClient) -> None:
    """An equal or newer fence is accepted, an older one refused, and all is written down."""
    client = make_client(server)
    big = 2**53 - 3
    before = wall()
    for fence, process, accepted in (
        (big, "a", True), (big, "a", True), (big + 1, "b", True), (big, "a", False),
    ):  # fmt: skip
        assert await write(client, "e", fence, process, wall()) is accepted
    log = list(read(server, "e"))
    assert [(entry.fence - big, entry.process, entry.accepted) for entry in log] == [
        (0, "a", True), (0, "a", True), (1, "b", True), (0, "a", False),
    ]  # fmt: skip
    times = [before, *(time for entry in log for time in (entry.sent, entry.at)), wall()]
    assert times == sorted(times)  # one wall clock


async def test_its_keys_end(valkey: Server, make_client: MakeClient) -> None:
    """Both keys have a TTL from the first write on."""
    await write(make_client(valkey), "e", 1, "a", wall())
    assert all(0 < valkey.cli("TTL", key) <= 3600 for key in keys("e"))


async def test_a_liar_is_caught(valkey: Server, make_client: MakeClient) -> None:
    """Writing as if one still held, after another has begun, is seen by the server alone."""
    client = make_client(valkey)
    await write(client, "e", 1, "a", wall())
    sent_in_time = wall()
    await write(client, "e", 2, "b", wall())
    await write(client, "e", 1, "a", sent_in_time)
    assert check_register(read(valkey, "e")).late == 1
    check_register(read(valkey, "e")).assert_sound(min_writes=2)
    await write(client, "e", 1, "a", wall())
    with pytest.raises(AssertionError, match="process='a'"):
        check_register(read(valkey, "e")).assert_sound()


FIRST = Write(fence=1, process="a", sent=10, at=11, accepted=True)
SECOND = Write(fence=2, process="b", sent=20, at=21, accepted=True)


def test_what_counts_as_stale() -> None:
    """Sent after the newer holder's first write; accepted against the rule; one fence for two."""
    late = replace(FIRST, sent=20, at=30, accepted=False)
    assert check_register([FIRST, SECOND, late]).late == 1
    assert check_register([FIRST, SECOND, replace(late, sent=22)]).stale
    assert check_register([FIRST, SECOND, replace(late, accepted=True)]).stale
    assert check_register([FIRST, replace(FIRST, process="b")]).stale
    # It is the first write of the newer holder that counts, not its last.
    assert check_register([FIRST, SECOND, replace(SECOND, at=40), replace(late, sent=30)]).stale


def test_nothing_is_no_proof() -> None:
    """An empty log proves nothing."""
    with pytest.raises(AssertionError, match="only 0 writes"):
        check_register([]).assert_sound()
