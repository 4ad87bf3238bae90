"""P4 and P11 by looking at the server: which keys, which commands, which TTLs, which rights."""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import groupby

import pytest
import redis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from contract import story
from contract.bench import BUDGET, SCRIPTS, Bench, Watch, claim, content, key, keys_of
from contract.line import Line, Processes
from incumbent.names import election_name
from incumbent.stores.base import Grant
from incumbent.stores.redis import RedisStore
from kit.fixtures import MakeClient
from kit.leftovers import keys_without_ttl
from kit.servers import Server

COMMANDS = sorted(
    {
        name.decode().lower()
        for script in SCRIPTS.values()
        if script.name not in {"enrol", "result", "snapshot", "withdraw"}  # which have their own
        for name in re.findall(rb"redis\.p?call\('(\w+)'", script.text)
    }
    - {"publish", "spublish"}  # without these, changes are looked for
)
RIGHTS = ["eval", "evalsha", *COMMANDS]
USER = "incumbent-test"


NAME = (
    st.text(st.characters(codec="utf-8", exclude_characters="{}"), min_size=1, max_size=8)
    | st.text(":seat0fnc", min_size=1, max_size=8)
).filter(lambda name: fits(election_name, name))
PREFIX = NAME.filter(lambda name: not set("*?[]\\") & set(name))

OwnKeys = Callable[[str, str], Awaitable[set[str]]]


def fits(check: Callable[[str], str], name: str) -> bool:
    """Whether a name may be used."""
    try:
        return check(name) == name
    except ValueError:
        return False


@pytest.fixture
async def own_keys(valkey: Server, make_client: MakeClient) -> OwnKeys:
    """Gives the keys that an election of two seats makes under a prefix, and removes them."""
    client = make_client(valkey)

    async def make(prefix: str, name: str) -> set[str]:
        store = RedisStore(client, prefix)
        for who in "ab":
            await store.acquire(claim(name, who, seats=2), BUDGET)
        await store.leave(claim(name, "c", seats=2), BUDGET)
        await store.aclose()
        found = set(valkey.admin.scan_iter(match=f"{prefix}:{{*", count=1000))
        valkey.cli("DEL", *found)
        return found

    return make


def on_server(bench: Bench) -> Server:
    """The bench's server."""
    assert bench.server is not None
    return bench.server


def limited(server: Server, make_client: MakeClient, rights: list[str]) -> RedisStore:
    """A store of a user who may do these commands on keys below the prefix, and nothing else."""
    if not server.ours:
        pytest.skip("makes a user on the server")
    permitted = [f"+{right}" for right in rights]
    server.cli("ACL", "SETUSER", USER, "reset", "on", ">secret", "~incumbent:*", *permitted)
    return RedisStore(make_client(server, username=USER, password="secret"), "incumbent")


# -- TTLs ------------------------------------------------------------------------------------


async def test_p4_no_key_is_without_ttl_after_any_call(redis_bench: Bench) -> None:
    """Looked at between any two calls of a story that takes every path."""
    server, seen = on_server(redis_bench), set[str]()

    async def look(step: str) -> None:
        assert keys_without_ttl(server) == [], f"before {step}"
        seen.update(keys_of(server))

    assert await story.tell(redis_bench.store, look) == story.EXPECTED
    await look("the end")
    assert seen == {key(story.NAME, name) for name in ("fence", "gone", "seat:0", "seat:1")}


async def test_p4_the_ttls_are_those_of_the_protocol(redis_bench: Bench) -> None:
    """A seat lives as long as its lease, the fence a day, a tombstone a minute."""
    server = on_server(redis_bench)
    await redis_bench.elect(claim("job", "a", lease_time=20))
    await redis_bench.store.leave(claim("job", "b"), BUDGET)
    ttls = {name: server.cli("PTTL", key("job", name)) for name in ("seat:0", "fence", "gone")}
    assert 15_000 < ttls["seat:0"] <= 20_000
    assert 86_395_000 < ttls["fence"] <= 86_400_000
    assert 55_000 < ttls["gone"] <= 60_000


async def test_p4_the_fence_outlives_every_lease(redis_bench: Bench) -> None:
    """With a lease of many days, and after an extension, the counter is there till the end."""
    server = on_server(redis_bench)
    await redis_bench.elect(claim("job", lease_time=10 * 86_400))
    assert server.cli("PTTL", key("job", "fence")) > server.cli("PTTL", key("job", "seat:0"))
    await redis_bench.store.extend(claim("job"), 0, 20 * 86_400, BUDGET)
    assert server.cli("PTTL", key("job", "fence")) > server.cli("PTTL", key("job", "seat:0"))


async def test_p4_a_seat_that_is_kept_in_its_last_moment_ends(redis_bench: Bench) -> None:
    """A minimum hold never makes a seat that nothing ends, however little is left of it."""
    server, mine = on_server(redis_bench), claim("job", lease_time=0.25)
    for _ in range(40):
        grant = await redis_bench.elect(mine)
        server.cli("PEXPIRE", key("job", "seat:0"), 1)
        await redis_bench.store.release(mine, grant, 10, BUDGET)
        assert server.cli("PTTL", key("job", "seat:0")) != -1
        server.cli("DEL", key("job", "seat:0"))


async def test_p1_a_seat_that_somebody_persisted_is_not_cut_short(redis_bench: Bench) -> None:
    """It heals, but by nothing shorter than what its holder counts on."""
    server = on_server(redis_bench)
    await redis_bench.elect(claim("job", "a", lease_time=30))
    server.cli("PERSIST", key("job", "seat:0"))
    await redis_bench.store.acquire(claim("job", "b", lease_time=0.25), BUDGET)
    assert server.cli("PTTL", key("job", "seat:0")) > 25_000


# -- keys ------------------------------------------------------------------------------------


async def test_p11_case_68_a_script_touches_its_declared_keys_only(redis_bench: Bench) -> None:
    """The key of each command of each script is one of KEYS, below the prefix."""
    server = on_server(redis_bench)
    watch = Watch(server)
    with watch():
        await story.tell(redis_bench.store, election="plain")
    declared = {name for run in watch.runs for name in run.keys}
    touched = [name for command, name in watch.touched if command not in {"TIME", "PUBLISH"}]
    assert all(name.startswith("incumbent:{plain}:") or "{none}" in name for name in declared)
    assert len(touched) > 50
    assert set(touched) <= declared
    assert set(touched) >= {key("plain", name) for name in ("seat:0", "fence", "gone")}


async def test_p11_a_call_leaves_the_keys_of_others_alone(redis_bench: Bench) -> None:
    """Neighbours with similar names are as before."""
    server = on_server(redis_bench)
    neighbours = ["kit:seat:0", "kit:{job}:seat:0", "kit:{job}", "kit:incumbent:{job}:fence"]
    for name in neighbours:
        server.cli("SET", name, "theirs", "EX", 60)
    await story.tell(redis_bench.store, election="job")
    assert [server.cli("GET", name) for name in neighbours] == ["theirs"] * len(neighbours)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=st.tuples(PREFIX, NAME), two=st.tuples(PREFIX, NAME))
async def test_p11_case_64_each_election_has_its_own_keys_in_one_slot(
    own_keys: OwnKeys, one: tuple[str, str], two: tuple[str, str]
) -> None:
    """The name alone is the hash tag; no other prefix and name lead to the same key."""
    assume(one != two)
    first, second = await own_keys(*one), await own_keys(*two)
    assert len(first) == len(second) == 4
    assert not first & second
    assert {key_slot(name.encode()) for name in first} == {key_slot(one[1].encode())}


# -- rights ----------------------------------------------------------------------------------


async def test_p11_a_user_with_few_rights_can_do_everything(
    server: Server, make_client: MakeClient
) -> None:
    """The commands in the scripts, EVAL and EVALSHA, on ``incumbent:*``: enough for every call."""
    store = limited(server, make_client, RIGHTS)
    try:
        assert await story.tell(store) == story.EXPECTED
    finally:
        server.cli("ACL", "DELUSER", USER)


def test_the_list_of_rights_is_short() -> None:
    """It stands in the documentation, so that a new command is noticed."""
    assert [
        *("del", "exists", "get", "hget", "hmget", "hset", "pexpire", "pttl", "set", "time"),
        *("zadd", "zcard", "zrange", "zrangebyscore", "zrem", "zremrangebyscore", "zscore"),
    ] == COMMANDS


@pytest.mark.parametrize("missing", RIGHTS)
async def test_p4_without_one_right_nothing_lasts(
    valkey: Server, make_client: MakeClient, missing: str
) -> None:
    """Whichever right a user lacks, the server refuses, and no key without TTL is left behind."""
    store = limited(valkey, make_client, [right for right in RIGHTS if right != missing])
    full = RedisStore(make_client(valkey), "incumbent")
    refused, crowd = 0, Processes(Line(valkey, "job"))
    try:
        a, b = claim("job", "a", seats=2), claim("job", "b", seats=2)
        await full.acquire(b, BUDGET)
        granted = await full.acquire(a, BUDGET)
        assert isinstance(granted, Grant)
        crowd.standing("p", size=2)  # what is done with a line needs more than what is not
        for call in (
            lambda: store.acquire(claim("new", "a"), BUDGET),
            lambda: store.acquire(claim("job", "c", seats=2), BUDGET),
            lambda: store.extend(a, granted.seat, 60, BUDGET),
            lambda: store.state("job", 2, BUDGET),
            lambda: store.release(b, story.doubtful(granted), 0, BUDGET),
            lambda: store.release(a, story.doubtful(granted), 10, BUDGET),
            lambda: store.leave(claim("job", "d", seats=2), BUDGET),
            lambda: store.leave(b, BUDGET),
            lambda: store.acquire(claim("job", "e", seats=2), BUDGET),
        ):
            error: redis.ResponseError | None = None
            try:
                await call()
            except redis.ResponseError as said:
                error = said
            if error is not None:
                refused += 1
                assert re.search("perm|can't run this command", str(error))
                assert not store.passing(error)
            assert keys_without_ttl(valkey) == []
    finally:
        crowd.close()
        valkey.cli("ACL", "DELUSER", USER)
    assert refused or missing == "evalsha", "the right is not needed"


async def test_p11_a_user_of_other_keys_is_refused(server: Server, make_client: MakeClient) -> None:
    """Without a right to the prefix redis-py's own error comes out, and nothing is written."""
    if not server.ours:
        pytest.skip("makes a user on the server")
    server.cli("ACL", "SETUSER", USER, "reset", "on", ">secret", "~other:*", "+@all")
    store = RedisStore(make_client(server, username=USER, password="secret"), "incumbent")
    try:
        with pytest.raises(redis.ResponseError, match="perm"):
            await store.acquire(claim("job"), BUDGET)
    finally:
        server.cli("ACL", "DELUSER", USER)
    assert keys_of(server) == []


# -- keys of the wrong type ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("seat:0", ("SET", "text")),
        ("seat:1", ("RPUSH", "text")),
        ("fence", ("HSET", "field", "text")),
        ("fence", ("SET", "no number")),
        ("gone", ("SET", "text")),
    ],
    ids=["seat", "last seat", "fence", "fence that is no number", "gone"],
)
async def test_an_acquire_among_wrong_types_changes_nothing(
    redis_bench: Bench, name: str, wrong: tuple[str, ...]
) -> None:
    """What somebody else put there is redis-py's error, will not pass, and stays as it was."""
    server = on_server(redis_bench)
    server.cli(wrong[0], key("job", name), *wrong[1:])
    server.cli("PEXPIRE", key("job", name), 60_000)
    before = content(server)
    with pytest.raises(redis.ResponseError) as said:
        await redis_bench.store.acquire(claim("job", seats=2), BUDGET)
    assert "WRONGTYPE" in str(said.value) or "fence counter" in str(said.value)
    assert not redis_bench.store.passing(said.value)
    assert content(server) == before


@pytest.mark.parametrize("call", ["extend", "release", "leave", "state"])
async def test_a_seat_of_the_wrong_type_is_an_error_of_every_call(
    redis_bench: Bench, call: str
) -> None:
    """It is never taken for a free seat, nor for somebody's, nor deleted."""
    server, mine = on_server(redis_bench), claim("job")
    grant = await redis_bench.elect(claim("other"))
    server.cli("SET", key("job", "seat:0"), "text", "PX", 60_000)
    before = content(server)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "extend": lambda: redis_bench.store.extend(mine, 0, 60, BUDGET),
        "release": lambda: redis_bench.store.release(mine, grant, 0, BUDGET),
        "leave": lambda: redis_bench.store.leave(mine, BUDGET),
        "state": lambda: redis_bench.store.state("job", 1, BUDGET),
    }
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        await calls[call]()
    assert content(server) == before


@pytest.mark.parametrize("name", ["seat:0", "queue", "fence"])
async def test_an_error_of_a_look_names_the_key(redis_bench: Bench, name: str) -> None:
    """Whoever asked knows the election; what is wrong in it, only the server has seen."""
    server = on_server(redis_bench)
    server.cli("LPUSH", key("job", name), "text")
    server.cli("PEXPIRE", key("job", name), 60_000)
    with pytest.raises(redis.ResponseError) as said:
        await redis_bench.store.state("job", 1, BUDGET)
    assert "WRONGTYPE" in str(said.value)
    assert key("job", name) in str(said.value)
    assert not redis_bench.store.passing(said.value)


# -- how many seats there are ----------------------------------------------------------------


async def asked(bench: Bench, seats: int) -> list[int]:
    """For how many seats a look asks the server, request by request."""
    watch = Watch(on_server(bench))
    with watch():
        await bench.store.state("job", seats, BUDGET)
    return [len(run.keys) - 3 for run, _ in groupby(watch.runs)]


async def test_a_look_asks_for_few_seats_unless_there_are_more(redis_bench: Bench) -> None:
    """So a thousand elections with one seat each do not cost a million keys."""
    server = on_server(redis_bench)
    assert await asked(redis_bench, 1024) == [16, 1024], "nobody has led: how many is not known"
    await redis_bench.elect(claim("job", "a"))
    assert await asked(redis_bench, 1024) == [16]
    await redis_bench.elect(claim("job", "b", seats=40))
    assert await asked(redis_bench, 1024) == [16, 40]
    assert await asked(redis_bench, 20) == [16, 20]
    assert await asked(redis_bench, 2) == [2]
    server.cli("DEL", key("job", "fence"))
    assert await asked(redis_bench, 1024) == [16, 1024], "the counter is lost: nothing is taken"


async def test_the_number_of_seats_is_the_largest_that_a_candidate_knew_of(
    redis_bench: Bench,
) -> None:
    """Also when one with fewer seats is elected after it, and the fence grows all the same."""
    server = on_server(redis_bench)
    a, b = claim("job", "a", seats=3), claim("job", "b")
    first = await redis_bench.elect(a)
    assert server.cli("GET", key("job", "fence")) == f"{first.fence} 3"
    await redis_bench.store.release(a, first, 0, BUDGET)
    second = await redis_bench.elect(b)
    assert second.fence > first.fence
    assert server.cli("GET", key("job", "fence")) == f"{second.fence} 3"
    await redis_bench.store.release(b, second, 0, BUDGET)
    server.cli("DEL", key("job", "fence"))
    third = await redis_bench.elect(b)
    assert server.cli("GET", key("job", "fence")) == str(third.fence)


# -- compatibility ---------------------------------------------------------------------------


async def test_a_seats_fields_are_those_that_every_release_writes(redis_bench: Bench) -> None:
    """Releases share keys during a roll-out: these five fields keep their names and meaning."""
    server = on_server(redis_bench)
    grant = await redis_bench.elect(claim("job"))
    assert server.cli("HGETALL", key("job", "seat:0")) == {
        "token": "token-of-a",
        "leader": "leader-a",
        "fence": str(grant.fence),
        "since": str(round(grant.since.timestamp() * 1000)),
        "longest": "30000",
    }
    assert server.cli("GET", key("job", "fence")) == str(grant.fence)
    await redis_bench.store.release(claim("job"), grant, 10, BUDGET)
    assert server.cli("HGET", key("job", "seat:0"), "token") == "retained"


async def test_fields_of_a_later_release_are_ignored_and_kept(redis_bench: Bench) -> None:
    """What a script does not know, it neither reads nor removes while the seat is held."""
    server = on_server(redis_bench)
    grant = await redis_bench.elect(claim("job"))
    server.cli("HSET", key("job", "seat:0"), "future", "1")
    await redis_bench.elect(claim("job"))
    await redis_bench.store.extend(claim("job"), 0, 60, BUDGET)
    assert await redis_bench.names("job") == [(0, "leader-a")]
    assert server.cli("HGET", key("job", "seat:0"), "future") == "1"
    assert await redis_bench.store.release(claim("job"), grant, 0, BUDGET) == "released"
    assert server.cli("EXISTS", key("job", "seat:0")) == 0


# -- tombstones ------------------------------------------------------------------------------


async def test_p4_a_claim_that_arrives_after_it_was_left_gets_nothing(redis_bench: Bench) -> None:
    """A late copy of the request finds the tombstone; nobody is elected by it."""
    await redis_bench.store.leave(claim("job", "a"), BUDGET)
    with pytest.raises(redis.ResponseError, match="'job' was given up") as said:
        await redis_bench.store.acquire(claim("job", "a"), BUDGET)
    assert "token" not in str(said.value)
    assert await redis_bench.names("job") == []
    await redis_bench.elect(claim("job", "b"))


async def test_p4_a_copy_after_a_doubtful_release_gets_nothing(redis_bench: Bench) -> None:
    """The release of a grant that was asked for twice leaves a tombstone, kept seat or not."""
    for election, keep in (("job", 0.0), ("kept", 10.0)):
        mine = claim(election, "a", seats=2)
        grant = story.doubtful(await redis_bench.elect(mine))
        assert await redis_bench.store.release(mine, grant, keep, BUDGET) == "released"
        with pytest.raises(redis.ResponseError, match="given up"):
            await redis_bench.store.acquire(mine, BUDGET)
    assert await redis_bench.names("job", 2) == []


async def test_a_usual_release_writes_no_tombstone(redis_bench: Bench) -> None:
    """A grant that was asked for once has no copies: nothing is written for them."""
    server = on_server(redis_bench)
    grant = await redis_bench.elect(claim("job"))
    await redis_bench.store.release(claim("job"), grant, 0, BUDGET)
    assert keys_of(server) == [key("job", "fence")]


async def test_old_tombstones_are_swept(redis_bench: Bench) -> None:
    """A busy election does not gather them: those older than a minute go with the next one."""
    server = on_server(redis_bench)
    gone = key("job", "gone")
    server.cli("ZADD", gone, int((redis_bench.now() - 61) * 1000), "an-old-one")
    server.cli("ZADD", gone, int((redis_bench.now() - 30) * 1000), "a-young-one")
    server.cli("PEXPIRE", gone, 60_000)
    await redis_bench.store.leave(claim("job", "a"), BUDGET)
    assert set(server.cli("ZRANGE", gone, 0, -1)) == {"a-young-one", "token-of-a"}


async def test_leaving_frees_every_seat_of_the_claim(redis_bench: Bench) -> None:
    """Also one that it should not have had."""
    server, mine = on_server(redis_bench), claim("job", "a", seats=3)
    await redis_bench.elect(mine)
    server.cli("HSET", key("job", "seat:2"), "token", mine.token)
    server.cli("PEXPIRE", key("job", "seat:2"), 60_000)
    await redis_bench.store.leave(mine, BUDGET)
    assert await redis_bench.names("job", 3) == []


# -- fences ----------------------------------------------------------------------------------


async def test_p7_fences_grow_although_the_counter_was_lost(redis_bench: Bench) -> None:
    """Deleted, expired or evicted: the server's time is above every fence that there was."""
    server, fences = on_server(redis_bench), list[int]()
    for who in "abc":
        fences.append((await redis_bench.elect(claim("job", who))).fence)
        redis_bench.expire("job")
        server.cli("DEL", key("job", "fence"))
    assert fences == sorted(set(fences))


async def test_p7_fences_grow_although_the_clock_stands_behind(redis_bench: Bench) -> None:
    """A counter that is ahead of the server's time, as after a step back, is counted on from."""
    ahead = 2**52
    on_server(redis_bench).cli("SET", key("job", "fence"), ahead, "PX", 60_000)
    grants = await redis_bench.fill("job", "abc", seats=3)
    assert [grant.fence for grant in grants] == [ahead + 1, ahead + 2, ahead + 3]


async def test_p7_fences_grow_over_a_restart_without_data(
    own_server: Server, make_client: MakeClient
) -> None:
    """An empty server goes on above what it has forgotten."""
    store = RedisStore(make_client(own_server), "incumbent")
    first = await store.acquire(claim("job", "a"), BUDGET)
    own_server.restart()
    assert keys_of(own_server) == []
    second = await store.acquire(claim("job", "b"), BUDGET)
    assert isinstance(first, Grant)
    assert isinstance(second, Grant)
    assert second.fence > first.fence
    with suppress(redis.RedisError):
        await store.aclose()
