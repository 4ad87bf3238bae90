"""The registry on a server: keys, TTLs, rights, foreign records, lost replies, a full server."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from importlib.resources import files
from itertools import groupby
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.bench import BUDGET, SCRIPTS, Watch, content, key, keys_of
from contract.headers import Header, parse
from contract.registrar import TTL, Registrar, registrar_on, stand
from incumbent import clock
from incumbent.stores.base import Budget
from incumbent.stores.redis import faults
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient
from kit.leftovers import connections, keys_without_ttl
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until

DAY = 86_400.0
BUSY = 10.0
"""Seconds that may pass between two commands of a test."""

PATIENT = Budget(4.0, 0.3)
"""A lost reply costs 0.3 s, then the request is sent again."""

FOLDER = files("incumbent.stores.redis") / "lua"
CANDIDATES = key("job", "candidates")
OWN = ("enrol", "withdraw", "result", "snapshot")
TEXTS = {name: (FOLDER / f"{name}.lua").read_text("utf-8") for name in OWN}
OF_PRELUDE = {"time", "pexpire", "pttl", "zadd", "zremrangebyscore"}
"""What its functions do that these scripts call: the time, looks at seats, and tombstones."""

COMMANDS = sorted(
    OF_PRELUDE.union(
        name.lower()
        for text in TEXTS.values()
        for name in re.findall(r"redis\.call\('(\w+)'", text)
    )
)
RIGHTS = ["eval", "evalsha", *COMMANDS]
USER = "incumbent-registry"


async def everything(
    registrar: Registrar, election: str = "job", between: Callable[[], object] = tuple
) -> None:
    """Each call, on each of its paths; `between` is called after each."""
    registry = registrar.registry
    for enrolment in (stand(election, load=1), stand(election, load=2)):
        await registrar.enrol(enrolment)
        between()
    await registrar.enrol(stand(election, "b", ttl=0.25))
    between()
    for deed in ("started", "succeeded", "failed"):
        assert await registry.record(election, "a", deed, BUDGET)
        between()
    assert not await registry.record(election, "unknown", "failed", BUDGET)
    await registrar.look(election)
    registrar.expire(election, "b")
    await registrar.enrol(stand(election, "c"))
    between()
    for _ in range(2):
        await registry.withdraw(stand(election, "a"), BUDGET)
        between()
    assert await registry.enrol(stand(election, "a"), BUDGET) == "gone"
    await registrar.look(election)
    between()


# -- keys and TTLs ---------------------------------------------------------------------------


async def test_p4_no_key_is_without_ttl_after_any_call(redis_registrar: Registrar) -> None:
    """Two keys of one election, both with an end, whatever was called."""
    server = redis_registrar.on_server
    left: list[str] = []
    await everything(redis_registrar, between=lambda: left.extend(keys_without_ttl(server)))
    assert left == []
    assert keys_of(server) == [CANDIDATES, key("job", "gone")]


async def test_the_hash_lives_as_long_as_its_longest_candidate(redis_registrar: Registrar) -> None:
    """A shorter one does not shorten it, a heartbeat prolongs it, a result does not."""
    server = redis_registrar.on_server

    def left() -> float:
        return float(server.cli("PTTL", CANDIDATES)) / 1000

    await redis_registrar.enrol(stand("job", "a", ttl=20))
    assert 15 < left() <= 20
    await redis_registrar.enrol(stand("job", "b", ttl=600))
    await redis_registrar.enrol(stand("job", "a", ttl=20))
    assert 595 < left() <= 600
    server.cli("PEXPIRE", CANDIDATES, 5000)
    await redis_registrar.registry.record("job", "a", "failed", BUDGET)
    assert left() <= 5
    await redis_registrar.enrol(stand("job", "a", ttl=20))
    assert 15 < left() <= 20


async def test_the_last_to_withdraw_leaves_no_hash(redis_registrar: Registrar) -> None:
    """Only the tombstones stay, for their minute."""
    await redis_registrar.enrol(stand("job"))
    await redis_registrar.registry.withdraw(stand("job"), BUDGET)
    assert keys_of(redis_registrar.on_server) == [key("job", "gone")]
    assert 0 < redis_registrar.on_server.cli("PTTL", key("job", "gone")) <= 60_000


async def test_a_hash_that_somebody_persisted_ends_again(redis_registrar: Registrar) -> None:
    """By the next heartbeat, and no sooner than anybody in it counts on."""
    server = redis_registrar.on_server
    await redis_registrar.enrol(stand("job", "a", ttl=600))
    server.cli("PERSIST", CANDIDATES)
    await redis_registrar.enrol(stand("job", "b", ttl=10))
    assert server.cli("PTTL", CANDIDATES) >= 600_000


async def test_newcomers_sweep_what_has_expired(redis_registrar: Registrar) -> None:
    """Restarts under new ids do not make the hash grow for ever; heartbeats and looks read only."""
    server = redis_registrar.on_server
    await redis_registrar.enrol(stand("job", "a"))
    await redis_registrar.enrol(stand("job", "b"))
    redis_registrar.expire("job", "b")
    redis_registrar.put("job", "odd", "not ours")
    await redis_registrar.look("job")
    await redis_registrar.enrol(stand("job", "a"))
    assert server.cli("HLEN", CANDIDATES) == 3
    await redis_registrar.enrol(stand("job", "c"))
    assert sorted(server.cli("HKEYS", CANDIDATES)) == ["a", "c", "odd"]


async def test_p11_a_script_touches_its_declared_keys_only(redis_registrar: Registrar) -> None:
    """Keys and arguments of each call are those of its header, in its order."""
    watch, server = Watch(redis_registrar.on_server), redis_registrar.on_server
    with watch():
        await everything(redis_registrar)
        await redis_registrar.enrol(stand("job", "d", ttl=12.345))
    assert {run.script for run in watch.runs} == set(OWN)
    for run in watch.runs:
        header = _header(run.script)
        places = ["seat:0" if name == "seat" else name for name in header.keys]
        assert run.keys == tuple(key("job", name) for name in places)
        assert len(run.args) == len(header.args)
    touched = {name for command, name in watch.touched if command != "TIME"}
    assert touched <= {key("job", name) for name in ("candidates", "gone", "fence", "seat:0")}
    (last, _) = list(groupby(watch.runs))[-1]
    assert last.args == ("d", stand("job", "d").token, "12345", "5a5a5a", "{}", "0")
    assert server.cli("HEXISTS", CANDIDATES, "d")


def test_each_answer_is_one_that_the_header_lists(server: Server) -> None:
    """Every script is brought to give each of its answers, and no other, with all elements."""
    pair = [CANDIDATES, key("job", "gone")]
    looked_at = [CANDIDATES, key("job", "fence"), key("job", "seat:0")]
    heard: dict[str, set[str]] = {name: set() for name in OWN}

    def run(name: str, *args: str | int, keys: list[str] = pair) -> list[Any]:
        answer: list[Any] = server.cli("EVAL", SCRIPTS[name].text, len(keys), *keys, *args)
        answers = _header(name).answers
        if answers:
            assert answers[answer[0]] == len(answer)
            heard[name].add(answer[0])
        return answer

    for _ in range(2):
        run("enrol", "n", "aa", 30000, "bb", "{}", 0)
    for token in ("ff", "aa"):
        run("enrol", "n", token, 30000, "bb", "{}", 1)
    run("withdraw", "n", "ff")
    run("result", "n", "cc", "failed")
    run("result", "unknown", "dd", "failed")
    server.cli("HSET", looked_at[2], "token", "aa", "leader", "n", "fence", 7, "since", 8)
    server.cli("PEXPIRE", looked_at[2], 60_000)
    now, fence, seat, records = run("snapshot", 0, keys=looked_at)
    assert (fence, seat[:4], seat[5], records[::2]) == ("0", [0, "n", "7", "8"], 0, ["n"])
    assert len(now) == 16
    for token in ("ee", "aa", "aa"):
        run("withdraw", "n", token)
    run("enrol", "n", "aa", 30000, "bb", "{}", 0)
    assert heard == {name: set(_header(name).answers) for name in OWN}


def _header(name: str) -> Header:
    return parse(TEXTS[name])


# -- records ---------------------------------------------------------------------------------


async def test_a_record_is_what_every_release_writes(redis_registrar: Registrar) -> None:
    """Releases share keys during a roll-out: eleven places keep their meaning."""
    enrolled = await redis_registrar.enrol(stand("job", load=0.5))
    registered = round(enrolled.registered_at.timestamp() * 1e6)
    record = redis_registrar.stored("job")
    assert record[0] == registered + TTL * 1e6
    token = stand("job").token
    assert record[1:] == [TTL * 1000, registered, 0, 0, 0, 0, 0, token, "5a5a5a", {"load": 0.5}]
    await redis_registrar.registry.record("job", "a", "started", BUDGET)
    await redis_registrar.registry.record("job", "a", "succeeded", BUDGET)
    after = redis_registrar.stored("job")
    assert after[:3] == record[:3]
    assert registered <= after[3] <= after[4]
    assert after[5:] == [0, 1, 0, token, "5a5a5a", {"load": 0.5}]


async def test_a_record_of_a_later_release_is_read_and_kept(redis_registrar: Registrar) -> None:
    """What follows the known places is neither an error nor lost when a result is counted."""
    await redis_registrar.enrol(stand("job", load=0.5))
    more = [*redis_registrar.stored("job"), {"future": [1, "]"]}, "x"]
    redis_registrar.put("job", "a", json.dumps(more, separators=(",", ":")))
    assert (await redis_registrar.candidate("job")).metadata == {"load": 0.5}
    assert await redis_registrar.registry.record("job", "a", "failed", BUDGET)
    assert redis_registrar.stored("job")[11:] == more[11:]
    assert (await redis_registrar.candidate("job")).failures == 1


GOOD = '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{}]'
STRANGE = {
    "empty": "",
    "text": "hello",
    "number": "5",
    "open": "[",
    "null": "[null]",
    "no time": '["9999999999999999",1,1,0,0,0,0,0,"aa","bb",{}]',
    "too short": "[9999999999999999,1,1,0,0]",
    "no metadata": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb"]',
    "metadata a list": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",[]]',
    "metadata nested": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":{}}]',
    "metadata null": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":null}]',
    "nan": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":NaN}]',
    "huge float": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":1e999}]',
    "no strategy": '[9999999999999999,1,1,0,0,0,0,0,"aa",7,{}]',
    "half a count": '[9999999999999999,1,1,0,0,0,0.5,0,"aa","bb",{}]',
    "count below 0": '[9999999999999999,1,1,0,0,0,-1,0,"aa","bb",{}]',
    "true for a count": '[9999999999999999,1,1,0,0,0,true,0,"aa","bb",{}]',
    "end of time": f'[9999999999999999,1,{10**30},0,0,0,0,0,"aa","bb",{{}}]',
    "many digits": f'[9999999999999999,1,{"9" * 5000},0,0,0,0,0,"aa","bb",{{}}]',
    "deep": "[9999999999999999,1," + "[" * 20_000 + "]" * 20_000 + "]",
    "two": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{}],[9999999999999999,1,1]',
    "cut": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":"',
    "cut, closed": '[9999999999999999,1,1,0,0,0,0,0,"aa","bb",{"k":]',
}


@pytest.mark.parametrize("record", STRANGE.values(), ids=STRANGE.keys())
async def test_a_record_that_is_none_breaks_no_election(
    registrar_of_first: Registrar, record: str
) -> None:
    """It is told by its node id and takes no part; nothing of it is changed by others."""
    await registrar_of_first.enrol(stand("job", "good"))
    registrar_of_first.put("job", "odd", record)
    snapshot = await registrar_of_first.look("job")
    assert snapshot.corrupt == ("odd",)
    assert Fifo()(snapshot).winner == await registrar_of_first.candidate("job", "good")
    await registrar_of_first.enrol(stand("job", "other"))
    assert registrar_of_first.on_server.cli("HGET", CANDIDATES, "odd") == record
    assert await registrar_of_first.nodes("job") == ["good", "other"]


async def test_bytes_that_are_no_text_break_no_election(redis_registrar: Registrar) -> None:
    """Neither in a record nor in a node id."""
    await redis_registrar.enrol(stand("job", "good"))
    redis_registrar.put("job", "odd", b'[9999999999999999,1,1,0,0,0,0,0,"aa","\xff",{}]')
    for node in (b"\xff1", b"\xff2", ""):
        redis_registrar.on_server.cli("HSET", CANDIDATES, node, GOOD)
    snapshot = await redis_registrar.look("job")
    assert [each.node_id for each in snapshot.candidates] == ["good"]
    assert snapshot.corrupt == ("", "odd", "\ufffd1", "\ufffd2")


async def test_enrolling_mends_ones_own_record(redis_registrar: Registrar) -> None:
    """What somebody wrote under my id is overwritten by my next heartbeat, as a new stand."""
    await redis_registrar.enrol(stand("job", "a"))
    redis_registrar.put("job", "a", "hello")
    assert not await redis_registrar.registry.record("job", "a", "failed", BUDGET)
    assert await redis_registrar.registry.withdraw(stand("job", "z"), BUDGET) == "gone"
    assert (await redis_registrar.enrol(stand("job", "a"))).fresh
    assert await redis_registrar.nodes("job") == ["a"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=st.text(max_size=20) | st.text('[]{},"0123456789aN.-', max_size=40))
async def test_whatever_stands_in_a_record_is_survived(
    registrar_of_first: Registrar, record: str
) -> None:
    """Nothing that somebody writes beside them keeps the others from an election."""
    await registrar_of_first.enrol(stand("job", "good"))
    registrar_of_first.put("job", "odd", record.encode(errors="replace"))
    snapshot = await registrar_of_first.look("job")
    assert snapshot.candidate("good")
    assert len(snapshot.candidates) + len(snapshot.corrupt) <= 2


@pytest.mark.parametrize("fence", ["no number", "9" * 400, "-5", ""])
async def test_a_fence_that_is_none_of_ours_is_no_seed(
    redis_registrar: Registrar, fence: str
) -> None:
    """The snapshot says 0; who acquires hears of it."""
    await redis_registrar.enrol(stand("job"))
    redis_registrar.on_server.cli("SET", key("job", "fence"), fence, "PX", 60_000)
    assert (await redis_registrar.look("job")).seed == 0


@pytest.mark.parametrize("name", ["candidates", "gone", "fence", "seat:0"])
async def test_a_key_of_the_wrong_type_is_an_error(redis_registrar: Registrar, name: str) -> None:
    """It is redis-py's own, will not pass, and nothing changes: W39, never a silent nobody."""
    server = redis_registrar.on_server
    server.cli("RPUSH", key("job", name), "theirs")
    server.cli("PEXPIRE", key("job", name), 60_000)
    before = content(server)
    registry = redis_registrar.registry
    calls: dict[str, list[Coroutine[Any, Any, object]]] = {
        "candidates": [
            registry.enrol(stand("job"), BUDGET),
            registry.record("job", "a", "failed", BUDGET),
            registry.withdraw(stand("job"), BUDGET),
            registry.snapshot("job", BUDGET),
        ],
        "gone": [
            registry.enrol(stand("job"), BUDGET),
            registry.record("job", "a", "failed", BUDGET),
            registry.withdraw(stand("job"), BUDGET),
        ],
        "fence": [registry.snapshot("job", BUDGET)],
        "seat:0": [registry.snapshot("job", BUDGET)],
    }
    for made, call in [(kind, call) for kind, all_ in calls.items() for call in all_]:
        if made != name:
            call.close()
            continue
        with pytest.raises(redis.ResponseError, match="WRONGTYPE") as said:
            await call
        assert not faults.passing(said.value)
    assert content(server) == before


# -- many ------------------------------------------------------------------------------------


async def test_w34_many_candidates_are_one_request(registrar_of_first: Registrar) -> None:
    """A thousand, by one script call, whatever else is on the server: no SCAN, no second trip."""
    server = registrar_of_first.on_server
    await asyncio.gather(
        *(
            registrar_of_first.enrol(stand("job", f"node-{number:04}", load=number))
            for number in range(1000)
        )
    )
    watch = Watch(server)
    with watch():
        snapshot = await registrar_of_first.look("job")
    assert len(snapshot.candidates) == 1000
    assert snapshot.candidate("node-0500") is not None
    assert len(list(groupby(watch.runs))) == 1
    assert [command for command, _ in watch.touched] == ["HMGET", "GET", "HGETALL", "TIME"]
    assert len(connections(server)) == 1


async def test_a_heartbeat_is_not_read_again(registrar_of_first: Registrar) -> None:
    """It moves the expiry only, so each look after the first makes few values anew."""
    for node in "ab":
        await registrar_of_first.enrol(stand("job", node, load=1))
    before = await registrar_of_first.look("job")
    for node in "ab":
        await registrar_of_first.enrol(stand("job", node, load=1))
    await registrar_of_first.registry.record("job", "b", "started", BUDGET)
    after = await registrar_of_first.look("job")
    assert after.candidate("a") is before.candidate("a")
    assert after.candidate("b") != before.candidate("b")


# -- a clock that was ahead and is set back -----------------------------------------------------

TWIN = replace(stand("job"), token="77", ttl=TTL / 2)
"""Another process under the same node id."""

READERS: dict[str, Callable[[Registrar], Coroutine[Any, Any, object]]] = {
    "a look": lambda registrar: registrar.look("job"),
    "its result": lambda registrar: registrar.registry.record("job", "a", "started", BUDGET),
    "a twin that leaves": lambda registrar: registrar.registry.withdraw(TWIN, BUDGET),
}


@pytest.mark.parametrize("by", [TTL, DAY])
@pytest.mark.parametrize("reader", READERS)
async def test_a_record_lives_no_longer_than_it_was_enrolled_for(
    redis_registrar: Registrar, reader: str, by: float
) -> None:
    """Whoever reads it corrects its end, and its times that are yet to come."""
    await redis_registrar.enrol(stand("job"))
    for deed in ("started", "succeeded", "failed", "faltered"):
        assert await redis_registrar.registry.record("job", "a", deed, BUDGET)
    await redis_registrar.enrol(TWIN)
    await redis_registrar.enrol(stand("job"))
    redis_registrar.postpone("job", "a", by)
    await READERS[reader](redis_registrar)
    found = await redis_registrar.look("job")
    (candidate,) = found.candidates
    now, record = found.now.timestamp(), redis_registrar.stored("job")
    assert now < record[0] / 1e6 <= now + TTL
    assert candidate.last_failed_at is not None
    times = candidate.last_started_at, candidate.last_succeeded_at, candidate.last_early_failure_at
    for time in (candidate.registered_at, candidate.last_failed_at, *times):
        assert time is not None
        assert now - BUSY < time.timestamp() <= now
    assert (candidate.successes, candidate.failures, candidate.early_failures) == (1, 1, 1)
    assert redis_registrar.stored("job") == record, "corrected once"


async def test_a_look_without_such_records_is_one_that_writes_nothing(
    redis_registrar: Registrar,
) -> None:
    """The second request, and the work of the server for it, is for the rare case only."""
    for node in "ab":
        await redis_registrar.enrol(stand("job", node))
    await redis_registrar.look("job")  # from now on the server knows the script
    watch = Watch(redis_registrar.on_server)
    with watch():
        await redis_registrar.look("job")
    assert len([run for run in watch.runs if run.script == "snapshot"]) == 1
    for node in "ab":
        redis_registrar.postpone("job", node, DAY)
    watch = Watch(redis_registrar.on_server)
    with watch():
        for _ in range(2):
            assert await redis_registrar.nodes("job") == ["a", "b"]
    assert [run.args for run in watch.runs if run.script == "snapshot"] == [("0",), ("1",), ("0",)]
    assert [command for command, _ in watch.touched].count("HSET") == 2


async def test_w35_heartbeats_go_on_as_the_same_candidate(redis_registrar: Registrar) -> None:
    """A living node stays what it was: registered at a time that is over."""
    await redis_registrar.enrol(stand("job"))
    redis_registrar.postpone("job", "a", DAY)
    for _ in range(2):
        enrolled = await redis_registrar.enrol(stand("job"))
        assert not enrolled.fresh
        assert enrolled.registered_at.timestamp() <= clock_of(redis_registrar.on_server)


async def test_the_order_of_registration_stays_as_it_was(redis_registrar: Registrar) -> None:
    """Who comes later is younger, whatever the clock said at the time."""
    for node in "cba":
        await redis_registrar.enrol(stand("job", node))
        redis_registrar.postpone("job", node, DAY)
    assert await redis_registrar.nodes("job") == ["c", "b", "a"]
    await redis_registrar.enrol(stand("job", "0"))
    assert await redis_registrar.nodes("job") == ["c", "b", "a", "0"]


async def test_a_dead_twin_has_no_longer_left_than_it_was_enrolled_for(
    redis_registrar: Registrar,
) -> None:
    """Who leaves hands the record on to it, for its own time."""
    await redis_registrar.enrol(TWIN)
    await redis_registrar.enrol(stand("job"))
    redis_registrar.postpone("job", "a", DAY)
    assert await redis_registrar.registry.withdraw(stand("job"), BUDGET) == "taken"
    expires, ttl, *_ = redis_registrar.stored("job")
    assert TTL / 2 - BUSY < expires / 1e6 - clock_of(redis_registrar.on_server) <= TTL / 2
    assert ttl == 1000 * TTL / 2


async def test_who_withdrew_does_not_come_back(redis_registrar: Registrar) -> None:
    """Its record is kept for its early failures; by no clock does it stand."""
    await redis_registrar.enrol(stand("job"))
    await redis_registrar.registry.record("job", "a", "faltered", BUDGET)
    await redis_registrar.registry.withdraw(stand("job"), BUDGET)
    redis_registrar.postpone("job", "a", DAY)
    assert await redis_registrar.nodes("job") == []
    assert (await redis_registrar.enrol(replace(stand("job"), token="99"))).fresh
    candidate = await redis_registrar.candidate("job")
    assert candidate.early_failures == 1
    assert candidate.last_early_failure_at is not None
    at = candidate.last_early_failure_at.timestamp()
    assert at <= clock_of(redis_registrar.on_server), "or it would count for a day"


async def test_on_a_full_server_a_record_is_corrected(redis_registrar: Registrar) -> None:
    """The first write is one that a full server allows."""
    server = redis_registrar.on_server
    if not server.ours:
        pytest.skip("changes the server's settings")
    await redis_registrar.enrol(stand("job"))
    redis_registrar.postpone("job", "a", DAY)
    before = server.cli("CONFIG", "GET", "maxmemory")[1]
    server.cli("CONFIG", "SET", "maxmemory", "1")
    try:
        assert await redis_registrar.nodes("job") == ["a"]
    finally:
        server.cli("CONFIG", "SET", "maxmemory", before)
    assert redis_registrar.stored("job")[0] / 1e6 <= clock_of(server) + TTL


def clock_of(server: Server) -> float:
    """What the server's clock says."""
    seconds, micros = server.cli("TIME")
    return int(seconds) + int(micros) / 1e6


# -- trouble ---------------------------------------------------------------------------------


@pytest.fixture
async def far(valkey: Server, proxy: Proxy, make_client: MakeClient) -> AsyncIterator[Registrar]:
    """A registry behind a proxy that does no harm yet, with all scripts in the server's cache."""
    async with registrar_on(valkey, make_client(proxy)) as registrar:
        await everything(registrar, "warm")
        yield registrar


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
async def test_p5_a_result_whose_reply_was_lost_is_counted_once(
    far: Registrar, proxy: Proxy, cut: bool
) -> None:
    """It is sent again, and the server knows it by its token."""
    await far.enrol(stand("job"))
    for deed in ("succeeded", "failed"):
        proxy.drop_replies(1, "EVAL", "EVALSHA", cut=cut)
        assert await far.registry.record("job", "a", deed, PATIENT)
    candidate = await far.candidate("job")
    assert (candidate.successes, candidate.failures) == (1, 1)


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
async def test_p5_other_calls_whose_reply_was_lost_say_the_same(
    far: Registrar, proxy: Proxy, cut: bool
) -> None:
    """An enrolment stands, a withdrawal was one, a snapshot is one."""
    proxy.drop_replies(1, "EVAL", "EVALSHA", cut=cut)
    assert await far.registry.enrol(stand("job"), PATIENT) != "gone"
    proxy.drop_replies(1, "EVAL", "EVALSHA", cut=cut)
    assert len((await far.registry.snapshot("job", PATIENT)).candidates) == 1
    proxy.drop_replies(1, "EVAL", "EVALSHA", cut=cut)
    assert await far.registry.withdraw(stand("job"), PATIENT) == "withdrawn"
    assert await far.nodes("job") == []


@pytest.mark.parametrize("direction", ["replies", "requests"])
async def test_p4_who_gives_up_and_withdraws_leaves_nobody(
    far: Registrar, valkey: Server, make_client: MakeClient, proxy: Proxy, direction: str
) -> None:
    """A heartbeat that is cancelled on its way may arrive later: it makes no ghost."""
    if direction == "replies":
        proxy.hold_replies("EVALSHA")
    else:
        proxy.hold_requests("EVALSHA")
    task = asyncio.create_task(far.registry.enrol(stand("job"), BUDGET))
    await wait_until(lambda: proxy.held)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with registrar_on(valkey, make_client(valkey)) as near:
        await near.registry.withdraw(stand("job"), BUDGET)
    assert valkey.cli("EXISTS", key("job", "gone"))
    proxy.release()
    await wait_until(lambda: not far.on_server.cli("HEXISTS", CANDIDATES, "a"))
    assert await far.nodes("job") == []


async def test_p9_no_call_outlives_its_budget(far: Registrar, proxy: Proxy) -> None:
    """A server that never answers costs the budget, and is redis-py's TimeoutError."""
    await far.enrol(stand("job"))
    proxy.silence()
    budget = Budget(0.4, 0.15)
    for call in (
        far.registry.enrol(stand("job"), budget),
        far.registry.record("job", "a", "failed", budget),
        far.registry.snapshot("job", budget),
        far.registry.withdraw(stand("job"), budget),
    ):
        began = clock.now()
        with pytest.raises(redis.TimeoutError) as said:
            await call
        assert 0.25 < clock.now() - began < 0.4 + 3
        assert stand("job").token not in str(said.value)
    await proxy.restore()


async def test_p9_a_look_that_corrects_records_has_one_budget(far: Registrar, proxy: Proxy) -> None:
    """The second request has what the first has left."""
    await far.enrol(stand("job"))
    far.postpone("job", "a", DAY)
    proxy.delay(0.6)
    with pytest.raises(redis.TimeoutError):
        await far.registry.snapshot("job", Budget(1.0, 1.0))
    await proxy.restore()


async def test_case_74_on_a_full_server_candidates_go_on(redis_registrar: Registrar) -> None:
    """Heartbeats, results, looks and withdrawals need no memory first: nobody drops out."""
    server = redis_registrar.on_server
    if not server.ours:
        pytest.skip("changes the server's settings")
    await redis_registrar.enrol(stand("job", load=1))
    before = server.cli("CONFIG", "GET", "maxmemory")[1]
    server.cli("CONFIG", "SET", "maxmemory", "1")
    try:
        assert not (await redis_registrar.enrol(stand("job", load=2))).fresh
        assert await redis_registrar.registry.record("job", "a", "succeeded", BUDGET)
        candidate = await redis_registrar.candidate("job")
        assert (candidate.metadata, candidate.successes) == ({"load": 2}, 1)
        assert await redis_registrar.registry.withdraw(stand("job"), BUDGET) == "withdrawn"
    finally:
        server.cli("CONFIG", "SET", "maxmemory", before)


# -- rights ----------------------------------------------------------------------------------


def test_the_list_of_rights_is_short() -> None:
    """It stands in the documentation, so that a new command is noticed."""
    assert [
        *("get", "hdel", "hget", "hgetall", "hmget", "hset", "pexpire", "pttl"),
        *("time", "zadd", "zremrangebyscore", "zscore"),
    ] == COMMANDS


@pytest.fixture
def limited(valkey: Server) -> Any:
    """Makes a user who may do these commands on keys below the prefix, and nothing else."""
    if not valkey.ours:
        pytest.skip("makes a user on the server")

    def make(rights: list[str]) -> dict[str, str]:
        permitted = [f"+{right}" for right in rights]
        valkey.cli("ACL", "SETUSER", USER, "reset", "on", ">secret", "~incumbent:*", *permitted)
        return {"username": USER, "password": "secret"}

    yield make
    valkey.cli("ACL", "DELUSER", USER)


async def test_p11_a_user_with_few_rights_can_do_everything(
    valkey: Server, make_client: MakeClient, limited: Any
) -> None:
    """The commands in the scripts, EVAL and EVALSHA, on ``incumbent:*``."""
    async with registrar_on(valkey, make_client(valkey, **limited(RIGHTS))) as registrar:
        await everything(registrar)


@pytest.mark.parametrize("missing", [right for right in RIGHTS if right != "evalsha"])
async def test_p4_without_one_right_nothing_lasts(
    valkey: Server, make_client: MakeClient, limited: Any, missing: str
) -> None:
    """Whichever right a user lacks, the server refuses, and no key without TTL is left behind."""
    login = limited([right for right in RIGHTS if right != missing])
    refused = 0
    async with (
        registrar_on(valkey, make_client(valkey)) as full,
        registrar_on(valkey, make_client(valkey, **login)) as few,
    ):
        for node in "ab":
            await full.enrol(stand("job", node))
        full.expire("job", "b")
        for call in (
            lambda: few.registry.enrol(stand("new"), BUDGET),
            lambda: few.registry.enrol(stand("job", "c"), BUDGET),
            lambda: few.registry.record("job", "a", "succeeded", BUDGET),
            lambda: few.registry.snapshot("job", BUDGET),
            lambda: few.registry.withdraw(stand("job", "a"), BUDGET),
        ):
            error: redis.ResponseError | None = None
            try:
                await call()
            except redis.ResponseError as said:
                error = said
            if error is not None:
                refused += 1
                assert re.search("perm|can't run this command", str(error))
                assert not faults.passing(error)
            assert keys_without_ttl(valkey) == []
    assert refused
