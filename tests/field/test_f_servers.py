"""Field cases F: scripts, topologies, encodings, and servers in trouble.

63, 65 and 66 (cluster, durability) come with the issues that build them.
"""

import asyncio
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.crc import key_slot
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from incumbent import (
    Elected,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    Lease,
    Skipped,
)
from incumbent.events import Event, RenewalDelayed, TermEnded, TermLost, TermRenewed
from incumbent.stores.redis import scripts
from incumbent.stores.redis.scripts import Script
from kit.fixtures import MakeClient, MakeProxy, StartServer
from kit.servers import Server
from kit.tls import Authority
from kit.waiting import wait_until
from promises.scene import (
    Journal,
    Work,
    all_keys,
    cancel,
    fence_key,
    forever,
    here,
    is_held,
    nothing,
    quick,
    seat_key,
    token_of,
    ttl_of,
)

SCRIPTS = ("ACQUIRE", "EXTEND", "RELEASE", "LEAVE", "TOUCH", "STATE", "STEP_DOWN")
NO_DELAY = ["--repl-diskless-sync-delay", "0"]


async def test_case_60_a_script_cache_that_was_flushed(
    server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """SCRIPT FLUSH before each request of a term: nobody notices."""
    async with LeaderElector(make_client(server), quick(), hooks=[journal]) as elector:
        server.cli("SCRIPT", "FLUSH")
        async with elector.lead("one") as lease:
            server.cli("SCRIPT", "FLUSH")
            await journal.has_another(TermRenewed)
            server.cli("SCRIPT", "FLUSH")
            assert await lease.extend(2)
            server.cli("SCRIPT", "FLUSH")
            assert len((await elector.state("one")).leaders) == 1
            server.cli("SCRIPT", "FLUSH")
        assert ttl_of(server, "one") == -2
    assert journal.of(RenewalDelayed) == []
    assert journal.story() == ["TermStarted", "TermEnded"]
    assert journal.of(TermEnded)[0].ending == "released"


async def test_case_60_a_server_that_was_restarted_between_acquire_and_renew(
    own_server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """Back on its port with the data and without scripts: renewed within the lease."""
    async with LeaderElector(make_client(own_server), quick(lease_time=4)) as elector:
        work = Work()
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        mine = token_of(own_server, "one")
        own_server.restart(keep=True)
        assert await work.lease.extend(4)
        assert token_of(own_server, "one") == mine
        work.finish.set()
        assert isinstance(await leading, Elected)


async def test_case_62_electors_of_two_servers_in_one_process(
    start_server: StartServer, make_client: MakeClient
) -> None:
    """Scripts are bound to no client: each server learns them, and has a leader of its own."""
    servers = [start_server(), start_server()]
    electors = [LeaderElector(make_client(each), quick()) for each in servers]
    async with electors[0].lead("one") as a, electors[1].lead("one") as b:
        for server, lease in zip(servers, (a, b), strict=True):
            assert server.cli("HGET", seat_key("one"), "fence") == str(lease.fence)
        assert await a.extend(2)
        assert await b.extend(2)
        servers[0].cli("SCRIPT", "FLUSH")
        assert await a.extend(3)
    for server, elector in zip(servers, electors, strict=True):
        assert token_of(server, "one") is None
        await elector.aclose()


def test_case_62_options_travel_by_pickle() -> None:
    """To a worker process, for example; equal and usable there."""
    options = LeaderOptions(lease_time=3, wait_time=None, on_loss="notify", max_hold_time=9)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(options, protocol))
        assert copy == options
        assert copy.changed(lease_time=6).stop_grace == 1


NAMES = [
    "plain",
    "with spaces  and\u00a0more",
    "ünïcödé",
    "☃🚀",
    "a:b:c",
    "*?[a]",
    "x" * 255,
    "ä" * 127,
    "seat:0",
    "0",
]


@pytest.mark.parametrize("name", NAMES, ids=[each[:10] for each in NAMES])
async def test_case_64_all_keys_of_an_election_are_in_one_slot(
    elector: LeaderElector, valkey: Server, name: str
) -> None:
    """By our own hash tag, whatever the name is; and the name comes back as it was."""
    async with elector.lead(name) as lease:
        keys = all_keys(valkey)
        assert len(keys) == 2
        assert {key_slot(key.encode()) for key in keys} == {key_slot(name.encode())}
        assert lease.name == name
        assert (await elector.state(name)).name == name
        assert here().name == name
        assert await elector.run_if_leader(name, forever) is None


@pytest.mark.parametrize("name", ["{a}", "a{b}c", "{", "}", "{}"])
async def test_case_64_a_name_with_braces_is_refused(elector: LeaderElector, name: str) -> None:
    """They would move the hash tag: a ValueError says so."""
    with pytest.raises(ValueError, match="braces"):
        await elector.run_if_leader(name, nothing)


def test_case_64_no_argument_is_passed_as_a_key() -> None:
    """Each script's header says what its KEYS are; tokens and times are never among them."""
    named = {"fence", "gone", "queue", "alive", "tick", "mine", "seat", "seat+"}
    for name in SCRIPTS:
        text = getattr(scripts, name).text.decode()
        header = [line for line in text.splitlines() if line.startswith("-- KEYS:")]
        assert len(header) == 1
        assert set(header[0].removeprefix("-- KEYS:").split()) <= named


@pytest.mark.parametrize("hiredis", [True, False], ids=["hiredis", "python"])
async def test_case_67_protocols_decoding_and_parsers_make_no_difference(
    valkey: Server, make_client: MakeClient, wire: dict[str, Any], hiredis: bool
) -> None:
    """The short form of the contract matrix: each way of the wire tells the same story."""
    journal = Journal()
    client = make_client(valkey, hiredis=hiredis, **wire)
    async with LeaderElector(client, quick(), leader_id="ä", hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            await journal.has(TermRenewed)
            assert await lease.extend(2)
            skipped = await elector.attempt("one", nothing)
            (leader,) = (await elector.state("one")).leaders
            assert isinstance(skipped, Skipped)
            assert skipped.holder is not None
            assert (skipped.holder.leader_id, skipped.holder.fence) == ("ä", lease.fence)
            assert (leader.leader_id, leader.fence, leader.since) == (
                "ä",
                lease.fence,
                lease.acquired_at,
            )
        assert (await elector.state("one")).leaders == ()
    assert journal.story() == ["TermStarted", "AttemptSkipped", "TermEnded"]


GUARD = b"""
local real, declared = redis, {}
for _, key in ipairs(KEYS) do declared[key] = true end
local keyless = {TIME = true, PUBLISH = true}
local function watched(command, ...)
  local name, key = string.upper(command), ...
  if not keyless[name] and not declared[key] then
    error('undeclared key ' .. tostring(key) .. ' in ' .. name)
  end
  return real.call(command, ...)
end
local redis = setmetatable({call = watched, pcall = watched}, {__index = real})
"""


async def test_case_68_no_script_touches_an_undeclared_key(
    server: Server,
    make_client: MakeClient,
    make_proxy: MakeProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each script runs behind a guard in Lua that knows its KEYS, through a whole life."""
    for name in SCRIPTS:
        script: Script = getattr(scripts, name)
        monkeypatch.setattr(scripts, name, guarded(script))
    with pytest.raises(ResponseError, match="undeclared key other in GET"):
        server.cli("EVAL", GUARD + b"return redis.call('GET', 'other')", 1, "mine")
    proxy, journal = await make_proxy(server), Journal()
    options = quick(min_hold_time=0.05, wait_time=5)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            await journal.has(TermRenewed)
            assert await lease.extend(2)
            assert isinstance(await elector.using(wait_time=0).attempt("one", nothing), Skipped)
            assert len((await elector.state("one")).leaders) == 1
        proxy.drop_replies(1, "EVALSHA", "EVAL", cut=True)
        assert await elector.using(min_hold_time=0).run_if_leader("one", nothing) == "done"
        proxy.hold_replies("EVALSHA", "EVAL")
        task = asyncio.create_task(elector.run_if_leader("one", nothing))
        await wait_until(lambda: proxy.held)
        task.cancel()
        await asyncio.sleep(0)
        proxy.release()
        await cancel(task)
        assert server.cli("EXISTS", "incumbent:{one}:gone") == 1, "the clean-up ran"


def guarded(script: Script) -> Script:
    """The same script behind the guard."""
    return Script(script.name, GUARD + script.text, seldom=script.seldom)


async def test_case_70_any_ready_client_is_taken_and_never_closed(
    own_server: Server,
    make_client: MakeClient,
    make_proxy: MakeProxy,
    authority: Authority,
) -> None:
    """Plain, by URL with TLS options, and by Unix socket; each works, before and after us."""
    tls = await make_proxy(own_server, tls=authority)
    for client in (
        make_client(own_server),
        make_client(tls.url, ssl_check_hostname=True),
        make_client(own_server.unix_url),
    ):
        await client.ping()
        async with LeaderElector(client, quick()) as elector, elector.lead("one") as lease:
            assert await lease.extend(2)
            assert len((await elector.state("one")).leaders) == 1
        assert await client.ping()
        assert not client.connection_pool._in_use_connections


async def test_case_70_a_certificate_that_is_not_trusted_is_an_error(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, authority: Authority
) -> None:
    """The caller's TLS options are the caller's: not met, they are redis-py's error in time."""
    proxy = await make_proxy(valkey, tls=authority)
    client = make_client(f"rediss://{proxy.host}:{proxy.port}/0")
    async with LeaderElector(client, quick(request_timeout=0.8)) as elector:
        with pytest.raises(RedisError):
            await elector.run_if_leader("one", forever)


@contextmanager
def demoted(server: Server) -> Iterator[None]:
    """`server` is the replica of nobody who answers."""
    server.cli("REPLICAOF", "127.0.0.1", 1)
    try:
        yield
    finally:
        server.cli("REPLICAOF", "NO", "ONE")


async def test_case_71_a_primary_that_is_read_only_for_a_while(
    server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """REPLICAOF while leading, taken back within the lease: renewals fail, the term goes on."""
    async with (
        LeaderElector(make_client(server), quick(lease_time=2), hooks=[journal]) as elector,
        elector.lead("one") as lease,
    ):
        with demoted(server):
            delayed = await journal.has(RenewalDelayed)
            assert "READONLY" in str(delayed.error) or isinstance(delayed.error, ReadOnlyError)
        await journal.has_another(TermRenewed)
        assert is_held(lease)
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_case_71_a_primary_that_stays_read_only_is_a_loss(
    server: Server, make_client: MakeClient
) -> None:
    """REPLICAOF while leading, for good: lost while the seat is ours; never "still leader"."""
    journal, work = Journal(), Work()
    rest: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, TermLost):
            rest.append(ttl_of(server, "one"))

    options = quick(lease_time=4, stop_grace=1.2)
    async with LeaderElector(make_client(server), options, hooks=[journal, look]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        with demoted(server):
            assert await leading == LeadershipLost("unreachable")
            assert not elector.is_leading("one")
        assert rest[0] > 0
        assert work.cleaned == 1
    assert len(journal.of(TermLost)) == 1


@pytest.mark.parametrize("kind", ["valkey-9", "redis-8", "redis-6"])
async def test_case_71_the_new_primary_is_found_within_the_lease(
    start_server: StartServer,
    make_client: MakeClient,
    make_proxy: MakeProxy,
    journal: Journal,
    kind: str,
) -> None:
    """A failover while leading: READONLY drops the connection, the next one finds the lease."""
    old, new = start_server(kind, args=NO_DELAY), start_server(kind, args=NO_DELAY)
    new.cli("REPLICAOF", old.host, old.port)
    proxy = await make_proxy(old)
    options = quick(lease_time=3)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            mine = token_of(old, "one")
            await wait_until(lambda: token_of(new, "one") == mine, within=10)
            assert await lease.extend(5)
            await wait_until(lambda: ttl_of(new, "one") > 2_500)
            new.cli("REPLICAOF", "NO", "ONE")
            old.cli("REPLICAOF", new.host, new.port)
            proxy.target = new
            await journal.has_another(TermRenewed)
            assert is_held(lease)
            assert token_of(new, "one") == mine
            (leader,) = (await elector.state("one")).leaders
            assert leader.fence == lease.fence
        assert token_of(new, "one") is None
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_case_73_a_lease_that_was_evicted_is_lost(
    start_server: StartServer, make_client: MakeClient, journal: Journal
) -> None:
    """`volatile-lru` and a filler that never expires: our keys go, which is told as a loss.

    That a start on such a policy warns comes with `doctor`, in a later issue.
    """
    server, work = start_server(), Work()
    fences: list[int] = []
    options = quick(lease_time=4)
    async with LeaderElector(make_client(server), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await work.began.wait()
        fences.append(work.lease.fence)
        fill_until_evicted(server, work.lease)
        assert await leading == LeadershipLost("expired")
        assert work.cleaned == 1
        server.cli("CONFIG", "SET", "maxmemory", 0)
        outcome = await elector.using(wait_time=5).attempt("one", nothing)
        assert isinstance(outcome, Elected)
        assert outcome.fence > fences[0], "also when the counter was evicted"


def fill_until_evicted(server: Server, lease: Lease) -> None:
    """Take all memory with keys that stay, until the seat of `lease` had to go."""
    server.cli("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    server.cli("CONFIG", "SET", "maxmemory", server.admin.info("memory")["used_memory"] + 200_000)
    for number in range(10_000):
        try:
            server.cli("SET", f"filler:{number}", "x" * 1_000)
        except OutOfMemoryError:  # nothing that expires is left
            break
    assert server.cli("EXISTS", seat_key(lease.name)) == 0


async def test_case_74_a_full_server_lets_holders_renew_and_release(
    own_server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """`noeviction` and no memory: renewal and release work, an election fails in clear words."""
    options = quick(lease_time=3)
    async with LeaderElector(make_client(own_server), options, hooks=[journal]) as elector:
        async with elector.lead("one") as lease:
            own_server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
            own_server.cli("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(OutOfMemoryError):
                own_server.cli("SET", "filler", "x")
            await journal.has_another(TermRenewed)
            await journal.has_another(TermRenewed)
            assert await lease.extend(5)
            with pytest.raises(OutOfMemoryError, match="maxmemory"):
                await elector.run_if_leader("two", forever)
            assert isinstance(await elector.attempt("one", nothing), Skipped)
        assert ttl_of(own_server, "one") == -2
        assert ttl_of(own_server, "two") == -2
        assert all_keys(own_server) == {fence_key("one")}
        own_server.cli("CONFIG", "SET", "maxmemory", 0)
        assert isinstance(await elector.attempt("two", nothing), Elected)
    assert journal.of(TermLost) == []


async def test_case_74_a_claim_is_given_up_on_a_full_server(
    own_server: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """Memory runs out while an answer is on its way, and the caller cancels: no seat stays."""
    proxy = await make_proxy(own_server)
    async with LeaderElector(make_client(proxy), quick(lease_time=60)) as elector:
        await elector.run_if_leader("one", nothing)
        proxy.hold_replies("EVALSHA", "EVAL")
        task = asyncio.create_task(elector.run_if_leader("one", forever))
        await wait_until(lambda: token_of(own_server, "one") is not None)
        own_server.cli("CONFIG", "SET", "maxmemory", 1)
        task.cancel()
        await asyncio.sleep(0)
        proxy.release()
        await cancel(task)
        assert token_of(own_server, "one") is None
        own_server.cli("CONFIG", "SET", "maxmemory", 0)
