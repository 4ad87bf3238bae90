"""The Lua scripts: their headers, what calls them, what they answer, and that they compile."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import pytest

from contract import story
from contract.bench import BUDGET, Bench, claim
from contract.headers import complaints, parse
from incumbent.stores.redis import scripts
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.scripts import Script
from kit.servers import Server

FOLDER = files("incumbent.stores.redis") / "lua"
PRELUDE = (FOLDER / "prelude.lua").read_text("utf-8")
TEXTS = {
    entry.name.removesuffix(".lua"): entry.read_text("utf-8")
    for entry in FOLDER.iterdir()
    if entry.name.endswith(".lua") and entry.name != "prelude.lua"
}
SCRIPTS = {script.name: script for script in vars(scripts).values() if isinstance(script, Script)}
NAMES = sorted(TEXTS)


@dataclass(frozen=True)
class Run:
    """One run of a script, as the store asked for it."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    reply: Any


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """What the stores run in this test."""
    seen: list[Run] = []
    original = Caller.run

    async def run(
        self: Caller, script: Script, keys: Sequence[bytes], args: Sequence[bytes], *rest: Any
    ) -> Any:
        reply = await original(self, script, keys, args, *rest)
        texts = tuple(key.decode() for key in keys), tuple(arg.decode() for arg in args)
        seen.append(Run(script.name, *texts, reply))
        return reply

    monkeypatch.setattr(Caller, "run", run)
    return seen


# -- the files -------------------------------------------------------------------------------


def test_each_file_is_one_script() -> None:
    """Every file is loaded under its own name, and nothing is loaded that has no file."""
    assert sorted(SCRIPTS) == NAMES == ["acquire", "extend", "leave", "release", "state"]
    for name, script in SCRIPTS.items():
        assert script.text.decode() == PRELUDE + TEXTS[name]
        assert script.sha.decode() == hashlib.sha1(script.text).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_a_script_does_what_its_header_says(name: str) -> None:
    """Every key and argument that is used is listed, every one listed is used, tags likewise."""
    assert complaints(TEXTS[name]) == []


def test_the_prelude_runs_no_command_by_itself() -> None:
    """It only defines: what it would do at once, every script would do."""
    outside, depth = [], 0
    for line in PRELUDE.splitlines():
        if line.startswith("local function"):
            depth += 1
        if depth == 0:
            outside.append(line)
        if line == "end":
            depth -= 1
    assert depth == 0
    assert "redis.call" not in "\n".join(outside)
    assert "KEYS" not in PRELUDE
    assert "ARGV" not in PRELUDE


@pytest.mark.parametrize("name", NAMES)
def test_a_script_compiles_and_is_known_by_its_digest(server: Server, name: str) -> None:
    """Every server takes it, under the digest by which it is called."""
    script = SCRIPTS[name]
    assert server.cli("SCRIPT", "LOAD", script.text) == script.sha.decode()


@pytest.mark.parametrize("name", NAMES)
def test_the_clock_is_the_servers(name: str) -> None:
    """No time comes from a client: what is passed is a duration, by its name."""
    for arg in parse(TEXTS[name]).args:
        assert arg in {"token", "leader", "doubtful"} or arg.endswith("_ms"), arg
    assert "os." not in TEXTS[name]


# -- the check itself ------------------------------------------------------------------------

GOOD = """-- Does something.
-- KEYS: fence seat+
-- ARGV: token lease_ms
-- Returns: {'granted', ttl} or {'gone'}
-- A comment may speak of ARGV[9] and KEYS[9].
local token, lease = ARGV[1], tonumber(ARGV[2])
for i = 2, #KEYS do
  redis.call('HGET', KEYS[i], 'token')
end
if redis.call('GET', KEYS[1]) then
  return {'gone'}
end
return {'granted', lease}
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("", "", None, id="good"),
        pytest.param(
            "return {'granted', lease}",
            "return {'granted', ARGV[4]}",
            "ARGV[4] is used and not listed",
            id="argument too many",
        ),
        pytest.param(
            "token lease_ms",
            "token lease_ms keep_ms",
            "ARGV[3] (keep_ms) is listed and not used",
            id="argument too few",
        ),
        pytest.param(
            "tonumber(ARGV[2])",
            "tonumber(ARGV[2]), unpack(ARGV)",
            "ARGV is used other than by number",
            id="all arguments",
        ),
        pytest.param(
            "'GET', KEYS[1]",
            "'GET', KEYS[2]",
            "KEYS[2] is used and not listed as one key",
            id="key by number",
        ),
        pytest.param(
            "KEYS: fence seat+",
            "KEYS: fence gone seat+",
            "KEYS[2] (gone) is listed and not used",
            id="key not used",
        ),
        pytest.param(
            "for i = 2",
            "for i = 1",
            "the loop begins at KEYS[1], seat+ at KEYS[2]",
            id="loop too wide",
        ),
        pytest.param(
            "seat+",
            "seat",
            "the keys are counted, and none is listed with a plus",
            id="loop over one key",
        ),
        pytest.param(
            "return {'gone'}", "return {'left'}", "'left' is returned and not listed", id="new tag"
        ),
        pytest.param(
            "return {'gone'}", "return {}", "'gone' is listed and never said", id="old tag"
        ),
    ],
)
def test_the_check_of_headers_sees_a_drift(old: str, new: str, complaint: str | None) -> None:
    """A check that cannot fail is none: each way in which header and code part is told."""
    assert old in GOOD
    found = complaints(GOOD.replace(old, new, 1))
    if complaint is None:
        assert found == []
    else:
        assert complaint in found


@pytest.mark.parametrize("line", ["KEYS", "ARGV", "Returns"])
def test_a_header_has_every_line(line: str) -> None:
    """A script without one of them is told."""
    with pytest.raises(ValueError, match=f"no line for {line}"):
        parse(GOOD.replace(f"-- {line}:", "-- "))


# -- who calls them --------------------------------------------------------------------------


def check_keys(run: Run, election: str, seats: int) -> None:
    """The keys are those that the header names, in its order."""
    header = parse(TEXTS[run.script])
    root = f"incumbent:{{{election}}}:"
    expected: list[str] = []
    for name in header.keys:
        if name == "seat+":
            expected += [f"{root}seat:{number}" for number in range(seats)]
        elif name == "seat":
            assert run.keys[len(expected)].startswith(f"{root}seat:")
            expected.append(run.keys[len(expected)])
        else:
            expected.append(root + name)
    assert list(run.keys) == expected


def check_args(run: Run, meant: dict[str, str]) -> None:
    """The arguments are those that the header names, in its order."""
    assert run.args == tuple(meant[name] for name in parse(TEXTS[run.script]).args)


def check_reply(run: Run) -> None:
    """The reply is one that the header lists, with as many elements."""
    header = parse(TEXTS[run.script])
    if run.script == "state":
        (listed,) = header.returns.removesuffix(", ...}").removeprefix("{").split("}, ")
        for seat in run.reply:
            assert len(seat) == 1 + listed.count(",")
    else:
        assert header.answers[run.reply[0].decode()] == len(run.reply)


async def test_the_store_calls_each_script_as_its_header_says(
    bench_of_first: Bench, runs: list[Run]
) -> None:
    """Keys and arguments of each call, one by one, and each reply."""
    store = bench_of_first.store
    a = replace(claim("job", "a", seats=3), lease_time=12.345)
    meant = {"token": a.token, "leader": a.leader_id, "lease_ms": "12345"}
    grant = await bench_of_first.elect(a)
    check_args(runs[-1], meant)
    await store.extend(a, 0, 23.456, BUDGET)
    check_args(runs[-1], meant | {"duration_ms": "23456"})
    await store.release(a, grant, 1.5, BUDGET)
    check_args(runs[-1], meant | {"keep_ms": "1500", "doubtful": "0"})
    await store.release(a, story.doubtful(grant), 0, BUDGET)
    check_args(runs[-1], meant | {"keep_ms": "0", "doubtful": "1"})
    await store.leave(a, BUDGET)
    check_args(runs[-1], meant)
    await store.state("job", 3, BUDGET)
    check_args(runs[-1], meant)
    assert [run.script for run in runs] == [
        *("acquire", "extend", "release", "release", "leave", "state"),
    ]
    for run in runs:
        check_keys(run, "job", 3)
        check_reply(run)


async def test_each_answer_of_a_script_is_listed(redis_bench: Bench, runs: list[Run]) -> None:
    """The story hears all but every answer; each is one that its header knows."""
    await story.tell(redis_bench.store)
    heard: dict[str, set[str]] = {}
    for run in runs:
        check_reply(run)
        if run.script != "state":
            heard.setdefault(run.script, set()).add(run.reply[0].decode())
    listed = {name: set(parse(TEXTS[name]).answers) for name in NAMES if name != "state"}
    assert heard == listed | {"acquire": {"granted", "busy"}}
