"""Bad input is a `ValueError` or `TypeError` that names rule and value, before any I/O."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
import redis.asyncio

from incumbent import LeaderElector, LeaderOptions
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.servers import Server
from promises.scene import nothing, quick


@pytest.fixture
async def proxy(valkey: Server, make_proxy: MakeProxy) -> Proxy:
    """Sees each command that is sent."""
    return await make_proxy(valkey)


@pytest.fixture
async def watched(proxy: Proxy, make_client: MakeClient) -> AsyncIterator[LeaderElector]:
    """An elector whose commands `proxy` sees; that there were none is asserted after the test."""
    async with LeaderElector(make_client(proxy), quick()) as elector:
        yield elector
    assert proxy.opened == 0, "something was sent"


BAD_NAMES = [
    ("", ValueError, "blank"),
    ("   ", ValueError, "blank"),
    ("a{b}", ValueError, "braces"),
    ("a}", ValueError, "braces"),
    ("line\nbreak", ValueError, "control"),
    ("nul\x00", ValueError, "control"),
    ("del\x7f", ValueError, "control"),
    ("x" * 256, ValueError, "255"),
    ("ä" * 128, ValueError, "255"),
    ("\ud800", ValueError, "UTF-8"),
    ("@tenant:x", ValueError, "@"),
    (b"bytes", TypeError, "str"),
    (None, TypeError, "str"),
    (7, TypeError, "str"),
]
CALLS: dict[str, Callable[[LeaderElector, Any], Any]] = {
    "run_if_leader": lambda elector, name: elector.run_if_leader(name, nothing),
    "attempt": lambda elector, name: elector.attempt(name, nothing),
    "campaign": lambda elector, name: elector.campaign(name, nothing),
    "lead": lambda elector, name: elector.lead(name).__aenter__(),
    "try_lead": lambda elector, name: elector.try_lead(name).__aenter__(),
    "state": lambda elector, name: elector.state(name),
    "is_leading": lambda elector, name: _wrapped(elector.is_leading, name),
}


async def _wrapped(call: Callable[[Any], object], argument: object) -> object:
    return call(argument)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("name", "kind", "rule"), BAD_NAMES, ids=[repr(each[0])[:12] for each in BAD_NAMES]
)
async def test_a_bad_name_is_refused_before_anything_is_sent(
    watched: LeaderElector,
    call: Callable[[LeaderElector, Any], Any],
    name: Any,
    kind: type[Exception],
    rule: str,
) -> None:
    """By every method that takes a name."""
    with pytest.raises(kind, match=rule):
        await call(watched, name)


@pytest.mark.parametrize("name", ["campaign", "attempt", "run_if_leader"])
@pytest.mark.parametrize("action", [None, 7, "text"])
async def test_an_action_must_be_callable(watched: LeaderElector, name: str, action: Any) -> None:
    """What cannot be called is a TypeError at once."""
    with pytest.raises(TypeError, match="action"):
        await getattr(watched, name)("one", action)


async def test_a_coroutine_instead_of_a_function_is_refused(watched: LeaderElector) -> None:
    """The classic slip, ``run_if_leader("x", f())``, is a TypeError that names the rule."""
    coroutine: Any = nothing()
    with pytest.raises(TypeError, match="function"):
        await watched.run_if_leader("one", coroutine)
    coroutine.close()


@pytest.mark.parametrize("tenant", ["", " ", "a{", "\n", "x" * 255, None, 7])
async def test_a_bad_tenant_is_refused(watched: LeaderElector, tenant: Any) -> None:
    """By the rules of names; the mark around it counts as well."""
    with pytest.raises((ValueError, TypeError), match="tenant"):
        watched.for_tenant(tenant)


@pytest.mark.parametrize("prefix", ["", "a{b", "\t", "x" * 256, None, 7])
def test_a_bad_prefix_is_refused(prefix: Any) -> None:
    """By the rules of names."""
    with pytest.raises((ValueError, TypeError), match="prefix"):
        LeaderElector(redis.asyncio.Redis(), prefix=prefix)


@pytest.mark.parametrize("leader_id", ["", "a\nb", "x" * 256, 7])
def test_a_bad_leader_id_is_refused(leader_id: Any) -> None:
    """By the rules of names."""
    with pytest.raises((ValueError, TypeError), match="leader_id"):
        LeaderElector(redis.asyncio.Redis(), leader_id=leader_id)


@pytest.mark.parametrize(
    "client",
    [None, "redis://localhost", 7, redis.Redis(), object(), redis.asyncio.Redis],
    ids=["none", "url", "number", "sync", "object", "class"],
)
def test_a_client_of_the_wrong_kind_is_refused(client: Any) -> None:
    """The message says what is wanted, and what came."""
    with pytest.raises(TypeError, match=r"redis\.asyncio\.Redis"):
        LeaderElector(client)


@pytest.mark.parametrize("options", [7, {"lease_time": 3}, "x", LeaderOptions])
def test_options_of_the_wrong_kind_are_refused(options: Any) -> None:
    """Nothing but `LeaderOptions`."""
    with pytest.raises(TypeError, match="LeaderOptions"):
        LeaderElector(redis.asyncio.Redis(), options)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"lease_time": 0.2}, ValueError, "lease_time.*0.25.*0.2"),
        ({"lease_time": -1}, ValueError, "lease_time.*-1"),
        ({"lease_time": math.nan}, ValueError, "lease_time.*nan"),
        ({"lease_time": math.inf}, ValueError, "lease_time.*inf"),
        ({"lease_time": 31 * 86_400}, ValueError, "lease_time.*2592000 s"),
        ({"lease_time": "30"}, TypeError, "lease_time.*str"),
        ({"lease_time": None}, TypeError, "lease_time.*NoneType"),
        ({"lease_time": True}, TypeError, "lease_time.*bool"),
        ({"lease_time": timedelta(microseconds=1)}, ValueError, "lease_time.*0.000001"),
        ({"wait_time": -0.1}, ValueError, "wait_time.*-0.1"),
        ({"wait_time": "for ever"}, TypeError, "wait_time.*str"),
        ({"min_hold_time": 31}, ValueError, "min_hold_time.*31 s > 30 s"),
        ({"min_hold_time": -1}, ValueError, "min_hold_time.*-1"),
        ({"max_hold_time": 0}, ValueError, "max_hold_time.*0 s"),
        ({"max_hold_time": -2}, ValueError, "max_hold_time.*-2"),
        ({"auto_extend": 1}, TypeError, "auto_extend.*int"),
        ({"restart": "yes"}, TypeError, "restart.*str"),
        ({"on_loss": "ignore"}, ValueError, "on_loss.*ignore"),
        ({"request_timeout": 0}, ValueError, "request_timeout.*0 s"),
        ({"request_timeout": math.inf}, ValueError, "request_timeout.*inf"),
        ({"stop_grace": 25}, ValueError, "stop_grace 25 s.*lease_time is 30 s"),
        ({"lease_time": 9, "stop_grace": -1}, ValueError, "stop_grace.*-1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], kind: type[Exception], says: str) -> None:
    """The message names the option, the rule and the value; `using` refuses the same."""
    with pytest.raises(kind, match=says):
        LeaderOptions(**options)
    with pytest.raises(kind, match=says):
        LeaderElector(redis.asyncio.Redis()).using(**options)


def test_an_unknown_option_is_refused() -> None:
    """A slip of the pen is no option."""
    slip: dict[str, Any] = {"leasetime": 3}
    with pytest.raises(TypeError, match="leasetime"):
        LeaderOptions(**slip)
    with pytest.raises(TypeError, match="leasetime"):
        LeaderElector(redis.asyncio.Redis()).using(**slip)


@pytest.mark.parametrize("bad", [10**400, 1e300, -1, 0, math.nan, math.inf, "5", None])
async def test_an_extension_that_cannot_be_is_refused(
    proxy: Proxy, make_client: MakeClient, bad: Any
) -> None:
    """`lease.extend` refuses what no server can take, before anything is sent."""
    async with (
        LeaderElector(make_client(proxy), quick(lease_time=5)) as elector,
        elector.lead("one") as lease,
    ):
        sent = proxy.commands.total()
        with pytest.raises((ValueError, TypeError), match="duration"):
            await lease.extend(bad)
        assert proxy.commands.total() == sent
        assert lease.held


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "5", None])
async def test_a_need_that_cannot_be_is_refused(elector: LeaderElector, bad: Any) -> None:
    """The same for `ensure_held`."""
    async with elector.lead("one") as lease:
        with pytest.raises((ValueError, TypeError), match="need"):
            lease.ensure_held(bad)


async def test_a_closed_elector_elects_nobody(client: "redis.asyncio.Redis") -> None:
    """After `aclose` each way to lead is refused, in words."""
    elector = LeaderElector(client, quick())
    await elector.aclose()
    for call in (elector.run_if_leader, elector.attempt, elector.campaign):
        with pytest.raises(RuntimeError, match="closed"):
            await call("one", nothing)
    with pytest.raises(RuntimeError, match="closed"):
        elector.lead("one")
    with pytest.raises(RuntimeError, match="closed"):
        elector.try_lead("one")


async def test_a_huge_duration_is_a_value_error() -> None:
    """A number that no float can hold is refused as any other."""
    with pytest.raises(ValueError, match="wait_time"):
        LeaderOptions(wait_time=10**400)
    assert asyncio.get_running_loop()
