"""From a URL to a client: of one server, of who Sentinels say it is, or of a cluster.

No message of an error shows any part of the URL: there may be a password in it.
"""

from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.sentinel import Sentinel

from incumbent.stores.redis.store import Client

SENTINEL: Final = "redis+sentinel"
CLUSTER: Final = ("redis+cluster", "rediss+cluster")
ONE_SERVER: Final = ("redis", "rediss", "unix")
PORT: Final = 6379
SENTINEL_PORT: Final = 26379


class _BySentinels(Redis):
    """A client of whom Sentinels name, which closes its connections to those as well."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 - redis-py's own signature
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def client_of(url: str) -> Client:
    """A client of what `url` names; nothing is sent yet.

    ``redis://[user:password@]host[:port][/db]``, ``rediss://`` the same by TLS,
    ``unix://[user:password@]/path[?db=0]``, and
    ``redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]``, whose
    credentials are the server's; the Sentinels' own are ``?sentinel_username=...`` and
    ``&sentinel_password=...``. ``redis+cluster://[user:password@]host[:port][,host[:port]...]``
    names some nodes of a cluster, which know the others; ``rediss+cluster://`` the same by TLS.

    Raises:
        ValueError: this is no such URL.
    """
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in {SENTINEL, *CLUSTER, *ONE_SERVER}:
        raise ValueError(
            "a server's URL must begin with redis://, rediss://, unix://, redis+sentinel://,"
            " redis+cluster:// or rediss+cluster://"
        )
    try:
        parts = urlsplit(url)
        if scheme in CLUSTER:
            return _cluster(parts)
        return _by_sentinels(parts) if scheme == SENTINEL else _direct(url, parts)
    except (ValueError, TypeError):
        # Their messages repeat what they could not read, which may be a part of a password.
        pass
    raise ValueError(f"not a URL of a server: a {scheme}:// URL with a mistake in it")


def _direct(url: str, parts: SplitResult) -> Client:
    if parts.scheme != "unix" and parts.port == 0:
        raise ValueError("no port")
    return Redis.from_url(url)


def _by_sentinels(parts: SplitResult) -> Client:
    user, password, hosts = _netloc(parts)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("no service")
    query = dict(parse_qsl(parts.query))
    own = {"username": query.get("sentinel_username"), "password": query.get("sentinel_password")}
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]  # redis-py left it without
        [_address(host, SENTINEL_PORT) for host in hosts],
        sentinel_kwargs={name: value for name, value in own.items() if value is not None},
    )
    master: Client = sentinel.master_for(
        unquote(service),
        redis_class=_BySentinels,
        db=int(database or 0),
        username=user,
        password=password,
    )
    return master


def _cluster(parts: SplitResult) -> Client:
    user, password, hosts = _netloc(parts)
    if parts.path.strip("/") not in {"", "0"} or parts.query:
        raise ValueError("a cluster has one database")
    return RedisCluster(
        startup_nodes=[ClusterNode(*_address(host, PORT)) for host in hosts],
        username=user,
        password=password,
        ssl=parts.scheme.startswith("rediss"),
    )


def _netloc(parts: SplitResult) -> tuple[str | None, str | None, list[str]]:
    """User, password and hosts."""
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    return unquote(user) or None, unquote(password) or None, hosts.split(",")


def _address(host: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError("no host")
    return parts.hostname, parts.port or port
