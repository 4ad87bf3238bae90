"""To log in takes long, or is refused for a while: leases and campaigns outlast it.

On one server, on whom Sentinels name, and on a cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import AuthenticationError

from incumbent import LeaderElector, LeaderOptions
from incumbent.events import AttemptDelayed, TermLost, TermRenewed, TermStarted
from incumbent.stores.redis import logins
from kit.cluster import Cluster
from kit.fixtures import StartServer
from kit.sentinels import SERVICE
from kit.vault import Vault
from kit.waiting import wait_until
from promises.scene import Journal, Work, at_most, nothing
from topology.scene import StartWatched, manager_of

LEASE = 6.0
OPTIONS = LeaderOptions(lease_time=LEASE, request_timeout=5)


class Place:
    """Where elections are held, by clients that log in as the vault says."""

    def __init__(self, vault: Vault, make: Callable[[Vault], Any]) -> None:
        self.vault = vault
        self._make = make
        self._made: list[Any] = []

    def elector(self, journal: Journal, **changes: Any) -> LeaderElector:
        """One with a client of its own."""
        client = self._make(self.vault)
        elector = LeaderElector(client, OPTIONS.changed(**changes), hooks=[journal])
        self._made += [elector, client]
        return elector

    async def aclose(self) -> None:
        """Close all that was made."""
        for each in self._made:
            await each.aclose()


@pytest.fixture(params=["server", "sentinel", "cluster"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each kind."""
    managers: list[Any] = []
    if request.param == "server":
        start: StartServer = request.getfixturevalue("start_server")
        server = start()
        vault = Vault(server)
        made = Place(
            vault, lambda its: Redis(host=server.host, port=server.port, credential_provider=its)
        )
    elif request.param == "sentinel":
        watch: StartWatched = request.getfixturevalue("start_watched")
        watched = watch()
        vault = Vault(*watched.servers)

        def by_sentinel(its: Vault) -> Any:
            managers.append(manager_of(watched.sentinel))
            return managers[-1].master_for(SERVICE, credential_provider=its)

        made = Place(vault, by_sentinel)
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        vault = Vault(*cluster.nodes)
        node = cluster.nodes[0]
        made = Place(
            vault, lambda its: RedisCluster(host=node.host, port=node.port, credential_provider=its)
        )
    yield made
    await made.aclose()
    for manager in managers:
        for sentinel in manager.sentinels:
            await sentinel.aclose()
    vault.forget()


async def test_a_log_in_as_slow_as_a_renewal_may_be(place: Place) -> None:
    """It goes on over several attempts to renew, and is not cut and begun again with each."""
    journal, work = Journal(), Work()
    leading = asyncio.create_task(place.elector(journal).attempt("one", work))
    await work.began.wait()
    place.vault.slow = LEASE / 6
    place.vault.cut()
    await journal.has(TermRenewed, len(journal.of(TermRenewed)) + 2)
    assert work.lease.held
    work.finish.set()
    await leading
    assert not journal.of(TermLost)


async def test_a_slow_log_in_elects(place: Place) -> None:
    """The first one as well, with less time for a request than it takes."""
    place.vault.slow = 1.0
    elector = place.elector(Journal(), request_timeout=0.6, wait_time=20)
    assert await elector.run_if_leader("one", nothing) == "done"


async def test_a_password_that_lags(place: Place) -> None:
    """Who leads may lose its lease by it; nobody's campaign ends, and one leads again."""
    journals, works = [Journal() for _ in range(3)], [Work() for _ in range(3)]
    campaigns = []
    for journal, work in zip(journals, works, strict=True):
        elector = place.elector(journal, lease_time=1.5)
        campaigns.append(asyncio.create_task(elector.campaign("one", work)))
    await wait_until(lambda: any(work.running for work in works))

    async def all_have_logged_in() -> bool:
        return (await elector.state("one")).waiting == 2

    await wait_until(all_have_logged_in)
    place.vault.rotate("second")
    await wait_until(lambda: any(each.of(AttemptDelayed) for each in journals))
    errors = [event.error for each in journals for event in each.of(AttemptDelayed)]
    assert all(isinstance(each, AuthenticationError) for each in errors)
    assert "it was accepted before" in str(errors[0])
    assert not any(each.done() for each in campaigns)
    begun = sum(len(each.of(TermStarted)) for each in journals)
    place.vault.learn()
    await wait_until(lambda: sum(len(each.of(TermStarted)) for each in journals) > begun)
    assert not any(each.done() for each in campaigns)
    for each in campaigns:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each


async def test_a_password_that_stays_wrong(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for without end: what was accepted once may be refused for so long."""
    elector = place.elector(Journal(), request_timeout=1.0)
    assert await elector.run_if_leader("one", nothing) == "done"
    place.vault.rotate("second")
    with at_most(10), pytest.raises(AuthenticationError, match="accepted before"):
        await elector.run_if_leader("one", nothing)
    monkeypatch.setattr(logins, "PATIENCE", 0.0)
    with at_most(10), pytest.raises(AuthenticationError) as raised:
        await elector.campaign("one", nothing)
    assert "accepted before" not in str(raised.value)


async def test_a_first_password_that_is_wrong(place: Place) -> None:
    """Fails at once, as ever."""
    place.vault.rotate("second")
    with at_most(5), pytest.raises(AuthenticationError) as raised:
        await place.elector(Journal()).campaign("one", nothing)
    assert "accepted before" not in str(raised.value)
