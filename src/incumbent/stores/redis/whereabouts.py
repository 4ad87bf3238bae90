"""Where a client's server is, in words for people; nothing in them is secret."""

from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.connection import SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool

from incumbent.stores.redis.store import Client


def described(client: Client) -> str:
    """For example ``the server at localhost:6379``."""
    known: Any = client  # redis-py left the most of it without types
    if isinstance(client, RedisCluster):
        nodes = known.nodes_manager.startup_nodes.values()
        return f"the cluster at {', '.join(_place(node.host, node.port) for node in nodes)}"
    pool = known.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        own: Any = pool
        each = [one.connection_pool.connection_kwargs for one in own.sentinel_manager.sentinels]
        places = ", ".join(_place(options["host"], options["port"]) for options in each)
        return f"the service {own.service_name!r} of the Sentinels at {places}"
    options = pool.connection_kwargs
    if "path" in options:
        return f"the server at {options['path']}"
    return f"the server at {_place(options.get('host', 'localhost'), options.get('port', 6379))}"


def by_tls(client: Client) -> bool | None:
    """Whether `client` speaks TLS to its one server; None if it has several, or a Unix socket."""
    pool: Any = getattr(client, "connection_pool", None)
    if pool is None or isinstance(pool, SentinelConnectionPool) or "path" in pool.connection_kwargs:
        return None
    return issubclass(pool.connection_class, SSLConnection)


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
