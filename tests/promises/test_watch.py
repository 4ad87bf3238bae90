"""`watch`: who leads, pushed; nothing lost between the first state and the stream, or by a cut."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
import redis.asyncio
from redis.exceptions import ResponseError

from incumbent import GroupElector, LeaderElector, LeaderState, MemoryStore, Outage
from incumbent.engine.watch import Watch
from incumbent.stores import hub
from kit.fixtures import MakeClient, MakeProxy
from kit.leftovers import connections
from kit.proxy import Proxy
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import at_most, cancel, nothing, quick, seat_key, steal

EVENTS = "incumbent:{job}:db0:events"


class Viewer:
    """Watches an election in a task, and keeps what it is told."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.states: list[LeaderState] = []
        self.task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        async for state in self.watch:
            self.states.append(state)

    @property
    def story(self) -> list[str]:
        """Who led, one after the other; with ``+`` where the seat is only retained."""
        return [told(state) for state in self.states]

    async def has(self, *story: str, within: float = 60.0) -> None:
        """Wait until it was told that much, which has to be this."""
        await wait_until(lambda: len(self.states) >= len(story), within=within, what=str(story))
        assert self.story == list(story)


def told(state: LeaderState) -> str:
    """A state in short."""
    return " ".join(info.leader_id + "+" * info.retained for info in state.leaders) or "-"


def outage_of(viewer: Viewer) -> Outage | None:
    """What it could ask for now."""
    return viewer.watch.outage


View = Callable[[LeaderElector | GroupElector], Viewer]


@pytest.fixture
async def view() -> AsyncIterator[View]:
    """Makes viewers of the election ``job``, which are ended after the test."""
    viewers: list[Viewer] = []

    def make(elector: LeaderElector | GroupElector) -> Viewer:
        viewers.append(Viewer(elector.watch("job")))
        return viewers[-1]

    yield make
    for each in viewers:
        each.watch.close()
    await asyncio.gather(*(each.task for each in viewers), return_exceptions=True)


@pytest.fixture
async def a(client: "redis.asyncio.Redis") -> AsyncIterator[LeaderElector]:
    """A candidate, who also watches."""
    async with LeaderElector(client, quick(), leader_id="a") as elector:
        yield elector


@pytest.fixture
async def b(valkey: Server, make_client: MakeClient) -> AsyncIterator[LeaderElector]:
    """Another one, with a client of its own."""
    async with LeaderElector(make_client(valkey), quick(wait_time=10), leader_id="b") as elector:
        yield elector


@pytest.fixture
def many_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the server at least every half a second."""
    monkeypatch.setattr(hub, "LONGEST_PERIOD", 0.5)


def heard_by(server: Server) -> int:
    """How many connections listen for the changes of ``job``."""
    return int(server.cli("PUBSUB", "NUMSUB", EVENTS)[1])


# -- what is told ----------------------------------------------------------------------------


async def test_a_term_is_told_as_it_begins_and_as_it_ends(
    a: LeaderElector, b: LeaderElector, view: View
) -> None:
    """Pushed: long before any lease ends, and without a look at the server in between."""
    viewer = view(a)
    await viewer.has("-")
    with at_most(1.0):
        async with b.using(lease_time=60).lead("job") as lease:
            await viewer.has("-", "b")
        await viewer.has("-", "b", "-")
    (info,) = viewer.states[1].leaders
    assert (info.fence, info.seat, info.since) == (lease.fence, 0, lease.acquired_at)
    assert 59 < info.remaining <= 60


async def test_who_comes_later_begins_with_the_present_state(a: LeaderElector) -> None:
    """As `state` tells it."""
    async with a.lead("job"):
        first, state = await anext(a.watch("job")), await a.state("job")
    assert told(first) == "a"
    assert first.leaders[0].fence == state.leaders[0].fence
    assert first.leaders[0].since == state.leaders[0].since


async def test_a_seat_that_is_retained_is_told(a: LeaderElector, view: View) -> None:
    """And that it is free at last, which nobody publishes."""
    viewer = view(a)
    await viewer.has("-")
    await a.using(min_hold_time=0.3).run_if_leader("job", nothing)
    await viewer.has("-", "a", "a+", "-")


async def test_a_leader_that_is_gone_is_told(
    a: LeaderElector, valkey: Server, make_client: MakeClient, make_proxy: MakeProxy, view: View
) -> None:
    """Cut off, it cannot renew: told within a moment of its lease's end."""
    proxy = await make_proxy(valkey)
    viewer = view(a)
    await viewer.has("-")
    options = quick(lease_time=4, stop_grace=1.2, on_loss="notify")
    async with (
        LeaderElector(make_client(proxy), options, leader_id="far") as far,
        far.lead("job") as lease,
    ):
        await viewer.has("-", "far")
        proxy.silence()
        with at_most(4):
            await viewer.has("-", "far", "-")
        assert lease.loss_reason == "unreachable"
        await proxy.restore()


async def test_a_leader_that_renews_is_told_once(a: LeaderElector, view: View) -> None:
    """However often its lease would have ended."""
    viewer = view(a)
    await viewer.has("-")
    async with a.using(lease_time=2).lead("job"):
        await asyncio.sleep(4.5)
        assert viewer.story == ["-", "a"]


async def test_a_seat_that_somebody_deleted_is_told_at_its_end(
    a: LeaderElector, valkey: Server, view: View
) -> None:
    """Which is when the lease would have ended, as far as was known."""
    viewer = view(a)
    await viewer.has("-")
    async with a.using(on_loss="notify").lead("job"):
        await viewer.has("-", "a")
        valkey.cli("DEL", seat_key("job"))
        with at_most(1.0):
            await viewer.has("-", "a", "-")


async def test_groups_are_told_seat_by_seat(
    client: "redis.asyncio.Redis", a: LeaderElector, view: View
) -> None:
    """One state for each seat that changes; who knows one seat is told of that one."""
    async with GroupElector(client, quick(), seats=3, leader_id="g") as group:
        small, large = view(a), view(group)
        await small.has("-")
        await large.has("-")
        async with group.lead("job"):
            async with group.lead("job"):
                await large.has("-", "g", "g g")
            await large.has("-", "g", "g g", "g")
        await large.has("-", "g", "g g", "g", "-")
        assert [len(state.leaders) for state in large.states] == [0, 1, 2, 1, 0]
        await small.has("-", "g", "-")


async def test_the_name_is_the_one_that_was_asked_for(client: "redis.asyncio.Redis") -> None:
    """Also a tenant's, whose election is another one."""
    async with LeaderElector(client, quick()) as elector:
        tenant = elector.for_tenant("acme")
        async with elector.lead("job"):
            state = await anext(tenant.watch("job"))
        assert state == LeaderState("job")


@pytest.mark.parametrize("over", ["tcp", "unix"])
async def test_p11_another_database_is_another_election(
    own_server: Server, make_client: MakeClient, view: View, over: str
) -> None:
    """The same names in two databases: neither watches the other, nor waits for it."""
    if over == "unix" and not own_server.has_socket:
        pytest.skip("needs a server with a Unix socket on this machine")
    url = own_server.url if over == "tcp" else own_server.unix_url
    one = make_client(url)
    other = make_client(url.replace("/0", "/1").replace("db=0", "db=1"))
    async with (
        LeaderElector(one, quick(lease_time=60), leader_id="one") as here,
        LeaderElector(other, quick(lease_time=60, wait_time=60), leader_id="other") as there,
    ):
        mine, theirs = view(here), view(there)
        await mine.has("-")
        await theirs.has("-")
        async with there.lead("job"):
            await theirs.has("-", "other")
            async with here.lead("job"):
                await mine.has("-", "one")
                waiting = asyncio.create_task(there.run_if_leader("job", nothing))
                await wait_until(lambda: heard_in(own_server, "db1:inbox:*"))
            await mine.has("-", "one", "-")
        await waiting
        await theirs.has("-", "other", "-", "other", "-")
        await mine.has("-", "one", "-")
        assert heard_in(own_server, "db0:*") == ["incumbent:{job}:db0:events"]


def heard_in(server: Server, channels: str) -> list[str]:
    """The channels of ``job`` that somebody listens to."""
    found: list[str] = server.cli("PUBSUB", "CHANNELS", "incumbent:{job}:" + channels)
    return found


# -- nothing is lost -------------------------------------------------------------------------


async def test_two_hundred_quick_terms_are_all_told_in_order(
    a: LeaderElector, b: LeaderElector, view: View
) -> None:
    """Each of them, although others begin to watch meanwhile and have looks taken."""
    viewer = view(a)
    await viewer.has("-")
    fences: list[int] = []

    async def disturb() -> None:
        while True:
            watch = a.watch("job")
            await anext(watch)
            await watch.aclose()

    others = asyncio.create_task(disturb())
    for _ in range(200):
        async with b.lead("job") as lease:
            fences.append(lease.fence)
    await wait_until(lambda: len(viewer.states) >= 401, what="all terms are told")
    await cancel(others)
    assert viewer.story == ["-"] + ["b", "-"] * 200
    assert [state.leaders[0].fence for state in viewer.states[1::2]] == fences


async def test_who_begins_in_the_midst_misses_nothing_from_then_on(
    a: LeaderElector, b: LeaderElector, view: View
) -> None:
    """Whatever the first state is, what follows goes on from it."""
    fences: list[int] = []
    all_have_begun = asyncio.Event()

    async def reign() -> None:
        goes_on = True
        while goes_on:
            goes_on = not all_have_begun.is_set()
            async with b.lead("job") as lease:
                fences.append(lease.fence)

    reigning = asyncio.create_task(reign())
    viewers: list[Viewer] = []
    for number in range(20):
        viewers.append(view(a))
        await wait_until(lambda: viewers[-1].states, what="the first state")
        await wait_until(lambda: len(fences) > 5 * number, what="some terms more")  # noqa: B023
    all_have_begun.set()
    await reigning

    def seen(viewer: Viewer) -> list[int]:
        return [state.leaders[0].fence for state in viewer.states if state.leaders]

    def all_are_at_the_end() -> bool:
        return all(v.story[-1] == "-" and seen(v)[-1:] == fences[-1:] for v in viewers)

    await wait_until(all_are_at_the_end)
    for viewer in viewers:
        assert seen(viewer) == fences[len(fences) - len(seen(viewer)) :]
        assert all(before != after for before, after in pairwise(viewer.story))


async def test_field_21_stolen_leadership_is_told_in_order_and_once(
    a: LeaderElector, b: LeaderElector, valkey: Server, view: View
) -> None:
    """Elected, lost, elected: by the one it is stolen from, by the thief, by a third."""
    async with contextlib.AsyncExitStack() as stack:
        by_a, by_b = view(a), view(b)
        await by_a.has("-")
        await by_b.has("-")
        lost = await stack.enter_async_context(a.using(on_loss="notify").lead("job"))
        valkey.cli("DEL", seat_key("job"))
        async with b.lead("job"):
            await lost.lost.wait()
            assert lost.loss_reason == "taken"
            await asyncio.sleep(1.2)
        for viewer in (by_a, by_b):
            await viewer.has("-", "a", "-", "b", "-")
            fences = [state.leaders[0].fence for state in viewer.states if state.leaders]
            assert fences == sorted(set(fences))


async def test_field_21_a_seat_that_was_written_over_shows_its_thief(
    a: LeaderElector, valkey: Server, view: View
) -> None:
    """Nobody publishes that; it is seen when the lease would end, and told once."""
    viewer = view(a)
    await viewer.has("-")
    async with a.using(on_loss="notify").lead("job"):
        await viewer.has("-", "a")
        steal(valkey, "job")
        valkey.cli("PEXPIRE", seat_key("job"), 3000)  # beyond the lease's end
        await viewer.has("-", "a", "thief")
        await viewer.has("-", "a", "thief", "-")


# -- cuts ------------------------------------------------------------------------------------


@pytest.fixture
async def far(proxy: Proxy, make_client: MakeClient) -> AsyncIterator[LeaderElector]:
    """An elector behind a proxy."""
    async with LeaderElector(make_client(proxy), quick(), leader_id="far") as elector:
        yield elector


async def test_after_a_cut_it_is_told_what_has_changed_meanwhile(
    far: LeaderElector, b: LeaderElector, proxy: Proxy, view: View
) -> None:
    """Once, and from then on as before."""
    viewer = view(far)
    await viewer.has("-")
    proxy.cut(refuse=True)
    async with b.using(lease_time=60).lead("job"):
        await asyncio.sleep(0.3)
        assert viewer.story == ["-"]
        await proxy.restore()
        await viewer.has("-", "b")
    await viewer.has("-", "b", "-")


async def test_p10_an_outage_is_known_and_what_was_known_before_is_marked_by_it(
    far: LeaderElector, b: LeaderElector, proxy: Proxy, view: View
) -> None:
    """Nobody is shown an old leader as the present one: since when, and why, can be asked for."""
    viewer = view(far)
    assert (viewer.watch.state, viewer.watch.outage) == (None, None)
    async with b.using(lease_time=60).lead("job") as lease:
        await wait_until(lambda: viewer.story[-1:] == ["b"])
        state = viewer.watch.state
        assert state is not None
        assert (state.name, state.leaders[0].fence) == ("job", lease.fence)
        assert viewer.watch.outage is None
        proxy.cut(refuse=True)
        outage = await wait_until(lambda: viewer.watch.outage, what="it is noticed")
        assert state.leaders[0].since <= outage.since <= datetime.now(UTC)
        await wait_until(
            lambda: (now := outage_of(viewer)) and isinstance(now.error, redis.ConnectionError),
            what="it is known why",
        )
        await proxy.restore()
        await wait_until(lambda: viewer.watch.outage is None, what="it is over")
    await wait_until(lambda: viewer.story[-1] == "-")
    await viewer.watch.aclose()
    assert (viewer.watch.state, viewer.watch.outage) == (None, None)


async def test_p10_a_silent_server_is_noticed_when_the_lease_should_have_ended(
    far: LeaderElector, b: LeaderElector, proxy: Proxy, view: View
) -> None:
    """No connection breaks, and no look has failed yet."""
    viewer = view(far.using(request_timeout=60))
    async with b.using(lease_time=1).lead("job"):
        await viewer.has("b")
        proxy.silence()
        outage = await wait_until(lambda: viewer.watch.outage, what="it is noticed")
        assert isinstance(outage.error, TimeoutError)
        assert viewer.story == ["b"]


async def test_a_change_during_a_short_cut_is_told(
    far: LeaderElector, b: LeaderElector, proxy: Proxy, valkey: Server, view: View
) -> None:
    """The message went to nobody; the look after the new subscription finds it, without delay."""
    async with b.using(lease_time=60).lead("job"):
        viewer = view(far)
        await viewer.has("b")
        proxy.cut()
        await wait_until(lambda: heard_by(valkey) == 0)
    with at_most(1.2):
        await viewer.has("b", "-")


async def test_a_server_that_is_away_at_first_is_waited_for(
    far: LeaderElector, proxy: Proxy, view: View
) -> None:
    """An error that may pass does not end it."""
    proxy.cut(refuse=True)
    viewer = view(far)
    await asyncio.sleep(0.5)
    assert not viewer.task.done()
    assert viewer.states == []
    await proxy.restore()
    await viewer.has("-")


@pytest.mark.usefixtures("many_looks")
async def test_a_deaf_inbox_is_noticed_and_replaced(
    far: LeaderElector, b: LeaderElector, proxy: Proxy, valkey: Server, view: View
) -> None:
    """Half open, as after a power cut: a look finds more than was heard, and so it is replaced."""
    viewer = view(far)
    await viewer.has("-")
    opened = proxy.opened
    proxy.silence()
    valkey.cli("PUBLISH", EVENTS, "lost")
    await wait_until(lambda: any(link.lossy for link in proxy._links), what="it is lost")
    await proxy.restore(reset=False)  # what has lost something stays open, and silent
    async with b.using(lease_time=60).lead("job"):
        await viewer.has("-", "b")
        await wait_until(lambda: proxy.opened > opened, what="another connection")
        await wait_until(
            lambda: proxy.commands["SUBSCRIBE"] == 2 and heard_by(valkey) == 1,
            what="another subscription",
        )
    with at_most(0.2):
        await viewer.has("-", "b", "-")


async def test_without_the_right_to_subscribe_it_looks_every_second(
    own_server: Server, make_client: MakeClient, view: View
) -> None:
    """Slower, but told all the same, and without as many errors as looks."""
    server = own_server
    server.cli("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", "resetchannels")
    async with (
        LeaderElector(make_client(server, username="w", password="p")) as watcher,
        LeaderElector(make_client(server), leader_id="b") as leader,
    ):
        viewer = view(watcher)
        await viewer.has("-")
        async with leader.lead("job"):
            with at_most(2.0):
                await viewer.has("-", "b")
        with at_most(2.0):
            await viewer.has("-", "b", "-")


@pytest.mark.usefixtures("many_looks")
async def test_leaders_without_the_right_to_publish_are_seen_by_looks(
    own_server: Server, make_client: MakeClient, view: View
) -> None:
    """What the server counts and nobody tells makes the watcher look more often."""
    server = own_server
    server.cli("ACL", "SETUSER", "l", "on", ">p", "~*", "+@all", "-publish")
    async with (
        LeaderElector(make_client(server)) as watcher,
        LeaderElector(make_client(server, username="l", password="p"), leader_id="l") as leader,
    ):
        viewer = view(watcher)
        await viewer.has("-")
        for _ in range(2):
            async with leader.lead("job"):
                await wait_until(lambda: viewer.story[-1] == "l")
            await wait_until(lambda: viewer.story[-1] == "-")
        assert viewer.story == ["-", "l", "-", "l", "-"]


# -- errors ----------------------------------------------------------------------------------


async def test_what_will_not_pass_is_raised(a: LeaderElector, valkey: Server, view: View) -> None:
    """A key of the wrong type, for each who watches; and nobody listens any more."""
    valkey.cli("SET", seat_key("job"), "text", "PX", 60_000)
    viewers = [view(a), view(a)]
    for each in viewers:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await each.task
    await wait_until(lambda: heard_by(valkey) == 0)
    valkey.cli("DEL", seat_key("job"))
    await view(a).has("-")


@pytest.mark.parametrize("turns", range(4))
async def test_a_watch_that_begins_right_after_an_error_is_served(
    a: LeaderElector, valkey: Server, turns: int
) -> None:
    """In whichever turn of the loop: it gets the error again, or the state, never nothing."""
    valkey.cli("SET", seat_key("job"), "text", "PX", 60_000)
    for _ in range(3):
        watch = a.watch("job")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            async with asyncio.timeout(10):
                await anext(watch)
        for _ in range(turns):
            await asyncio.sleep(0)
    valkey.cli("DEL", seat_key("job"))
    watch = a.watch("job")
    async with asyncio.timeout(10):
        assert told(await anext(watch)) == "-"
        async with a.lead("job"):
            assert told(await anext(watch)) == "a"
    watch.close()


async def test_rights_that_are_taken_away_are_told_as_an_error(
    own_server: Server, make_client: MakeClient, view: View
) -> None:
    """In the midst, at the next look."""
    server = own_server
    server.cli("ACL", "SETUSER", "w", "on", ">p", "~*", "&*", "+@all")
    async with (
        LeaderElector(make_client(server, username="w", password="p")) as watcher,
        LeaderElector(make_client(server), quick(), leader_id="b") as leader,
    ):
        viewer = view(watcher)
        await viewer.has("-")
        async with leader.lead("job"):
            await viewer.has("-", "b")
            server.cli("ACL", "SETUSER", "w", "-evalsha", "-eval")
            with pytest.raises(ResponseError, match=r"(?i)permission"):
                await viewer.task


@pytest.mark.parametrize("name", ["", "a{b}", "@x", "x\n"])
def test_a_bad_name_is_refused_at_once(name: str) -> None:
    """By the call itself, which needs no event loop."""
    with pytest.raises(ValueError, match="name"):
        LeaderElector(MemoryStore()).watch(name)
    with pytest.raises(TypeError, match="name"):
        LeaderElector(MemoryStore()).watch(7)  # type: ignore[arg-type] # that is the test


# -- leaving ---------------------------------------------------------------------------------


async def test_watchers_of_one_election_share_a_subscription(
    a: LeaderElector, b: LeaderElector, valkey: Server, view: View
) -> None:
    """Of one elector and of its siblings; the last one who leaves ends it."""
    viewers = [view(a), view(a), view(a.using(lease_time=5))]
    for each in viewers:
        await each.has("-")
    assert heard_by(valkey) == 1
    assert len(connections(valkey)) == 2
    async with b.lead("job"):
        for each in viewers:
            await each.has("-", "b")
    for each in viewers:
        assert heard_by(valkey) == 1
        await each.watch.aclose()
        await each.task
    await wait_until(lambda: heard_by(valkey) == 0)


async def break_off(elector: LeaderElector) -> None:
    async for _ in elector.watch("job"):
        break


async def raise_inside(elector: LeaderElector) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async for _ in elector.watch("job"):
            raise ZeroDivisionError


async def be_cancelled(elector: LeaderElector) -> "asyncio.Task[None]":
    async def look() -> None:
        async for _ in elector.watch("job"):
            pass

    task = asyncio.create_task(look())
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return task  # which keeps its traceback, and all that is in it


async def run_out_of_time(elector: LeaderElector) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in elector.watch("job"):
                pass


async def take_one(elector: LeaderElector) -> None:
    await anext(elector.watch("job"))


async def take_none(elector: LeaderElector) -> None:
    elector.watch("job")


async def close_it(elector: LeaderElector) -> None:
    async with contextlib.aclosing(elector.watch("job")) as watch:
        await anext(watch)


WAYS = [break_off, raise_inside, be_cancelled, run_out_of_time, take_one, take_none, close_it]


@pytest.mark.parametrize("way", WAYS)
async def test_who_leaves_leaves_nothing(
    a: LeaderElector, valkey: Server, way: Callable[[LeaderElector], object]
) -> None:
    """No subscription, no task, nothing that is still filled; without the garbage collector."""
    gc.disable()
    try:
        result = way(a)
        assert asyncio.iscoroutine(result)
        kept = await result
        await wait_until(lambda: heard_by(valkey) == 0, what="no subscription")
        await wait_until(lambda: not watching(), what="no task")
        del kept
    finally:
        gc.enable()


def watching() -> list[str]:
    """The tasks that take looks."""
    return [task.get_name() for task in asyncio.all_tasks() if "watch" in task.get_name()]


async def test_a_watch_may_be_awaited_with_a_timeout_and_go_on(
    a: LeaderElector, b: LeaderElector
) -> None:
    """Nothing that happened between two awaits is lost."""
    watch = a.watch("job")
    assert told(await anext(watch)) == "-"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(watch)
    for _ in range(2):
        async with b.lead("job"):
            pass
    assert [told(await anext(watch)) for _ in range(4)] == ["b", "-", "b", "-"]
    await watch.aclose()


async def test_closing_the_elector_ends_its_watchers_quietly(
    a: LeaderElector, valkey: Server, view: View
) -> None:
    """A sibling's end with it, as it has its connections; one that begins later is refused."""
    viewers = [view(a), view(a.using(lease_time=5))]
    unused = a.watch("job")
    for each in viewers:
        await each.has("-")
    await a.aclose()
    async with asyncio.timeout(30):
        for each in viewers:
            await each.task
    assert [state async for state in unused] == []
    assert heard_by(valkey) == 0
    with pytest.raises(RuntimeError, match="closed"):
        a.watch("job")


async def test_closing_a_sibling_ends_its_own_watchers_only(
    a: LeaderElector, b: LeaderElector, view: View
) -> None:
    """The others go on."""
    sibling = a.using(lease_time=5)
    own, other = view(sibling), view(a)
    await own.has("-")
    await other.has("-")
    await sibling.aclose()
    await own.task
    async with b.lead("job"):
        await other.has("-", "b")


async def test_p9_closing_does_not_wait_for_a_silent_server(
    far: LeaderElector, proxy: Proxy, view: View
) -> None:
    """Not before the first state, and not when a look is under way."""
    proxy.silence()
    viewer = view(far)
    await asyncio.sleep(0.2)
    with at_most(1.0):
        await far.aclose()
        await viewer.task


def test_an_elector_is_watched_in_one_loop_after_another(valkey: Server) -> None:
    """What belonged to the first is let go of, also by a watch that was not closed there."""
    client = redis.asyncio.Redis.from_url(valkey.url)
    electors = LeaderElector(client, quick()), LeaderElector(MemoryStore(), quick())
    left: list[Watch] = []

    async def look() -> list[str]:
        story: list[str] = []
        for elector in electors:
            watch = elector.watch("job")
            left.append(watch)
            story.append(told(await anext(watch)))
            async with elector.lead("job"):
                story.append("-" if told(await anext(watch)) == "-" else "led")
        await client.aclose()
        return story

    async def end() -> None:
        for elector in electors:
            await elector.aclose()
        await client.aclose()

    for _ in range(3):
        assert asyncio.run(look()) == ["-", "led"] * 2
    asyncio.run(end())
    assert [watch._mailbox.ended for watch in left] == [True] * 6
    assert connections(valkey) == []


async def test_a_watch_shows_what_it_is(a: LeaderElector) -> None:
    """Nothing but its name."""
    assert repr(a.watch("job")) == "<Watch of 'job'>"
