"""No password is ever shown: in no error, no log and no command, whatever redis-py says of it.

redis-py before 8 describes the Sentinels that it could not reach with all that they were made with,
and servers repeat the arguments of a command that they do not know, AUTH among them.
"""

import asyncio
import logging
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from redis import exceptions as redis_errors
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.credentials import CredentialProvider

from cli.inside import Inside
from cli.stage import Run
from incumbent import LeaderElector, LeaderOptions, blocking, fencing
from incumbent.fencing import blocking as blocking_fencing
from incumbent.stores.redis.discretion import HIDDEN, discreet
from incumbent.stores.redis.facts import trouble_of
from kit.fixtures import MakeClient, MakeProxy
from kit.parrot import Parrot, as_others_say, as_servers_say
from kit.ports import free_port
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import nothing

SECRET = "S3CR3T"
OPTIONS = LeaderOptions(request_timeout=0.3, lease_time=3)
SHOWN = logging.Formatter("%(levelname)s %(name)s %(message)s")
"""Which appends the traceback, if there is one."""


SPEAKERS = {"a parrot": as_servers_say, "another parrot": as_others_say}


@pytest.fixture(params=["nobody", *SPEAKERS])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Host and port of no server, or of one that repeats what it receives."""
    if request.param == "nobody":
        yield f"127.0.0.1:{free_port('127.0.0.1')}"
        return
    with Parrot(SPEAKERS[request.param]) as parrot:
        yield f"{parrot.host}:{parrot.port}"


def split(place: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = place.partition(":")
    return host, int(port)


def by_sentinels(place: str) -> Any:
    """A client by way of Sentinels, with a password for them and one for the server."""
    own = {"username": "u", "password": f"{SECRET}-sentinel"}
    manager = Sentinel([split(place)] * 2, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    return manager.master_for("main", username="u", password=f"{SECRET}-server")


def by_sentinels_of_their_own(place: str) -> Any:
    """The same, but each Sentinel has a client, and a password, that the manager does not know."""
    manager = Sentinel([])  # type: ignore[no-untyped-call]
    manager.sentinels = [one_server(place), one_server(place)]
    return manager.master_for("main")


class Tokens(CredentialProvider):
    """Fails, and says too much."""

    def get_credentials(self) -> tuple[str, str]:
        """As for threads."""
        raise RuntimeError(f"token {self.password} is not valid")

    async def get_credentials_async(self) -> tuple[str, str]:
        """The same."""
        return self.get_credentials()

    password = SECRET


def one_server(place: str, **options: Any) -> Any:
    """A client of one server."""
    host, port = split(place)
    return Redis(host=host, port=port, **(options or {"username": "u", "password": SECRET}))


def a_cluster(place: str) -> Any:
    """A client of a cluster."""
    nodes: list[Any] = [ClusterNode(*split(place))]
    return RedisCluster(startup_nodes=nodes, username="u", password=SECRET)


CLIENTS: dict[str, Callable[[str], Any]] = {
    "one server": one_server,
    "a credential provider": lambda place: one_server(place, credential_provider=Tokens()),
    "Sentinels": by_sentinels,
    "Sentinels of their own": by_sentinels_of_their_own,
    "a cluster": a_cluster,
}
URLS = {
    "one server": "redis://u:{secret}@{place}",
    "Sentinels": "redis+sentinel://u:{secret}@{place}/main?sentinel_username=u&sentinel_password={secret}",
    "a cluster": "redis+cluster://u:{secret}@{place}",
}


def url_of(kind: str, place: str) -> str:
    """As threads and commands are given it."""
    return URLS[kind].format(secret=SECRET, place=place)


def shown(error: BaseException) -> str:
    """All that a program may print of an error."""
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All that was logged, with tracebacks."""
    return "\n".join(SHOWN.format(record) for record in caplog.records)


async def close(client: Any) -> None:
    """And the clients of the Sentinels."""
    await client.aclose()
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for sentinel in getattr(manager, "sentinels", ()):
        await sentinel.aclose()


@pytest.mark.parametrize("kind", CLIENTS)
async def test_no_error_and_no_log_of_an_elector_shows_one(
    kind: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of no call, whatever the client; nor what is logged while one campaigns."""
    caplog.set_level(logging.DEBUG)
    client = CLIENTS[kind](place)
    elector = LeaderElector(client, OPTIONS)
    seen = list[str]()
    for call in (elector.run_if_leader("job", nothing), elector.state("job")):
        with pytest.raises(redis_errors.RedisError) as raised:
            await call
        seen.append(shown(raised.value))
    for endless in (elector.campaign("job", nothing), _watched(elector)):
        try:
            await asyncio.wait_for(endless, 1)
        except (redis_errors.RedisError, TimeoutError) as error:
            seen.append(shown(error))
    await elector.aclose()
    await close(client)
    assert SECRET not in "\n".join(seen)
    assert SECRET not in logged(caplog)


async def _watched(elector: LeaderElector) -> None:
    async for _ in elector.watch("job"):
        pass


@pytest.mark.parametrize("kind", URLS)
def test_nor_for_threads(kind: str, place: str, caplog: pytest.LogCaptureFixture) -> None:
    """By URL."""
    caplog.set_level(logging.DEBUG)
    with (
        blocking.LeaderElector(url_of(kind, place), OPTIONS) as elector,
        pytest.raises(redis_errors.RedisError) as raised,
    ):
        elector.run_if_leader("job", int)
    assert SECRET not in shown(raised.value)
    assert SECRET not in logged(caplog)


@pytest.mark.parametrize("kind", URLS)
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "job", "--", "true"),
        ("status",),
        ("candidates", "job"),
        ("watch", "job"),
        ("watch",),
        ("step-down", "job"),
        ("release", "job", "--yes"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_nor_does_a_command(
    kind: str,
    arguments: tuple[str, ...],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It ends with an error in words."""
    said = Inside(monkeypatch, capfd, url_of(kind, place))(*arguments)
    assert said.code not in {0, 2}, said
    assert SECRET not in said.out + said.err


def test_nor_does_a_command_that_goes_on(place: str) -> None:
    """`campaign` waits for better times, and tells what is wrong meanwhile."""
    with ExitStack() as stack:
        runs = [Run(url_of(kind, place), "campaign", "job", "--", "true") for kind in URLS]
        for run in runs:
            stack.callback(run.close)
        for run in runs:
            # It has told of the first failure, or has ended by it.
            wait_until_blocking(lambda run=run: run.errors, within=60, what="a word")  # type: ignore[misc]
            run.signal(signal.SIGTERM)
        for run in runs:
            run.ends()
            assert run.errors.startswith("incumbent: ")
            assert SECRET not in run.errors


async def test_nor_does_a_transaction_or_a_guarded_script(
    valkey: Server, make_client: MakeClient, place: str
) -> None:
    """Which go by the user's own client."""
    client = by_sentinels(place)
    async with LeaderElector(make_client(valkey)).lead("job") as lease:
        with pytest.raises(redis_errors.RedisError) as raised:
            async with lease.transaction(client) as pipe:
                _ = pipe.set("x", 1)
        assert SECRET not in shown(raised.value)
    with pytest.raises(redis_errors.RedisError) as refused:
        await fencing.fenced_eval(client, "register", 1, "return 1")
    assert SECRET not in shown(refused.value)
    await close(client)


def test_nor_for_threads_with_clients_of_their_own(valkey: Server, place: str) -> None:
    """The same."""
    own: Any = {"username": "u", "password": f"{SECRET}-sentinel"}
    manager: Any = redis.Sentinel([split(place)], sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    client = manager.master_for("main", password=SECRET)
    with blocking.LeaderElector(valkey.url) as elector, elector.lead("job") as lease:
        with (
            pytest.raises(redis_errors.RedisError) as raised,
            lease.transaction(client) as pipe,
        ):
            pipe.set("x", 1)
        assert SECRET not in shown(raised.value)
        with pytest.raises(redis_errors.RedisError) as refused:
            blocking_fencing.fenced_eval(client, "register", 1, "return 1")
        assert SECRET not in shown(refused.value)
    client.close()


async def test_nor_does_what_a_server_says_of_a_script(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy
) -> None:
    """It knows us, but not the command, and repeats its arguments."""
    proxy = await make_proxy(valkey)
    scripts = ("EVAL", "EVALSHA")
    proxy.refuse(as_servers_say(["EVALSHA", "digest", SECRET]), *scripts)
    async with LeaderElector(make_client(proxy), OPTIONS) as elector:
        for call in (elector.run_if_leader("job", nothing), elector.state("job")):
            with pytest.raises(redis_errors.ResponseError, match="unknown command") as raised:
                await call
            assert SECRET not in shown(raised.value)


def test_nor_does_what_the_doctor_tells_of_a_command() -> None:
    """By the user's own client, which may have to log in anew for any of them."""
    told = redis_errors.ConnectionError(f"<Connection(password={SECRET})>")
    assert SECRET not in repr(trouble_of("PING", told, Redis(password=SECRET)))


def test_what_is_hidden() -> None:
    """The password, wherever it stands; what a server repeats; nothing else."""
    client = Redis(password="pw")
    clean = redis_errors.ConnectionError("Error 111 connecting")
    assert discreet(clean, client) is clean
    told = discreet(redis_errors.ConnectionError("<Redis(password=pw,db=0)>"), client)
    assert str(told) == f"<Redis(password={HIDDEN},db=0)>"
    repeated = "unknown command 'AUTH', with args beginning with: 'u' 'other'"
    assert str(discreet(redis_errors.ResponseError(repeated))) == "unknown command 'AUTH'"
    cause = redis_errors.ConnectionError("outer")
    cause.__cause__ = OSError("pw")
    assert discreet(cause, client).__cause__ is None
