"""The options in URLs: each is honoured by each kind of URL that takes it, or refused in words."""

from ssl import TLSVersion
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.connection import SSLConnection

from incumbent.stores.redis.url_options import of_cluster, of_server
from incumbent.stores.redis.urls import client_of

GOOD: dict[str, tuple[str, Any]] = {
    "client_name": ("me", "me"),
    "db": ("3", 3),
    "decode_responses": ("true", True),
    "encoding": ("latin-1", "latin-1"),
    "encoding_errors": ("ignore", "ignore"),
    "health_check_interval": ("7", 7),
    "max_connections": ("9", 9),
    "password": ("p%26w", "p&w"),
    "protocol": ("2", 2),
    "retry_on_timeout": ("no", False),
    "socket_connect_timeout": ("1.5", 1.5),
    "socket_keepalive": ("yes", True),
    "socket_timeout": ("2", 2.0),
    "username": ("u", "u"),
    "ssl_ca_certs": ("/ca.pem", "/ca.pem"),
    "ssl_ca_data": ("PEM", "PEM"),
    "ssl_ca_path": ("/cas", "/cas"),
    "ssl_cert_reqs": ("none", "none"),
    "ssl_certfile": ("/me.pem", "/me.pem"),
    "ssl_check_hostname": ("false", False),
    "ssl_ciphers": ("DEFAULT", "DEFAULT"),
    "ssl_keyfile": ("/me.key", "/me.key"),
    "ssl_min_version": ("1.3", TLSVersion.TLSv1_3),
    "ssl_password": ("kpw", "kpw"),
}
BAD = {
    "db": ["-1", "x", "", "1.5", "٣"],
    "decode_responses": ["perhaps", ""],
    "health_check_interval": ["-1", "1.5"],
    "max_connections": ["0", "many"],
    "password": [""],
    "protocol": ["4", "x"],
    "socket_timeout": ["nan", "inf", "0", "-1", "nonsense", ""],
    "ssl_cert_reqs": ["maybe"],
    "ssl_min_version": ["1.0"],
}
ONLY_SERVER = {"db", "decode_responses", "encoding", "encoding_errors", "health_check_interval"} | {
    "max_connections", "retry_on_timeout",
}  # fmt: skip
KNOWN = of_server()
KNOWN_TO_CLUSTERS = of_cluster(RedisCluster.__init__)
URLS = {
    "redis": "redis://h:1/{}",
    "rediss": "rediss://h:1/{}",
    "redis+sentinel": "redis+sentinel://h:1/main{}",
    "rediss+sentinel": "rediss+sentinel://h:1/main{}",
    "redis+cluster": "redis+cluster://h:1{}",
    "rediss+cluster": "rediss+cluster://h:1{}",
}


def made(url: str) -> dict[str, Any]:
    """With what connections to a server are made that `url` names."""
    client = client_of(url)
    if isinstance(client, RedisCluster):
        options: dict[str, Any] = client.get_connection_kwargs()
        return {"max_connections": next(iter(_nodes(client))).max_connections, **options}
    pool: Any = client.connection_pool
    return {"max_connections": pool.max_connections, **pool.connection_kwargs}


def _nodes(client: RedisCluster) -> Any:
    return client.nodes_manager.startup_nodes.values()


def made_for_sentinels(url: str) -> dict[str, Any]:
    """With what connections to the Sentinels are made."""
    client = client_of(url)
    assert isinstance(client, Redis)
    pool: Any = client.connection_pool
    (sentinel,) = pool.sentinel_manager.sentinels
    options: dict[str, Any] = sentinel.connection_pool.connection_kwargs
    return options


def takes(scheme: str, name: str) -> bool:
    """Whether the option means something there."""
    if name.startswith("ssl_") and not scheme.startswith("rediss"):
        return False
    return name in (KNOWN_TO_CLUSTERS if scheme.endswith("cluster") else KNOWN)


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("scheme", sorted(URLS))
def test_each_option_is_honoured_or_refused(scheme: str, name: str) -> None:
    """With its value as redis-py takes it; a release that does not know it cannot be given it."""
    text, value = GOOD[name]
    url = URLS[scheme].format(f"?{name}={text}")
    if takes(scheme, name):
        assert made(url)[name] == value
    else:
        with pytest.raises(ValueError, match=r"mistake in it: (an option|ssl_\w+ needs TLS)"):
            _ = client_of(url)


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("scheme", ["redis+sentinel", "rediss+sentinel"])
def test_sentinels_have_options_of_their_own(scheme: str, name: str) -> None:
    """Each with their own prefix, for their connections alone."""
    text, value = GOOD[name]
    url = URLS[scheme].format(f"?sentinel_{name}={text}")
    if takes(scheme, name) and name not in ONLY_SERVER:
        assert made_for_sentinels(url)[name] == value
        assert made(url).get(name) != value or name == "socket_keepalive"
    else:
        with pytest.raises(ValueError, match="mistake in it: "):
            _ = client_of(url)


@pytest.mark.parametrize(("name", "value"), [(name, each) for name in BAD for each in BAD[name]])
@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel", "rediss+cluster"])
def test_a_value_that_means_nothing_is_refused(scheme: str, name: str, value: str) -> None:
    """By the name of the option, and without the value."""
    with pytest.raises(ValueError, match=f"mistake in it: ({name}|an option in it)") as raised:
        _ = client_of(URLS[scheme].format(f"?{name}={value}"))
    assert not value or value not in str(raised.value).partition(": ")[2] or len(value) < 3


@pytest.mark.parametrize("scheme", sorted(URLS))
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("pasword=s3cret", r"did you mean password\?"),
        ("s3cret@h=1", "an option in it is not known; there are "),
        ("client_name=a&client_name=b", "client_name is given twice"),
        ("ssl=true", "an option in it is not known"),
        ("s3cret", "mistake"),
    ],
)
def test_what_is_no_option_is_refused(scheme: str, query: str, said: str) -> None:
    """In words that show nothing of what was written: it may be a part of a password."""
    with pytest.raises(ValueError, match=said) as raised:
        _ = client_of(URLS[scheme].format(f"?{query}"))
    assert "s3cret" not in str(raised.value)


def test_a_misspelt_option_of_sentinels_is_refused() -> None:
    """It is told which one is meant."""
    with pytest.raises(ValueError, match=r"did you mean sentinel_password\?"):
        _ = client_of("redis+sentinel://h/main?sentinel_pasword=x")


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel"])
def test_the_database_is_that_of_the_path_or_of_the_query(scheme: str) -> None:
    """Both may say it, if they say the same."""
    start = f"{scheme}://h/" + "main/" * (scheme == "redis+sentinel")
    for url in (f"{start}3", f"{start}?db=3", f"{start}3?db=3"):
        assert made(url)["db"] == 3
    assert made(start)["db"] == 0
    with pytest.raises(ValueError, match="db is not the database in the path"):
        _ = client_of(f"{start}3?db=4")


def test_by_which_tls() -> None:
    """That of the scheme, for Sentinels as well, unless they have their own word for it."""

    def kinds(url: str) -> tuple[bool, bool]:
        client = client_of(url)
        assert isinstance(client, Redis)
        pool: Any = client.connection_pool
        sentinel = pool.sentinel_manager.sentinels[0]
        return (
            issubclass(pool.connection_class, SSLConnection),
            issubclass(sentinel.connection_pool.connection_class, SSLConnection),
        )

    assert kinds("redis+sentinel://h/main") == (False, False)
    assert kinds("rediss+sentinel://h/main") == (True, True)
    assert kinds("redis+sentinel://h/main?sentinel_ssl=true") == (False, True)
    assert kinds("rediss+sentinel://h/main?sentinel_ssl=false") == (True, False)


def test_sentinels_are_reached_as_the_server_is_unless_it_is_said_otherwise() -> None:
    """Time-outs and authorities; never the log-in."""
    url = "rediss+sentinel://u:pw@h/main?socket_timeout=2&ssl_ca_certs=/ca&client_name=me"
    shared = made_for_sentinels(url)
    assert (shared["socket_timeout"], shared["ssl_ca_certs"]) == (2.0, "/ca")
    assert (shared["username"], shared["password"]) == (None, None)
    assert shared["client_name"] is None
    own = made_for_sentinels(f"{url}&sentinel_ssl_ca_certs=/other&sentinel_socket_timeout=3")
    assert (own["socket_timeout"], own["ssl_ca_certs"]) == (3.0, "/other")
    plain = made_for_sentinels(f"{url}&sentinel_ssl=false")
    assert "ssl_ca_certs" not in plain


def test_a_unix_socket_takes_what_it_can() -> None:
    """Nothing about hosts, nor TLS."""
    options = made("unix://u:pw@/run/s?db=2&socket_timeout=3")
    assert (options["path"], options["db"], options["socket_timeout"]) == ("/run/s", 2, 3.0)
    assert (options["username"], options["password"]) == ("u", "pw")
    for query in ("socket_keepalive=true", "ssl_ca_certs=/ca", "d=1"):
        with pytest.raises(ValueError, match="mistake in it: an option"):
            _ = client_of(f"unix:///run/s?{query}")


def test_a_hash_in_a_password_must_be_written_as_such() -> None:
    """What comes after it would be no part of the URL."""
    with pytest.raises(ValueError, match="mistake"):
        _ = client_of("redis://h/0#s3cret")
    assert made("redis://:a%23b@h")["password"] == "a#b"


def test_what_all_releases_of_redis_py_know() -> None:
    """By far the most; of what others know we are told by a refusal."""
    assert set(GOOD) - set(KNOWN) <= {"ssl_ca_path", "ssl_password"}
    assert "db" not in KNOWN_TO_CLUSTERS
    assert {"socket_timeout", "protocol", "ssl_ca_certs"} <= set(KNOWN_TO_CLUSTERS)
