"""The asyncio twin of a client for threads: the same server, the same log-in, or a refusal."""

from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio import connection as asyncio_connection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.sentinel import Sentinel

from blocking.scene import quick
from incumbent.blocking import LeaderElector
from incumbent.stores.redis.twin import twin_of
from kit.servers import Server


def REMAP(address: tuple[str, int]) -> tuple[str, int]:  # noqa: N802 - a constant
    """Leaves it as it is."""
    return address


@pytest.fixture
def cluster_client() -> Any:
    """One that has found its nodes; redis-py connects when it is made."""
    client: Any = object.__new__(redis.RedisCluster)
    client.user_on_connect_func = None
    client.nodes_manager = SimpleNamespace(
        address_remap=REMAP,
        nodes_cache={
            name: SimpleNamespace(host=name, port=port)
            for name, port in (("h1", 7000), ("h2", 7001))
        },
        startup_nodes={
            name: SimpleNamespace(host=name, port=port)
            for name, port in (("h1", 7000), ("endpoint", 7000))
        },
        connection_kwargs={
            "username": "u",
            "password": "p",
            "protocol": 3,
            "db": 0,
            "ssl": True,
            "ssl_ca_certs": "/ca.pem",
            "redis_connect_func": client.on_connect,
        },
    )
    return client


def pool_of(client: Any) -> Any:
    """How the twin connects: redis-py has left it without types."""
    twin = twin_of(client)
    assert isinstance(twin, redis.asyncio.Redis)
    return twin.connection_pool


def test_a_client_of_a_cluster_has_a_twin_of_it(cluster_client: Any) -> None:
    """The same nodes, log-in and addresses; what is each node's affair is left to it.

    The nodes that the user named are among them, if the client still knows these.
    """
    twin = twin_of(cluster_client)
    assert isinstance(twin, redis.asyncio.RedisCluster)
    places = [(node.host, node.port) for node in twin.nodes_manager.startup_nodes.values()]
    assert places == [("h1", 7000), ("h2", 7001), ("endpoint", 7000)]
    kept: Any = twin.get_connection_kwargs()
    assert (kept["username"], kept["password"], kept["protocol"]) == ("u", "p", 3)
    assert kept["ssl_ca_certs"] == "/ca.pem"
    assert twin.nodes_manager.address_remap is REMAP
    cluster_client.user_on_connect_func = print
    with pytest.raises(TypeError, match="redis_connect_func"):
        twin_of(cluster_client)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("redis://u:p@h:1/2", asyncio_connection.Connection),
        ("rediss://u:p@h:1/2?ssl_cert_reqs=none", asyncio_connection.SSLConnection),
        ("unix://u:p@/tmp/s?db=2", asyncio_connection.UnixDomainSocketConnection),
    ],
)
def test_it_connects_where_the_client_does(url: str, kind: type[Any]) -> None:
    """Plain, TLS and Unix sockets, from a client or from its URL."""
    pool = pool_of(redis.Redis.from_url(url))
    assert pool.connection_class is kind
    assert pool_of(url).connection_class is kind
    found = pool.connection_kwargs
    assert (found["username"], found["password"], found["db"]) == ("u", "p", 2)
    if "ssl_cert_reqs" in url:
        assert found["ssl_cert_reqs"] == "none"


def test_it_logs_in_and_verifies_as_the_client_does() -> None:
    """Certificates, protocol, name and credential provider are taken over."""
    provider = redis.UsernamePasswordCredentialProvider("u", "p")
    client = redis.Redis(
        ssl=True,
        ssl_ca_certs="/ca.pem",
        ssl_check_hostname=True,
        credential_provider=provider,
        client_name="me",
        protocol=3,
    )
    found = pool_of(client).connection_kwargs
    assert found["ssl_ca_certs"] == "/ca.pem"
    assert found["ssl_check_hostname"] is True
    assert found["credential_provider"] is provider
    assert (found["client_name"], found["protocol"]) == ("me", 3)


def test_a_client_of_sentinels_has_a_twin_of_sentinels() -> None:
    """The same sentinels and service, with their own and the service's credentials."""
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        [("a", 1), ("b", 2)], sentinel_kwargs={"password": "s"}, password="p"
    )
    pool = pool_of(sentinel.master_for("service"))
    assert isinstance(pool, SentinelConnectionPool)
    manager = pool.sentinel_manager
    places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    assert [(place["host"], place["port"], place["password"]) for place in places] == [
        ("a", 1, "s"),
        ("b", 2, "s"),
    ]
    assert pool.connection_kwargs["password"] == "p"
    with pytest.raises(TypeError, match="primary"):
        pool_of(sentinel.slave_for("service"))


def test_what_would_be_lost_is_refused() -> None:
    """What makes a connection safer, or special, is never dropped without a word."""

    class Special(redis.Connection):
        pass

    with pytest.raises(TypeError, match="ssl_validate_ocsp"):
        pool_of(redis.Redis(ssl=True, ssl_validate_ocsp=True))
    with pytest.raises(TypeError, match="Special"):
        pool_of(redis.Redis(connection_pool=redis.ConnectionPool(connection_class=Special)))
    with pytest.raises(TypeError, match="redis_connect_func"):
        pool_of(redis.Redis(redis_connect_func=print))
    with pytest.raises(ValueError, match="must begin with redis://"):
        pool_of("nonsense://here")


@pytest.mark.parametrize("decode", [False, True])
def test_the_client_stays_the_caller_s(valkey: Server, *, decode: bool) -> None:
    """Used beside the elector, and after it was closed."""
    with redis.Redis.from_url(valkey.url, decode_responses=decode) as client:
        with LeaderElector(client, quick()) as elector:
            assert elector.run_if_leader("one", client.ping) is True
        assert client.ping()
