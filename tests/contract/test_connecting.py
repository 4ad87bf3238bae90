"""A wire that connects for longer than a request has time goes on with it, and is used then."""

import asyncio
from typing import Any

import pytest
from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import ConnectionPool
from redis.credentials import CredentialProvider

from incumbent.stores.redis import wire as wires
from incumbent.stores.redis.connection import Pool
from incumbent.stores.redis.scripts import command
from incumbent.stores.redis.server import Server
from incumbent.stores.redis.wire import ElsewhereError, Question, Wire
from kit.fixtures import MakeClient
from kit.proxy import Proxy
from kit.servers import Server as KitServer
from kit.waiting import wait_until

PING = command(b"PING")
HANDSHAKE = ("HELLO", "AUTH", "CLIENT", "SELECT")


class Way(Server):
    """A server, asked as a caller asks it."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.made: list[Wire] = []

    async def ask(self, within: float) -> Any:
        """The answer, or the error in its place."""
        while True:
            wire = self.wire() or await self.find()
            if wire not in self.made:
                self.made.append(wire)
            answer = await wire.send(Question(PING), within)
            if not isinstance(answer, ElsewhereError):
                return answer


@pytest.fixture
async def held(proxy: Proxy) -> Proxy:
    """A proxy that lets no log-in through."""
    proxy.hold_replies(*HANDSHAKE)
    return proxy


def in_use(client: Redis) -> int:
    """How many connections of its pool are lent."""
    return len(client.connection_pool._in_use_connections)


class Gates(CredentialProvider):
    """Gives the credentials when it is told to, to one after the other."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Event] = []

    def get_credentials(self) -> tuple[str]:
        """Not asked for here."""
        raise NotImplementedError

    async def get_credentials_async(self) -> tuple[str]:
        """A password that the server takes for its user without one."""
        self.asked.append(asyncio.Event())
        await self.asked[-1].wait()
        return ("any",)


@pytest.mark.skipif(
    not hasattr(CredentialProvider, "get_credentials_async"),
    reason="redis-py before 5.3 asks a provider only in a way that blocks",
)
@pytest.mark.parametrize("first", [True, False], ids=["the first", "the last"])
async def test_who_has_connected_is_used(
    valkey: KitServer, make_client: MakeClient, first: bool
) -> None:
    """At most two are at it: the one that began first, and the one that began last."""
    gates = Gates()
    client = make_client(valkey, credential_provider=gates)
    way = Way(client.connection_pool)
    for _ in range(4):
        assert isinstance(await way.ask(0.05), redis_errors.TimeoutError)
        await wait_until(lambda: in_use(client) <= 2, what="the others are given back")
    waiting = asyncio.ensure_future(way.ask(30))
    await wait_until(lambda: len(gates.asked) == 5)
    assert len(way.made) == 5
    gates.asked[0 if first else -1].set()
    assert await waiting == b"PONG"
    assert way.wire() is way.made[0 if first else -1]
    await wait_until(lambda: in_use(client) == 1, what="the other one is given back")
    assert await way.ask(30) == b"PONG"
    await way.retire()
    assert in_use(client) == 0


async def test_one_that_fails_is_begun_anew(held: Proxy, make_client: MakeClient) -> None:
    """It does not come back, and leaves nothing."""
    client = make_client(held)
    way = Way(client.connection_pool)
    assert isinstance(await way.ask(0.05), redis_errors.TimeoutError)
    held.cut()
    await wait_until(lambda: in_use(client) == 0)
    held.release()
    assert await way.ask(30) == b"PONG"
    assert way.wire() is way.made[1]
    await way.retire()


async def test_it_does_not_connect_for_ever(
    held: Proxy, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it hold a connection of the pool for longer."""
    monkeypatch.setattr(wires, "CONNECT_WITHIN", 0.2)
    client = make_client(held)
    way = Way(client.connection_pool)
    assert isinstance(await way.ask(0.05), redis_errors.TimeoutError)
    assert in_use(client) == 1
    await wait_until(lambda: in_use(client) == 0)
    await way.retire()


@pytest.mark.parametrize("kind", [ConnectionPool, BlockingConnectionPool])
async def test_a_pool_of_one_connection(held: Proxy, kind: Any) -> None:
    """The one that connects gives way to the one that begins anew."""
    pool = kind.from_url(held.url, max_connections=1)
    client = Redis.from_pool(pool)
    way = Way(pool)
    for _ in range(3):
        assert isinstance(await way.ask(0.05), redis_errors.RedisError)
        await asyncio.sleep(0.01)
    held.cut()
    held.release()
    answers: list[Any] = []

    async def answered() -> bool:
        answers.append(await way.ask(5))
        return bool(answers[-1] == b"PONG")

    await wait_until(answered)
    assert all(isinstance(each, redis_errors.RedisError) for each in answers[:-1])
    await way.retire()
    await client.aclose()


async def test_it_ends_with_its_server(held: Proxy, make_client: MakeClient) -> None:
    """Nothing connects any more when all is given back."""
    client = make_client(held)
    way = Way(client.connection_pool)
    for _ in range(2):
        assert isinstance(await way.ask(0.05), redis_errors.TimeoutError)
    await way.retire()
    assert in_use(client) == 0
    held.release()
    await asyncio.sleep(0.05)
    assert in_use(client) == 0
