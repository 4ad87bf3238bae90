"""The Lua scripts: their headers, what calls them, what they answer, and that they compile."""

import hashlib
import re
import tracemalloc
from importlib.resources import files
from itertools import groupby
from typing import Any

import pytest

from contract import story
from contract.bench import BUDGET, SCRIPTS, Bench, Run, Watch, claim, key
from contract.headers import complaints, parse
from incumbent.stores.redis.keys import keys_of
from kit.servers import Server

FOLDER = files("incumbent.stores.redis") / "lua"
PARTS = (
    "counter", "publish", "retain", "gone", "restore", "look", "candidates", "soonest", "line",
)  # fmt: skip
"""What only some scripts begin with, in the order in which it stands there."""
SHARED = {
    name: (FOLDER / f"{name}.lua").read_text("utf-8")
    for name in ("prelude", "publish_sharded", *PARTS)
}
TEXTS = {
    entry.name.removesuffix(".lua"): entry.read_text("utf-8")
    for entry in FOLDER.iterdir()
    if entry.name.endswith(".lua") and entry.name.removesuffix(".lua") not in SHARED
}
NAMES = sorted(TEXTS)
OF_CANDIDATES = {"enrol", "result", "snapshot", "withdraw"}
"""Their keys, arguments and answers are seen to in `test_redis_registry`."""

NO_TIMES = {
    *("token", "leader", "fence", "doubtful", "place", "process", "probe", "restore", "seat"),
    *("node", "strategy", "metadata", "contending", "correct", "deed", "database"),
}
WITH_PUBLISH = {"acquire", "force", "leave", "release", "state", "touch"}
LINE = ("fence", "gone", "queue", "alive", "tick")


# -- the files -------------------------------------------------------------------------------


def test_each_file_is_one_script() -> None:
    """Every file is loaded under its own name, and nothing is loaded that has no file."""
    assert sorted(SCRIPTS) == NAMES
    of_seats = ["acquire", "extend", "force", "leave", "release", "state", "step_down", "touch"]
    assert sorted([*of_seats, *OF_CANDIDATES]) == NAMES
    for name, script in SCRIPTS.items():
        assert script.text.decode() == begins(name) + TEXTS[name]
        assert script.sha.decode() == hashlib.sha1(script.text).hexdigest()


def begins(script: str) -> str:
    """What the script needs, and nothing else: a function costs each run of it, used or not."""
    needed: list[str] = []
    text = TEXTS[script]
    for part in reversed(PARTS):
        named = re.findall(r"^local (?:(\w+) =|function (\w+))", SHARED[part], re.MULTILINE)
        uses = "|".join(rf"\b{name}\b" if name else rf"\b{function}\(" for name, function in named)
        if re.search(uses, code_of(text)):
            needed.insert(0, part)
            text += SHARED[part]
    return "".join(SHARED[part] for part in ("prelude", *needed))


def code_of(text: str) -> str:
    """Without what is said about it."""
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_in_a_cluster_a_script_publishes_another_way(name: str) -> None:
    """That is all that is different, and none publishes without it."""
    script = SCRIPTS[name]
    assert script.sharded is script.sharded
    other = script.text.decode().replace(SHARED["publish"], SHARED["publish_sharded"])
    assert script.sharded.text.decode() == other
    assert (other != script.text.decode()) == (name in WITH_PUBLISH)
    assert "PUBLISH" not in TEXTS[name] + SHARED["line"]
    assert ("publish(" in TEXTS[name]) <= (name in WITH_PUBLISH)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_does_what_its_header_says(name: str) -> None:
    """Every key and argument that is used is listed, every one listed is used, tags likewise."""
    assert complaints(TEXTS[name]) == []


@pytest.mark.parametrize("name", SHARED)
def test_what_is_shared_runs_no_command_by_itself(name: str) -> None:
    """It only defines: what it would do at once, every script would do."""
    outside, depth = [], 0
    for line in SHARED[name].splitlines():
        if line.startswith("local function"):
            depth += 1
        if depth == 0:
            outside.append(line)
        if line == "end":
            depth -= 1
    assert depth == 0
    assert "redis.call" not in "\n".join(outside)
    assert "KEYS" not in SHARED[name]
    assert "ARGV" not in SHARED[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_compiles_and_is_known_by_its_digest(server: Server, name: str) -> None:
    """Every server takes it, under the digest by which it is called."""
    script = SCRIPTS[name]
    assert server.cli("SCRIPT", "LOAD", script.text) == script.sha.decode()


@pytest.mark.parametrize("name", NAMES)
def test_the_clock_is_the_servers(name: str) -> None:
    """No time is a client's own: what is passed is a duration, or what the server itself told."""
    for arg in parse(TEXTS[name]).args:
        assert arg in NO_TIMES or re.search("_ms$|^arrival_us$", arg), arg
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
        pytest.param(
            "local token",
            "walk(KEYS, 3)\nlocal token",
            "the loop begins at KEYS[3], seat+ at KEYS[2]",
            id="loop elsewhere",
        ),
        pytest.param(
            "local token",
            "walk(KEYS)\nlocal token",
            "KEYS is passed on without where to begin",
            id="all keys",
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


def test_a_header_says_what_may_be_missing() -> None:
    """Brackets around the end of ARGV; a long line of answers goes on in the next one."""
    text = GOOD.replace("lease_ms\n", "[lease_ms [keep_ms]]\n", 1)
    header = parse(text.replace("or {'gone'}", "or\n--   {'gone'}"))
    assert (header.args, header.needed) == (("token", "lease_ms", "keep_ms"), 1)
    assert parse(GOOD).needed == 2
    assert header.answers == {"granted": 2, "gone": 1}


@pytest.mark.parametrize("line", ["KEYS", "ARGV", "Returns"])
def test_a_header_has_every_line(line: str) -> None:
    """A script without one of them is told."""
    with pytest.raises(ValueError, match=f"no line for {line}"):
        parse(GOOD.replace(f"-- {line}:", "-- "))


# -- who calls them --------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_CANDIDATES))
def test_keys_are_packed_in_the_order_of_the_header(name: str) -> None:
    """For every script, and every seat where it has one of its own; their number comes first."""
    keys = keys_of("incumbent", "job", 3)
    assert keys.root == b"incumbent:{job}:"
    for seat in range(3):
        packed = {
            **dict.fromkeys(("acquire", "release", "leave"), keys.acquire),
            **dict.fromkeys(("touch", "state"), keys.touch),
            **dict.fromkeys(("extend", "force"), keys.seat(seat)),
            "step_down": keys.step_down,
        }[name]
        number, *names = re.findall(rb"\$\d+\r\n(.*?)\r\n", packed.packed)
        expected: list[str] = []
        for word in parse(TEXTS[name]).keys:
            all_seats = [f"seat:{other}" for other in range(3)]
            own = {"seat+": all_seats, "seat": [f"seat:{seat}"]}
            expected += own.get(word, [word])
        assert [name.decode() for name in names] == [key("job", word) for word in expected]
        assert (int(number), packed.parts) == (len(names), len(names) + 1)


@pytest.mark.parametrize(
    ("groups", "seats", "megabytes"), [(1, 1024, 1), (300, 1024, 20), (2000, 64, 40), (5000, 1, 4)]
)
def test_the_names_of_keys_take_little_room(groups: int, seats: int, megabytes: int) -> None:
    """However many elections there are, and however many seats they have."""
    tracemalloc.start()
    try:
        for number in range(groups):
            keys = keys_of("incumbent", f"group-{number}", seats)
            assert keys.acquire.parts == 1 + 5 + seats
            assert keys.touch.parts == 1 + 3 + seats
            for seat in {0, seats // 2, seats - 1}:
                assert keys.seat(seat).parts == 1 + 2
        assert tracemalloc.get_traced_memory()[0] < 1e6 * megabytes
    finally:
        tracemalloc.stop()


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
    """The arguments are those that the header names, in its order, with all that are needed."""
    header = parse(TEXTS[run.script])
    assert len(run.args) >= header.needed
    assert run.args == tuple(meant[name] for name in header.args[: len(run.args)])


async def test_the_store_calls_each_script_as_its_header_says(redis_bench: Bench) -> None:
    """Keys and arguments of each call, one by one, as the server sees them."""
    store, server = redis_bench.store, redis_bench.server
    assert server is not None
    a = claim("job", "a", seats=3)._replace(lease_time=12.345)
    watch = Watch(server)
    with watch():
        grant = await redis_bench.elect(a)
        await store.extend(a, 0, 23.456, BUDGET)
        await store.release(a, grant, 1.5, BUDGET)
        await store.release(a, story.doubtful(grant), 0, BUDGET)
        await store.leave(a, BUDGET)
        await store.state("job", 3, BUDGET)
        await store.force_release("job", 2, 77, BUDGET)
        await store.force_release("job", 1, None, BUDGET)
    # What met an empty cache is sent again as text, with the same keys and arguments.
    runs = [run for run, _ in groupby(watch.runs)]
    meant: list[tuple[str, dict[str, str]]] = [
        ("acquire", {"lease_ms": "12345"}),
        ("extend", {"duration_ms": "23456"}),
        ("release", {"seat": "0", "keep_ms": "1500", "doubtful": "0", "restore": "0"}),
        ("release", {"seat": "0", "keep_ms": "0", "doubtful": "1", "restore": "0"}),
        ("leave", {"place": ""}),
        ("state", {}),
        ("force", {"seat": "2", "fence": "77"}),
        ("force", {"seat": "1", "fence": ""}),
    ]
    assert [run.script for run in runs] == [script for script, _ in meant]
    for run, (_, values) in zip(runs, meant, strict=True):
        check_keys(run, "job", 3)
        known = {"token": a.token, "leader": a.leader_id, "database": "0"}
        check_args(run, {**known, **values})


# -- what they answer ------------------------------------------------------------------------


def test_each_answer_is_one_that_the_header_lists(server: Server) -> None:
    """Every script is brought to give each of its answers, and no other, with all elements."""
    fence, gone, queue, alive, tick = (key("job", name) for name in LINE)
    line, seats = [fence, gone, queue, alive, tick], [key("job", "seat:0"), key("job", "seat:1")]

    def run(name: str, keys: list[str], *args: str | int) -> tuple[str, list[Any]]:
        answer: list[Any] = server.cli("EVAL", SCRIPTS[name].text, len(keys), *keys, *args)
        return name, answer

    def acquire(token: str, *args: str | int, keys: list[str] = seats) -> tuple[str, list[Any]]:
        return run("acquire", [*line, *keys], token, f"leader-{token}", 30000, 0, *args)

    other = [key("other", name) for name in (*LINE, "fence", "seat:0")]
    now = int(server.cli("TIME")[0]) * 1000
    always, never = (now - 60_000, now + 600_000), (0, 1)
    heard = [
        acquire("a", "", 0, 0, *always),
        acquire("a"),
        acquire("b", keys=seats[:1]),
        acquire("b", "", 0, 0, *always),
        acquire("b", "", 0, 0, *never),
        acquire("b", "1:p:1000:1", 0, 30_000, keys=seats[:1]),
        run("touch", [fence, queue, alive, *seats], "p", "1:p:1000:1", 30_000, 0, 1),
        run("extend", [fence, seats[0]], "a", 30000),
        run("extend", [fence, seats[0]], "b", 30000),
        run("extend", [fence, seats[1]], "b", 30000),
        run("step_down", seats, ""),
        run("state", [fence, queue, alive, *seats]),
        run("release", [*line, *seats], "b", 0, 0, 0, 0, 0),
        run("release", [*line, *seats], "a", 0, 0, 0, 0, 1),
        run("release", [*line, *seats], "a", 0, 0, 0, 0, 0),
        run("force", other[-2:], 0, "", 0),
        run("acquire", [*other[:5], other[-1]], "a", "leader-a", 30_000, 0),
        run("force", other[-2:], 0, "", 0),
        run("force", other[-2:], 0, "", 0),
        run("leave", [*line, *seats], "a", "", 0),
        acquire("a"),
    ]
    tags: dict[str, set[str]] = {name: set() for name in NAMES if name not in OF_CANDIDATES}
    for name, answer in heard:
        header = parse(TEXTS[name])
        if name == "state":
            (listed,) = re.findall(
                r"^\{waiting, fence, seats, \{([\w, ]+)\}, \.\.\.\}$", header.returns
            )
            assert answer[:3] == [1, *server.cli("GET", fence).split()[:1], 2]
            assert [len(seat) for seat in answer[3:]] == [len(listed.split(", "))]
        elif name == "touch":
            assert len(answer) == len(header.returns.split(", "))
        else:
            assert header.answers[answer[0]] == len(answer)
            tags[name].add(answer[0])
    assert tags == {name: set(parse(TEXTS[name]).answers) for name in tags}
