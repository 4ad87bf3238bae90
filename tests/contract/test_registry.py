"""The contract of `stores.registry`: what every registry promises, in memory and on servers."""

import asyncio
import time
from datetime import UTC, timedelta
from typing import Any

import pytest

from contract.bench import BUDGET, claim
from contract.registrar import TTL, Registrar, stand
from incumbent.stores.memory import MemoryStore
from incumbent.stores.registry import Enrolled, Enrolment
from incumbent.strategy import Metadata
from kit.waiting import wait_until

NEAR = 0.01
"""Seconds by which the two clocks of the one in memory may be read apart."""

# -- enrolling -------------------------------------------------------------------------------


async def test_who_enrols_stands(registrar: Registrar) -> None:
    """With its metadata, its strategy, and the store's time as its registration."""
    before = (await registrar.look("job")).now
    enrolled = await registrar.enrol(stand("job", "a", load=0.25, version="1.2", spare=True))
    assert enrolled.fresh
    snapshot = await registrar.look("job")
    (candidate,) = snapshot.candidates
    assert candidate.node_id == "a"
    assert candidate.registered_at == enrolled.registered_at
    assert candidate.registered_at.tzinfo is UTC
    assert before <= candidate.registered_at <= snapshot.now
    assert candidate.metadata == {"load": 0.25, "version": "1.2", "spare": True}
    assert candidate.strategy == "5a5a5a"
    assert (candidate.successes, candidate.failures) == (0, 0)
    assert candidate.last_started_at is candidate.last_succeeded_at is candidate.last_failed_at
    assert candidate.last_started_at is None
    assert (snapshot.election, snapshot.corrupt) == ("job", ())


async def test_w35_enrolling_again_keeps_what_the_server_counts(registrar: Registrar) -> None:
    """A heartbeat brings new metadata and another while; registration and counts stay."""
    first = await registrar.enrol(stand("job", load=1))
    for deed in ("started", "succeeded", "failed"):
        assert await registrar.registry.record("job", "a", deed, BUDGET)
    before = await registrar.candidate("job")
    again = await registrar.enrol(stand("job", load=2))
    after = await registrar.candidate("job")
    assert again.registered_at == first.registered_at
    assert not again.fresh
    assert after.metadata == {"load": 2}
    assert (after.successes, after.failures) == (1, 1)
    assert after.registered_at == before.registered_at == first.registered_at
    assert after.last_started_at == before.last_started_at
    assert after.last_succeeded_at == before.last_succeeded_at
    assert after.last_failed_at == before.last_failed_at


async def test_a_later_process_of_a_node_goes_on_as_it(registrar: Registrar) -> None:
    """It has the counts of the one before, which can no longer withdraw it."""
    old = stand("job")
    new = Enrolment(election="job", node_id="a", ttl=TTL)
    first = await registrar.enrol(old)
    await registrar.registry.record("job", "a", "succeeded", BUDGET)
    again = await registrar.enrol(new)
    assert again == Enrolled(first.registered_at, fresh=False, shared=False)
    assert await registrar.registry.withdraw(old, BUDGET) == "taken"
    assert (await registrar.candidate("job")).successes == 1
    assert await registrar.registry.withdraw(new, BUDGET) == "withdrawn"
    assert await registrar.nodes("job") == []


async def test_candidates_come_by_registration(registrar: Registrar) -> None:
    """Whatever their names."""
    for node in "cab":
        await registrar.enrol(stand("job", node))
        await asyncio.sleep(0.001)
    await registrar.enrol(stand("job", "c"))
    assert await registrar.nodes("job") == ["c", "a", "b"]


async def test_w33_elections_do_not_touch_each_other(registrar: Registrar) -> None:
    """Names that begin alike, or could be cut in two ways, are different elections and nodes."""
    for election, node in (("job", "a"), ("job:eu", "a"), ("a", "b:c"), ("a:b", "c")):
        await registrar.enrol(stand(election, node))
    assert await registrar.nodes("job") == ["a"]
    assert await registrar.nodes("job:eu") == ["a"]
    assert await registrar.nodes("a") == ["b:c"]
    assert await registrar.nodes("a:b") == ["c"]
    assert await registrar.registry.withdraw(stand("job"), BUDGET) == "withdrawn"
    assert await registrar.registry.record("job:eu", "a", "failed", BUDGET)
    assert await registrar.nodes("job") == []
    assert (await registrar.candidate("job:eu")).failures == 1


@pytest.mark.parametrize(
    "value",
    ['a"b\\c', "%7B:,|", "a]},{[b", "line\nbreak\x00", "ünï 🎉", "", -0.1, 1e300, 2**53, 3, True],
)
async def test_metadata_comes_back_as_it_was(registrar: Registrar, value: Any) -> None:
    """Whatever would end a text, a field or a record: all of it is data."""
    await registrar.enrol(stand("job", **{"key": value, '"},': 1}))
    await registrar.registry.record("job", "a", "started", BUDGET)
    candidate = await registrar.candidate("job")
    assert candidate.metadata == {"key": value, '"},': 1}
    assert type(candidate.metadata["key"]) is type(value)


@pytest.mark.parametrize("node", ["a b", 'quo"ted', "0:[1,2]", "knoten-ä-🎉", "x" * 255])
async def test_a_node_id_comes_back_as_it_was(registrar: Registrar, node: str) -> None:
    """Names are data as well."""
    await registrar.enrol(stand("job", node))
    assert await registrar.nodes("job") == [node]
    assert await registrar.registry.record("job", node, "succeeded", BUDGET)
    assert await registrar.registry.withdraw(stand("job", node), BUDGET) == "withdrawn"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ttl": 0}, "ttl must be from 0.25 s"),
        ({"ttl": float("inf")}, "ttl must be finite"),
        ({"ttl": 10**8}, "ttl must be from 0.25 s to 2592000 s"),
        ({"ttl": "30"}, "ttl must be seconds"),
        ({"node_id": ""}, "node_id must not be blank"),
        ({"node_id": "a\nb"}, "node_id must have no control characters"),
        ({"token": 'x"'}, "hexadecimal"),
        ({"strategy": 'x"'}, "hexadecimal"),
    ],
    ids=["none", "for ever", "too long", "text", "blank", "control", "token", "strategy"],
)
def test_w32_an_enrolment_is_checked(changes: dict[str, Any], said: str) -> None:
    """There is none without an end, and none that would break a record."""
    with pytest.raises((TypeError, ValueError), match=said):
        Enrolment(**{"election": "job", "node_id": "a", "ttl": 30, **changes})


def test_an_enrolment_takes_a_timedelta_and_hides_its_token() -> None:
    """As all durations; the token is chosen once for a stand."""
    one = Enrolment(election="job", node_id="a", ttl=timedelta(minutes=1))  # type: ignore[arg-type] # kept as seconds
    assert one.ttl == 60
    assert len(one.token) == 32
    assert one.token not in repr(one)
    assert one.token != Enrolment(election="job", node_id="a", ttl=1).token
    assert one.metadata == Metadata()


# -- expiry ----------------------------------------------------------------------------------


async def test_w32_who_does_not_enrol_again_stands_no_longer(registrar: Registrar) -> None:
    """Not before its time, and soon after it, by the store's clock."""
    enrolled = await registrar.enrol(stand("job", "short", ttl=0.25))
    await registrar.enrol(stand("job", "long"))
    assert sorted(await registrar.nodes("job")) == ["long", "short"]

    async def gone() -> bool:
        snapshot = await registrar.look("job")
        lived = (snapshot.now - enrolled.registered_at).total_seconds()
        if snapshot.candidate("short"):
            assert lived < 0.25 + NEAR
            return False
        assert lived > 0.25 - NEAR
        return True

    await wait_until(gone)
    assert await registrar.nodes("job") == ["long"]


async def test_what_has_expired_does_not_come_back(registrar: Registrar) -> None:
    """Neither a result nor a look makes a candidate; withdrawing finds nothing."""
    await registrar.enrol(stand("job"))
    registrar.expire("job")
    assert await registrar.nodes("job") == []
    for deed in ("started", "succeeded", "failed"):
        assert not await registrar.registry.record("job", "a", deed, BUDGET)
    assert await registrar.nodes("job") == []
    assert await registrar.registry.withdraw(stand("job"), BUDGET) == "gone"


async def test_who_enrols_after_its_time_begins_anew(registrar: Registrar) -> None:
    """A new registration, no counts, and it is told so."""
    first = await registrar.enrol(stand("job"))
    await registrar.registry.record("job", "a", "succeeded", BUDGET)
    registrar.expire("job")
    again = await registrar.enrol(stand("job"))
    assert again.fresh
    assert again.registered_at >= first.registered_at
    assert (await registrar.candidate("job")).successes == 0


async def test_a_result_does_not_let_a_candidate_stand_longer(registrar: Registrar) -> None:
    """Who only reports, and sends no heartbeat, is gone in its time."""
    await registrar.enrol(stand("job", ttl=0.4))
    reported = 0
    while await registrar.registry.record("job", "a", "succeeded", BUDGET):
        reported += 1
        await asyncio.sleep(0.05)
    assert reported >= 1
    assert await registrar.nodes("job") == []


# -- two processes with one node id ----------------------------------------------------------


def process_of(number: int, ttl: float = TTL, *, contending: bool = False) -> Enrolment:
    """One of several processes that stand as node ``a``."""
    return Enrolment(
        election="job",
        node_id="a",
        ttl=ttl,
        metadata=Metadata({"is": number}),
        token=f"{number:02x}",
        contending=contending,
    )


async def test_a_shared_node_id_is_told_to_both(registrar: Registrar) -> None:
    """Each learns it by its first heartbeat after one of the other's; a restart is no such case."""
    first, second = process_of(1), process_of(2)
    assert not (await registrar.enrol(first)).shared
    for _ in range(3):
        assert not (await registrar.enrol(second)).shared, "the first may be dead"
    for _ in range(2):
        assert (await registrar.enrol(first)).shared
        assert (await registrar.enrol(second)).shared
    assert not (await registrar.enrol(second)).shared


@pytest.mark.parametrize("last", [1, 2])
async def test_who_leaves_does_not_take_the_other_out(registrar: Registrar, last: int) -> None:
    """Whoever was enrolled last, the record stays, with all that it counts, until both are gone."""
    first, second = process_of(1), process_of(2)
    registered = (await registrar.enrol(first)).registered_at
    await registrar.enrol(second)
    await registrar.enrol(process_of(last))
    await registrar.registry.record("job", "a", "succeeded", BUDGET)
    assert await registrar.registry.withdraw(first, BUDGET) == "taken"
    found = await registrar.candidate("job")
    assert (found.registered_at, found.successes) == (registered, 1)
    again = await registrar.enrol(second)
    assert again == Enrolled(registered, fresh=False, shared=False)
    assert await registrar.registry.withdraw(second, BUDGET) == "withdrawn"
    assert await registrar.nodes("job") == []


async def test_of_three_the_last_to_leave_ends_the_record(registrar: Registrar) -> None:
    """In whatever order they leave."""
    for number in (1, 2, 3, 1):
        await registrar.enrol(process_of(number))
    assert await registrar.registry.withdraw(process_of(2), BUDGET) == "taken"
    assert await registrar.registry.withdraw(process_of(1), BUDGET) == "taken"
    assert await registrar.nodes("job") == ["a"]
    assert await registrar.registry.withdraw(process_of(3), BUDGET) == "withdrawn"
    assert await registrar.nodes("job") == []


async def test_a_node_that_crashes_all_the_time_leaves_no_long_record(registrar: Registrar) -> None:
    """Eight stands of one id are known beside the last, however many there were."""
    for number in range(30):
        await registrar.enrol(process_of(number))
    answers = [
        await registrar.registry.withdraw(process_of(number), BUDGET)
        for number in reversed(range(21, 30))
    ]
    assert answers == ["taken"] * 8 + ["withdrawn"]
    if registrar.server is not None:
        assert not registrar.on_server.cli("EXISTS", "incumbent:{job}:candidates")


async def test_the_record_of_a_dead_twin_ends_in_its_time(registrar: Registrar) -> None:
    """Who is left by the living one alone stands for what its own TTL allows."""
    await registrar.enrol(process_of(1, ttl=0.4))
    await registrar.enrol(process_of(2))
    await registrar.registry.withdraw(process_of(2), BUDGET)

    async def gone() -> bool:
        return await registrar.nodes("job") == []

    await wait_until(gone)
    assert (await registrar.enrol(process_of(3))).fresh


# -- who contends, and who fails early -------------------------------------------------------


async def test_a_heartbeat_says_whether_the_node_contends(registrar: Registrar) -> None:
    """As the last one said; a result changes nothing of it."""
    for contending in (False, True, False):
        await registrar.enrol(process_of(1, contending=contending))
        await registrar.registry.record("job", "a", "started", BUDGET)
        assert (await registrar.candidate("job")).contending is contending


async def test_early_failures_are_counted_in_a_row(registrar: Registrar) -> None:
    """Apart from other results, with the time of the last; heartbeats keep them."""
    await registrar.enrol(stand("job"))
    assert (await registrar.candidate("job")).last_early_failure_at is None
    for times in (1, 2, 3):
        assert await registrar.registry.record("job", "a", "faltered", BUDGET)
        await registrar.enrol(stand("job"))
        found = await registrar.candidate("job")
        assert (found.early_failures, found.failures) == (times, 0)
        assert found.last_early_failure_at is not None
        assert found.registered_at <= found.last_early_failure_at
    assert await registrar.registry.record("job", "a", "steadied", BUDGET)
    found = await registrar.candidate("job")
    assert (found.early_failures, found.last_early_failure_at) == (0, None)


async def test_a_restart_does_not_wipe_early_failures_out(registrar: Registrar) -> None:
    """Neither a withdrawal nor a TTL that runs out: all else of the node begins anew."""
    for _ in range(2):
        await registrar.enrol(process_of(1))
        await registrar.registry.record("job", "a", "faltered", BUDGET)
        await registrar.registry.record("job", "a", "failed", BUDGET)
        registrar.expire("job")
        newcomer = Enrolment(election="job", node_id="b", ttl=TTL)
        await registrar.enrol(newcomer)  # which sweeps
        assert await registrar.nodes("job") == ["b"]
        assert (await registrar.enrol(process_of(1))).fresh
        await registrar.registry.withdraw(newcomer, BUDGET)
    assert (await registrar.candidate("job")).early_failures == 2
    assert (await registrar.candidate("job")).failures == 0
    assert await registrar.registry.withdraw(process_of(1), BUDGET) == "withdrawn"
    assert await registrar.nodes("job") == []
    assert (await registrar.enrol(process_of(2))).fresh
    assert (await registrar.candidate("job")).early_failures == 2


async def test_times_do_not_jump_with_the_clock_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In memory the registry's own clock is never set; a server corrects what it has written."""
    store = MemoryStore()
    registrar, real = Registrar(store.registry, store), time.time
    await registrar.enrol(stand("job"))
    await registrar.registry.record("job", "a", "faltered", BUDGET)
    for ahead in (86_400.0, -86_400.0):
        monkeypatch.setattr(time, "time", lambda ahead=ahead: real() + ahead)
        candidate, now = await registrar.candidate("job"), (await registrar.look("job")).now
        assert candidate.last_early_failure_at is not None
        assert 0 <= (now - candidate.last_early_failure_at).total_seconds() < 60
        assert (await registrar.look("job")).now >= now


# -- withdrawing -----------------------------------------------------------------------------


async def test_who_withdraws_stands_no_longer(registrar: Registrar) -> None:
    """At once, once, and nobody else is meant."""
    await registrar.enrol(stand("job", "a"))
    await registrar.enrol(stand("job", "b"))
    assert await registrar.registry.withdraw(stand("job", "a"), BUDGET) == "withdrawn"
    assert await registrar.nodes("job") == ["b"]
    assert await registrar.registry.withdraw(stand("job", "a"), BUDGET) == "gone"
    assert await registrar.registry.withdraw(stand("job", "unknown"), BUDGET) == "gone"


async def test_p4_an_enrolment_that_arrives_after_its_withdrawal_is_none(
    registrar: Registrar,
) -> None:
    """A heartbeat that was on its way when the block was left makes no ghost."""
    await registrar.registry.withdraw(stand("job"), BUDGET)
    assert await registrar.registry.enrol(stand("job"), BUDGET) == "gone"
    assert await registrar.nodes("job") == []
    again = Enrolment(election="job", node_id="a", ttl=TTL)
    assert (await registrar.enrol(again)).fresh


# -- results ---------------------------------------------------------------------------------


async def test_w37_each_deed_has_its_own_time(registrar: Registrar) -> None:
    """A start is no end, and a failure no success."""
    await registrar.enrol(stand("job"))
    assert await registrar.registry.record("job", "a", "started", BUDGET)
    started = await registrar.candidate("job")
    assert started.last_started_at is not None
    assert started.last_succeeded_at is started.last_failed_at is None
    assert (started.successes, started.failures) == (0, 0)
    await registrar.registry.record("job", "a", "failed", BUDGET)
    failed = await registrar.candidate("job")
    assert failed.last_succeeded_at is None
    assert failed.last_failed_at is not None
    assert failed.last_failed_at >= started.last_started_at
    await registrar.registry.record("job", "a", "succeeded", BUDGET)
    snapshot = await registrar.look("job")
    (both,) = snapshot.candidates
    assert both.last_succeeded_at is not None
    assert failed.last_failed_at <= both.last_succeeded_at <= snapshot.now
    assert (both.successes, both.failures) == (1, 1)


async def test_w35_of_many_results_at_once_none_is_lost(registrar: Registrar) -> None:
    """Fifty, mixed with heartbeats: each is counted once."""
    await registrar.enrol(stand("job"))
    answers = await asyncio.gather(
        *(
            registrar.registry.record(
                "job", "a", "failed" if number % 5 == 0 else "succeeded", BUDGET
            )
            for number in range(50)
        ),
        *(registrar.enrol(stand("job", load=number)) for number in range(20)),
    )
    assert answers[:50] == [True] * 50
    candidate = await registrar.candidate("job")
    assert (candidate.successes, candidate.failures) == (40, 10)


async def test_a_result_of_nobody_counts_nothing(registrar: Registrar) -> None:
    """An unknown node, an unknown election: told, and nothing is made."""
    await registrar.enrol(stand("job", "a"))
    assert not await registrar.registry.record("job", "b", "succeeded", BUDGET)
    assert not await registrar.registry.record("none", "a", "succeeded", BUDGET)
    assert await registrar.nodes("job") == ["a"]
    assert await registrar.nodes("none") == []


# -- snapshots -------------------------------------------------------------------------------


async def test_w36_a_snapshot_has_one_time_which_is_the_stores(registrar: Registrar) -> None:
    """It goes forward, and is what every time in it compares with."""
    await registrar.enrol(stand("job"))
    await registrar.registry.record("job", "a", "started", BUDGET)
    one, two = await registrar.look("job"), await registrar.look("job")
    assert one.now <= two.now
    for snapshot in (one, two):
        (candidate,) = snapshot.candidates
        assert candidate.last_started_at is not None
        assert candidate.registered_at <= candidate.last_started_at <= snapshot.now


async def test_an_election_of_nobody_is_an_empty_snapshot(registrar: Registrar) -> None:
    """Not an error: there is just nobody to elect."""
    snapshot = await registrar.look("none")
    assert snapshot.candidates == ()
    assert snapshot.leader is None
    assert snapshot.seed == 0


async def test_a_snapshot_tells_who_leads(registrar: Registrar) -> None:
    """The same as `state` tells; the candidate of that name is the incumbent."""
    await registrar.enrol(stand("job", "a"))
    await registrar.enrol(stand("job", "b"))
    assert (await registrar.look("job")).incumbent is None
    grant = await registrar.elect("job", "b")
    snapshot = await registrar.look("job")
    (told,) = (await registrar.store.state("job", 1, BUDGET)).leaders
    assert snapshot.leader is not None
    assert (snapshot.leader.leader_id, snapshot.leader.fence) == ("b", grant.fence)
    assert snapshot.leader.since == told.since
    assert 0 < snapshot.leader.remaining <= 30.001
    assert snapshot.incumbent == snapshot.candidate("b")
    await registrar.store.release(claim("job", "b"), grant, 10, BUDGET)
    kept = await registrar.look("job")
    assert kept.leader is not None
    assert kept.leader.retained
    assert kept.incumbent is None


async def test_w38_the_seed_is_of_the_round(registrar: Registrar) -> None:
    """The last fence: the same for all who look between two terms, another one after a term."""
    await registrar.enrol(stand("job", "a"))
    seeds = []
    for _ in range(3):
        grant = await registrar.elect("job", "a")
        leading = await registrar.look("job")
        await registrar.store.release(claim("job", "a"), grant, 0, BUDGET)
        free = [await registrar.look("job") for _ in range(3)]
        assert {leading.seed, *(snapshot.seed for snapshot in free)} == {grant.fence}
        seeds.append(grant.fence)
    assert len(set(seeds)) == 3


async def test_nodes_of_different_strategies_are_told(registrar: Registrar) -> None:
    """Each enrolment carries the fingerprint of what its node goes by."""
    await registrar.enrol(stand("job", "a"))
    await registrar.enrol(Enrolment(election="job", node_id="b", ttl=TTL, strategy="0b"))
    await registrar.enrol(Enrolment(election="job", node_id="c", ttl=TTL))
    assert (await registrar.look("job")).strategies == {"5a5a5a": ("a",), "0b": ("b",)}


def test_a_registry_has_a_repr(registrar: Registrar) -> None:
    """Short, and without what it holds."""
    assert repr(registrar.registry) in {
        "<MemoryRegistry of 0 elections>",
        "<RedisRegistry prefix='incumbent'>",
    }
