"""`doctor` and `candidates`: what is wrong is found on real servers, and judged by tables."""

import re
import sys
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import redis

from cli.inside import Inside
from incumbent.blocking import StrategicElector
from incumbent.cli.doctor.judgement import judge
from incumbent.stores.redis.facts import CONNECTING, TRIES, Facts, Trouble
from incumbent.strategy import Fifo
from kit.fixtures import StartServer
from kit.servers import Server
from kit.waiting import wait_until_blocking

WELL: dict[str, Any] = {
    "redis_version": "7.2.4",
    "maxmemory_policy": "noeviction",
    "aof_enabled": 1,
    "role": "master",
}


def facts(**changes: Any) -> Facts:
    """A server with which all is well, but for the changes."""
    values: dict[str, Any] = {
        "info": WELL,
        "config": {},
        "round_trip": 0.001,
        "ahead": 0.0,
        "strayed": 0.0,
        "watched": 1.0,
        "heard": True,
        "keys": 3,
    }
    return Facts(**{**values, **changes})


def levels(*, lease: float = 30.0, **changes: Any) -> dict[str, str]:
    """What is not ok."""
    return {each.about: each.level for each in judge(facts(**changes), lease) if each.level != "ok"}


class Doctor:
    """Asks `doctor` in this process, without the second in which it watches the clocks."""

    def __init__(self, ask: Inside) -> None:
        self._ask = ask

    def __call__(self, url: str, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
        """The exit code, and what was found about what."""
        said = self._ask("doctor", "--json", *arguments, url=url)
        assert said.value["ok"] == (said.code == 0)
        for each in said.value["findings"]:
            assert (each["level"] == "ok") or (each["means"] and each["advice"])
        found = said.value["findings"]
        return said.code, {each["about"]: (each["level"], each["found"]) for each in found}


@pytest.fixture
def doctor(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Asks `doctor`."""
    monkeypatch.setattr("incumbent.stores.redis.facts.WATCHED", 0.1)
    return Doctor(ask)


def test_what_is_well_needs_no_words() -> None:
    """Nothing but ok."""
    assert levels() == {}


REFUSES_INFO = Trouble("INFO", "NOPERM", "no")
REPLICAS = {**WELL, "connected_slaves": 2}
LEAST = {"min-replicas-to-write": "1", "min-replicas-max-lag": "10"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"info": {}}, {"server": "note"}),
        ({"info": {}, "troubles": (REFUSES_INFO,)}, {"server": "note"}),
        ({"info": {**WELL, "redis_version": "6.0.16"}}, {"server": "wrong"}),
        ({"info": {**WELL, "cluster_enabled": 1}}, {"server": "note"}),
        ({"info": {**WELL, "maxmemory_policy": "allkeys-lru"}}, {"eviction": "note"}),
        (
            {"info": {**WELL, "maxmemory_policy": "volatile-ttl", "maxmemory": 9}},
            {"eviction": "wrong"},
        ),
        ({"info": {**WELL, "maxmemory": 100, "used_memory": 95}}, {"eviction": "wrong"}),
        ({"info": {**WELL, "maxmemory": 100, "used_memory": 50}}, {}),
        ({"info": {**WELL, "role": "slave"}}, {"replication": "wrong"}),
        ({"info": REPLICAS}, {"replication": "note"}),
        (
            {"info": REPLICAS, "config": {**LEAST, "min-replicas-to-write": "0"}},
            {"replication": "note", "min-replicas": "note"},
        ),
        ({"info": REPLICAS, "config": LEAST}, {"replication": "note"}),
        (
            {"info": REPLICAS, "config": LEAST, "lease": 29.0},
            {"replication": "note", "min-replicas": "wrong"},
        ),
        ({"config": LEAST}, {"min-replicas": "wrong"}),
        ({"info": {**WELL, "aof_enabled": 0}}, {"persistence": "note"}),
        ({"config": {"appendfsync": "everysec"}}, {"persistence": "note"}),
        ({"config": {"appendfsync": "always", "save": ""}}, {}),
        ({"info": {**WELL, "rdb_last_bgsave_status": "err"}}, {"persistence": "wrong"}),
        ({"round_trip": 6.0}, {"latency": "wrong"}),
        ({"troubles": (Trouble("HSET", "NOPERM", "no"),)}, {"rights": "wrong"}),
        ({"troubles": (Trouble("CONFIG", "NOPERM", "no"),)}, {}),
        ({"troubles": (Trouble("HSET", "UNKNOWN", "no"),)}, {"commands": "wrong"}),
        ({"troubles": (Trouble("HSET", "", "wrong number of arguments"),)}, {}),
        ({"troubles": (Trouble("GET", "", "not supported"),)}, {"refused": "wrong"}),
        ({"troubles": (Trouble("SET", "OOM", "full"),)}, {"refused": "wrong"}),
        ({"troubles": (Trouble("SET", "MOVED", "elsewhere"),)}, {"server": "note"}),
        (
            {"troubles": (Trouble("SET", "READONLY", "no"),), "info": {**WELL, "role": "slave"}},
            {"replication": "wrong"},
        ),
        ({"troubles": (Trouble("SET", "silent", "late"),)}, {"answers": "wrong"}),
        ({"troubles": (Trouble("SET", "unasked", "late"),)}, {"answers": "note"}),
        ({"troubles": (Trouble("SET", "cut", "lost"),)}, {"connection": "wrong"}),
        ({"troubles": (Trouble(CONNECTING, "NOPERM", "no SELECT"),)}, {"rights": "wrong"}),
        ({"troubles": (Trouble(CONNECTING, "LOADING", "wait"),)}, {"refused": "wrong"}),
        ({"round_trip": None, "troubles": (Trouble("PING", "", "no"),)}, {"latency": "note"}),
        (
            {"ahead": None, "troubles": (Trouble("TIME", "NOPERM", "no"),)},
            {"clock": "note", "rights": "wrong"},
        ),
        ({"ahead": -3.0}, {"clock": "note"}),
        ({"strayed": 0.5}, {"clock": "wrong"}),
        ({"heard": False}, {"pub/sub": "wrong"}),
        ({"lasting": ("a",)}, {"keys": "wrong"}),
        ({"corrupt": ("a",)}, {"keys": "wrong"}),
        ({"ahead_of_time": ("a",)}, {"keys": "wrong"}),
        ({"unscanned": "SCAN: no"}, {"keys": "note"}),
        ({"names": 1_000_000, "waiting": 10_000, "candidates": 1_000}, {}),
        ({"names": 1_000_001}, {"names": "note"}),
        ({"waiting": 10_001}, {"line": "note"}),
        ({"candidates": 1_001}, {"candidates": "note"}),
    ],
    ids=str,
)
def test_what_facts_mean(changes: dict[str, Any], expected: dict[str, str]) -> None:
    """Each by itself; nothing else is found because of it."""
    assert levels(**changes) == expected


def test_every_command_of_the_scripts_is_tried() -> None:
    """A script that needs another right is not forgotten."""
    texts = [
        entry.read_text("utf-8")
        for entry in (files("incumbent.stores.redis") / "lua").iterdir()
        if entry.name.endswith(".lua")
    ]
    used = set(re.findall(r"redis\.p?call\(\s*'(\w+)'", "\n".join(texts)))
    used.remove("SPUBLISH")  # for clusters, and PUBLISH does instead where it is refused
    assert used | {"EVAL", "EVALSHA"} == set(TRIES)


def test_a_server_of_ours_is_fit(own_server: Server, doctor: Doctor, ask: Inside) -> None:
    """Exit code 0, in words too; nothing is left behind."""
    code, found = doctor(own_server.url)
    assert code == 0
    assert {level for level, _ in found.values()} <= {"ok", "note"}
    assert found["rights"] == ("ok", "all that are needed")
    said = ask("doctor", url=own_server.url)
    assert said.code == 0
    assert "ok     pub/sub: a message came back\n" in said.out
    assert own_server.cli("KEYS", "*") == []


def test_rights_that_are_missing_are_named(own_server: Server, doctor: Doctor) -> None:
    """Found out by trying, without the right to look at rights; 1."""
    own_server.cli(
        *(
            "ACL",
            "SETUSER",
            "few",
            "on",
            ">pw",
            "~incumbent:*",
            "resetchannels",
            "&incumbent:*",
            "+@all",
        ),
        *("-pexpire", "-publish", "-acl", "-config", "-info"),
    )
    url = own_server.url.replace("redis://", "redis://few:pw@")
    code, found = doctor(url)
    assert code == 1
    assert found["rights"] == ("wrong", "missing: PEXPIRE PUBLISH")
    assert found["pub/sub"][0] == "wrong"
    assert found["server"] == ("note", "INFO is not allowed to this user")
    assert own_server.cli("KEYS", "*") == []


def test_keys_that_are_not_as_they_should_be(own_server: Server, doctor: Doctor) -> None:
    """Without an end, of the wrong type, and with contents that cannot be read."""
    for number, command in enumerate(
        (
            ("SET", "incumbent:{a}:fence", "no number"),
            ("SET", "incumbent:{b}:seat:0", "x"),
            ("HSET", "incumbent:{c}:seat:0", "token", "t"),
            ("HSET", "incumbent:{d}:candidates", "node", "[no record"),
            ("SET", "incumbent:{e}:fence", "12"),
            ("SET", "incumbent:{f}:of-later", "x"),
        )
    ):
        own_server.cli(*command)
        own_server.cli("PEXPIRE", command[1], 600_000 + number)
    code, found = doctor(own_server.url)
    assert code == 1
    corrupt = [
        "incumbent:{a}:fence is no fence",
        "incumbent:{b}:seat:0 is a string, not a hash",
        "incumbent:{c}:seat:0 is no seat",
        "incumbent:{d}:candidates: the record of 'node'",
    ]
    assert found["keys"] == (
        "wrong",
        "corrupt: " + ", ".join(corrupt),
    )
    own_server.cli("FLUSHALL")
    own_server.cli("SET", "incumbent:{a}:fence", "1")
    assert doctor(own_server.url)[1]["keys"] == ("wrong", "no end: incumbent:{a}:fence")
    own_server.cli("FLUSHALL")


def test_what_a_clock_leaves_that_was_ahead(own_server: Server, doctor: Doctor) -> None:
    """A seat that outlives what was asked for, and a period that is yet to come."""
    seat, tick = "incumbent:{a}:seat:0", "incumbent:{b}:tick"
    own_server.cli("HSET", seat, "token", "t", "fence", 1, "longest", 3000)
    own_server.cli("PEXPIRE", seat, 3000)
    begins = 1000 * int(own_server.cli("TIME")[0])
    for early in (0, 50_000):
        own_server.cli("SET", tick, begins + early, "PX", 86_400_000)
        assert doctor(own_server.url)[1]["keys"][0] == "ok", (
            "a run may be as early as its tolerance"
        )
    own_server.cli("PEXPIRE", seat, 86_400_000)
    own_server.cli("SET", tick, begins + 86_400_000, "PX", 86_400_000)
    code, found = doctor(own_server.url)
    assert code == 1
    level, said = found["keys"]
    assert level == "wrong"
    assert re.search(rf"{seat} lives for (1d|23h59m), 3s at most were asked for", said)
    assert re.search(rf"{tick} is of a period that begins in (1d|23h59m)", said)


def test_what_grows_is_counted(server: Server, doctor: Doctor) -> None:
    """Names with a fence, the longest line, the election with most candidates."""
    for election, waiting in (("a", 3), ("b", 7), ("c", 0)):
        root = f"incumbent:{{{election}}}:"
        server.cli("SET", root + "fence", 1, "PX", 60_000)
        for number in range(waiting):
            server.cli("ZADD", root + "queue", number, f"1:p:1000:{number}")
        server.cli("PEXPIRE", root + "queue", 60_000)
    elector = StrategicElector(server.url, strategy=Fifo(), node_id="n")
    with elector, elector.candidate("d"):
        _, found = doctor(server.url)
    assert found["names"] == ("ok", "3, each led within a day")
    assert found["line"] == ("ok", "at most 7 wait for one election")
    assert found["candidates"] == ("ok", "at most 1 in one election")


def test_a_server_that_throws_away(start_server: StartServer, doctor: Doctor) -> None:
    """Eviction is seen on a real server."""
    lossy = start_server(args=["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
    code, found = doctor(lossy.url)
    assert (code, found["eviction"][0]) == (1, "wrong")


def test_a_primary_and_its_replica(start_server: StartServer, doctor: Doctor, ask: Inside) -> None:
    """Each by what it is; min-replicas by the lease, and by the replicas that there really are."""
    primary = start_server(
        args=["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
    )
    least, lag = ("min-replicas-to-write", "min-replicas-max-lag")
    replica = start_server(args=["--replicaof", primary.host, str(primary.port)])
    wait_until_blocking(
        lambda: primary.admin.info("replication").get("slave0", {}).get("state") == "online",
        within=120,
    )
    # To a replica nothing can be written: elections are refused there.
    code, found = doctor(replica.url)
    assert (code, found["replication"]) == (1, ("wrong", "this is a replica"))
    assert (found["rights"][0], found["pub/sub"][0]) == ("ok", "ok")
    refused = ask("bench", "--timeout", "5s", url=replica.url)
    assert (refused.code, refused.err.count("\n")) == (69, 1)
    assert "read only replica" in refused.err

    code, found = doctor(primary.url)
    assert (code, found["replication"]) == (0, ("note", "1 replicas, asynchronous"))
    assert found["min-replicas"] == ("note", f"{least} 0, {lag} 10 s")

    primary.cli("CONFIG", "SET", least, "1")
    assert doctor(primary.url)[1]["min-replicas"] == ("ok", f"{least} 1, {lag} 10 s")
    code, found = doctor(primary.url, "--lease", "5s")
    assert (code, found["min-replicas"][0]) == (1, "wrong"), "ten seconds are more than a renewal"
    primary.cli("CONFIG", "SET", lag, "1")
    assert doctor(primary.url, "--lease", "5s")[1]["min-replicas"] == (
        "ok",
        f"{least} 1, {lag} 1 s",
    )

    replica.kill()
    wait_until_blocking(lambda: refuses(primary), within=120, what="NOREPLICAS")
    code, found = doctor(primary.url)
    assert (code, found["min-replicas"][0]) == (1, "wrong"), "it refuses all writes"
    assert found["rights"][0] == "ok", "which is no matter of rights"


def refuses(primary: Server) -> bool:
    """Whether it has noticed that too few replicas are left."""
    try:
        primary.cli("SET", "kit:x", "1", "PX", 1000)
    except redis.ResponseError as error:
        return "NOREPLICAS" in str(error)
    return False


def test_what_a_server_keeps(own_server: Server, doctor: Doctor) -> None:
    """An append-only file, snapshots, or nothing: as it is set now."""
    told = []
    for settings in (
        {},
        {"save": "3600 1"},
        {"appendonly": "yes", "appendfsync": "always"},
        {"appendfsync": "everysec"},
    ):
        for name, value in settings.items():
            own_server.cli("CONFIG", "SET", name, value)
        code, found = doctor(own_server.url)
        assert code == 0
        told.append(found["persistence"])
    assert told == [
        ("note", "nothing is kept"),
        ("note", "no append-only file, snapshots only (save 3600 1)"),
        ("ok", "append-only file, fsync always"),
        ("note", "append-only file, fsync everysec"),
    ]


# -- candidates ------------------------------------------------------------------------------


def test_candidates_with_and_without_a_strategy(
    ask: Inside, valkey: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records by registration; with a strategy the order, the scores and the reasons."""
    (tmp_path / "ours.py").write_text(
        textwrap.dedent(
            """
            from incumbent.strategy import LeastLoaded
            strategy = LeastLoaded("load")
            number = 7
            """
        )
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    a = StrategicElector(valkey.url, strategy=Fifo(), node_id="a")
    b = StrategicElector(valkey.url, strategy=Fifo(), node_id="b")
    with a, b, a.candidate("job", {"load": 0.9}), b.candidate("job", {"load": 0.1}):
        plain = ask("candidates", "job", "--json").value["candidates"]
        assert [each["node_id"] for each in plain] == ["a", "b"]
        assert plain[0]["metadata"] == {"load": 0.9}
        assert "rank" not in plain[0]
        assert (plain[0]["contending"], plain[0]["early_failures"]) == (False, 0)
        assert ask("candidates", "job").out.splitlines()[0].endswith(", not waiting to lead")
        arguments = "candidates", "job", "--strategy", "ours:strategy"
        ranked = ask(*arguments, "--json")
        found = ranked.value["candidates"]
        assert [(each["node_id"], each["score"]) for each in found] == [("b", -0.1), ("a", -0.9)]
        assert "go by another strategy" in ranked.err
        said = ask(*arguments).out.splitlines()
        assert said[0].startswith("1. b: score -0.1, a candidate for ")
        assert said[2] == "   the best"
        assert found[1]["reason"] in said[5]
        stock = ask("candidates", "job", "--strategy", "incumbent.strategy:Fifo")
        assert stock.out.startswith("1. a: ")
        for wrong in ("ours", "ours:nothing", "nowhere:x", "ours:number"):
            ended = ask(*arguments[:3], wrong)
            assert (ended.code, ended.err.count("\n")) == (64, 1)
    ended = ask("candidates", "job")
    assert (ended.code, ended.err) == (0, "incumbent: nobody stands for 'job'\n")
