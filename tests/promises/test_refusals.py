"""What a server refuses comes out as redis-py says it, in time, and nothing is lost or left.

Wrong password, missing rights, READONLY, a full server, a key of the wrong type (P4, P9, P11).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from incumbent import Elected, LeaderElector, LeadershipLost
from incumbent.events import TermEnded, TermLost, TermRenewed
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.leftovers import keys_without_ttl
from kit.servers import Server
from kit.sickness import full_memory, read_only
from promises.scene import (
    Journal,
    Work,
    at_most,
    fence_key,
    forever,
    gone_key,
    here,
    nothing,
    quick,
    seat_key,
    ttl_of,
)

T = 0.8
OPTIONS = quick(request_timeout=T)


@contextmanager
def wrong_type(server: Server) -> Iterator[None]:
    """Somebody keeps a string where the seat should be."""
    server.cli("SET", seat_key("one"), "mine", "PX", 60_000)
    try:
        yield
    finally:
        server.cli("DEL", seat_key("one"))


Trouble = Callable[[Server], AbstractContextManager[None]]


@pytest.mark.parametrize(
    ("trouble", "kind", "says"),
    [
        (full_memory, OutOfMemoryError, "maxmemory"),
        (read_only, ReadOnlyError, "read only"),
        (wrong_type, ResponseError, "WRONGTYPE|wrong kind of value"),
    ],
    ids=["full", "read-only", "wrong-type"],
)
async def test_an_election_that_the_server_refuses(
    server: Server,
    make_client: MakeClient,
    trouble: Trouble,
    kind: type[ResponseError],
    says: str,
) -> None:
    """redis-py's own error in time, the action never ran; when it is over, the seat is free."""
    if server.kind == "redis-6":
        kind = ResponseError  # Redis 6 wraps what a script met in an error of its own
    work = Work()
    async with LeaderElector(make_client(server), OPTIONS) as elector:
        await elector.run_if_leader("one", nothing)
        with trouble(server):
            with at_most(2 * T), pytest.raises(kind, match=says):
                await elector.run_if_leader("one", work)
            with at_most(2 * T), pytest.raises(kind, match=says):
                async with elector.lead("one"):
                    await forever()
        assert work.runs == 0
        assert keys_without_ttl(server) == []
        assert isinstance(await elector.attempt("one", nothing), Elected)


async def test_the_last_try_does_not_hide_what_the_server_said(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Tried again until the time is up, in the middle of a try: the refusal comes out."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), OPTIONS) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.delay(0.7)
        with read_only(valkey), pytest.raises(ReadOnlyError):
            await elector.using(request_timeout=2.0).run_if_leader("one", forever)


async def test_state_at_a_server_that_takes_no_writes(
    server: Server, make_client: MakeClient
) -> None:
    """Who leads can be seen on a full server and on a replica."""
    async with LeaderElector(make_client(server), OPTIONS) as elector:
        for trouble in (full_memory, read_only):
            async with elector.using(lease_time=5).lead("one") as lease:
                with trouble(server):
                    (leader,) = (await elector.state("one")).leaders
                    assert leader.fence == lease.fence


async def test_state_of_a_key_of_the_wrong_type(valkey: Server, make_client: MakeClient) -> None:
    """Raises as the election does."""
    async with LeaderElector(make_client(valkey), OPTIONS) as elector:
        with wrong_type(valkey), pytest.raises(ResponseError, match="WRONGTYPE"):
            await elector.state("one")


@pytest.mark.parametrize("what", [fence_key, gone_key, seat_key])
async def test_any_key_of_the_wrong_type_leaves_nothing(
    valkey: Server, make_client: MakeClient, what: Callable[[str], str]
) -> None:
    """Whichever key it is: an error or an election, and no key without a TTL, no seat for ever."""
    valkey.cli("RPUSH", what("one"), "x")
    valkey.cli("PEXPIRE", what("one"), 60_000)
    async with LeaderElector(make_client(valkey), OPTIONS) as elector:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await elector.run_if_leader("one", nothing)
        assert keys_without_ttl(valkey) == []
        valkey.cli("DEL", what("one"))
        assert isinstance(await elector.attempt("one", nothing), Elected)


async def test_a_wrong_password(start_server: StartServer, make_client: MakeClient) -> None:
    """AuthenticationError at once: no waiting, no sending again, whatever `wait_time` says."""
    server = start_server(password="sesame")
    for url in (
        f"redis://:wrong@{server.host}:{server.port}",
        f"redis://{server.host}:{server.port}",
    ):
        options = quick(wait_time=30, request_timeout=20)
        async with LeaderElector(make_client(url), options) as elector:
            with at_most(1), pytest.raises(AuthenticationError):
                await elector.run_if_leader("one", forever)
            with at_most(1), pytest.raises(AuthenticationError):
                await elector.state("one")
            with at_most(1), pytest.raises(AuthenticationError):
                await elector.campaign("one", forever)


async def test_no_right_to_run_scripts(own_server: Server, make_client: MakeClient) -> None:
    """NoPermissionError at once."""
    own_server.cli("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-evalsha", "-eval")
    client = make_client(own_server, username="u", password="p")
    async with LeaderElector(client, quick(wait_time=30, request_timeout=20)) as elector:
        with at_most(1), pytest.raises(NoPermissionError, match="eval"):
            await elector.run_if_leader("one", forever)


async def test_no_right_to_the_keys(server: Server, make_client: MakeClient) -> None:
    """An error at once that says so, on every server, and not a single key."""
    server.cli("ACL", "SETUSER", "u", "on", ">p", "~elsewhere:*", "+@all")
    try:
        client = make_client(f"redis://u:p@{server.host}:{server.port}")
        async with LeaderElector(client, quick(wait_time=30, request_timeout=20)) as elector:
            with at_most(1), pytest.raises(ResponseError, match=r"permission|access|can't"):
                await elector.run_if_leader("one", forever)
        assert server.cli("DBSIZE") == 0
    finally:
        server.cli("ACL", "DELUSER", "u")


@pytest.mark.parametrize("missing", ["pexpire", "hset", "set", "time"])
async def test_a_right_that_acquire_needs_is_missing(
    server: Server, make_client: MakeClient, missing: str
) -> None:
    """On every server: an error at once, no seat, and nothing without a TTL."""
    server.cli("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", f"-{missing}")
    try:
        client = make_client(f"redis://u:p@{server.host}:{server.port}")
        async with LeaderElector(client, quick(wait_time=30, request_timeout=20)) as elector:
            with at_most(1), pytest.raises(ResponseError, match=f"{missing}|can't run"):
                await elector.run_if_leader("one", forever)
        assert keys_without_ttl(server) == []
        assert ttl_of(server, "one") == -2
    finally:
        server.cli("ACL", "DELUSER", "u")


async def test_a_right_that_is_taken_away_while_leading(
    own_server: Server, make_client: MakeClient
) -> None:
    """Renewals are refused for lack of rights: retried to the end, as a right may come back."""
    own_server.cli("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all")
    journal, work = Journal(), Work()
    client = make_client(own_server, username="u", password="p")
    async with LeaderElector(client, OPTIONS, hooks=[journal]) as elector:

        async def lead() -> None:
            own_server.cli("ACL", "SETUSER", "u", "-pexpire")
            await forever()

        outcome = await elector.attempt("one", lead)
        assert outcome == LeadershipLost("unreachable")
        own_server.cli("ACL", "SETUSER", "u", "+pexpire")
        assert isinstance(await elector.using(wait_time=5).attempt("one", nothing), Elected)
    assert work.runs == 0
    assert len(journal.of(TermLost)) == 1


async def test_a_full_server_while_leading(server: Server, make_client: MakeClient) -> None:
    """Renewal, extension and release need no memory: the term goes on and ends in order."""
    journal = Journal()
    async with (
        LeaderElector(make_client(server), OPTIONS, hooks=[journal]) as elector,
        elector.lead("one") as lease,
    ):
        with full_memory(server):
            await journal.has_another(TermRenewed)
            assert await lease.extend(2)
            await lease.release()
        assert ttl_of(server, "one") == -2
    assert [each.ending for each in journal.of(TermEnded)] == ["released"]
    assert journal.of(TermLost) == []


async def test_a_minimum_hold_on_a_full_server(server: Server, make_client: MakeClient) -> None:
    """A release that keeps the seat works there as well, and leaves a TTL."""
    async with LeaderElector(make_client(server), OPTIONS) as elector:

        async def work() -> str:
            server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
            server.cli("CONFIG", "SET", "maxmemory", 1)
            assert here().held
            return "done"

        try:
            assert await elector.using(min_hold_time=0.5).run_if_leader("one", work) == "done"
            assert 0 < ttl_of(server, "one") <= 500
            (info,) = (await elector.state("one")).leaders
            assert info.retained
        finally:
            server.cli("CONFIG", "SET", "maxmemory", 0)
