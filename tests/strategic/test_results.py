"""What becomes of the work is counted: success, failure; a cancellation or a loss is neither."""

import asyncio
from typing import Any
from unittest.mock import ANY

import pytest

from incumbent import ActionFailed, Elected, LeadershipLost, Lease, events
from incumbent.strategy import Candidate, Scored, SuccessRate
from kit.fixtures import MakeClient, MakeProxy
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import cancel, forever, here, nothing, steal
from strategic.scene import Town, fail


async def record(town: Town, node: str = "a") -> Candidate:
    """What is known of a node, which must stand."""
    found = {each.node_id: each for each in await town.electors[node].candidates("job")}
    return found[node]


def counts(candidate: Candidate) -> tuple[int, int]:
    """Successes and failures."""
    return candidate.successes, candidate.failures


async def test_success_and_failure_are_counted(town: Town) -> None:
    """By all ways to lead; None is a success as any value."""
    a = town.node("a")
    async with a.candidate("job"):
        assert isinstance(await a.attempt("job", nothing), Elected)
        assert await a.attempt("job", asyncio.sleep, 0) == Elected(None, leader_id="a", fence=ANY)
        async with a.lead("job"):
            pass
        assert counts(await record(town)) == (3, 0)
        assert isinstance(await a.attempt("job", fail), ActionFailed)
        with pytest.raises(ValueError, match="no good"):
            await a.run_if_leader("job", fail)
        with pytest.raises(KeyError):
            async with a.lead("job"):
                raise KeyError
        assert counts(await record(town)) == (3, 3)


async def test_the_times_are_told(town: Town) -> None:
    """Start, success and failure have a time each, in the order in which they came."""
    a = town.node("a")
    async with a.candidate("job"):
        async with a.lead("job"):

            async def started() -> bool:
                return (await record(town)).last_started_at is not None

            await wait_until(started)
            assert (await record(town)).last_succeeded_at is None
        await a.attempt("job", fail)
        found = await record(town)
        assert found.last_succeeded_at is not None
        assert found.last_failed_at is not None
        assert found.last_started_at is not None
        assert found.registered_at <= found.last_succeeded_at <= found.last_failed_at


async def test_a_cancellation_counts_as_neither(town: Town) -> None:
    """The caller's own wish tells nothing about the node."""
    a = town.node("a")
    async with a.candidate("job"):
        task = asyncio.create_task(a.attempt("job", forever))
        await town.leads("a")
        await cancel(task)
        assert counts(await record(town)) == (0, 0)


async def test_stepping_down_counts_as_neither(town: Town) -> None:
    """Nor what the action raises while it is stopped for that."""

    async def handed_over() -> None:
        await here().step_down()

    a = town.node("a")
    async with a.candidate("job"):
        assert await a.attempt("job", handed_over) == LeadershipLost("stepped_down")
        assert counts(await record(town)) == (0, 0)


async def test_a_lost_lease_counts_as_neither(city: Town, valkey: Server) -> None:
    """P10: a lost lease is no success, whatever the action returned."""
    a = city.node("a")

    async def robbed() -> str:
        steal(valkey, "job")
        await here().lost.wait()
        return "done"

    async with a.using(on_loss="notify").candidate("job"):
        outcome = await a.using(on_loss="notify").attempt("job", robbed)
        assert isinstance(outcome, LeadershipLost)
        assert counts(await record(city)) == (0, 0)


async def test_a_stalled_success_counts_as_neither(city: Town) -> None:
    """The action blocked the loop past its lease, so nobody could notice before its end."""
    a = city.node("a", lease_time=0.3)

    async def blocks() -> None:
        import time

        time.sleep(0.5)  # noqa: ASYNC251 - that is the point

    async with a.candidate("job"):
        outcome = await a.attempt("job", blocks)
        assert isinstance(outcome, LeadershipLost)
        assert counts(await record(city)) == (0, 0)


async def test_given_back_early_still_counts(town: Town) -> None:
    """`release()` within the block ends the lease, not the work."""
    a = town.node("a")
    async with a.candidate("job"):
        async with a.lead("job") as lease:
            await lease.release()
        assert counts(await record(town)) == (1, 0)


async def test_fifty_results_at_once_are_all_counted(town: Town) -> None:
    """No result overwrites another."""
    a = town.node("a")
    async with a.candidate("job"):
        done = await asyncio.gather(
            *(a.record_result("job", success=number % 5 > 0) for number in range(50))
        )
        assert all(done)
        assert counts(await record(town)) == (40, 10)


async def test_who_does_not_stand_has_no_results(town: Town) -> None:
    """And counting does not make it a candidate."""
    a = town.node("a")
    assert await a.record_result("job", success=True) is False
    assert await a.candidates("job") == ()


async def test_who_counts_for_himself_is_not_counted_twice(valkey: Server, city: Town) -> None:
    """`record_results=False` leaves it to `record_result`."""
    from redis.asyncio import Redis

    from incumbent import StrategicElector

    async with (
        Redis.from_url(valkey.url) as client,
        StrategicElector(
            client, strategy=Scored(SuccessRate()), node_id="a", record_results=False
        ) as a,
    ):
        city.electors["a"] = a
        async with a.candidate("job"):
            assert isinstance(await a.attempt("job", nothing), Elected)
            assert (await record(city)).last_started_at is None
            assert counts(await record(city)) == (0, 0)
            await a.record_result("job", success=True)
            assert counts(await record(city)) == (1, 0)


async def test_who_is_called_by_the_release_sees_the_result(city: Town) -> None:
    """The result is sent ahead of the release, on the same connection."""
    a = city.node("a")
    async with a.candidate("job"):
        await a.attempt("job", nothing)
        store: Any = a._office.store
        sent: list[bytes] = []
        wire = store._caller._way._wire
        write = wire._write

        def noted(requests: Any, connection: Any) -> None:
            sent.extend(request.command for request in requests)
            write(requests, connection)

        async with a.lead("job"):
            await asyncio.sleep(0.05)
            wire._write = noted
        wire._write = write
        deeds = [command for command in sent if b"succeeded" in command]
        assert len(sent) == 2
        assert sent[0] is deeds[0]


async def test_a_result_that_cannot_be_noted_changes_nothing(
    valkey: Server, make_proxy: MakeProxy, make_client: MakeClient, city: Town
) -> None:
    """The outcome is that of the action; the hooks are told."""
    proxy = await make_proxy(valkey)
    a = city.node("a", store=make_client(proxy), request_timeout=0.8)
    async with city.node("b").candidate("job"), a.candidate("job", {"priority": 9}):

        async def cut_off() -> str:
            proxy.cut(refuse=True)
            return "done"

        outcome = await a.attempt("job", cut_off)
        assert isinstance(outcome, Elected)
        assert outcome.value == "done"
        assert "succeeded" in {each.deed for each in city.journals["a"].of(events.ResultLost)}
        await proxy.restore()


@pytest.mark.parametrize("kind", ["in the action", "at its end"])
async def test_cancelled_meanwhile_the_seat_is_given_back(
    proxy: Proxy, make_client: MakeClient, city: Town, kind: str
) -> None:
    """P4: the note of the result does not keep the release from being made."""
    a = city.node("a", store=make_client(proxy))
    b = city.node("b")
    leases: list[Lease] = []

    async def work() -> None:
        leases.append(here())
        if kind == "in the action":
            await forever()
        proxy.delay(0.1)

    async with a.candidate("job", {"priority": 2}), b.candidate("job", {"priority": 1}):
        task = asyncio.create_task(a.attempt("job", work))
        await wait_until(lambda: bool(leases))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (await b.state("job")).leaders == ()
        assert not leases[0].held
        await proxy.restore()
