"""The asyncio twin of a client that was made for threads: the same server, a connection of its own.

Takes over where to connect to and how to log in. How long to wait and how often to try is ours.
"""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import redis
from redis import connection as blocking
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio import connection as asyncio_connection
from redis.asyncio.cluster import ClusterNode
from redis.client import Pipeline
from redis.cluster import ClusterPipeline
from redis.credentials import CredentialProvider
from redis.sentinel import SentinelConnectionPool, SentinelManagedSSLConnection

from incumbent.kinds import real
from incumbent.stores.redis.store import Client
from incumbent.stores.redis.urls import client_of

SyncClient: TypeAlias = redis.Redis | redis.RedisCluster

_TAKEN_OVER: Final = frozenset(
    {
        "client_name",
        "credential_provider",
        "db",
        "host",
        "password",
        "path",
        "port",
        "protocol",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_timeout",
        "socket_type",
        "username",
    }
)
_NODES_OWN: Final = frozenset({"db", "host", "path", "port", "socket_type"})
"""What is each node's affair, in a cluster."""

_KINDS: Final = {
    blocking.Connection: asyncio_connection.Connection,
    blocking.SSLConnection: asyncio_connection.SSLConnection,
    blocking.UnixDomainSocketConnection: asyncio_connection.UnixDomainSocketConnection,
}

NO_CONNECT_FUNC: Final = (
    "incumbent.blocking makes an asyncio client like yours, and cannot for one with a"
    " redis_connect_func: give it a URL"
)


def twin_of(client: SyncClient | str) -> Client:
    """An asyncio client of the server that `client`, or a URL, speaks to. Connects to nothing.

    Raises:
        TypeError: it is no client of redis-py's and no URL, or connects in a way that has no twin.
        ValueError: the URL is not usable.
    """
    if isinstance(client, str):
        return client_of(client)
    _check(client)
    if isinstance(client, redis.RedisCluster):
        return _cluster_twin(client)
    pool = client.connection_pool
    options: Mapping[str, Any] = pool.connection_kwargs
    if options.get("redis_connect_func") is not None:
        raise TypeError(NO_CONNECT_FUNC)
    if isinstance(pool, SentinelConnectionPool):
        return _sentinel_twin(pool, options)
    real("redis", pool.connection_class)
    kind = _KINDS.get(pool.connection_class)
    if kind is None:
        raise TypeError(
            "incumbent.blocking makes an asyncio client like yours, and cannot for connections of"
            f" class {pool.connection_class.__qualname__}: give it a URL"
        )
    twin = asyncio_connection.ConnectionPool(connection_class=kind, **_plain(options))
    return Redis.from_pool(twin)


def _check(client: Any) -> None:
    pipelines = Pipeline, ClusterPipeline
    if not isinstance(client, redis.Redis | redis.RedisCluster) or isinstance(client, pipelines):
        kind = client if isinstance(client, type) else type(client)
        hint = ""
        if isinstance(client, Redis | RedisCluster):
            hint = "; that is a client for asyncio, and so are the electors of incumbent itself"
        raise TypeError(
            "redis must be a redis.Redis or RedisCluster client, a URL or a Store, "
            f"not {kind.__module__}.{kind.__qualname__}{hint}"
        )


def _sentinel_twin(pool: SentinelConnectionPool, options: Mapping[str, Any]) -> Redis:
    known = cast(Any, pool)  # redis-py left it without types
    manager = known.sentinel_manager
    places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    if not known.is_master:
        raise TypeError("an election needs the primary: give the client of Sentinel.master_for()")
    twin = cast(Any, Sentinel)(
        [(place["host"], place["port"]) for place in places],
        min_other_sentinels=manager.min_other_sentinels,
        sentinel_kwargs=_plain(manager.sentinel_kwargs),
    )
    ssl = issubclass(known.connection_class, SentinelManagedSSLConnection)
    master: Redis = twin.master_for(known.service_name, ssl=ssl, **_plain(options))
    return master


def _cluster_twin(client: redis.RedisCluster) -> RedisCluster:
    known = cast(Any, client)  # redis-py left it without types
    if known.user_on_connect_func is not None:
        raise TypeError(NO_CONNECT_FUNC)
    options = _plain(known.get_connection_kwargs())
    # Those that the user named are among the latter, if the client did not forget them.
    nodes = (*known.get_nodes(), *known.nodes_manager.startup_nodes.values())
    places = dict.fromkeys((node.host, node.port) for node in nodes)
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in places],
        address_remap=known.nodes_manager.address_remap,
        **{name: value for name, value in options.items() if name not in _NODES_OWN},
    )


class _InThread(CredentialProvider):
    """One that was made for threads, and so may block: not the event loop of all electors."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider

    @property
    def password(self) -> Any:
        """What must not be shown, if the provider has it at hand."""
        return getattr(self._provider, "password", None)

    def get_credentials(self) -> Any:
        return self._provider.get_credentials()

    async def get_credentials_async(self) -> Any:
        return await asyncio.to_thread(self._provider.get_credentials)


def _for_asyncio(provider: CredentialProvider) -> CredentialProvider:
    base = getattr(CredentialProvider, "get_credentials_async", None)  # none before redis-py 5.3
    its_own = getattr(type(provider), "get_credentials_async", None) is not base
    return provider if its_own else _InThread(provider)


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    known = inspect.signature(asyncio_connection.SSLConnection.__init__).parameters
    taken = {name: value for name, value in options.items() if name in _TAKEN_OVER}
    if isinstance(provider := options.get("credential_provider"), CredentialProvider):
        taken["credential_provider"] = _for_asyncio(provider)
    if options.get("ssl"):  # among what a client of Sentinels itself was given
        taken["ssl"] = True
    if isinstance(keepalive := options.get("socket_keepalive_options"), dict):
        taken["socket_keepalive_options"] = keepalive
    for name, value in options.items():
        if not name.startswith("ssl_"):
            continue
        if name in known:
            taken[name] = value
        elif value:  # what makes a connection safer must not get lost without a word
            raise TypeError(
                f"incumbent.blocking makes an asyncio client like yours, which has no {name}: give"
                " it a URL"
            )
    return taken
