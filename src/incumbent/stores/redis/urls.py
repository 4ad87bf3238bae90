"""From a URL to a client: of one server, of who Sentinels say it is, or of a cluster.

No message of an error shows any part of the URL: there may be a password in it.
"""

from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from incumbent.stores.redis import sentinels, url_options
from incumbent.stores.redis.slots import Address
from incumbent.stores.redis.store import Client

SENTINEL: Final = ("redis+sentinel", "rediss+sentinel")
CLUSTER: Final = ("redis+cluster", "rediss+cluster")
ONE_SERVER: Final = ("redis", "rediss", "unix")
PORT: Final = 6379
SENTINEL_PORT: Final = 26379


class _ByHalf(SentinelConnectionPool):
    """Connects to the primary that half of the Sentinels name, also for the client's commands."""

    async def get_master_address(self) -> Address:
        """The address of that primary."""
        return await sentinels.address_for(self)


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
    ``&sentinel_password=...``; ``rediss+sentinel://`` the same by TLS.
    ``redis+cluster://[user:password@]host[:port][,host[:port]...]`` names some nodes of a cluster,
    which know the others; ``rediss+cluster://`` the same by TLS. Options, as
    ``?socket_timeout=5&ssl_ca_certs=/ca.pem``, are those of redis-py.

    Raises:
        ValueError: this is no such URL.
    """
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in {*SENTINEL, *CLUSTER, *ONE_SERVER}:
        raise ValueError(
            "a server's URL must begin with redis://, rediss://, unix://, redis+sentinel://,"
            " rediss+sentinel://, redis+cluster:// or rediss+cluster://"
        )
    mistake = "a mistake in it"
    try:
        parts = urlsplit(url)
        return _made(parts)
    except url_options.OptionError as error:
        mistake = f"a mistake in it: {error}"
    except (ValueError, TypeError):
        # Their messages repeat what they could not read, which may be a part of a password.
        pass
    raise ValueError(f"not a URL of a server: a {scheme}:// URL with {mistake}")


def _made(parts: SplitResult) -> Client:
    if parts.fragment:
        raise ValueError("a # that should be %23")
    if parts.scheme in CLUSTER:
        return _cluster(parts)
    return _by_sentinels(parts) if parts.scheme in SENTINEL else _direct(parts)


def _direct(parts: SplitResult) -> Client:
    unix = parts.scheme == "unix"
    if not unix and parts.port == 0:
        raise ValueError("no port")
    options = url_options.read(
        parts.query, url_options.of_server(unix=unix), tls=parts.scheme == "rediss"
    )
    database = "" if unix else parts.path.strip("/")
    options |= _database(database, options)
    place = parts._replace(query="", path=parts.path if unix else "")
    return Redis.from_url(urlunsplit(place), **options)


def _by_sentinels(parts: SplitResult) -> Client:
    user, password, hosts = _netloc(parts)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("no service")
    tls = parts.scheme == SENTINEL[1]
    options, own = url_options.for_sentinels(parts.query, tls=tls)
    options |= _database(database, options)
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]  # redis-py left it without
        [_address(host, SENTINEL_PORT) for host in hosts], sentinel_kwargs=own
    )
    master: Client = sentinel.master_for(
        unquote(service),
        redis_class=_BySentinels,
        connection_pool_class=_ByHalf,
        **({"ssl": True} if tls else {}),
        **({"username": user, "password": password} | options),
    )
    return master


def _cluster(parts: SplitResult) -> Client:
    user, password, hosts = _netloc(parts)
    if parts.path.strip("/") not in {"", "0"}:
        raise url_options.OptionError("a cluster has one database, so no path may follow the hosts")
    tls = parts.scheme == CLUSTER[1]
    known = url_options.of_cluster(RedisCluster.__init__)
    options: dict[str, Any] = {"username": user, "password": password}
    options |= url_options.read(parts.query, known, tls=tls)
    return RedisCluster(
        startup_nodes=[ClusterNode(*_address(host, PORT)) for host in hosts], ssl=tls, **options
    )


def _database(path: str, options: dict[str, Any]) -> dict[str, int]:
    """The database that the path of a URL names, or its options."""
    if not path:
        return {"db": options.get("db", 0)}
    if not (path.isascii() and path.isdigit()):
        raise url_options.OptionError("the path must be the number of a database, such as /0")
    if options.get("db", int(path)) != int(path):
        raise url_options.OptionError("db is not the database in the path")
    return {"db": int(path)}


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
