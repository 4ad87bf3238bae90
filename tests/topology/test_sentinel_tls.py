"""Sentinels that speak TLS, by a URL: their certificate is checked against the given authority."""

import asyncio
from typing import Any

import pytest
from redis import exceptions as redis_errors

from incumbent import Elected, LeaderElector, LeaderOptions, blocking
from incumbent.stores.redis.urls import client_of
from kit.fixtures import MakeProxy
from kit.proxy import Proxy
from kit.sentinels import SERVICE
from kit.tls import Authority
from promises.scene import nothing
from topology.scene import StartWatched

OPTIONS = LeaderOptions(request_timeout=5.0, lease_time=30.0)


@pytest.fixture
async def proxy(start_watched: StartWatched, make_proxy: MakeProxy, authority: Authority) -> Proxy:
    """A Sentinel behind TLS; the servers that it watches speak plain."""
    return await make_proxy(start_watched().sentinel, tls=authority)


def url_of(proxy: Proxy, options: str) -> str:
    """A URL by which the Sentinel is asked by TLS."""
    return f"redis+sentinel://127.0.0.1:{proxy.port}/{SERVICE}?sentinel_ssl=true{options}"


def trusting(authority: Authority) -> str:
    """The option that names it."""
    return f"&sentinel_ssl_ca_certs={authority.ca_file}"


async def attempt(url: str) -> object:
    """By asyncio, and what it was made of is closed."""
    client: Any = client_of(url)
    try:
        async with LeaderElector(client, OPTIONS) as elector:
            return await elector.attempt("job", nothing)
    finally:
        await client.aclose()
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()


async def attempt_in_a_thread(url: str) -> object:
    """By its twin for threads."""

    def attempted() -> object:
        with blocking.LeaderElector(url, OPTIONS) as elector:
            return elector.attempt("job", str)

    return await asyncio.to_thread(attempted)


WAYS = {"asyncio": attempt, "threads": attempt_in_a_thread}


@pytest.mark.parametrize("way", WAYS)
async def test_by_the_right_authority_it_is_elected(
    proxy: Proxy, authority: Authority, way: str
) -> None:
    """The Sentinel was asked, by TLS, and named the server."""
    assert isinstance(await WAYS[way](url_of(proxy, trusting(authority))), Elected)
    assert proxy.commands["SENTINEL"] > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("named", [True, False], ids=["another one", "those of this machine"])
async def test_by_another_authority_it_is_not_even_asked(
    proxy: Proxy, way: str, *, named: bool
) -> None:
    """Whoever answers there may be anybody; the error says why."""
    with Authority() as other:
        url = url_of(proxy, trusting(other) if named else "")
        with pytest.raises(redis_errors.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await WAYS[way](url)
    assert not proxy.commands


async def test_without_a_check_it_is_elected_as_well(proxy: Proxy) -> None:
    """`ssl_cert_reqs=none` is the user's own wish."""
    unchecked = "&sentinel_ssl_cert_reqs=none&sentinel_ssl_check_hostname=false"
    assert isinstance(await attempt(url_of(proxy, unchecked)), Elected)
