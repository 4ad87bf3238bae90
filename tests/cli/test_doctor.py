"""`doctor` and `candidates`: what is wrong is found on real servers, and judged by tables."""

import json
import os
import re
import subprocess
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from cli.stage import INCUMBENT, SOURCE
from incumbent import StrategicElector
from incumbent.cli.doctor.judgement import judge
from incumbent.stores.redis.facts import TRIES, Facts
from incumbent.strategy import Fifo
from kit.fixtures import StartServer
from kit.servers import Server

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
        "refused": (),
        "heard": True,
        "keys": 3,
    }
    return Facts(**{**values, **changes})


def levels(*, lease: float = 30.0, **changes: Any) -> dict[str, str]:
    """What is not ok."""
    return {each.about: each.level for each in judge(facts(**changes), lease) if each.level != "ok"}


def run(url: str, *arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    ended = subprocess.run(
        [*INCUMBENT, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE, "INCUMBENT_URL": url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
        cwd=cwd,
    )
    assert "Traceback" not in ended.stderr
    return ended


def findings(url: str, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and what was found about what."""
    ended = run(url, "doctor", "--json", *arguments)
    told = json.loads(ended.stdout)
    assert told["ok"] == (ended.returncode == 0)
    for each in told["findings"]:
        assert (each["level"] == "ok") or (each["means"] and each["advice"])
    return ended.returncode, {
        each["about"]: (each["level"], each["found"]) for each in told["findings"]
    }


def test_what_is_well_needs_no_words() -> None:
    """Nothing but ok."""
    assert levels() == {}


REPLICAS = {**WELL, "connected_slaves": 2}
LEAST = {"min-replicas-to-write": "1", "min-replicas-max-lag": "10"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"info": {}}, {"server": "note"}),
        ({"info": {**WELL, "redis_version": "6.0.16"}}, {"server": "wrong"}),
        ({"info": {**WELL, "cluster_enabled": 1}}, {"server": "wrong"}),
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
        ({"info": {**WELL, "rdb_last_bgsave_status": "err"}}, {"persistence": "wrong"}),
        ({"round_trip": 6.0}, {"latency": "wrong"}),
        ({"refused": ("HSET",)}, {"rights": "wrong"}),
        ({"ahead": -3.0}, {"clock": "note"}),
        ({"strayed": 0.5}, {"clock": "wrong"}),
        ({"heard": False}, {"pub/sub": "wrong"}),
        ({"lasting": ("a",)}, {"keys": "wrong"}),
        ({"corrupt": ("a",)}, {"keys": "wrong"}),
        ({"scanned": False}, {"keys": "note"}),
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
    assert used | {"EVAL", "EVALSHA"} == set(TRIES)


def test_a_server_of_ours_is_fit(own_server: Server) -> None:
    """Exit code 0, in words too; nothing is left behind."""
    code, found = findings(own_server.url)
    assert code == 0
    assert {level for level, _ in found.values()} <= {"ok", "note"}
    assert found["rights"] == ("ok", "all that are needed")
    said = run(own_server.url, "doctor")
    assert said.returncode == 0
    assert "ok     pub/sub: a message came back\n" in said.stdout
    assert own_server.cli("KEYS", "*") == []


def test_rights_that_are_missing_are_named(own_server: Server) -> None:
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
    code, found = findings(url)
    assert code == 1
    assert found["rights"] == ("wrong", "missing: PEXPIRE PUBLISH")
    assert found["pub/sub"][0] == "wrong"
    assert found["server"] == ("note", "INFO is not allowed to this user")
    assert own_server.cli("KEYS", "*") == []


def test_keys_that_are_not_as_they_should_be(own_server: Server) -> None:
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
    code, found = findings(own_server.url)
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
    assert findings(own_server.url)[1]["keys"] == ("wrong", "no end: incumbent:{a}:fence")
    own_server.cli("FLUSHALL")


def test_a_server_that_throws_away(start_server: StartServer) -> None:
    """Eviction is seen on a real server."""
    lossy = start_server(args=["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
    code, found = findings(lossy.url)
    assert (code, found["eviction"][0]) == (1, "wrong")


# -- candidates ------------------------------------------------------------------------------


async def test_candidates_with_and_without_a_strategy(valkey: Server, tmp_path: Path) -> None:
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
    async with Redis.from_url(valkey.url) as client:
        a = StrategicElector(client, strategy=Fifo(), node_id="a")
        b = StrategicElector(client, strategy=Fifo(), node_id="b")
        async with a, b, a.candidate("job", {"load": 0.9}), b.candidate("job", {"load": 0.1}):
            plain = json.loads(run(valkey.url, "candidates", "job", "--json").stdout)
            assert [each["node_id"] for each in plain["candidates"]] == ["a", "b"]
            assert plain["candidates"][0]["metadata"] == {"load": 0.9}
            assert "rank" not in plain["candidates"][0]
            arguments = "candidates", "job", "--strategy", "ours:strategy"
            ranked = run(valkey.url, *arguments, "--json", cwd=tmp_path)
            found = json.loads(ranked.stdout)["candidates"]
            assert [(each["node_id"], each["score"]) for each in found] == [
                ("b", -0.1),
                ("a", -0.9),
            ]
            assert "go by another strategy" in ranked.stderr
            said = run(valkey.url, *arguments, cwd=tmp_path).stdout.splitlines()
            assert said[0].startswith("1. b: score -0.1, since ")
            assert said[2] == "   the best"
            assert found[1]["reason"] in said[5]
            stock = run(valkey.url, "candidates", "job", "--strategy", "incumbent.strategy:Fifo")
            assert stock.stdout.startswith("1. a: ")
            for wrong in ("ours", "ours:nothing", "nowhere:x", "ours:number"):
                ended = run(valkey.url, *arguments[:3], wrong, cwd=tmp_path)
                assert (ended.returncode, ended.stderr.count("\n")) == (64, 1)
    ended = run(valkey.url, "candidates", "job")
    assert (ended.returncode, ended.stderr) == (0, "incumbent: nobody stands for 'job'\n")
