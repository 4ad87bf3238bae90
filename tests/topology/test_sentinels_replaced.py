"""All Sentinels are replaced in good order; a wrong password of theirs; who has which vote."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from redis import exceptions as redis_errors
from redis.asyncio import Sentinel

from incumbent import LeaderOptions, blocking, events
from incumbent.stores.redis import faults, sentinels
from incumbent.stores.redis.sentinels import Known, Round, known_to
from kit.fixtures import MakeProxy
from kit.sentinels import SERVICE
from kit.waiting import wait_until
from promises.scene import Journal, nothing
from topology.scene import (
    WITHIN,
    Line,
    MakeWatchedElector,
    StartWatched,
    elector_of,
    led,
    manager_of,
    replicated,
    seat_of,
)

PLACE = tuple[str, int]


async def test_all_sentinels_are_replaced_and_then_the_primary_dies(
    start_watched: StartWatched,
    make_watched_elector: MakeWatchedElector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first ones have named the others: leaders and waiters go on, by the new ones.

    In a thread and as a command, too.
    """
    monkeypatch.setattr(sentinels, "LEARN_EVERY", 0.0)
    watched, journal = start_watched(), Journal()
    old = watched.sentinel
    one = make_watched_elector(watched, lease_time=15, hooks=[journal])
    other = make_watched_elector(watched, lease_time=6)
    line, url = Line("job"), f"redis+sentinel://{old.host}:{old.port}/{SERVICE}"
    blocked = blocking.LeaderElector(url, LeaderOptions(wait_time=None, lease_time=6))

    async def knows(elector: Any, place: PLACE) -> bool:
        manager = elector._office.store._caller._way._pool.sentinel_manager
        return place in known_to(manager, SERVICE).told

    async with led(one, "job"):
        await line.join(other, "first")
        thread = asyncio.create_task(asyncio.to_thread(blocked.run_if_leader, "job", lambda: 5))
        new = await asyncio.to_thread(watched.add_sentinel)
        for each in (one, other, blocked._root.twin):
            await wait_until(lambda: knows(each, (new.host, new.port)), within=WITHIN)  # noqa: B023 - at once
        await asyncio.to_thread(watched.replace_sentinel, new)
        victim = watched.primary
        replicated(victim)
        victim.kill()
        await asyncio.to_thread(watched.await_failover, victim)
        await journal.has_another(events.TermRenewed, within=WITHIN)
        assert watched.primary.cli("EXISTS", seat_of("job")) == 1
    await line.over()
    assert await asyncio.wait_for(thread, WITHIN) == 5
    await asyncio.to_thread(blocked.close)
    assert journal.story() == ["TermStarted", "TermEnded"]


def known(*given: int) -> Known:
    """A client was given Sentinels with these numbers."""
    places: list[Any] = [_Place(number) for number in given]
    return Known(manager_of(*places))


class _Place:
    def __init__(self, number: int) -> None:
        self.host, self.port = f"s{number}", number


def at(number: int) -> PLACE:
    """Where the Sentinel with this number is."""
    return f"s{number}", number


def told(known_: Known, by: int, *others: int, now: float = 1.0) -> None:
    """One was asked, was believed, and has told of others."""
    round_ = Round(known_)
    round_.said[at(by)] = ("primary", 1)
    round_.others[at(by)] = frozenset(map(at, others))
    known_.believed(round_, ("primary", 1), now)


def test_who_answered_last_is_asked_first_and_who_is_gone_is_forgotten() -> None:
    """But for those that the user named: of these, as many as half of them must agree."""
    its = known(1, 2, 3)
    assert its.order() == [at(1), at(2), at(3)]
    assert its.enough == 2
    told(its, 2, 1, 3, 4)
    assert its.order() == [at(2), at(1), at(3), at(4)]
    told(its, 4, 5, now=2.0)
    assert its.order() == [at(4), at(2), at(1), at(3), at(5)]
    assert its.enough == 2
    told(its, 5, 4, now=3.0)
    assert its.told == {at(4), at(5)}


def test_one_that_is_not_believed_is_not_believed_about_others() -> None:
    """Nor asked first."""
    its = known(1, 2, 3)
    round_ = Round(its)
    round_.said = {at(1): ("old", 1), at(2): ("new", 1), at(3): ("new", 1)}
    round_.others = {at(1): frozenset({at(9)}), at(3): frozenset({at(2), at(4)})}
    its.believed(round_, ("new", 1), 1.0)
    assert its.told == {at(4)}
    assert its.order()[-1] in {at(1), at(4)}


def test_one_sentinel_has_one_voice_by_whatever_name_it_is_reached() -> None:
    """By the name that the user gave and by the number that others tell; and without a name."""
    its = known(1, 2)
    told(its, 1, 3, 4)
    for order in ((at(1), at(3)), (at(3), at(1)), (at(3), at(4))):
        round_ = Round(its)
        round_.hear(order[0], "id")
        with pytest.raises(redis_errors.ConnectionError):
            round_.hear(order[1], "id")
    round_ = Round(its)
    round_.hear(at(1), "id")
    round_.hear(at(2), "id")  # the user wished it so
    round_.hear(at(2), None)
    with pytest.raises(redis_errors.ConnectionError):
        round_.hear(at(3), None)


async def test_the_same_sentinel_is_not_heard_twice(
    start_watched: StartWatched, make_proxy: MakeProxy
) -> None:
    """It was given by another address than others tell, and is behind: alone it is not believed."""
    watched = start_watched()
    another = await make_proxy(watched.sentinel)
    dead = await make_proxy(watched.sentinel)
    dead.cut(refuse=True)
    manager = manager_of(another, dead)
    its = known_to(manager, SERVICE)
    its.told = frozenset({(watched.sentinel.host, watched.sentinel.port)})
    its._learned_at = float("inf")
    its.enough = 2
    with pytest.raises(redis_errors.ConnectionError):
        await sentinels.primary_of(manager, SERVICE)
    its.enough = 1
    assert await sentinels.primary_of(manager, SERVICE) == (
        watched.primary.host,
        watched.primary.port,
    )


CALLS: dict[str, Callable[[Any], Any]] = {
    "attempt": lambda elector: elector.attempt("job", nothing),
    "campaign": lambda elector: elector.campaign("job", nothing),
    "schedule": lambda elector: elector.schedule("job", every=1, action=nothing),
}


@pytest.mark.parametrize(
    "own",
    [{"username": "app", "password": "wr0ng"}, {"password": "wr0ng"}],
    ids=["a user", "no user"],
)
async def test_a_wrong_password_of_the_sentinels_is_told_as_that(
    start_watched: StartWatched, own: dict[str, str]
) -> None:
    """Waiting does not help, so `campaign` and `schedule` raise it."""
    watched = start_watched()
    watched.sentinel.cli("ACL", "SETUSER", "default", "resetpass", ">right")
    place = watched.sentinel.host, watched.sentinel.port
    manager: Any = Sentinel([place], sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    client = manager.master_for(SERVICE)
    elector = elector_of(client, request_timeout=15.0)
    for call in CALLS.values():
        with pytest.raises(redis_errors.AuthenticationError, match="refuses the log-in") as raised:
            await asyncio.wait_for(call(elector), WITHIN)
        assert not faults.passing(raised.value)
        assert "wr0ng" not in str(raised.value)
    await elector.aclose()
    for each in (client, *manager.sentinels):
        await each.aclose()


async def test_a_command_says_so(start_watched: StartWatched) -> None:
    """With the code for what is not there."""
    watched = start_watched()
    place = f"{watched.sentinel.host}:{watched.sentinel.port}"
    url = f"redis+sentinel://{place}/{SERVICE}?sentinel_username=app&sentinel_password=wr0ng"
    for arguments in (("run", "job", "--", "true"), ("status",), ("campaign", "job", "--", "true")):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "incumbent.cli", *arguments[:1], "--url", url, *arguments[1:]),
            stderr=asyncio.subprocess.PIPE,
        )
        said = (await asyncio.wait_for(process.communicate(), WITHIN))[1].decode()
        assert process.returncode == 69, said
        assert "refuses the log-in" in said
        assert "wr0ng" not in said
