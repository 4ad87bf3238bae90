"""Field cases A: ownership, loss, and what the action sees of them."""

import asyncio
import random
from pathlib import Path

import pytest

from cancellation.stage import renew_soon
from incumbent import (
    Elected,
    LeaderElector,
    LeaderOptions,
    LeadershipLost,
    LeadershipLostError,
    Skipped,
)
from incumbent.events import (
    ActionRaised,
    RenewalDelayed,
    TermEnded,
    TermLost,
    TermRenewed,
    TermStarted,
)
from kit.checker import LATE, check
from kit.crew import Crew, Member
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import keys_without_ttl
from kit.register import check_register
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import (
    LEASE,
    THIEF,
    Journal,
    Work,
    forever,
    is_held,
    nothing,
    quick,
    seat_key,
    steal,
    token_of,
    ttl_of,
)


async def test_case_01_extending_a_lease_that_is_no_longer_ours(
    elector: LeaderElector, valkey: Server, make_client: MakeClient, journal: Journal
) -> None:
    """B has the seat when A's renewal comes: A is lost and stopped, B's TTL and token untouched."""
    work = Work()
    leading = asyncio.create_task(elector.attempt("one", work))
    await work.began.wait()
    valkey.cli("DEL", seat_key("one"))
    options = quick(lease_time=20, auto_extend=False)
    async with LeaderElector(make_client(valkey), options) as other, other.lead("one") as lease:
        before, token = ttl_of(valkey, "one"), token_of(valkey, "one")
        valkey.cli("PEXPIRE", seat_key("one"), 500)  # below A's lease time, which must not come
        renew_soon(elector.leases[0])  # and not when it is due, which may be as late as that
        assert await leading == LeadershipLost("taken")
        assert ttl_of(valkey, "one") <= 500 < before
        assert token_of(valkey, "one") == token
        assert is_held(lease)
    assert work.cleaned == 1


async def test_case_02_the_answer_of_a_renewal_is_heard(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """Another's token between two renewals: lost by the next one, after which none is sent."""
    proxy = await make_proxy(valkey)
    end = asyncio.Event()
    work = Work(cleanup=end.wait)
    async with LeaderElector(make_client(proxy), quick(), hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await journal.has(TermRenewed)
        steal(valkey, "one")
        valkey.cli("PEXPIRE", seat_key("one"), 30_000)
        sent = proxy.commands["EVALSHA"]
        await journal.has(TermLost)
        assert proxy.commands["EVALSHA"] == sent + 1
        await asyncio.sleep(2 * LEASE / 3)  # the action still cleans up, and no renewal is sent
        assert proxy.commands["EVALSHA"] == sent + 1
        end.set()
        assert await leading == LeadershipLost("taken")
        assert proxy.commands["EVALSHA"] == sent + 1, "a seat that is another's is not released"
    assert token_of(valkey, "one") == THIEF


async def test_case_03_a_renewer_outlives_an_error(
    own_server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """The server is frozen for two tries to renew, less than the lease: led on, with warnings."""
    options = quick(lease_time=3)
    async with (
        LeaderElector(make_client(own_server), options, hooks=[journal]) as elector,
        elector.lead("one") as lease,
    ):
        mine = token_of(own_server, "one")
        await journal.has(TermRenewed)
        own_server.pause()
        await journal.has(RenewalDelayed, 2)
        own_server.resume()
        for _ in range(2):
            await journal.has_another(TermRenewed)
        assert is_held(lease)
        assert token_of(own_server, "one") == mine
    assert journal.story() == ["TermStarted", "TermEnded"]


async def test_case_04_errors_for_longer_than_the_lease_are_a_loss(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """All is cut for longer than the lease: stopped by the local clock, while nobody answers."""
    proxy, work = await make_proxy(valkey), Work()
    options = quick(lease_time=4, stop_grace=1.2, request_timeout=0.8)
    async with LeaderElector(make_client(proxy), options, hooks=[journal]) as elector:
        leading = asyncio.create_task(elector.attempt("one", work))
        await journal.has(TermRenewed)
        proxy.cut(refuse=True)
        await wait_until(lambda: work.cleaned == 1)
        assert ttl_of(valkey, "one") > 0, "stopped before the seat could be another's"
        assert await leading == LeadershipLost("unreachable")
        assert proxy.open == 0
        assert len(journal.of(RenewalDelayed)) >= 2
        await wait_until(lambda: ttl_of(valkey, "one") == -2)
        await proxy.restore()
        assert isinstance(await elector.attempt("one", nothing), Elected)


async def test_case_06_an_old_holder_frees_nobody_s_seat(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """A overran its lease, B leads, A releases: B keeps the seat."""
    lead = elector.using(lease_time=0.4, auto_extend=False, on_loss="notify").lead("one")
    old = await lead.__aenter__()
    async with (
        LeaderElector(make_client(valkey), quick(wait_time=5)) as other,
        other.lead("one") as lease,
    ):
        token = token_of(valkey, "one")
        assert not is_held(old)
        await old.release()
        await lead.__aexit__(None, None, None)
        assert token_of(valkey, "one") == token
        assert await lease.extend(1)


async def test_case_09_closing_after_a_loss_never_raises(
    valkey: Server, make_client: MakeClient
) -> None:
    """The lease expired, was stolen, or went with the data: block and elector close in peace."""
    for deed in ("expire", "steal", "flush"):
        options = quick(lease_time=0.3, auto_extend=False, on_loss="notify")
        async with (
            LeaderElector(make_client(valkey), options) as elector,
            elector.lead("one") as lease,
        ):
            if deed == "steal":
                steal(valkey, "one")
            elif deed == "flush":
                valkey.flush()
            await lease.lost.wait()
        valkey.flush()


async def test_case_10_timers_that_do_not_fit_are_refused_and_a_loss_ends_no_process(
    elector: LeaderElector, valkey: Server
) -> None:
    """Several renewals fit into a lease or it is a ValueError; on loss the campaign goes on."""
    with pytest.raises(ValueError, match="must fit into lease_time"):
        LeaderOptions(lease_time=10, stop_grace=4)
    options = LeaderOptions(lease_time=10)
    assert options.renewal_period + 2 * options.renewal_budget < options.lease_time
    work = Work()
    campaigning = asyncio.create_task(elector.campaign("one", work))
    for turn in range(1, 4):
        await wait_until(lambda turn=turn: work.runs == turn)  # type: ignore[misc]
        valkey.cli("DEL", seat_key("one"))
    await wait_until(lambda: work.runs == 4)
    assert not campaigning.done()
    work.finish.set()
    assert await campaigning == "done"


async def test_case_11_work_stops_when_leadership_was_lost(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Cancelled in its sleep, clean-up awaited, then the end is told, then comes a new term."""
    order: list[str] = []

    async def serve() -> None:
        order.append(f"run, after {journal.story()[-1]}")
        if order.count("cleaned up") == 2:
            return
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            assert journal.story()[-1] == "TermLost"
            valkey.cli("DEL", seat_key("one"))
            order.append("cleaned up")

    campaigning = asyncio.create_task(elector.campaign("one", serve))
    for turn in (1, 2):
        await journal.has(TermStarted, turn)
        steal(valkey, "one")
        await journal.has(TermEnded, turn)
    await campaigning
    assert order == ["run, after TermStarted", "cleaned up"] * 2 + ["run, after TermStarted"]
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded"] * 2 + [
        "TermStarted",
        "TermEnded",
    ]


async def test_case_13_a_pause_between_retries_inside_the_action_is_covered(
    elector: LeaderElector, valkey: Server, make_client: MakeClient, journal: Journal
) -> None:
    """The action waits two lease times between two tries: renewed, nobody else leads."""
    lease_time = 3.0
    tries: list[str | None] = []

    async def retrying() -> None:
        tries.append(token_of(valkey, "one"))
        await asyncio.sleep(2 * lease_time)
        tries.append(token_of(valkey, "one"))

    leading = asyncio.create_task(elector.using(lease_time=lease_time).attempt("one", retrying))
    await journal.has(TermStarted)
    options = quick(wait_time=1.2 * lease_time)
    async with LeaderElector(make_client(valkey), options) as other:
        assert isinstance(await other.attempt("one", nothing), Skipped)
    assert isinstance(await leading, Elected)
    assert tries[0] is not None
    assert tries[0] == tries[1]


@pytest.mark.timeout(90)
async def test_case_16_four_contenders_with_pauses_longer_than_the_lease(
    own_server: Server, tmp_path: Path
) -> None:
    """Any of four processes is frozen at random, often beyond its lease: never two at a time.

    The short form; `scripts/chaos` does this for a minute.
    """
    chance, fences = random.Random(16), {0}
    options = {"lease_time": 0.5, "request_timeout": 0.8}
    plan = {"options": options, "hold": (0.05, 1.2)}
    async with Crew(own_server, tmp_path, election="crew", seed=16, plan=plan) as crew:
        await crew.all_standing()

        def leader_of_a_new_term() -> Member | None:
            writes = crew.register()
            return crew.leader() if writes and writes[-1].fence not in fences else None

        for _ in range(6):
            leader = await wait_until(leader_of_a_new_term, what="another term", every=0.02)
            fences.update(write.fence for write in crew.register())
            frozen = {leader, chance.choice(crew.members)}
            for member in frozen:
                crew.pause(member)
            await asyncio.sleep(chance.uniform(0.55, 0.9))
            for member in frozen:
                crew.resume(member)
        await crew.stop()
        check(crew.records()).assert_sound(min_terms=6)
        check_register(crew.register()).assert_sound(min_writes=20)


async def test_case_17_a_crashed_action_is_renewed_no_more(
    valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, journal: Journal
) -> None:
    """It raises at once: the error comes out, the seat is free, nothing more is sent for it."""
    proxy = await make_proxy(valkey)

    async def crash() -> None:
        await journal.has(TermRenewed)
        raise ZeroDivisionError

    options = quick(lease_time=3)
    async with (
        LeaderElector(make_client(proxy), options, hooks=[journal]) as elector,
        LeaderElector(make_client(valkey), quick(wait_time=None)) as other,
    ):
        standing_by = asyncio.create_task(other.attempt("one", forever))
        leading = asyncio.create_task(elector.attempt("two", nothing))
        await leading
        with pytest.raises(ZeroDivisionError):
            await elector.using(wait_time=0).run_if_leader("three", crash)
        assert token_of(valkey, "three") is None
        sent = proxy.commands.total()
        renewed = len(journal.of(TermRenewed))
        await asyncio.sleep(3)  # in which it would have been renewed three times
        assert proxy.commands.total() == sent
        assert len(journal.of(TermRenewed)) == renewed
        assert journal.of(TermLost) == [], "nothing is told after a term's end"
        standing_by.cancel()
        await asyncio.wait([standing_by])
    assert len(journal.of(ActionRaised)) == 1


async def test_case_17_the_next_candidate_leads_at_once_after_a_crash(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """Who stands by leads within one wake-up, long before the crashed lease would have ended."""
    go = asyncio.Event()

    async def crash() -> None:
        await go.wait()
        raise ZeroDivisionError

    async with LeaderElector(make_client(valkey), quick(wait_time=None)) as other:
        leading = asyncio.create_task(elector.using(lease_time=60).run_if_leader("one", crash))
        await wait_until(lambda: token_of(valkey, "one"))
        following = asyncio.create_task(other.run_if_leader("one", nothing))
        await asyncio.wait([following], timeout=0.2)
        go.set()
        with pytest.raises(ZeroDivisionError):
            await leading
        assert await asyncio.wait_for(following, 2) == "done"


async def test_case_19_a_candidate_campaigns_again_after_failed_renewals(
    own_server: Server, make_client: MakeClient, journal: Journal
) -> None:
    """The server is gone for two lease times and comes back: exactly one leader again."""
    works = [Work() for _ in range(3)]
    options = quick(lease_time=2, request_timeout=0.8)
    electors = [LeaderElector(make_client(own_server), options, hooks=[journal]) for _ in works]
    campaigns = [
        asyncio.create_task(elector.campaign("one", work))
        for elector, work in zip(electors, works, strict=True)
    ]
    await wait_until(lambda: sum(work.running for work in works) == 1)
    own_server.kill()
    await asyncio.sleep(2 * 2)
    await wait_until(lambda: sum(work.running for work in works) == 0)
    own_server.start()
    await wait_until(lambda: sum(work.running for work in works) == 1)
    assert sum(elector.is_leading("one") for elector in electors) == 1
    await journal.has_another(TermRenewed)
    assert sum(work.running for work in works) == 1
    for campaign in campaigns:
        campaign.cancel()
    await asyncio.wait(campaigns)
    for elector in electors:
        await elector.aclose()


async def test_case_20_a_standby_is_left_when_the_leader_is_killed(
    own_server: Server, tmp_path: Path
) -> None:
    """Three processes campaign, kill -9 the leader: another leads, and another after that."""
    plan = {"options": {"lease_time": 0.6, "request_timeout": 0.8}, "hold": (60, 60)}
    async with Crew(own_server, tmp_path, size=3, election="crew", plan=plan) as crew:
        await crew.all_standing()
        killed = []
        for _ in range(2):
            leader = await wait_until(crew.leader)
            crew.kill(leader)
            killed.append(leader)
            assert keys_without_ttl(own_server) == []
            await wait_until(
                lambda: (now := crew.leader()) is not None and now not in killed,
                what="another leads",
            )
        await crew.stop()
        report = check(crew.records())
        report.assert_sound(min_terms=3)
        assert report.take_over(1.0) < 0.6 + LATE


async def test_case_20_a_candidate_that_tries_once_does_not_stand_by(
    elector: LeaderElector, valkey: Server, make_client: MakeClient
) -> None:
    """`run_if_leader` looks once and goes on; standing by is `campaign`, one call."""
    async with LeaderElector(make_client(valkey), quick()) as other, elector.lead("one"):
        assert await other.run_if_leader("one", forever) is None
        standing = asyncio.create_task(other.campaign("one", forever))
        await asyncio.wait([standing], timeout=0.2)
        assert not standing.done()
        standing.cancel()
        await asyncio.wait([standing])


async def test_case_21_stolen_leadership_is_told(
    elector: LeaderElector, valkey: Server, journal: Journal
) -> None:
    """Elected, lost with its reason, ended, elected: in this order, each exactly once."""
    work = Work()
    campaigning = asyncio.create_task(elector.campaign("one", work))
    await journal.has(TermStarted)
    steal(valkey, "one")
    await journal.has(TermEnded)
    valkey.cli("DEL", seat_key("one"))
    await journal.has(TermStarted, 2)
    assert journal.story() == ["TermStarted", "TermLost", "TermEnded", "TermStarted"]
    (lost,) = journal.of(TermLost)
    assert lost.reason == "taken"
    first, second = journal.of(TermStarted)
    assert (lost.election, lost.fence) == (first.election, first.fence)
    assert second.fence > first.fence
    work.finish.set()
    await campaigning


async def test_case_21_a_loss_is_told_to_who_only_holds_the_lease(
    elector: LeaderElector, valkey: Server
) -> None:
    """In a block the same: the lease says it, and the way out says it."""
    seen: list[object] = []

    async def block() -> None:
        async with elector.lead("one") as lease:
            steal(valkey, "one")
            try:
                await forever()
            finally:
                seen.extend((lease.lost.is_set(), lease.loss_reason, lease.held))

    with pytest.raises(LeadershipLostError, match="taken"):
        await block()
    assert seen == [True, "taken", False]
