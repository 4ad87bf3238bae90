"""What makes `Durability` weaker on a server is said once, with the first lease."""

from collections.abc import Callable, Iterator

import pytest

from durability.conftest import MakeElector
from durability.scene import House, lasting
from incumbent import LeaderElector
from incumbent.events import DurabilityWeakened, Hook, TermStarted
from incumbent.observability.logging import LoggingHook
from kit.fixtures import MakeClient
from promises.scene import Journal, nothing

SOUND = {"appendonly": "yes", "min-replicas-to-write": "1", "min-replicas-max-lag": "10"}
SHAKY = {"appendonly": "no", "min-replicas-to-write": "0", "maxmemory-policy": "allkeys-lru"}
USUAL = {"appendonly": "no", "min-replicas-to-write": "0", "maxmemory-policy": "noeviction"}


@pytest.fixture
def configure(house: House) -> Iterator[Callable[[dict[str, str]], None]]:
    """Sets up the primary; as usual again after the test."""

    def configure(settings: dict[str, str]) -> None:
        for name, value in settings.items():
            house.primary.cli("CONFIG", "SET", name, value)

    yield configure
    configure(USUAL)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_what_is_weak_is_said_once(
    house: House,
    configure: Callable[[dict[str, str]], None],
    make_client: MakeClient,
    caplog: pytest.LogCaptureFixture,
    protocol: int,
) -> None:
    """Replicas, eviction, persistence: what was found and what it means, at the first lease."""
    configure(SHAKY)
    journal = Journal()
    hooks: list[Hook] = [journal, LoggingHook()]
    client = make_client(house.primary, protocol=protocol)
    async with LeaderElector(client, lasting(), hooks=hooks, leader_id="me") as elector:
        for name in ("one", "two"):
            assert await elector.run_if_leader(name, nothing) == "done"
            assert await elector.for_tenant("acme").run_if_leader(name, nothing) == "done"
    (event,) = journal.of(DurabilityWeakened)
    assert (event.election, event.leader_id) == ("one", "me")
    replicas, eviction, persistence = event.findings
    assert replicas.startswith("min-replicas: min-replicas-to-write 0, min-replicas-max-lag 10 s")
    assert eviction.startswith("eviction: allkeys-lru, no limit: a full server throws leases away")
    assert persistence.startswith("persistence: no append-only file: a restart forgets leases")
    assert journal.story()[:2] == ["TermStarted", "DurabilityWeakened"]
    (record,) = [each for each in caplog.records if "durability weakened" in each.message]
    assert record.levelname == "WARNING"


async def test_nothing_is_said_of_a_sound_server(
    house: House,
    configure: Callable[[dict[str, str]], None],
    make_elector: MakeElector,
    journal: Journal,
) -> None:
    """All is as it should be."""
    configure(SOUND)
    assert await make_elector(house.primary).run_if_leader("one", nothing) == "done"
    assert len(journal.of(TermStarted)) == 1
    assert not journal.of(DurabilityWeakened)


@pytest.mark.parametrize("forbidden", [("-info", "-config"), ("-config",)], ids=["both", "config"])
async def test_who_may_not_look_is_elected_all_the_same(
    house: House,
    configure: Callable[[dict[str, str]], None],
    make_client: MakeClient,
    journal: Journal,
    forbidden: tuple[str, ...],
) -> None:
    """Of what is forbidden to look at nothing is said; the rest is."""
    configure(SHAKY)
    allowed = ("+@all", *forbidden, "~*", "&*", "on", ">pass")
    house.primary.cli("ACL", "SETUSER", "limited", *allowed)
    client = make_client(house.primary, username="limited", password="pass")
    async with LeaderElector(client, lasting(), hooks=[journal]) as elector:
        assert await elector.run_if_leader("one", nothing) == "done"
    house.primary.cli("ACL", "DELUSER", "limited")
    said = [
        finding.partition(":")[0]
        for each in journal.of(DurabilityWeakened)
        for finding in each.findings
    ]
    assert said == ([] if "-info" in forbidden else ["eviction", "persistence"])


async def test_nobody_is_asked_about_a_server_that_need_not_be_durable(
    house: House, make_elector: MakeElector, journal: Journal
) -> None:
    """Without `durability` there is no INFO, no CONFIG and no WAIT."""
    house.primary.cli("CONFIG", "RESETSTAT")
    assert await make_elector(house.primary, lasting(None)).run_if_leader("one", nothing) == "done"
    asked = set(house.primary.admin.info("commandstats"))
    assert not asked & {"cmdstat_wait", "cmdstat_config|get"}
    assert not journal.of(DurabilityWeakened)
