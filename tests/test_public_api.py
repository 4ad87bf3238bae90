"""What `import incumbent` gives, costs and shows: its names, its signatures, its reprs."""

import inspect
import json
import subprocess
import sys
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

import pytest
import redis.asyncio

import incumbent
from incumbent import (
    ActionFailed,
    Elected,
    IncumbentError,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    MemoryStore,
    Skipped,
    current_lease,
)
from incumbent.events import Event
from incumbent.stores.base import Budget, Busy, Claim, Grant, Place, Ran
from incumbent.stores.redis import RedisStore

FRAMEWORKS = {"click", "rich", "fastapi", "starlette", "opentelemetry", "prometheus_client"}
EDGE = {"asgi", "cli", "blocking", "fastapi", "dashboard", "testing"}
METHODS = [
    "aclose",
    "attempt",
    "campaign",
    "closed",
    "for_tenant",
    "force_release",
    "is_leading",
    "lead",
    "leader_id",
    "leader_only",
    "leases",
    "options",
    "request_step_down",
    "run_if_leader",
    "schedule",
    "state",
    "try_lead",
    "using",
    "watch",
]
TOKEN = "7be1c0de" * 4


# -- names -----------------------------------------------------------------------------------


def test_the_names_are_pinned() -> None:
    """What callers may import is written down here once more: a removal is a decision."""
    assert incumbent.__all__ == [
        "ActionFailed",
        "Durability",
        "Elected",
        "ElectorClosedError",
        "GroupElector",
        "IncumbentError",
        "LeaderElector",
        "LeaderInfo",
        "LeaderOptions",
        "LeaderState",
        "LeadershipLost",
        "LeadershipLostError",
        "Lease",
        "LoggingHook",
        "LossReason",
        "MemoryStore",
        "NotDurableError",
        "NotElectedError",
        "OncePer",
        "Outage",
        "Outcome",
        "SkipReason",
        "Skipped",
        "StaleFenceError",
        "StrategicElector",
        "current_lease",
    ]


def test_the_names_are_in_order() -> None:
    """Alphabetical, each once."""
    assert incumbent.__all__ == sorted(set(incumbent.__all__))


def test_each_name_is_there_and_nothing_else_is() -> None:
    """No name leads nowhere; what is not listed is a module or private."""
    assert all(hasattr(incumbent, name) for name in incumbent.__all__)
    public = {
        name
        for name, value in vars(incumbent).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(incumbent.__all__)


@pytest.mark.parametrize("name", incumbent.__all__)
def test_each_name_is_explained(name: str) -> None:
    """Classes and functions have a docstring of their own; so do their public members."""
    value = getattr(incumbent, name)
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return  # a type alias: its docstring stands in the source
    assert inspect.getdoc(value), name
    if is_dataclass(value) or not inspect.isclass(value) or issubclass(value, MemoryStore):
        return  # fields are explained in the source, a store's methods at its Protocol
    for member, part in vars(value).items():
        if not member.startswith("_") and (callable(part) or isinstance(part, property)):
            assert inspect.getdoc(part), f"{name}.{member}"


def test_an_elector_has_these_members() -> None:
    """The methods of the design, under their names."""
    members = [name for name in dir(LeaderElector) if not name.startswith("_")]
    assert members == METHODS


def test_options_are_given_by_name() -> None:
    """After the obvious arguments everything is keyword-only; an action's arguments are its own."""
    signature = inspect.signature(LeaderElector)
    kinds = {name: parameter.kind.name for name, parameter in signature.parameters.items()}
    assert list(kinds) == ["redis", "options", "prefix", "leader_id", "hooks"]
    assert {kinds[name] for name in ("prefix", "leader_id", "hooks")} == {"KEYWORD_ONLY"}
    for method in (LeaderElector.run_if_leader, LeaderElector.attempt, LeaderElector.campaign):
        parts = list(inspect.signature(method).parameters.values())
        assert [part.name for part in parts] == ["self", "name", "action", "args", "kwargs"]
        assert {part.kind for part in parts[:3]} == {inspect.Parameter.POSITIONAL_ONLY}
        assert [part.kind for part in parts[3:]] == [
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ]


# -- what an import costs --------------------------------------------------------------------


def fresh(code: str) -> Any:
    """What a new process prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_it_loads_no_framework() -> None:
    """The core is for those who have none of them, and loads nothing of those who have."""
    code = (
        "import redis.asyncio, anyio, json, sys\n"
        "before = set(sys.modules)  # redis-py loads a framework itself, where there is one\n"
        "import incumbent\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    loaded = fresh(code)
    assert not FRAMEWORKS & {name.partition(".")[0] for name in loaded}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("incumbent.")}
    assert "electors" in rooms
    assert not EDGE & rooms


def test_importing_it_costs_little() -> None:
    """Beyond redis-py and anyio it loads its own modules, few and from its own rooms only."""
    code = (
        "import redis.asyncio, anyio, json, sys, time\n"
        "sys.dont_write_bytecode = False  # the second run is not to compile\n"
        "before, began = set(sys.modules), time.perf_counter()\n"
        "import incumbent\n"
        "took = time.perf_counter() - began\n"
        "print(json.dumps({'new': sorted(set(sys.modules) - before), 'took': took}))"
    )
    _, cost = fresh(code), fresh(code)
    ours = [name for name in cost["new"] if name.partition(".")[0] == "incumbent"]
    others = {name.partition(".")[0] for name in cost["new"]} - {"incumbent"}
    print(f"import incumbent: {1000 * cost['took']:.1f} ms for {len(ours)} modules, {others}")
    assert others <= set(sys.stdlib_module_names)
    assert len(ours) < 64
    assert len(cost["new"]) < 80


# -- what is shown ---------------------------------------------------------------------------


class Recording(MemoryStore):
    """Remembers the tokens that it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[str] = set()

    async def acquire(
        self, claim: Claim, budget: Budget, place: Place | None = None, *, last: bool = False
    ) -> Grant | Busy | Ran:
        """As ever."""
        self.tokens.add(claim.token)
        return await super().acquire(claim, budget, place, last=last)


async def nothing() -> int:
    """Do nothing."""
    return 5


async def fails() -> int:
    """Fail."""
    raise ValueError("no")


async def test_no_repr_shows_a_token() -> None:
    """Neither of what callers hold, nor of what a debugger finds behind it."""
    store, heard = Recording(), list[Event]()
    elector = LeaderElector(
        store, LeaderOptions(min_hold_time=1), leader_id="me", hooks=[heard.append]
    )
    shown: list[object] = [elector, elector.for_tenant("acme"), elector.using(wait_time=1), store]
    async with elector.lead("job") as lease:
        seats = store._seats["job"].values()
        assert {seat.token for seat in seats} == store.tokens
        shown += [lease, lease._term, lease._term.claim, lease._term.grant, current_lease()]
        shown += [*seats, elector.leases, await elector.state("job")]
        shown.append(await elector.attempt("job", nothing))
    shown += [lease, await elector.state("job")]
    outcomes = [
        await elector.attempt("other", nothing),
        await elector.attempt("other", nothing),
        await elector.attempt("third", fails),
    ]
    assert [type(outcome) for outcome in outcomes] == [Elected, Skipped, ActionFailed]
    try:
        async with elector.lead("third"):
            pytest.fail("it is kept")
    except IncumbentError as error:
        shown += [error, str(error), error.args]
    shown += [*outcomes, *heard, LeadershipLost("taken", value=1)]
    assert len(heard) > 6
    assert len(store.tokens) > 4
    for thing in shown:
        for token in store.tokens:
            assert token not in repr(thing)
            assert token not in str(thing)


def test_no_repr_shows_an_address_or_a_password() -> None:
    """A log line of an elector can be pasted into an issue."""
    client = redis.asyncio.Redis.from_url("redis://somebody:sesame@db.example:6399/3")
    elector = LeaderElector(client, leader_id="me", prefix="my-app")
    for thing in (elector, elector.for_tenant("acme"), RedisStore(client, "my-app")):
        for secret in ("sesame", "somebody", "db.example", "6399", "redis://"):
            assert secret not in repr(thing)
        assert "my-app" in repr(thing)


def test_the_reprs_tell_what_one_wants_to_know() -> None:
    """Prefix, tenant and leader of an elector; the size of a store in memory."""
    elector = LeaderElector(MemoryStore(), leader_id="me")
    assert repr(elector) == "<LeaderElector prefix='incumbent' leader_id='me'>"
    acme = repr(elector.for_tenant("acme"))
    assert acme == "<LeaderElector prefix='incumbent' scope='@acme:' leader_id='me'>"
    assert repr(MemoryStore()) == "<MemoryStore with 0 seats>"


def test_a_claim_hides_its_token() -> None:
    """The one value that holds it shows everything else."""
    claim = Claim("job", 1, TOKEN, "me", 30.0, 5.0)
    assert TOKEN not in repr(claim)
    assert "job" in repr(claim)
