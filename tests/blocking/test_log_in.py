"""With threads: a slow or a lagging password, from a provider that blocks."""

import threading
from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import AuthenticationError

from incumbent import Elected, LeaderOptions
from incumbent.blocking import LeaderElector, current_lease
from incumbent.events import AttemptDelayed, Event, OutageEnded, TermLost
from kit.fixtures import StartServer
from kit.servers import Server
from kit.vault import BlockingVault
from kit.waiting import wait_until_blocking

LEASE = 18.0
ANOTHER = 2.5
"""Seconds of a lease that is lost while a log-in of a sixth of the first one holds up the loop."""
OPTIONS = LeaderOptions(lease_time=LEASE, request_timeout=5)


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """One of the test's own."""
    return start_server()


@pytest.fixture
def vault(server: Server) -> Iterator[BlockingVault]:
    """Who knows the password."""
    made = BlockingVault(server)
    yield made
    made.forget()


class Heard(list[Event]):
    """A hook that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        """Take note."""
        self.append(event)

    def await_(self, kind: type[Event], count: int = 1) -> None:
        """Wait for so many events of this kind."""
        wait_until_blocking(
            lambda: sum(isinstance(each, kind) for each in self) >= count, within=120
        )


def test_a_slow_log_in_holds_up_nobody(server: Server, vault: BlockingVault) -> None:
    """It goes on over several attempts; and the event loop of all electors goes on, too."""
    client = redis.Redis(host=server.host, port=server.port, credential_provider=vault)
    heard, other_heard = Heard(), Heard()
    with (
        LeaderElector(client, OPTIONS, hooks=[heard]) as elector,
        LeaderElector(
            server.url, OPTIONS.changed(lease_time=ANOTHER), hooks=[other_heard]
        ) as other,
    ):

        def lead() -> str:
            lease = current_lease()
            assert lease is not None
            vault.slow = LEASE / 6
            vault.cut()
            heard.await_(OutageEnded)
            return "held" if lease.held else "lost"

        with other.lead("two") as its:
            outcome = elector.attempt("one", lead)
            assert its.held
    assert isinstance(outcome, Elected)
    assert outcome.value == "held"
    assert not [each for each in (*heard, *other_heard) if isinstance(each, TermLost)]
    client.close()


def test_a_password_that_lags(server: Server, vault: BlockingVault) -> None:
    """The campaign goes on when it is known."""
    client = redis.Redis(host=server.host, port=server.port, credential_provider=vault)
    heard, runs = Heard(), list[str]()
    over = threading.Event()

    def serve() -> str:
        lease = current_lease()
        assert lease is not None
        runs.append("run")
        if len(runs) == 1:
            vault.rotate("second")
            assert lease.lost.wait(60)
        return "done"

    with LeaderElector(client, OPTIONS.changed(lease_time=1.0), hooks=[heard]) as elector:
        done: list[str] = []

        def campaign() -> None:
            done.append(elector.campaign("one", serve))
            over.set()

        thread = threading.Thread(target=campaign)
        thread.start()
        heard.await_(AttemptDelayed)
        error = next(each.error for each in heard if isinstance(each, AttemptDelayed))
        assert isinstance(error, AuthenticationError)
        assert "it was accepted before" in str(error)
        vault.learn()
        assert over.wait(60)
        thread.join()
    assert (done, len(runs)) == (["done"], 2)
    client.close()
