"""Every call on a server that is sick in every way that is known.

Each ends in time, with a result or with an error that the library documents: redis-py's own or one
of `incumbent.errors`. None ends with what asyncio, a parser or an operating system would say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import RedisError

import incumbent.blocking
from incumbent import IncumbentError, LeaderElector, Lease, StrategicElector
from incumbent.strategy import Fifo
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.proxy_thread import ProxyThread
from kit.servers import Server
from promises.scene import at_most, nothing, quick

T = 0.5
OPTIONS = quick(lease_time=3, request_timeout=T)

REFUSALS = {
    "MISCONF": "MISCONF cannot save",
    "OOM": "OOM no memory",
    "NOREPLICAS": "NOREPLICAS too few",
    "READONLY": "READONLY a replica",
    "MASTERDOWN": "MASTERDOWN no link",
    "LOADING": "LOADING not yet",
    "BUSY": "BUSY with a script",
    "CLUSTERDOWN": "CLUSTERDOWN no slots",
    "TRYAGAIN": "TRYAGAIN in a moment",
    "NOPERM": "NOPERM no right",
    "NOAUTH": "NOAUTH log in first",
    "WRONGTYPE": "WRONGTYPE of a key",
    "unknown": "ERR unknown command 'EVALSHA'",
    "other": "ERR something else",
}

Sick = Callable[[Proxy], None]


def refusing(error: str) -> Sick:
    """No script is carried out."""
    return lambda proxy: proxy.refuse(error, "EVAL", "EVALSHA")


SICK: dict[str, Sick] = {
    **{name: refusing(error) for name, error in REFUSALS.items()},
    "silent": lambda proxy: proxy.drop_replies(None, "EVAL", "EVALSHA"),
    "cut": lambda proxy: proxy.drop_replies(None, "EVAL", "EVALSHA", cut=True),
    "frozen": lambda proxy: proxy.silence(),
    "gone": lambda proxy: proxy.cut(refuse=True),
}


async def lead(elector: Any) -> None:
    """A block."""
    async with elector.lead("lead"):
        pass


async def try_lead(elector: Any) -> None:
    """A block that may have no lease."""
    async with elector.try_lead("try_lead"):
        pass


async def stand(elector: Any) -> None:
    """A candidate's block."""
    async with elector.candidate("stand"):
        pass


ASKING: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "run_if_leader": lambda it: it.run_if_leader("run", nothing),
    "attempt": lambda it: it.attempt("attempt", nothing),
    "in line": lambda it: it.using(wait_time=0.1).attempt("line", nothing),
    "once_per": lambda it: it.using(once_per=60).attempt("once", nothing),
    "lead": lead,
    "try_lead": try_lead,
    "state": lambda it: it.state("state"),
    "request_step_down": lambda it: it.request_step_down("step"),
    "force_release": lambda it: it.force_release("force"),
}
OF_CANDIDATES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "candidates": lambda it: it.candidates("candidates"),
    "elect": lambda it: it.elect("elect"),
    "record_result": lambda it: it.record_result("record", success=True),
    "candidate": stand,
    "run as the best": lambda it: it.run_if_leader("best", nothing),
}
UNDER_A_LEASE: dict[str, Callable[[Lease], Awaitable[Any]]] = {
    "extend": lambda lease: lease.extend(4),
    "step_down": lambda lease: lease.step_down(),
    "release": lambda lease: lease.release(),
}


async def came_of(call: Awaitable[Any]) -> Any:
    """The result, or the error; no other error is documented."""
    try:
        return await call
    except (RedisError, IncumbentError) as error:
        return error


@pytest.mark.parametrize("sick", SICK)
async def test_calls_that_ask(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, sick: str
) -> None:
    """An error for each, in time, which says what the server said."""
    proxy = await make_proxy(valkey)
    async with (
        LeaderElector(make_client(proxy), OPTIONS) as elector,
        StrategicElector(make_client(proxy), OPTIONS, strategy=Fifo(), node_id="n") as best,
    ):
        for each in (elector, best):
            await each.state("warm")
        SICK[sick](proxy)
        calls = {name: call(elector) for name, call in ASKING.items()}
        calls |= {name: call(best) for name, call in OF_CANDIDATES.items()}
        with at_most(2 * T + 0.2):
            found = await asyncio.gather(*map(came_of, calls.values()))
        for name, result in zip(calls, found, strict=True):
            assert isinstance(result, RedisError | IncumbentError), (name, result)
            assert str(result), name
            if sick in REFUSALS and sick not in {"unknown", "NOAUTH"}:
                assert REFUSALS[sick].partition(" ")[2] in str(result), name
        await proxy.restore()


@pytest.mark.parametrize("sick", SICK)
async def test_calls_under_a_lease(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, sick: str
) -> None:
    """What is given back is given back as far as may be; only `extend` has an error to tell."""
    proxy = await make_proxy(valkey)
    async with LeaderElector(make_client(proxy), OPTIONS) as elector:
        for name, call in UNDER_A_LEASE.items():
            try:
                async with elector.using(on_loss="notify").lead(name) as lease:
                    SICK[sick](proxy)
                    result = await came_of(call(lease))
            except IncumbentError as error:
                result = error
            assert result is None or isinstance(result, RedisError | IncumbentError | bool), name
            if name == "extend":
                assert isinstance(result, RedisError), result
            await proxy.restore()


@pytest.mark.parametrize("sick", ["MISCONF", "READONLY", "NOPERM", "silent", "gone"])
def test_with_threads(valkey: Server, sick: str) -> None:
    """The same errors come out in the thread."""
    with ProxyThread(valkey) as relay:
        elector = incumbent.blocking.StrategicElector(
            relay.url, OPTIONS, strategy=Fifo(), node_id="n"
        )
        calls: list[Callable[[], Any]] = [
            lambda: elector.run_if_leader("run", lambda: None),
            lambda: elector.attempt("attempt", lambda: None),
            lambda: elector.state("state"),
            lambda: elector.candidates("candidates"),
            lambda: elector.request_step_down("step"),
        ]
        with elector:
            elector.state("warm")
            with being(relay, SICK[sick]):
                for call in calls:
                    with pytest.raises((RedisError, IncumbentError)):
                        call()


@contextmanager
def being(relay: ProxyThread, sick: Sick) -> Iterator[None]:
    """A block in which it is sick."""
    relay.do(sick)
    yield
    relay.do_async(Proxy.restore)
