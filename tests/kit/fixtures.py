"""The fixtures of the fault kit, and the checks that run after every test.

A test that takes a server (`server`, `valkey`, `own_server`, `start_server`) fails when it leaves
a key without TTL below one of the `watched_prefixes`; an async test fails when it leaves a task or
an open socket, or when the loop complained of a lost exception or a destroyed task.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Protocol

import pytest
import redis.asyncio
from redis.asyncio.connection import ConnectionPool

from kit import wallclock
from kit.binaries import KINDS
from kit.leftovers import Complaints, keys_without_ttl, leftover_tasks, open_sockets
from kit.pool import EXTERNAL, ServerPool, chosen_kinds, make_server, missing
from kit.proxy import Proxy, Target
from kit.servers import Server
from kit.tls import Authority

CHOSEN = chosen_kinds()
ELSEWHERE = (
    ""
    if CHOSEN[0] in KINDS
    else "needs servers that are processes of this machine, not those of "
    "INCUMBENT_TEST_URL or INCUMBENT_TEST_IMAGE"
)
"""Why tests are skipped that need more of a server than to start, stop and freeze it."""
HIREDIS = os.environ.get("INCUMBENT_TEST_PARSER") != "python"
"""Whether clients use hiredis where a test does not say it."""
WIRES = [
    pytest.param({"protocol": protocol, "decode_responses": decode}, id=f"resp{protocol}-{name}")
    for protocol, (decode, name) in itertools.product((2, 3), ((False, "bytes"), (True, "text")))
]


_AHEAD = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Remember how the machine's clock stands."""
    item.stash[_AHEAD] = wallclock.ahead()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say that it was set meanwhile, if the test failed."""
    report = yield
    if report.failed and _AHEAD in item.stash:
        said = wallclock.complaint(wallclock.ahead() - item.stash[_AHEAD])
        if said:
            report.sections.append(("the machine's clock", said))
    return report


class HasUrl(Protocol):
    """A server or a proxy before one."""

    @property
    def url(self) -> str:
        """Where to connect to."""
        ...


class MakeClient(Protocol):
    """The type of the `make_client` fixture."""

    def __call__(self, target: HasUrl | str, **options: Any) -> "redis.asyncio.Redis":
        """A client of `target` that is closed after the test; options as for `Redis.from_url`."""
        ...


class StartServer(Protocol):
    """The type of the `start_server` fixture."""

    def __call__(
        self,
        kind: str = ...,
        *,
        args: Sequence[str] = ...,
        password: str | None = ...,
        aof: bool = ...,
    ) -> Server:
        """A fresh server that is ended after the test."""
        ...


class MakeProxy(Protocol):
    """The type of the `make_proxy` fixture."""

    async def __call__(self, target: Target, *, tls: Authority | None = None) -> Proxy:
        """A started proxy that is closed after the test."""
        ...


# -- servers ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def server_pool() -> Iterator[ServerPool]:
    """The shared servers of this process."""
    pool = ServerPool()
    yield pool
    pool.close()


@pytest.fixture
def watched_prefixes() -> list[str]:
    """Prefixes whose keys must have a TTL when the test ends; a test may append its own."""
    return ["incumbent", "kit"]


@pytest.fixture(params=CHOSEN)
def server(
    request: pytest.FixtureRequest, server_pool: ServerPool, watched_prefixes: list[str]
) -> Iterator[Server]:
    """A shared server without keys, once for each kind: for contract tests."""
    kind = str(request.param)
    _need(kind)
    with _watched(server_pool.get(kind), watched_prefixes) as shared:
        yield shared


@pytest.fixture
def valkey(server_pool: ServerPool, watched_prefixes: list[str]) -> Iterator[Server]:
    """A shared server without keys, of the first kind chosen (Valkey 9): for all other tests."""
    with _watched(server_pool.get(CHOSEN[0]), watched_prefixes) as shared:
        yield shared


@pytest.fixture
def start_server(watched_prefixes: list[str]) -> Iterator[StartServer]:
    """Starts servers of this test's own, which it may kill, freeze and configure."""
    if EXTERNAL in CHOSEN:
        pytest.skip("needs a server that it may kill; INCUMBENT_TEST_URL names one of yours")
    started: list[Server] = []

    def start(kind: str = CHOSEN[0], **options: Any) -> Server:
        _need(kind)
        started.append(make_server(kind, **options))
        return started[-1].start()

    try:
        yield start
        left = [key for each in started for key in _lasting_keys(each, watched_prefixes)]
        assert not left, f"keys without TTL: {left}"
    finally:
        for each in started:
            each.close()


@pytest.fixture
def own_server(start_server: StartServer) -> Server:
    """A fresh server for this test alone: for tests that kill, freeze or configure it."""
    return start_server()


def _need(kind: str) -> None:
    if reason := missing(kind):
        pytest.skip(reason)


@contextmanager
def _watched(server: Server, prefixes: list[str]) -> Iterator[Server]:
    yield server
    left = _lasting_keys(server, prefixes)
    assert not left, f"keys without TTL: {left}"


def _lasting_keys(server: Server, prefixes: list[str]) -> list[str]:
    if not server.running:
        return []
    if server.paused:
        server.resume()
    return keys_without_ttl(server, prefixes)


# -- the network ----------------------------------------------------------------------------


@pytest.fixture
async def make_proxy() -> AsyncIterator[MakeProxy]:
    """Starts proxies in the test's loop and closes them after the test."""
    if not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
        pytest.skip("the proxy of the test kit cuts sockets as only asyncio's own loop bears it")
    async with AsyncExitStack() as stack:

        async def make(target: Target, *, tls: Authority | None = None) -> Proxy:
            return await stack.enter_async_context(Proxy(target, tls=tls))

        yield make


@pytest.fixture
async def proxy(valkey: Server, make_proxy: MakeProxy) -> Proxy:
    """A proxy before `valkey`."""
    return await make_proxy(valkey)


@pytest.fixture(scope="session")
def authority() -> Iterator[Authority]:
    """A certificate authority, for ``make_proxy(server, tls=authority)``."""
    with Authority() as issuer:
        yield issuer


# -- clients ---------------------------------------------------------------------------------


@pytest.fixture
async def make_client() -> AsyncIterator[MakeClient]:
    """Makes redis-py clients and closes them after the test.

    `hiredis=False` takes the parser in Python instead of hiredis.
    """
    made: list[redis.asyncio.Redis] = []

    def make(target: HasUrl | str, *, hiredis: bool = True, **options: Any) -> redis.asyncio.Redis:
        url = target if isinstance(target, str) else target.url
        if not (hiredis and HIREDIS):
            options["parser_class"] = _python_parser(options)
        pool = ConnectionPool.from_url(url, **options)
        made.append(redis.asyncio.Redis.from_pool(pool))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


def _python_parser(options: dict[str, Any]) -> type[Any]:
    from redis._parsers import _AsyncRESP2Parser, _AsyncRESP3Parser

    release = tuple(redis.VERSION)
    protocol = options.get("protocol", 3 if release >= (8,) else 2)
    if protocol == 3 and release < (6,):
        pytest.skip("with hiredis installed, redis-py 5 reads past pushes with this parser")
    return _AsyncRESP2Parser if protocol == 2 else _AsyncRESP3Parser


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Client options: RESP2 and RESP3, each with bytes and with text. Four runs of the test."""
    return dict(request.param)


@pytest.fixture
def client(valkey: Server, make_client: MakeClient) -> "redis.asyncio.Redis":
    """A client with redis-py's defaults on `valkey`."""
    return make_client(valkey)


@pytest.fixture
def wire_client(
    server: Server, wire: dict[str, Any], make_client: MakeClient
) -> "redis.asyncio.Redis":
    """A client for each `wire` on each `server`."""
    return make_client(server, **wire)


# -- checks after every test -----------------------------------------------------------------


@pytest.fixture
async def loop_complaints() -> AsyncIterator[list[str]]:
    """What the loop complained of so far; a test that expects a complaint clears the list."""
    complaints = Complaints()
    complaints.listen()
    yield complaints.heard
    left = await leftover_tasks()
    for task in left:
        task.cancel()
    assert not left, f"tasks left over: {sorted(map(repr, left))}"
    sockets = await open_sockets()
    assert not sockets, f"sockets left open: {sockets}"
    assert not complaints.heard, f"the loop complained: {complaints.heard}"


@pytest.fixture(autouse=True)
def _nothing_left_in_the_loop(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("asyncio"):
        request.getfixturevalue("loop_complaints")
