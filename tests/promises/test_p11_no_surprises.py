"""P11: any client, two protocols, one connection; the caller's client and keys stay his."""

import asyncio
import ssl
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.crc import key_slot

from incumbent import Elected, LeaderElector, Skipped
from incumbent.events import TermRenewed
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections
from kit.servers import Server
from kit.tls import Authority
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    all_keys,
    cancel,
    here,
    in_line,
    nothing,
    quick,
    seat_key,
)

RIGHTS = [
    "evalsha",
    "eval",
    "time",
    "hget",
    "hmget",
    "zscore",
    "pttl",
    "get",
    "set",
    "pexpire",
    "hset",
    "del",
    "exists",
    "zadd",
    "zcard",
    "zrange",
    "zrangebyscore",
    "zrem",
    "zremrangebyscore",
    "publish",
    "subscribe",
    "unsubscribe",
]
"""The commands that a user of the library needs, beside those of a connection."""


async def whole_life(elector: LeaderElector, election: str = "one") -> None:
    """Lead, renew, extend, be asked for, skip, keep, release: every script of a leader."""
    journal = Journal()
    options = elector.options.changed(wait_time=5)
    watched = LeaderElector(elector._office.store, options, hooks=[journal])
    async with watched.lead(election) as lease:
        await journal.has(TermRenewed)
        assert await lease.extend(2)
        assert isinstance(await elector.attempt(election, nothing), Skipped)
        (leader,) = (await elector.state(election)).leaders
        assert leader.fence == lease.fence
    waiting = elector.using(wait_time=5, min_hold_time=0.2)
    assert await waiting.run_if_leader(election, nothing) == "done"
    assert await waiting.run_if_leader(election, nothing) == "done"


async def test_p11_both_protocols_bytes_and_text(
    valkey: Server, make_client: MakeClient, wire: dict[str, Any]
) -> None:
    """RESP2 and RESP3, `decode_responses` on and off: no difference in a whole life."""
    client = make_client(valkey, **wire)
    async with LeaderElector(client, quick()) as elector:
        await whole_life(elector)
    await client.set("mine", "ä")
    assert await client.get("mine") == ("ä" if wire["decode_responses"] else "ä".encode())


@pytest.mark.parametrize("protocol", [2, 3])
async def test_p11_without_hiredis(valkey: Server, make_client: MakeClient, protocol: int) -> None:
    """The parser in Python does as well."""
    client = make_client(valkey, protocol=protocol, hiredis=False)
    async with LeaderElector(client, quick()) as elector:
        await whole_life(elector)


async def test_p11_other_encodings_of_the_client_s(valkey: Server, make_client: MakeClient) -> None:
    """The client decodes as Latin-1 for its own use; names of ours are UTF-8 all the same."""
    client = make_client(valkey, decode_responses=True, encoding="latin-1")
    async with LeaderElector(client, quick(), leader_id="nöd€") as elector, elector.lead("wahl-€"):
        (leader,) = (await elector.state("wahl-€")).leaders
        assert leader.leader_id == "nöd€"
        assert valkey.cli("EXISTS", seat_key("wahl-€")) == 1


async def test_p11_by_unix_socket(own_server: Server, make_client: MakeClient) -> None:
    """A client of a Unix socket."""
    if not own_server.has_socket:
        pytest.skip("needs a server with a Unix socket on this machine")
    async with LeaderElector(make_client(own_server.unix_url), quick()) as elector:
        await whole_life(elector)


async def test_p11_by_tls(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, authority: Authority
) -> None:
    """A client that speaks TLS, whose connection is cut once on the way."""
    proxy = await make_proxy(valkey, tls=authority)
    client = make_client(proxy)
    assert client.connection_pool.connection_kwargs["ssl_ca_certs"]
    assert ssl.OPENSSL_VERSION
    async with LeaderElector(client, quick()) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.cut()
        await whole_life(elector)


async def test_p11_in_another_database_with_a_name(valkey: Server, make_client: MakeClient) -> None:
    """The URL's database and the client's name are kept, also on a new connection."""
    client = make_client(f"redis://{valkey.host}:{valkey.port}/3", client_name="me")
    async with LeaderElector(client, quick()) as elector:
        await whole_life(elector)
        valkey.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await whole_life(elector)

        def names() -> list[str]:
            return [each["name"] for each in connections(valkey) if each["db"] == "3"]

        await wait_until(
            lambda: names() == ["me", "me"], what="one that asks, and one that is told"
        )
    assert all_keys(valkey) == set()
    valkey.flush()


async def test_p11_a_single_connection_client(valkey: Server) -> None:
    """A client that keeps one connection for itself shares its pool with us."""
    async with (
        redis.asyncio.Redis(
            host=valkey.host, port=valkey.port, single_connection_client=True
        ) as client,
        LeaderElector(client, quick()) as elector,
    ):
        await client.set("mine", "x", px=60_000)
        await whole_life(elector)
        assert await client.get("mine") == b"x"


async def test_p11_a_hundred_elections_need_one_connection(
    own_server: Server, make_client: MakeClient
) -> None:
    """All at once through one default client: all lead, over one connection."""
    async with LeaderElector(make_client(own_server), quick(lease_time=5)) as elector:
        works = [Work() for _ in range(100)]
        tasks = [
            asyncio.create_task(elector.attempt(f"e{number}", work))
            for number, work in enumerate(works)
        ]
        await wait_until(lambda: all(work.running for work in works))
        assert len(connections(own_server)) == 1
        assert len(elector.leases) == 100
        for work in works:
            work.finish.set()
        outcomes = await asyncio.gather(*tasks)
        assert all(isinstance(each, Elected) for each in outcomes)
        assert len(connections(own_server)) == 1
        assert own_server.cli("INFO", "stats")["total_connections_received"] <= 3


async def test_p11_standing_by_needs_two_connections(
    own_server: Server, make_client: MakeClient
) -> None:
    """Fifty who wait and their leader have one connection for asking, and one for being told."""
    async with (
        LeaderElector(make_client(own_server), quick(lease_time=5)) as elector,
        elector.lead("one"),
    ):
        waiting = elector.using(wait_time=None)
        tasks = [asyncio.create_task(waiting.attempt("one", nothing)) for _ in range(50)]
        await wait_until(lambda: len(in_line(own_server, "one")) == 50)
        assert len(connections(own_server)) == 2
        for task in tasks:
            await cancel(task)


async def test_p11_the_caller_s_client_is_never_closed(
    own_server: Server, make_client: MakeClient
) -> None:
    """After `aclose`, losses and cuts: the client works, its connections are those from before."""
    client = make_client(own_server)
    await client.ping()
    own = {each["id"] for each in connections(own_server)}
    listener = client.pubsub()
    await listener.subscribe("channel")
    async with LeaderElector(client, quick()) as elector:
        await whole_life(elector)
    assert await client.ping()
    assert own <= {each["id"] for each in connections(own_server)}
    await client.publish("channel", "still here")
    await wait_until(lambda: _heard(listener))
    await listener.aclose()  # type: ignore[no-untyped-call] # redis-py leaves it untyped


async def _heard(listener: Any) -> bool:
    message = await listener.get_message(ignore_subscribe_messages=True, timeout=0.1)
    return message is not None


async def test_p11_a_connection_comes_back_as_it_went(
    valkey: Server, make_client: MakeClient
) -> None:
    """Retry and timeout of the client's own are on the connection again when it is given back."""
    retry = Retry(ConstantBackoff(0.01), 7)
    client = make_client(valkey, retry=retry, socket_timeout=3.5)
    async with LeaderElector(client, quick()) as elector:
        await elector.run_if_leader("one", nothing)
    (connection,) = client.connection_pool._available_connections
    assert connection.socket_timeout == 3.5
    assert connection.retry._retries == 7  # newer releases have a word for it
    assert await client.ping()


async def test_p11_the_caller_s_own_commands_go_on_beside(
    valkey: Server, make_client: MakeClient
) -> None:
    """Elections and a thousand commands of the caller's on one client: no crossed answers."""
    client = make_client(valkey)

    async def own_commands() -> None:
        for number in range(500):
            await client.set(f"mine:{number % 7}", number, px=60_000)
            assert int(await client.get(f"mine:{number % 7}") or -1) == number

    async def elections() -> None:
        async with LeaderElector(client, quick()) as elector:
            for number in range(200):
                assert await elector.run_if_leader("one", asyncio.sleep, 0, number) == number

    await asyncio.gather(own_commands(), elections())


@pytest.mark.parametrize("prefix", ["incumbent", "app:leaders", "π"])
async def test_p11_only_keys_under_the_prefix(
    own_server: Server, make_client: MakeClient, watched_prefixes: list[str], prefix: str
) -> None:
    """A user who may touch `~P:*` alone, with the documented commands, can do everything."""
    watched_prefixes.append(prefix)
    rights = [f"+{command}" for command in RIGHTS]
    own_server.cli(
        "ACL", "SETUSER", "leader", "on", ">p", "resetkeys", f"~{prefix}:*", "resetchannels",
        f"&{prefix}:*", "-@all", "+@connection", *rights,
    )  # fmt: skip
    own_server.cli("SET", "foreign", "untouched")
    client = make_client(own_server, username="leader", password="p")
    async with LeaderElector(client, quick(), prefix=prefix) as elector:
        await whole_life(elector)
        assert await abandoned(elector)
    touched = all_keys(own_server) - {"foreign"}
    assert touched
    assert all(key.startswith(f"{prefix}:{{") for key in touched)
    assert own_server.cli("GET", "foreign") == "untouched"


async def abandoned(elector: LeaderElector) -> bool:
    """Cancel a claim in mid-air, so that its clean-up is run."""
    task = asyncio.create_task(elector.attempt("gone", nothing))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await cancel(task)
    return task.cancelled()


@pytest.mark.parametrize("name", ["a", "with space", "ünïcödé-☃", "a:b:c", "x" * 255, "t@x"])
async def test_p11_an_election_s_keys_share_one_slot(
    elector: LeaderElector, valkey: Server, name: str
) -> None:
    """Its own hash tag puts all keys of an election into one slot, whatever its name is."""
    await whole_life(elector, name)
    async with elector.using(wait_time=5).lead(name):
        keys = all_keys(valkey)
    assert len(keys) >= 2
    assert {key_slot(key.encode()) for key in keys} == {key_slot(name.encode())}


def test_p11_one_loop_after_another(valkey: Server) -> None:
    """An elector outlives its loop, whose connections the caller ends: the next has its own."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    elector = LeaderElector(client, quick())

    async def lead() -> int:
        await elector.run_if_leader("one", nothing)
        async with elector.lead("one") as lease:
            fence = lease.fence
        await client.aclose()
        return fence

    async def end() -> None:
        await elector.aclose()
        await client.aclose()

    fences = [asyncio.run(lead()), asyncio.run(lead()), asyncio.run(lead())]
    assert fences == sorted(set(fences))
    asyncio.run(end())
    assert connections(valkey) == []


async def test_p11_two_prefixes_are_two_worlds(
    valkey: Server, make_client: MakeClient, watched_prefixes: list[str]
) -> None:
    """The same name under another prefix is another election."""
    watched_prefixes.append("other")
    client = make_client(valkey)
    async with (
        LeaderElector(client, quick()) as a,
        LeaderElector(client, quick(), prefix="other") as b,
        a.lead("one") as first,
        b.lead("one") as second,
    ):
        assert first.held
        assert second.held
        assert (await a.state("one")).leaders[0].fence == first.fence
        assert (await b.state("one")).leaders[0].fence == second.fence
        assert here().fence == second.fence
